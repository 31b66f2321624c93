"""Hostile stores, each with what `reput rebuild` says of it and the code that it ends with."""

import os
import shutil
import struct
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from tests.built import write_log
from tests.damaged import SEGMENT, SETTINGS, messages
from tests.logs.encoder import MAGIC_BLANK, Message, build_log, encode, key_with_hash, properties

COUNT = 90  # messages of the store that is spoilt
SPOILT = 10  # the message that is
DONE, DAMAGE, USAGE = 0, 1, 2
Segments = dict[int, bytes]
_YEAR_9999 = 253_402_300_799_999
_ONE_SLOT = 7_000  # a multiple of every number of slots used here


class Hostile(NamedTuple):
    """One store. says: a regular expression; left: messages that are in the result."""

    name: str
    make: Callable[[Path], None]
    code: int
    says: str
    left: int | None = None  # None: refused
    settings: Mapping[str, Any] = SETTINGS


def place_of(number: int) -> int:
    """Where a message of the first segment stands."""
    return sum(len(encode(message, 0)) for message in messages()[:number])


def log_of(made: list[Message], segment: int = SEGMENT) -> Callable[[Path], None]:
    return lambda store: write_log(store, build_log(made, segment))


def one(**wrong: Any) -> Callable[[Path], None]:
    """The store with message SPOILT written with these fields instead."""
    made = messages(COUNT)
    made[SPOILT] = replace(made[SPOILT], **wrong)
    return log_of(made)


def each(**over: Any) -> Callable[[Path], None]:
    return log_of(messages(COUNT, **over))


def over(place: int, raw: bytes) -> Callable[[Path], None]:
    """The store with its log written over at a place of its first segment."""

    def make(store: Path) -> None:
        segments = build_log(messages(COUNT), SEGMENT)
        first = bytearray(segments[0])
        first[place : place + len(raw)] = raw
        write_log(store, {**segments, 0: first})

    return make


def file_wrong(change: Callable[[Path], None]) -> Callable[[Path], None]:
    """The store with its second segment changed as a file."""

    def make(store: Path) -> None:
        write_log(store, build_log(messages(COUNT), SEGMENT))
        change(store / "commitlog" / f"{SEGMENT:020d}")

    return make


def linked(path: Path) -> None:
    path.rename(path.parent.parent / "elsewhere")
    path.symlink_to(path.parent.parent / "elsewhere")


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def foreign(path: Path) -> None:
    shutil.copy(path, path.parent / "notes.txt")


def stale_behind(store: Path) -> None:
    """Whole records of an earlier time behind garbage at the log's end, in their own places."""
    segments = build_log(messages(COUNT), SEGMENT)
    last = max(segments)
    end = len(segments[last].rstrip(b"\0"))
    content = bytearray(segments[last])
    content[end : end + 7] = b"garbage"
    stale = encode(messages()[0], last + end + 30)
    content[end + 30 : end + 30 + len(stale)] = stale
    write_log(store, {**segments, last: content})


def _topic(topic: str, says: str) -> Hostile:
    shown = topic if len(topic) < 20 else f"{len(topic)} bytes"
    make = one(topic=topic, version=2 if len(topic) > 127 else 1)
    return Hostile(f"topic `{shown}`".replace("\0", "\\0"), make, DAMAGE, says, COUNT)


def _field(name: str, says: str, **wrong: Any) -> Hostile:
    at = place_of(SPOILT)
    where = rf"Damaged message at offset {at} \({says}.*/0{{20}}: offset {at}; "
    return Hostile(name, one(**wrong), DAMAGE, where)


_MANY = "k " * 16_370  # in `KEYS`, with its name, as long as properties may be
_ROOM = {**SETTINGS, "mappedFileSizeCommitLog": 1 << 17, "maxIndexNum": 40_000}
_MALFORMED = b"\x01\x02\x02\x01\x01KEYS\x02KEYS\x01\x02=\x01a\x01b\x02\xff\xfe\x01\xed\xa0\x80"

