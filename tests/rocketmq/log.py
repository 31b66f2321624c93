"""The records of a CommitLog, for the tests that edit one: no rule of reput's or RocketMQ's
reading is shared here, only where the fields are."""

import struct
from collections.abc import Iterator
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
