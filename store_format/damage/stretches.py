"""Looks ahead from a record after damage: the stretch of sound records there, and the next one.

Each stretch is looked at once, in the log's order, so that each byte is read twice at most.
"""

from typing import NamedTuple

import numpy as np

from reput.store_format.damage.evidence import Queue, QueueSpan
from reput.store_format.damage.own_queue import OwnQueues
from reput.store_format.damage.resync import NOT_FOUND, Prover
from reput.store_format.dispatch.scan import ScanRules
from reput.store_format.faults import Fault
from reput.store_format.log.records import Bytes, Rows
from reput.store_format.log.walk import Read, Walk

_WINDOW_BYTES = 1 << 20
_READ_OF_EACH = 256  # records at each end of a window: they show where queues begin and end
_NONE_BEHIND = -1


class SoundStretch(NamedTuple):
    """A stretch of sound records, and the beginning of the next stretch.

    spans: its queues. time: storeTimestamp of its last record.
    end: the physical offset where the stretch breaks off, or where a newer record stands.
    behind: the physical offset of the next stretch, -1 for none.
    firsts, behind_time: the next stretch's first queueOffsets and first storeTimestamp.
    """

    spans: dict[Queue, QueueSpan]
    time: int
    end: int
    largest: int  # the longest record, in bytes
    behind: int
    firsts: dict[Queue, int]
    behind_time: int


class Stretches:
    """Looks ahead in one segment that ends at `end`."""

    def __init__(self, read: Read, start: int, end: int, rules: ScanRules) -> None:
        self.own_queues = OwnQueues(rules)
        self._end = end
        buffer = np.empty(min(_WINDOW_BYTES, end - start), np.uint8)
        self._prover = Prover(read, start, end, rules.records)
        self._walk = Walk(read, end, rules.records, rules.checks, buffer, None, self._doubt)

    def _doubt(self, at: int) -> Fault:
        parts = self._prover.lengths(at)
        return Fault.NONE if parts and parts.place == at else Fault.LENGTHS

    def look(self, at: int, newer: int | None) -> SoundStretch:
        """The stretch that begins with the record at `at`.

        newer: if not None, the stretch ends before the first record with at least this time.
        """
        spans: dict[Queue, QueueSpan] = {}
        end, fault, largest, time, last = at, Fault.NONE, 0, 0, at
        for step in self._walk.steps(at, self._end):
            rows, end, fault = step.rows, step.next, step.fault
            count = len(rows)
            if newer is not None:
                young = np.flatnonzero(rows["storeTimestamp"] >= newer)
                count = int(young[0]) if len(young) else count
            self._add(spans, step.window, rows[:count])
            if count:
                last, time = (int(rows[count - 1][n]) for n in ("physicalOffset", "storeTimestamp"))
            largest = max(largest, int(rows["size"][:count].max(initial=0)))
            if count < len(rows):
                firsts = self._firsts(step.window, rows[count:])
                place, behind_time = step.start(count), int(rows["storeTimestamp"][count])
                return SoundStretch(spans, time, place, largest, place, firsts, behind_time)
        behind = NOT_FOUND
        if fault not in (Fault.BLANK, Fault.NONE) and end < self._end:
            # The last record may reach over its page's end into the bytes of another record.
            behind = self._prover.next_record(last + 1)
            end = behind if last < behind < end else end
        if behind == NOT_FOUND:
            return SoundStretch(spans, time, end, largest, _NONE_BEHIND, {}, 0)
        first = next(self._walk.steps(behind, self._end), None)
        if first is None or not len(first.rows):
            return SoundStretch(spans, time, end, largest, _NONE_BEHIND, {}, 0)
        behind_time = int(first.rows["storeTimestamp"][0])
        firsts = self._firsts(first.window, first.rows)
        return SoundStretch(spans, time, end, largest, behind, firsts, behind_time)

    def _add(self, spans: dict[Queue, QueueSpan], window: Bytes, rows: Rows) -> None:
        """Add a window's records to the queues' spans: those at its beginning, and at its end."""
        ends = [rows[:_READ_OF_EACH], rows[_READ_OF_EACH:][-_READ_OF_EACH:]]
        for part in ends:
            for row in part:
                taken = self.own_queues.of(window, row)
                if taken is not None:
                    begin = QueueSpan(taken.first, taken.first - 1, batch=taken.batch)
                    old = spans.get(taken.queue, begin)
                    spans[taken.queue] = old.then(taken.first, taken.last)

    def _firsts(self, window: Bytes, rows: Rows) -> dict[Queue, int]:
        firsts: dict[Queue, int] = {}
        for row in rows[:_READ_OF_EACH]:
            taken = self.own_queues.of(window, row)
            if taken is not None:
                firsts.setdefault(taken.queue, taken.first)
        return firsts
