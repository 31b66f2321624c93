"""Edits of a CommitLog in place, before RocketMQ derives from it: what its API never writes.

Each edit is drawn from a seed. `damages` says that the log ends at the edit, so that a rebuild
is asked to truncate there; the others leave every record whole in RocketMQ's eyes."""

import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

MAGIC_V1, MAGIC_V2, BLANK = 0xDAA320A7, 0xDAA320AB, 0xCBD43194
PHYSICAL_OFFSET, QUEUE_OFFSET, STORE_TIME = 28, 20, 56


@dataclass(frozen=True)
class Record:
    """Where one record lies; offsets are bytes of its segment."""

    segment: Path
    at: int
    size: int
    body: tuple[int, int]
    topic: tuple[int, int]
    properties: tuple[int, int]


class Log:
    """All segments in memory, changed there, written back by `save`."""

    def __init__(self, folder: Path) -> None:
        self.paths = sorted(folder.iterdir())
        self.data = {path: bytearray(path.read_bytes()) for path in self.paths}

    def save(self) -> None:
        for path in self.paths:
            path.write_bytes(self.data[path])

    def drop(self, path: Path) -> None:
        self.paths.remove(path)
        del self.data[path]
        path.unlink()

    def records(self) -> list[Record]:
        return [record for path in self.paths for record in self.records_in(path)]

    def records_in(self, path: Path) -> Iterator[Record]:
        data, at = self.data[path], 0
        while at + 8 <= len(data):
            size, magic = struct.unpack_from(">II", data, at)
            if magic not in (MAGIC_V1, MAGIC_V2) or size < 91:
                return
            yield _record(path, data, at, size, magic)
            at += size

    def get(self, record: Record, form: str, field: int) -> int:
        return struct.unpack_from(">" + form, self.data[record.segment], record.at + field)[0]

    def put(self, record: Record, form: str, field: int, value: int) -> None:
        struct.pack_into(">" + form, self.data[record.segment], record.at + field, value)

    def bytes_of(self, record: Record, span: tuple[int, int]) -> bytes:
        return bytes(self.data[record.segment][slice(*span)])

    def replace(self, record: Record, span: tuple[int, int], new: bytes) -> None:
        assert len(new) == span[1] - span[0]
        self.data[record.segment][slice(*span)] = new

    def topic_of(self, record: Record) -> str:
        return self.bytes_of(record, record.topic).decode(errors="replace")


def _record(path: Path, data: bytearray, at: int, size: int, magic: int) -> Record:
    flags = struct.unpack_from(">I", data, at + 36)[0]
    place = at + 48 + (20 if flags & 0x10 else 8) + 8 + (20 if flags & 0x20 else 8) + 12
    length = max(0, struct.unpack_from(">i", data, place)[0])
    body = (place + 4, place + 4 + length)
    wide = 2 if magic == MAGIC_V2 else 1
    topic_length = int.from_bytes(data[body[1] : body[1] + wide], "big")
    topic = (body[1] + wide, body[1] + wide + topic_length)
    count = max(0, struct.unpack_from(">h", data, topic[1])[0])
    return Record(path, at, size, body, topic, (topic[1] + 2, topic[1] + 2 + count))


def store_time_field(log: Log, record: Record) -> int:
    """The store time comes after the born host, whose size is in sysFlag."""
    return STORE_TIME + (12 if log.get(record, "I", 36) & 0x10 else 0)


# --- The edits.

HOUR = 3_600_000
BASE_TIME = 1_700_000_000_000
Edit = Callable[[random.Random, Log], None]


def times(r: random.Random, log: Log) -> None:
    """Store and born times of its own: they jump ahead, and step back."""
    now = BASE_TIME + r.randrange(HOUR)
    wild = r.random() < 0.3
    for record in log.records():
        now += r.choice((0, 0, 1, 3, 40, 900, 1000, 1001))
        if r.random() < 0.01:
            now += r.choice((-HOUR, HOUR, -1000, 48 * HOUR, -48 * HOUR))
            if wild:
                now += r.choice((-40, 40, 80)) * 365 * 24 * HOUR
                now = max(now, 1)
        log.put(record, "q", store_time_field(log, record), now)
        log.put(record, "q", 40, now - r.randrange(5))


