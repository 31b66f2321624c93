"""Frames in any pieces, of any bytes: commands, or an error that says what is wrong."""

import json
import re
import struct
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reput.broker.wire.codes import Language, RequestCode
from reput.broker.wire.remoting import (
    FRAME_MOST,
    HEADER_MOST,
    BadFrame,
    Command,
    Frames,
    Serialization,
    frame,
    frame_head,
)

INTS = st.integers(-(1 << 31), (1 << 31) - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
COMMANDS = st.builds(
    Command,
    st.integers(-(1 << 15), (1 << 15) - 1),
    INTS,
    INTS,
    st.dictionaries(TEXTS.filter(bool), TEXTS.filter(bool), max_size=4),
    st.binary(max_size=40),
    st.none() | TEXTS.filter(bool),
    st.integers(0, (1 << 15) - 1),
    st.sampled_from([int(each) for each in Language]),
    st.sampled_from(Serialization),
)

CAUGHT = json.loads((Path(__file__).parent / "frames.json").read_text())  # see capture.py


def taken(frames: Frames) -> list[Command]:
    found = []
    while (command := frames.next()) is not None:
        found.append(command)
    return found


@given(st.lists(COMMANDS, max_size=4), st.lists(st.integers(1, 60), min_size=1, max_size=30))
def test_commands_come_out_as_they_went_in(commands: list[Command], cuts: list[int]) -> None:
    raw, frames, found, at = b"".join(map(frame, commands)), Frames(), [], 0
    for cut in [*cuts, len(raw)]:
        frames.feed(raw[at : at + cut])
        at += cut
        found += taken(frames)
    assert found == commands
    assert frames.waiting == 0


@given(COMMANDS, st.data())
def test_every_flipped_byte_is_a_command_or_an_error(command: Command, data: st.DataObject) -> None:
    raw = bytearray(frame(command))
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= data.draw(st.integers(1, 255))
    frames = Frames()
    frames.feed(bytes(raw))
    with suppress(BadFrame):
        taken(frames)


@given(st.binary(max_size=200))
@example(b"\0\0\0\4\0\0\0\0")
@example(b"\0\0\0\x08\1\0\0\4\0\0\0\0")
def test_any_bytes_are_commands_or_an_error(raw: bytes) -> None:
    frames = Frames()
    frames.feed(raw)
    with suppress(BadFrame):
        taken(frames)


@given(st.binary(max_size=60), st.integers(0, 1))
def test_any_header_is_a_command_or_an_error(header: bytes, kind: int) -> None:
    frames = Frames()
    frames.feed(struct.pack(">ii", 4 + len(header), kind << 24 | len(header)) + header)
    with suppress(BadFrame):
        assert len(taken(frames)) == 1


@pytest.mark.parametrize(
    ("total", "marked"),
    [
        (-1, 0), (3, 0), (FRAME_MOST + 1, 0), ((1 << 31) - 1, 2), (100, 97),
        (1 << 23, HEADER_MOST + 1), (100, 2 << 24), (100, 255 << 24),
    ],
)  # fmt: skip
def test_a_head_that_cannot_be_is_refused_at_once(total: int, marked: int) -> None:
    frames = Frames()
    frames.feed(struct.pack(">iI", total, marked))
    with pytest.raises(BadFrame):
        frames.next()


@pytest.mark.parametrize("header", [
    b"[]", b"{}", b"nonsense", b'{"code":"x"}', b'{"code":1.5}', b'{"code":4294967296}',
    b'{"code":1,"extFields":[]}', b'{"code":1,"extFields":{"a":[]}}', b'{"code":1,"remark":5}',
    b"[" * 10000, b'{"code":true}', b'{"code":' + b"9" * 5000 + b"}", b"\xff\xfe",
])  # fmt: skip
def test_a_json_header_that_is_none_is_an_error(header: bytes) -> None:
    frames = Frames()
    frames.feed(struct.pack(">ii", 4 + len(header), len(header)) + header)
    with pytest.raises(BadFrame):
        frames.next()


def test_fields_may_be_numbers_as_some_clients_write_them() -> None:
    header = (
        b'{"code":11,"language":"CPP","extFields":{"queueId":3,"flag":true,"none":null,"t":"x"}}'
    )
    frames = Frames()
    frames.feed(struct.pack(">ii", 4 + len(header), len(header)) + header)
    (command,) = taken(frames)
    assert command.fields == {"queueId": "3", "flag": "true", "t": "x"}
    assert command.language == Language.CPP


@pytest.mark.parametrize("caught", CAUGHT, ids=lambda row: f"{row['from']} {row['as']}")
def test_frames_of_real_clients_and_brokers_are_read_and_written(caught: dict[str, str]) -> None:
    raw, frames = bytes.fromhex(caught["hex"]), Frames()
    frames.feed(raw)
    (command,) = taken(frames)
    assert command.serialization.name == caught["as"]
    assert command.is_response == caught["from"].startswith("broker")
    assert command.version > 300
    again = Frames()
    again.feed(frame(command))
    assert taken(again) == [command]
    if not command.fields:  # a HashMap's order is Java's
        assert frame(command) == raw


def test_real_clients_ask_for_what_is_known() -> None:
    codes = set[tuple[str, int]]()
    for row in CAUGHT:
        frames = Frames()
        frames.feed(bytes.fromhex(row["hex"]))
        (command,) = taken(frames)
        if not command.is_response:
            codes.add((row["from"], RequestCode(command.code)))
            if command.code == RequestCode.PULL_MESSAGE:
                assert command.fields["topic"] == "Topic0"
                assert command.fields["consumerGroup"] == "g"
    for release in ("4.9.7", "5.3.3", "5.5.0"):
        assert (f"client {release}", RequestCode.PULL_MESSAGE) in codes
        assert (f"client {release}", RequestCode.HEART_BEAT) in codes


@pytest.mark.parametrize("step", [1, 1000, 1 << 16])
def test_a_body_that_is_too_long_is_passed_over(step: int) -> None:
    body_bytes = 5000 if step == 1 else 200_000
    long, short = Command(10, 1), Command(11, 2, 0, {}, b"xyz")
    raw = frame_head(long, body_bytes) + b"m" * body_bytes + frame(short)
    frames, found, most = Frames(body_most=1000), [], 0
    for at in range(0, len(raw), step):
        frames.feed(raw[at : at + step])
        found += taken(frames)
        most = max(most, frames.waiting)
    assert found == [long._replace(body=None), short]
    assert most <= max(2 * step, 1200)


def test_a_body_of_the_most_bytes_is_kept() -> None:
    for length, kept in ((1000, True), (1001, False)):
        frames = Frames(body_most=1000)
        frames.feed(frame(Command(10, 1, 0, {}, b"m" * length)))
        (command,) = taken(frames)
        assert (command.body is not None) == kept


def test_the_worked_example_of_the_page_is_such_a_frame() -> None:
    page = (Path(__file__).parents[3] / "docs/formats/remoting.md").read_text("utf-8")
    lines = re.findall(r"^([0-9a-f]{8})  ((?:[0-9a-f]{2} )*[0-9a-f]{2})", page, re.M)
    raw = bytes.fromhex("".join(row for _, row in lines))
    assert [int(at, 16) for at, _ in lines] == [0, 4, *range(8, len(raw), 16)]
    assert raw.hex() in [row["hex"] for row in CAUGHT]


@pytest.mark.parametrize("declared", [-1, 12, 57])
def test_fields_of_a_binary_header_end_within_it(declared: int) -> None:
    fields = struct.pack(">h", 1) + b"a" + struct.pack(">i", 50) + b"cut"
    header = struct.pack(">hBhiii", 11, 0, 479, 1, 0, 0) + struct.pack(">i", declared) + fields
    frames = Frames()
    frames.feed(struct.pack(">ii", 4 + len(header), 1 << 24 | len(header)) + header)
    with pytest.raises(BadFrame):
        frames.next()
