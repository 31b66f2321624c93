"""Messages as a walk's window and rows, and as a log that a reader opens."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from reput.store_format.log.reader import LogReader
from reput.store_format.log.records import Bytes, RecordRules, Rows
from reput.store_format.log.rules import NO_CHECKS, Checks
from reput.store_format.log.segments import find_segments
from reput.store_format.log.walk import Walk
from reput.store_format.names import segment_name
from tests.logs import Message, encode
from tests.memory_storage import WatchedStorage

RULES = RecordRules(True, True)


class Records:
    """Records in one segment of `size` bytes; notes what is read of it."""

    size = 1 << 16

    def __init__(self, *messages: Message) -> None:
        data = b""
        self.at = []
        for message in messages:
            self.at.append(len(data))
            data += encode(message, len(data))
        self.end = len(data)
        self.data = bytearray(data.ljust(self.size, b"\0"))
        self.read_bytes = self.longest = 0

    def read(self, at: int, buffer: Any) -> None:
        assert 0 <= at <= self.size - len(buffer)
        buffer[:] = np.frombuffer(self.data, np.uint8)[at : at + len(buffer)]
        self.read_bytes += len(buffer)
        self.longest = max(self.longest, len(buffer))


def window_of(messages: Sequence[Message]) -> tuple[Bytes, Rows]:
    """A window with nothing but these messages' records, which are sound."""
    raw = b""
    for message in messages:
        raw += encode(message, len(raw))
    log = np.frombuffer(raw, np.uint8)

    def read(at: int, buffer: Any) -> None:
        buffer[:] = log[at : at + len(buffer)]

    walk = Walk(read, len(log), RULES, NO_CHECKS, np.empty(len(log), np.uint8))
    (step,) = walk.steps(0, len(log))
    assert len(step.rows) == len(messages)
    return step.window, step.rows


def reader_of(
    segments: dict[int, bytes], checks: Checks = NO_CHECKS, **more: Any
) -> tuple[LogReader, WatchedStorage]:
    """A reader of segments in the folder `log`, and their storage."""
    storage = WatchedStorage({f"log/{segment_name(at)}": raw for at, raw in segments.items()})
    found = find_segments(storage, ["log"], len(next(iter(segments.values()))))
    return LogReader(storage, found, RULES, checks, **more), storage
