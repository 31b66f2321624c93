"""Scan a stretch of the CommitLog: walk, check and dispatch its records in bounded windows.

A stretch starts at a known record, or looks for the first one that stands in its own place; it
owns the records that start in it. What comes out is in the order of the log: index puts and
queue runs as they fill up, and last how the stretch ended.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from store_format.dispatch import DispatchRules, Puts, dispatch
from store_format.faults import Fault
from store_format.javatext import decode
from store_format.layouts import (
    INDEX_MESSAGE,
    QUEUE_PUT,
    RECORD_FIXED_BYTES,
    RECORD_HEAD,
    RECORD_HEAD_BYTES,
)
from store_format.oversize import read_oversize
from store_format.properties import NAMES
from store_format.property_crc import bad_property_crcs
from store_format.queue_runs import QueueRuns, group_by_queue
from store_format.queue_table import (
    BATCH_TOPIC,
    Queue,
    batch_topics,
    clear,
    new_table,
    queues,
)
from store_format.records import (
    RECORD_ROW,
    RecordRules,
    find_record,
    first_bad_body,
    frame,
    walk,
)

Bytes = npt.NDArray[np.uint8]
Rows = npt.NDArray[Any]
# read(physical offset, buffer): fills the buffer from the segment; raises if it is too short.
Read = Callable[[int, Bytes], None]

WINDOW_BYTES = 8 << 20
_FIND_BYTES = 1 << 18  # looked at a time for a stretch's first record: what is read is read again
QUEUE_PUTS = 1 << 20
INDEX_PUTS = 1 << 17  # they stay in the second-level cache until they are written
NAME_BYTES = 8 << 20
FIND_FIRST = -1
NONE_FOUND = -1


@dataclass(frozen=True)
class ScanRules:
    """All that a scan's outcome depends on besides the bytes."""

    records: RecordRules
    dispatch: DispatchRules
    delays: tuple[int, ...]  # milliseconds of delay levels 1, 2, ...
    batch_topics: tuple[str, ...]
    check_body_crc: bool
    check_property_crc: bool = False  # a `__CRC32#` too, where a record has one
    not_before: int | None = None  # leave out of the runs what was stored before this time


class Stretch(NamedTuple):
    """A part of one segment, in physical offsets."""

    segment: int  # where the segment starts
    segment_end: int
    start: int  # where the stretch starts
    end: int
    first: int  # its first record if that is known, else FIND_FIRST


class IndexPuts(NamedTuple):
    """The next index puts, packed. Views: valid until the scan goes on."""

    hashes: npt.NDArray[np.int32]
    messages: npt.NDArray[Any]  # INDEX_MESSAGE


class QueueKey(NamedTuple):
    """A queue by its name as Java decodes it; `batch`: it is a batch queue."""

    topic: str
    queue_id: int
    batch: bool


class Runs(NamedTuple):
    """Runs of the queues met since the last ones, with the queues they belong to."""

    queues: list[QueueKey]
    runs: QueueRuns


@dataclass
class End:
    """How a stretch ended. Offsets are physical; -1 where there is none."""

    first: int = -1  # the first record
    next: int = -1  # where the walk stood: the next stretch's first record, or the fault
    fault: Fault = Fault.NONE  # NONE: went on past its end; BLANK: to the segment's end
    size: int = 0  # what stands in totalSize there
    rest_is_zero: bool = True  # nothing but zeros from `next` to the stretch's end
    wrong_blank: int = -1  # the place of a BLANK of the wrong size, at which the scan ended
    records: int = 0
    index_puts: int = 0
    last_record: int = -1
    last_put: int = -1  # the last record that has a key
    last_timestamp: int = 0  # milliseconds: storeTimestamp of the last record
    last_dispatched_timestamp: int = -1
    warnings: list[str] = field(default_factory=list)


