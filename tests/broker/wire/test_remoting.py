"""A command's flags, by docs/formats/remoting.md, and which numbers are Java's ints."""

import base64
import hashlib
import hmac
import json
import re
import struct
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.broker.wire import remoting
from reput.broker.wire.codes import Language, RequestCode


@pytest.mark.parametrize(("flag", "response", "one_way"), [
    (1, True, False), (2, False, True), (3, True, True), (4, False, False),
    (-(1 << 31), False, False)])  # fmt: skip
def test_bit_0_is_an_answers_and_bit_1_of_what_nobody_answers(flag, response, one_way) -> None:
    command = remoting.Command(11, flag=flag)
    assert (command.is_response, command.is_one_way) == (response, one_way)


def test_an_int_has_32_bits_and_a_sign_and_is_no_boolean() -> None:
    most = (1 << 31) - 1
    assert [each for each in (most, most + 1, ~most, ~most - 1, True, 1.0, "1", None) if
            remoting.is_int(each)] == [most, ~most]  # fmt: skip


# --- Frames in any pieces, of any bytes: commands, or an error that says what is wrong.
INTS = st.integers(-(1 << 31), (1 << 31) - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
COMMANDS = st.builds(
    remoting.Command, st.integers(-(1 << 15), (1 << 15) - 1), INTS, INTS,
    st.dictionaries(TEXTS.filter(bool), TEXTS.filter(bool), max_size=4), st.binary(max_size=40),
    st.none() | TEXTS.filter(bool), st.integers(0, (1 << 15) - 1),
    st.sampled_from([int(each) for each in Language]),
    st.sampled_from(remoting.Serialization))  # fmt: skip
# The first frame of each code from either side, caught between RocketMQ's clients and a broker by a
# program that was beside it up to commit 4002fb19.
CAUGHT = json.loads((Path(__file__).parent / "frames.json").read_text())


def taken(frames: remoting.Frames) -> list[remoting.Command]:
    return list(iter(frames.next, None))


def read(raw: bytes, **more: int) -> list[remoting.Command]:
    frames = remoting.Frames(**more)
    frames.feed(raw)
    return taken(frames)


@given(st.lists(COMMANDS, max_size=4), st.lists(st.integers(1, 60), min_size=1, max_size=30))
def test_commands_come_out_as_they_went_in(commands, cuts: list[int]) -> None:
    raw, frames, found, at = b"".join(map(remoting.frame, commands)), remoting.Frames(), [], 0
    for cut in [*cuts, len(raw)]:
        frames.feed(raw[at : at + cut])
        at += cut
        found += taken(frames)
    assert found == commands
    assert frames.waiting == 0


@given(COMMANDS, st.data())
def test_every_flipped_byte_is_a_command_or_an_error(command, data: st.DataObject) -> None:
    raw = bytearray(remoting.frame(command))
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= data.draw(st.integers(1, 255))
    with suppress(remoting.BadFrame):
        read(bytes(raw))


@given(st.binary(max_size=60), st.integers(0, 1))
def test_any_header_is_a_command_or_an_error(header: bytes, kind: int) -> None:
    head = struct.pack(">ii", 4 + len(header), kind << 24 | len(header))
    with suppress(remoting.BadFrame):
        assert len(read(head + header)) == 1


@pytest.mark.parametrize(("total", "marked"), [
    (-1, 0), (3, 0), (remoting.FRAME_MOST + 1, 0), ((1 << 31) - 1, 2), (100, 97),
    (1 << 23, remoting.HEADER_MOST + 1), (100, 2 << 24), (100, 255 << 24)])  # fmt: skip
def test_a_head_that_cannot_be_is_refused_at_once(total: int, marked: int) -> None:
    with pytest.raises(remoting.BadFrame):
        read(struct.pack(">iI", total, marked))


@pytest.mark.parametrize("caught", CAUGHT, ids=lambda row: f"{row['from']} {row['as']}")
def test_frames_of_real_clients_and_brokers_are_read_and_written(caught: dict[str, str]) -> None:
    raw = bytes.fromhex(caught["hex"])
    (command,) = read(raw)
    assert command.serialization.name == caught["as"]
    assert command.is_response == caught["from"].startswith("broker")
    assert command.is_response or command.code in list(RequestCode)
    assert command.version > 300
    assert read(remoting.frame(command)) == [command]
    if not command.fields:  # a HashMap's order is Java's
        assert remoting.frame(command) == raw


@pytest.mark.parametrize("step", [1, 1000, 1 << 16])
def test_a_body_that_is_too_long_is_passed_over(step: int) -> None:
    body_bytes = 5000 if step == 1 else 200_000
    long, short = remoting.Command(10, 1), remoting.Command(11, 2, 0, {}, b"xyz")
    raw = remoting.frame_head(long, body_bytes) + b"m" * body_bytes + remoting.frame(short)
    frames, found, most = remoting.Frames(body_most=1000), [], 0
    for at in range(0, len(raw), step):
        frames.feed(raw[at : at + step])
        found += taken(frames)
        most = max(most, frames.waiting)
    assert found == [long._replace(body=None), short]
    assert most <= max(2 * step, 1200)
    for length, kept in ((1000, True), (1001, False)):
        raw = remoting.frame(remoting.Command(10, 1, 0, {}, b"m" * length))
        (command,) = read(raw, body_most=1000)
        assert (command.body is not None) == kept


def test_the_worked_example_of_the_page_is_such_a_frame() -> None:
    page = (Path(__file__).parents[3] / "docs/formats/remoting.md").read_text("utf-8")
    lines = re.findall(r"^([0-9a-f]{8})  ((?:[0-9a-f]{2} )*[0-9a-f]{2})", page, re.M)
    raw = bytes.fromhex("".join(row for _, row in lines))
    assert [int(at, 16) for at, _ in lines] == [0, 4, *range(8, len(raw), 16)]
    assert raw.hex() in [row["hex"] for row in CAUGHT]


# --- Headers in RocketMQ's own binary form, byte by byte (RocketMQSerializable).
def header(remark: bytes = b"", fields: bytes = b"", language: int = 0, code: int = 11,
           version: int = 479) -> bytes:  # fmt: skip
    """docs/formats/remoting.md: code, language, version, opaque, flag, then remark and fields."""
    fixed = struct.pack(">hBhii", code, language, version, -7, 2)
    return fixed + struct.pack(">i", len(remark)) + remark + struct.pack(">i", len(fields)) + fields


def field(name: bytes, value: bytes) -> bytes:
    return struct.pack(">h", len(name)) + name + struct.pack(">i", len(value)) + value


TWO = field(b"topic", b"T") + field(b"queueId", b"3")


def test_a_binary_header_is_read_as_java_reads_it() -> None:
    assert remoting.decode_binary(header()).remark is None
    raw = header(b"", field(b"a", b"") + field(b"", b"b") + field(b"c", b"d"))
    assert remoting.decode_binary(raw).fields == {"c": "d"}
    raw = header(b"", field(b"a", b"1") + field(b"a", b"2"))
    assert remoting.decode_binary(raw).fields == {"a": "2"}
    assert remoting.decode_binary(header(code=-1, version=-2)).code == -1
    for code, left in ((0x8000, -0x8000), (0x1_0005, 5), (200_050, 200_050 - 3 * 65_536)):
        again = remoting.decode_binary(remoting.encode_binary(remoting.Command(code, version=code)))
        assert (again.code, again.version) == (left, left)
    for byte, language in ((0, Language.JAVA), (255, Language.OTHER)):
        assert remoting.decode_binary(header(language=byte)).language == language
    assert remoting.decode_binary(header(b"\xffx")).remark == "\ufffdx"


@pytest.mark.parametrize("length", range(21))
def test_a_header_that_ends_too_early_is_an_error(length: int) -> None:
    with pytest.raises(remoting.BadFrame):
        remoting.decode_binary(header()[:length])


@pytest.mark.parametrize(("at", "value", "reason"), [
    (13, -1, "text of the header has -1 bytes"),
    (13, 0x7FFFFFFF, "text of the header has 2147483647 bytes"),
    (18, -1, "extFields have -1 bytes"), (18, len(TWO) + 1, "extFields have"),
    (18, len(TWO) - 1, "a text of the header has 1 bytes, 0 are there"),
    (18, 1, "extFields end within a field"),
    (18, 2, "a text of the header has 5 bytes, 0 are there"),
    (18, len(TWO) - 3, "extFields end within a field")])  # fmt: skip
def test_lengths_that_lie_are_errors(at: int, value: int, reason: str) -> None:
    raw = bytearray(header(b"r", TWO))
    struct.pack_into(">i", raw, at, value)
    with pytest.raises(remoting.BadFrame, match=reason):
        remoting.decode_binary(bytes(raw))


# --- Headers as JSON: what is read of other clients' headers, and what fastjson would write.
def test_what_is_missing_has_fastjsons_default() -> None:
    command = remoting.decode_json(b'{"code":0}')
    assert (command.opaque, command.flag, command.version, command.fields) == (0, 0, 0, {})
    assert (command.remark, command.language) == (None, Language.OTHER)
    assert remoting.decode_json(b'{"code":0,"extFields":null,"remark":null}') == command
    for language in (b'"PYTHON9"', b"7", b"null", b"[]"):
        assert remoting.decode_json(b'{"code":0,"language":%b}' % language) == command


def test_a_field_is_a_text_whatever_a_client_wrote_and_null_is_none() -> None:
    written = {"a": "x", "b": "", "c": -(1 << 63), "d": True, "e": 1.5, "f": None}
    header = json.dumps({"code": 1, "extFields": written}).encode()
    assert remoting.decode_json(header).fields == {
        "a": "x", "b": "", "c": "-9223372036854775808", "d": "true", "e": "1.5"}  # fmt: skip


@pytest.mark.parametrize(("header", "reason"), [
    (b"", "not JSON"), (b"\xff", "not JSON"), (b"[" * 100_000, "not JSON"),
    (b"[]", "not a JSON object"), (b"{}", "no code"), (b'{"code":"11"}', "code is not an int"),
    (b'{"code":1.0}', "code is not an int"), (b'{"code":' + b"9" * 5000 + b"}", "not JSON"),
    (b'{"code":true}', "code is not an int"), (b'{"code":2147483648}', "code is not an int"),
    (b'{"code":1,"opaque":-2147483649}', "opaque is not an int"),
    (b'{"code":1,"flag":null}', "flag is not an int"),
    (b'{"code":1,"version":[]}', "version is not an int"),
    (b'{"code":1,"remark":5}', "remark is not text"),
    (b'{"code":1,"extFields":[]}', "extFields are no JSON object"),
    (b'{"code":1,"extFields":{"a":[]}}', "extFields is not text")])  # fmt: skip
def test_a_header_that_is_none_says_why(header: bytes, reason: str) -> None:
    with pytest.raises(remoting.BadFrame, match=reason):
        remoting.decode_json(header)


# --- Peers that speak another protocol are known by their first bytes.
@pytest.mark.parametrize(("first", "name"), [
    (b"PRI * HTTP/2.0", "HTTP/2"), (b"PRI ", "HTTP/2"), (b"GET / HTTP/1.1", "HTTP"),
    (b"DELETE /topic ", "HTTP"), (b"GETS", "another protocol"), (b"\x16\x03\x01\x02\x00", "TLS"),
    (b"\x16\x04", "another protocol"), (b"SSH-2.0-OpenSS", "another protocol"),
    (b"", "another protocol")])  # fmt: skip
def test_a_protocol_is_named_by_its_first_bytes(first: bytes, name: str) -> None:
    assert remoting.protocol_of(first).split(",")[0] == name
    assert len(first) <= remoting.FIRST_BYTES


# --- Signatures of requests as RocketMQ's clients make them (AclUtils.calSignature).
def hmac_sha1(content: bytes, key: bytes = b"secret") -> str:
    return base64.b64encode(hmac.digest(key, content, hashlib.sha1)).decode()


def test_values_are_signed_in_the_order_of_their_names_then_the_body() -> None:
    fields = {"topic": "T", "AccessKey": "me", "queueId": "0", "Signature": "left out"}
    assert remoting.signature(fields, b"body", "secret") == hmac_sha1(b"me0Tbody")
    assert remoting.signature({}, b"", "secret") == hmac_sha1(b"")
    fields = {"\U00010000": "above", "\uffff": "below", "Z": "1", "a": "2"}
    assert remoting.signature(fields, b"", "secret") == hmac_sha1(b"12abovebelow")