def queue_offsets(r: random.Random, log: Log) -> None:
    """Gaps, repeats, steps back and zeros."""
    for record in _some(r, log, 0.08):
        old = log.get(record, "q", QUEUE_OFFSET)
        new = r.choice((0, old + 1, old + r.randrange(2, 400), max(0, old - 1), old // 2))
        log.put(record, "q", QUEUE_OFFSET, new)


def first_offsets(r: random.Random, log: Log) -> None:
    """All of some queues begin further on, as after a cleaned first segment."""
    shift: dict[tuple[str, int], int] = {}
    for record in log.records():
        key = (log.topic_of(record), log.get(record, "I", 12))
        if key not in shift:
            shift[key] = r.choice((0, 0, r.randrange(1, 200), r.randrange(1, 5000)))
        old = log.get(record, "q", QUEUE_OFFSET)
        log.put(record, "q", QUEUE_OFFSET, old + shift[key])


def properties(r: random.Random, log: Log) -> None:
    """Malformed in place: separators doubled, dropped or moved, invalid UTF-8, surrogates."""
    for record in _some(r, log, 0.15):
        old = log.bytes_of(record, record.properties)
        if old and b"DELAY" not in old and b"INNER_" not in old:
            log.replace(record, record.properties, _malformed(r, old))


def _malformed(r: random.Random, old: bytes) -> bytes:
    new = bytearray(old)
    pieces = (b"\x01", b"\x02", b"\x01\x01", b"\x02\x02", b"\x01\x02", b"\x02\x01", b" ", b"  ")
    invalid = (b"\xed\xa0\x80", b"\xed\xbf", b"\xff", b"\xc3", b"\xe2\x82", b"\xf0\x9f",
               b"\xc0\x80")  # fmt: skip
    kind = r.random()
    if kind < 0.15:
        new[-1:] = r.choice((b"x", b"\x01", b" "))
    elif kind < 0.3:
        # A name of the same length: keys and tags appear twice, or under an empty name.
        for name, other in ((b"WAIT\x01", b"KEYS\x01"), (b"TAGS\x01", b"KEYS\x01")):
            new = new.replace(name, other)
    elif kind < 0.4:
        new = new.replace(b"KEYS\x01", b"\x02\x01\x02KE"[: r.choice((5,))])
    elif kind < 0.5:
        length = len(new)
        new = bytearray(r.choice((b"\x01", b"\x02", b"\x01\x02", b"TAGS\x01\x02")) * length)[
            :length
        ]
    else:
        for _ in range(r.randrange(1, 4)):
            piece = r.choice(pieces if r.random() < 0.6 else invalid)
            at = r.randrange(len(new))
            new[at : at + len(piece)] = piece[: len(new) - at]
    return bytes(new[: len(old)].ljust(len(old), b"\x02"))


def topics(r: random.Random, log: Log) -> None:
    """Topic names that are no UTF-8, in a few records. (No slash, no dot: see test_paths.)"""
    for record in _some(r, log, 0.02):
        old = log.bytes_of(record, record.topic)
        if old.startswith(b"Topic"):
            bad = r.choice((b"\xed\xa0\x80", b"\xed\xb0", b"\xff", b"\xe2\x82"))
            log.replace(record, record.topic, (old[: len(old) - len(bad)] + bad)[-len(old) :])


def negative_lengths(r: random.Random, log: Log) -> None:
    """A negative body or properties length counts as 0, so such a record still adds up."""
    for record in log.records():
        if record.body[0] == record.body[1] and r.random() < 0.3:
            at = record.body[0] - 4 - record.at
            log.put(record, "i", at, -r.choice((1, 2, 1 << 31)))
        if record.properties[0] == record.properties[1] and r.random() < 0.3:
            at = record.properties[0] - 2 - record.at
            log.put(record, "h", at, -r.choice((1, 2, 1 << 15)))


def system_flags(r: random.Random, log: Log) -> None:
    """Transaction types where the API would not put them."""
    for record in _some(r, log, 0.05):
        flags = log.get(record, "I", 36)
        log.put(record, "I", 36, flags & ~0xC | r.choice((0, 4, 8, 12)))


# From here on: where the log ends.


def torn_tail(r: random.Random, log: Log) -> None:
    """The last record was not written to its end."""
    records = log.records()
    if records:
        last = records[-1]
        keep = last.at + r.randrange(last.size)
        rest = last.at + last.size - keep
        filler = bytes(rest) if r.random() < 0.7 else r.randbytes(rest)
        log.data[last.segment][keep : keep + rest] = filler


def damaged_record(r: random.Random, log: Log) -> None:
    """One field of one record in the middle."""
    records = log.records()
    if not records:
        return
    record = r.choice(records)
    kind = r.choice(("body", "crc", "magic", "topic_length", "properties_length", "body_length"))
    if kind == "body" and record.body[1] > record.body[0]:
        log.data[record.segment][r.randrange(*record.body)] ^= 1 << r.randrange(8)
    elif kind == "magic":
        log.put(record, "I", 4, r.choice((0, 0xDAA320A6, r.randrange(1 << 31))))
    elif kind == "topic_length":
        at = record.topic[0] - 1 - record.at
        log.put(record, "B", at, r.choice((0, 0x80, 0xFF, log.get(record, "B", at) ^ 1)))
    elif kind == "properties_length":
        at = record.properties[0] - 2 - record.at
        log.put(record, "h", at, r.choice((-1, log.get(record, "h", at) + r.choice((-1, 1)))))
    elif kind == "body_length":
        at = record.body[0] - 4 - record.at
        log.put(record, "i", at, r.choice((-1, log.get(record, "i", at) + r.choice((-1, 1)))))
    else:
        log.put(record, "I", 8, log.get(record, "I", 8) ^ 1 << r.randrange(31))


def cut_and_continued(r: random.Random, log: Log) -> None:
    """Some records gone, the later ones of the segment moved up: the old bytes lie behind them."""
    path = r.choice(log.paths) if log.paths else None
    records = list(log.records_in(path)) if path else []
    if path is None or len(records) < 4:
        return
    first = r.randrange(1, len(records) - 2)
    until = r.randrange(first + 1, len(records) - 1)
    data, at = log.data[path], records[first].at
    moved = [bytes(data[x.at : x.at + x.size]) for x in records[until:]]
    end = at + sum(map(len, moved))
    if any(end == x.at for x in records):
        return  # the stale bytes would begin with a whole record, and so be alive
    base = int(path.name)
    for record in moved:
        data[at : at + len(record)] = record
        struct.pack_into(">q", data, at + PHYSICAL_OFFSET, base + at)
        at += len(record)
    for later in log.paths[log.paths.index(path) + 1 :]:
        log.drop(later)


def _some(r: random.Random, log: Log, share: float) -> list[Record]:
    return [record for record in log.records() if r.random() < share]


HARMLESS: tuple[Edit, ...] = (queue_offsets, first_offsets, properties, topics, negative_lengths,
                              system_flags)  # fmt: skip
ENDINGS: tuple[Edit, ...] = (torn_tail, damaged_record, cut_and_continued)
# Where nothing after the end looks like a part of the log.
QUIET_ENDINGS: tuple[Edit, ...] = (cut_and_continued,)