class Buffers:
    """What one scan needs of memory, however long the stretch is.

    May serve one scan after another of stretches of at most `stretch_bytes`: memory that is new
    to a process costs a tenth of a scan.
    """

    def __init__(
        self, stretch_bytes: int, most_puts: int = QUEUE_PUTS, window_bytes: int | None = None
    ) -> None:
        """window_bytes: how much is read at a time (WINDOW_BYTES)."""
        self.stretch_bytes = stretch_bytes
        self.window_bytes = window_bytes = window_bytes or WINDOW_BYTES
        # a short stretch needs no full-size tables: tests and tiny stores start at once
        most = min(most_puts, max(stretch_bytes // RECORD_FIXED_BYTES, 0) + (1 << 16))
        self.window = np.empty(min(window_bytes, max(stretch_bytes, 1 << 16) + (1 << 16)), np.uint8)
        self.rows = np.zeros(len(self.window) // RECORD_FIXED_BYTES + 1, RECORD_ROW)
        self.table = new_table(most, min(NAME_BYTES, stretch_bytes + (1 << 17)))
        most_hashes = min(INDEX_PUTS, stretch_bytes // 2 + (1 << 16))
        self.puts = Puts(
            np.zeros(most, QUEUE_PUT),
            np.zeros(most_hashes, np.int32),
            np.zeros(most_hashes, INDEX_MESSAGE),
            np.zeros(3, np.int64),
        )
        self.places = np.empty((len(NAMES), 2), np.int64)

    def empty(self) -> None:
        """Forget what was put in, also by a scan that was given up."""
        self.puts.used[:] = 0
        clear(self.table)


def scan(
    read: Read, stretch: Stretch, rules: ScanRules, buffers: Buffers | None = None
) -> Iterator[IndexPuts | Runs | End]:
    """Walk a stretch; yields IndexPuts and Runs, in order, and last one End.

    Reads each byte of the stretch once, and past its end only what its last record needs.
    Memory does not depend on the stretch's length, nor on what any length field says.
    """
    return Scan(read, stretch, rules, buffers or Buffers(stretch.end - stretch.start)).run()


class Scan:
    def __init__(self, read: Read, stretch: Stretch, rules: ScanRules, buffers: Buffers) -> None:
        self.read, self.stretch, self.rules, self.buffers = read, stretch, rules, buffers
        buffers.empty()
        self.delays = np.array(rules.delays, np.int64)
        self.batches = batch_topics(list(rules.batch_topics))
        self.end = End()

    def run(self) -> Iterator[IndexPuts | Runs | End]:
        s, end = self.stretch, self.end
        at = self._find_first() if s.first == FIND_FIRST else s.first
        end.first = end.next = at
        if at == NONE_FOUND:
            yield end
            return
        while at < s.end and end.fault == Fault.NONE:
            window = self.buffers.window[: s.segment_end - at]
            self.read(at, window)
            rows, stood, fault = self._walk(window, at)
            if fault == Fault.NEED_MORE and stood == 0:
                window, rows, stood, fault = self._oversize(window, at)
            good = yield from self._dispatch(window, rows)
            if good < len(rows):
                stood, fault = int(rows["at"][good]), end.fault
            if fault != Fault.NEED_MORE:  # else the next window starts where this one ends
                end.fault = fault
            at += stood
        if end.fault == Fault.NONE and at == s.segment_end:
            end.fault = Fault.SHORT_TAIL  # RocketMQ ends every segment in a BLANK, or the log
        if end.fault == Fault.BLANK:
            size = self._size_at(at)
            if size != s.segment_end - at:
                end.wrong_blank, end.size = at, size
        end.next = s.segment_end if end.fault == Fault.BLANK else at
        if end.fault not in (Fault.NONE, Fault.BLANK):
            self._look_past(at)
        yield from self._empty()
        yield end

    def _walk(self, window: Bytes, at: int) -> tuple[Rows, int, Fault]:
        """The sound records of a window that stands at `at`, where they end, and why."""
        s, rules = self.stretch, self.rules
        count, stood, fault = walk(
            window, 0, len(window), s.end - at, s.segment_end - at, at,
            rules.records, self.buffers.rows,
        )  # fmt: skip
        rows = self.buffers.rows[:count]
        if rules.check_body_crc and not rules.dispatch.property_crc:
            good = first_bad_body(window, rows)
            if good < count:
                return rows[:good], int(rows["at"][good]), Fault.BODY_CRC
        if rules.check_property_crc:
            wrong = bad_property_crcs(
                window, rows, rules.dispatch.split_properties, self.buffers.places
            )
            if wrong.any():
                good = int(wrong.argmax())
                return rows[:good], int(rows["at"][good]), Fault.PROPERTY_CRC
        return rows, stood, Fault(fault)

    def _oversize(self, window: Bytes, at: int) -> tuple[Bytes, Rows, int, Fault]:
        """As _walk, for one record that is longer than a window."""
        rules = self.rules
        _, size = frame(window, 0, len(window), self.stretch.segment_end - at, rules.records)
        fault, around, row = read_oversize(
            self.read, at, size, rules.records, rules.check_body_crc, rules.dispatch.property_crc
        )
        if fault != Fault.NONE:
            return window, row[:0], 0, fault
        return around, row, size, Fault.NONE

    def _find_first(self) -> int:
        """The first record that stands in its own place; NONE_FOUND if none does."""
        s = self.stretch
        at = s.start
        # a record that starts in the stretch may have its first fields past the end
        limit = min(s.end + RECORD_HEAD_BYTES - 1, s.segment_end)
        while at < s.end:
            window = self.buffers.window[: min(limit - at, _FIND_BYTES)]
            self.read(at, window)
            if window.any():
                found = find_record(window, 0, len(window), at, self.rules.records)
                if found >= 0:
                    self.end.rest_is_zero = True  # of what follows a break, see _look_past
                    return at + int(found)
                self.end.rest_is_zero = False
            if at + len(window) >= limit:
                break
            at += len(window) - RECORD_HEAD_BYTES + 1
        return NONE_FOUND

    def _dispatch(self, window: Bytes, rows: Rows) -> Generator[IndexPuts | Runs, None, int]:
        """Dispatch rows, emptying the outputs as they fill; returns how many went well."""
        done = 0
        fault = int(Fault.NEED_MORE)
        while fault == Fault.NEED_MORE:
            more, fault = dispatch(
                window, rows[done:], self.rules.dispatch, self.delays, self.batches,
                self.buffers.table, self.buffers.puts, self.buffers.places,
            )  # fmt: skip
            done += more
            if fault == Fault.NEED_MORE:
                puts = self.buffers.puts.used[1]
                yield from self._give_puts() if puts else self._give_runs()
        self.end.fault = Fault(fault)
        self._count(rows[:done])
        return done

    def _look_past(self, at: int) -> None:
        """Note what stands at the fault, and whether anything is written after it."""
        s = self.stretch
        self.end.size = self._size_at(at)
        while at < s.end and self.end.rest_is_zero:
            window = self.buffers.window[: s.end - at]
            self.read(at, window)
            self.end.rest_is_zero = not window.any()
            at += len(window)

    def _size_at(self, at: int) -> int:
        head = np.zeros(RECORD_HEAD.itemsize, np.uint8)
        self.read(at, head[: self.stretch.segment_end - at])
        return int(np.frombuffer(head, RECORD_HEAD)[0]["totalSize"])

    def _count(self, rows: Any) -> None:
        if len(rows) == 0:
            return
        self.end.records += len(rows)
        self.end.last_record = int(rows["physicalOffset"][-1])
        self.end.last_timestamp = int(rows["storeTimestamp"][-1])

    def _empty(self) -> Iterator[IndexPuts | Runs]:
        yield from self._give_puts()
        yield from self._give_runs()

    def _give_puts(self) -> Iterator[IndexPuts]:
        used = self.buffers.puts.used
        if used[1]:
            puts = IndexPuts(
                self.buffers.puts.hashes[: used[1]], self.buffers.puts.messages[: used[2]]
            )
            self.end.index_puts += len(puts.hashes)
            self.end.last_put = int(puts.messages["physicalOffset"][-1])
            yield puts
            used[1:] = 0

    def _give_runs(self) -> Iterator[Runs]:
        count = self.buffers.puts.used[0]
        if count:
            puts = self.buffers.puts.queue[:count]
            self.end.last_dispatched_timestamp = int(puts["storeTimestamp"][-1])
            if self.rules.not_before is not None:
                puts = puts[puts["storeTimestamp"] >= self.rules.not_before]
            yield _runs(queues(self.buffers.table), puts)
        self.buffers.empty()


def _runs(met: list[Queue], puts: Rows) -> Runs:
    """Group puts by queue. Two spellings that Java decodes alike are one queue."""
    numbers: dict[QueueKey, int] = {}
    of_met = np.array(
        [
            numbers.setdefault(
                QueueKey(decode(q.raw_name), q.queue_id, bool(q.flags & BATCH_TOPIC)), len(numbers)
            )
            for q in met
        ],
        np.int64,
    )
    batch = np.array([key.batch for key in numbers], np.bool_)
    return Runs(list(numbers), group_by_queue(puts, of_met, batch))