_LENGTHS = "propertiesLength: the lengths of the parts do not add up"
STORES = (
    _field("totalSize 0", "totalSize 0: smaller than", size=0),
    _field("totalSize 90", "totalSize 90: smaller than", size=90),
    _field("totalSize -5", "totalSize -5: smaller than", size=-5),
    _field("totalSize -2^31", "totalSize -2147483648: smaller than", size=-(1 << 31)),
    _field("totalSize 0x20000079", "totalSize 536871033: reaches past", size=0x20000079),
    _field("totalSize 2^31 - 1", "totalSize 2147483647: reaches past", size=(1 << 31) - 1),
    _field("bodyLength 2^30", "bodyLength: reaches past the end of the", body_length=1 << 30),
    _field("bodyLength -1", "topicLength: negative, or reaches past", body_length=-1),
    _field("topicLength -1", "topicLength: negative, or reaches past", topic_length=-1),
    _field("topicLength -128", "topicLength: negative, or reaches past", topic_length=-128),
    _field("topicLength 127", "topicLength: negative, or reaches past", topic_length=127),
    _field("propertiesLength -1", _LENGTHS, properties_length=-1),
    _field("propertiesLength 32767", _LENGTHS, properties_length=32767),
    _field("a bad magic in the middle", "magic: not a record's magic number", magic=0xDAA320A8),
    _field("a wrong bodyCRC", "checksum does not match", body_crc=5),
    _field("a record of another place", "physicalOffset: is not the place", physical_offset=7),
    Hostile("stale records behind the end", stale_behind, DONE,
            r"totalSize reaches past.*\(totalSize 1734439522\); nothing live follows", COUNT),
    Hostile("a BLANK in the middle", over(place_of(SPOILT), struct.pack(">iI", 109, MAGIC_BLANK)),
            DAMAGE, r"size( -?\d+)?: of a BLANK, is not what is left"),
    Hostile("a BLANK of size -1", over(place_of(SPOILT), struct.pack(">iI", -1, MAGIC_BLANK)),
            DAMAGE, r"size( -?\d+)?: of a BLANK, is not what is left"),
    Hostile("malformed properties", one(properties=_MALFORMED), DONE, "90 messages", COUNT),
    Hostile("32 KB of one-letter keys", log_of([*messages(COUNT), Message(
        topic="Keys", properties=properties(("KEYS", _MANY)), store_timestamp=1_700_000_001_000,
    )], 1 << 17), DONE, "16,460 index keys", COUNT + 1, _ROOM),
    Hostile("all keys in one slot", log_of([
        replace(m, properties=properties(("KEYS", key_with_hash("T#", _ONE_SLOT * (n + 1)))))
        for n, m in enumerate(messages(COUNT))
    ]), DONE, "90 index keys", COUNT),
    _topic("..", "left out .*'..' is not a folder's name"),
    _topic("/x", "left out .*'/x' holds a path separator"),
    _topic("../../../../evil", "left out .*evil' holds a path separator"),
    _topic("a\0b", r"left out .*'a\\x00b' holds a NUL"),
    _topic("x" * 300, "left out .*is longer than 255 bytes"),
    Hostile("topics that differ in case only", log_of([
        *messages(30, topic="Case"), *messages(30, topic="CASE"), *messages(30, topic="case"),
    ]), DONE, "9 queues in", COUNT),
    *(
        Hostile(f"queueOffset {shown} begins a queue", one(queue_id=9, queue_offset=value), DAMAGE,
                rf"'T', queue 9: the record at physical offset {place_of(SPOILT)}: "
                rf"queueOffset {value} is out")
        for shown, value in (("2^62", 1 << 62), ("-1", -1), ("-2^63", -(1 << 63)))
    ),
    Hostile("queueOffset 2^62 within a queue", one(queue_offset=1 << 62), DAMAGE,
            "90 messages", COUNT),
    Hostile("queueOffset -1 within a queue", one(queue_offset=-1), DAMAGE, "90 messages", COUNT),
    Hostile("queueId -1", one(queue_id=-1, queue_offset=0), DONE, "4 queues in", COUNT),
    Hostile("queueId -2^31", one(queue_id=-(1 << 31), queue_offset=0), DONE, "4 queues in", COUNT),
    *(
        Hostile(f"store and born timestamps {shown}",
                each(store_timestamp=value, born_timestamp=value), DONE, "90 messages", COUNT)
        for shown, value in (("0", 0), ("-1", -1), ("-2^63", -(1 << 63)),
                             ("in the year 9999", _YEAR_9999), ("2^63 - 1", (1 << 63) - 1))
    ),
    Hostile("a segment missing", file_wrong(Path.unlink), USAGE,
            "0+8192: a hole before it; .*so 1 segment is missing"),
    Hostile("a foreign file among segments", file_wrong(foreign), DAMAGE,
            "notes.txt: is not a file of RocketMQ's, which does not start with it", COUNT),
    Hostile("a linked segment", file_wrong(linked), DONE, "segments are links", COUNT),
    Hostile("a FIFO for a segment", file_wrong(fifo), USAGE, "0+4096: is not a regular file"),
    Hostile("a folder for a segment", file_wrong(folder), USAGE, "0+8192: a hole before it"),
    Hostile("a segment one byte short", file_wrong(lambda path: os.truncate(path, SEGMENT - 1)),
            USAGE, "0+4096: has 4095 bytes, but mappedFileSizeCommitLog is 4096"),
    Hostile("a segment one byte long", file_wrong(lambda path: os.truncate(path, SEGMENT + 1)),
            USAGE, "0+4096: has 4097 bytes, but mappedFileSizeCommitLog is 4096"),
)  # fmt: skip
