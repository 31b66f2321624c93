"""Bodies for output: decompressed where that is asked, as they stand where it fails, and why."""

import struct
import zlib

import pytest

from reput.jobs.console.rows import body_of, inner_of, inner_row
from reput.store_format.log.record import Record
from reput.store_format.query.reader import StoredMessage

COMPRESSED, BATCH, UNKNOWN = 0x1, 0x40 | 0x80, 0x1 | 4 << 8  # MessageSysFlag
BODY = b"a body, " * 20


def message(body: bytes, sys_flag: int = 0, crc: int | None = None) -> StoredMessage:
    crc = zlib.crc32(body) & 0x7FFF_FFFF if crc is None else crc
    record = Record(
        b"T", 0, 41, 700, 99, 0, crc, 0, sys_flag, 0, b"", 0, b"", 0, 0, 788, len(body), b""
    )
    return StoredMessage(record, True, lambda _: body)


def inner(flag: int, body: bytes, text: bytes) -> bytes:
    """As MessageDecoder.encodeMessage writes it."""
    rest = struct.pack(">iiii", 0, 0, flag, len(body)) + body
    rest += struct.pack(">h", len(text)) + text
    return struct.pack(">i", 4 + len(rest)) + rest


@pytest.mark.parametrize(
    ("stored", "sys_flag", "wanted", "shown"),
    [
        (b"plain", 0, True, b"plain"),
        (zlib.compress(BODY), COMPRESSED, True, BODY),
        (zlib.compress(BODY), COMPRESSED, False, zlib.compress(BODY)),
        (zlib.compress(BODY), 0, True, zlib.compress(BODY)),
        (b"", COMPRESSED, True, b""),
    ],
)
def test_a_compressed_body_is_opened_where_that_is_wanted(
    stored: bytes, sys_flag: int, wanted: bool, shown: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    assert body_of(message(stored, sys_flag), wanted) == shown
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("sys_flag", [COMPRESSED, UNKNOWN])
def test_a_body_that_cannot_be_opened_is_shown_as_it_stands(sys_flag: int, capsys) -> None:
    assert body_of(message(b"plain", sys_flag), True) == b"plain"
    said = capsys.readouterr().err
    assert said.startswith("reput: physical offset 700: ")
    assert said.endswith("; it is shown as it stands\n")


def test_a_wrong_crc_is_told_and_that_of_an_empty_body_is_not_looked_at(capsys) -> None:
    assert body_of(message(b"", crc=7), False) == b""
    assert capsys.readouterr().err == ""
    assert body_of(message(b"body", crc=7), False) == b"body"
    assert capsys.readouterr().err == (
        "reput: physical offset 700: bodyCRC does not match the body\n"
    )


def test_of_a_damaged_batch_the_messages_before_the_damage_are_told(capsys) -> None:
    whole = inner(3, b"one", b"") + inner(4, b"two", b"")
    assert [each.body for each in inner_of(message(whole, BATCH), whole)] == [b"one", b"two"]
    assert capsys.readouterr().err == ""
    assert [each.body for each in inner_of(message(whole, BATCH), whole[:-1])] == [b"one"]
    assert capsys.readouterr().err.startswith("reput: physical offset 700: inner batch: offset 25")
    assert inner_of(message(whole, 0x80), whole) == []  # only with both flags, by needUnwrap


def test_messages_of_a_batch_count_up_from_its_queue_offset() -> None:
    raw = inner(3, b"one", b"TAGS\x01a\x02KEYS\x01k\x02")
    stored = message(raw, BATCH)
    assert inner_row(stored, 2, inner_of(stored, raw)[0]) == {
        "queueOffset": 43, "flag": 3, "properties": {"TAGS": "a", "KEYS": "k"}
    }  # fmt: skip
