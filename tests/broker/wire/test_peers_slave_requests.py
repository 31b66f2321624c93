"""What a slave asks besides its master's log, and answers that are none."""

import json
import struct

import pytest

from reput.broker.wire.peers import SlaveAnswer, decode_answer, encode_question, runtime_info
from reput.broker.wire.remoting import Frames
from reput.broker.wire.replication import ProtocolError


def framed(header: bytes, body: bytes = b"", kind: int = 0) -> bytes:
    """docs/formats/remoting.md: total length, kind and header length, header, body."""
    return struct.pack(">ii", 4 + len(header) + len(body), kind << 24 | len(header)) + header + body


def answer(raw: bytes) -> SlaveAnswer | None:
    frames = Frames()
    frames.feed(raw)
    return decode_answer(frames)


def test_a_question_is_a_request_in_json_without_a_body() -> None:
    raw = encode_question(28, 7)
    total, marked = struct.unpack_from(">ii", raw)
    assert total == len(raw) - 4
    assert marked == len(raw) - 8  # kind 0: JSON
    header = json.loads(raw[8:])
    assert (header["code"], header["opaque"], header["flag"]) == (28, 7, 0)
    assert (header["language"], header["version"]) == ("OTHER", 399)


def test_an_answer_is_its_code_remark_and_body() -> None:
    header = b'{"code":1,"flag":1,"opaque":7,"remark":"no"}'
    assert answer(framed(header, b"body")) == SlaveAnswer(1, "no", b"body")
    assert answer(framed(b'{"code":0}')) == SlaveAnswer(0, "", b"")
    assert answer(framed(header, b"body")[:-1]) is None
    assert answer(b"") is None


@pytest.mark.parametrize(
    "raw",
    [
        framed(b"not JSON"),
        framed(b'{"code":"0"}'),
        framed(b'{"code":2147483648}'),
        framed(struct.pack(">hBhii", 0, 0, 0, 7, 1) + bytes(8), kind=1),
        struct.pack(">ii", -1, 0),
        struct.pack(">ii", 8, 100) + bytes(4),  # the header is longer than the frame
    ],
)
def test_what_is_no_answer_in_json_is_an_error(raw: bytes) -> None:
    with pytest.raises(ProtocolError, match=r"^answer: "):
        answer(raw)


def test_figures_of_a_broker_are_texts() -> None:
    body = b'{"table":{"commitLogMinOffset":"0","a":5}}'
    assert runtime_info(body) == {"commitLogMinOffset": "0", "a": "5"}


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"table":[1]}', b'{"table":null}', b"[" * 99_999]
)
def test_a_body_without_figures_is_an_error(body: bytes) -> None:
    with pytest.raises(ProtocolError, match="GET_BROKER_RUNTIME_INFO"):
        runtime_info(body)
