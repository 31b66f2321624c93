"""Headers in RocketMQ's own binary form, byte by byte (RocketMQSerializable)."""

import struct

import pytest

from reput.broker.wire.codes import Language
from reput.broker.wire.remoting import (
    BadFrame,
    Command,
    Serialization,
    decode_binary,
    encode_binary,
)


def header(
    remark: bytes = b"", fields: bytes = b"", language: int = 0, code: int = 11, version: int = 479
) -> bytes:
    """docs/formats/remoting.md: code, language, version, opaque, flag, then remark and fields."""
    fixed = struct.pack(">hBhii", code, language, version, -7, 2)
    return fixed + struct.pack(">i", len(remark)) + remark + struct.pack(">i", len(fields)) + fields


def field(name: bytes, value: bytes) -> bytes:
    return struct.pack(">h", len(name)) + name + struct.pack(">i", len(value)) + value


TWO = field(b"topic", b"T") + field(b"queueId", b"3")


def test_a_header_is_read_and_written_byte_by_byte() -> None:
    raw = header(b"r", TWO)
    command = decode_binary(raw)
    assert command == Command(
        11, -7, 2, {"topic": "T", "queueId": "3"}, b"", "r", 479, Language.JAVA,
        Serialization.ROCKETMQ,
    )  # fmt: skip
    assert encode_binary(command) == raw


def test_empty_texts_are_none_as_in_java() -> None:
    assert decode_binary(header()).remark is None
    raw = header(b"", field(b"a", b"") + field(b"", b"b") + field(b"c", b"d"))
    assert decode_binary(raw).fields == {"c": "d"}


def test_of_two_fields_of_one_name_the_last_counts() -> None:
    raw = header(b"", field(b"a", b"1") + field(b"a", b"2"))
    assert decode_binary(raw).fields == {"a": "2"}


def test_code_and_version_are_shorts() -> None:
    assert decode_binary(header(code=-1, version=-2)).code == -1
    for given, left in ((0x8000, -0x8000), (0x1_0005, 5), (200_050, 200_050 - 3 * 65_536)):
        again = decode_binary(encode_binary(Command(given, version=given)))
        assert (again.code, again.version) == (left, left)


@pytest.mark.parametrize(("byte", "language"), [(0, Language.JAVA), (255, Language.OTHER)])
def test_an_unknown_language_is_another(byte: int, language: Language) -> None:
    assert decode_binary(header(language=byte)).language == language


@pytest.mark.parametrize("length", range(21))
def test_a_header_that_ends_too_early_is_an_error(length: int) -> None:
    with pytest.raises(BadFrame):
        decode_binary(header()[:length])


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        (13, -1, "text of the header has -1 bytes"),
        (13, 0x7FFFFFFF, "text of the header has 2147483647 bytes"),
        (18, -1, "extFields have -1 bytes"),
        (18, len(TWO) + 1, "extFields have"),
        (18, len(TWO) - 1, "a text of the header has 1 bytes, 0 are there"),
        (18, 1, "extFields end within a field"),
        (18, 2, "a text of the header has 5 bytes, 0 are there"),
        (18, len(TWO) - 3, "extFields end within a field"),
    ],
)
def test_lengths_that_lie_are_errors(at: int, value: int, reason: str) -> None:
    raw = bytearray(header(b"r", TWO))
    struct.pack_into(">i", raw, at, value)
    with pytest.raises(BadFrame, match=reason):
        decode_binary(bytes(raw))


def test_what_is_no_utf_8_is_replaced() -> None:
    assert decode_binary(header(b"\xffx")).remark == "\ufffdx"
