"""The file in staging with the damaged ranges of a segment: rows of one size, read in pieces."""

import json
from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np

from reput.store_format.damage.ranges import FOLLOWS, KINDS, RANGE, Damage, DamageKind, as_row
from reput.store_format.faults import Fault
from reput.udfs.staging import Staging

DAMAGE = ".damage"
_ROWS_A_PIECE = 1 << 14

CONTENT = KINDS.index(DamageKind.CONTENT)

Causes = dict[tuple[str, int, bool], list[int]]  # (kind, fault, in the tail) -> [ranges, bytes]


class RangeFile:
    """Takes a segment's ranges in order and writes them as they come.

    there_end: where the segment's file ends; ranges behind are missing, not damaged. live_end:
    returns where the last live record so far ends; ranges behind it may be the log's tail.
    """

    def __init__(
        self, staging: Staging, run: str, there_end: int, live_end: Callable[[], int]
    ) -> None:
        self._output = staging.storage.create(staging.path(run + DAMAGE))
        self._rows: list[tuple[int, ...]] = []
        self._held: list[np.ndarray] = []  # those before, RANGE rows
        self._held_rows = 0
        self._there_end, self._live_end = there_end, live_end
        self._bytes = 0
        self._before: Causes = {}
        self._tail: Causes = {}
        self._last = -1  # where the last range starts
        self._lost_end = self._lost_end_in_tail = -1

    def add(self, damage: Damage) -> None:
        if damage.offset < self._there_end:
            self._add(damage._replace(end=min(damage.end, self._there_end)))

    def _add(self, d: Damage) -> None:
        self._settle()
        self._rows.append(as_row(d))
        if self._held_rows + len(self._rows) >= _ROWS_A_PIECE:
            self._write()
        _count(self._tail, (str(d.kind), int(d.fault), True), 1, d.length)
        self._last = d.offset
        if d.kind != DamageKind.CONTENT:
            self._lost_end_in_tail = d.end

    def add_rows(self, rows: np.ndarray) -> None:
        """Add RANGE rows that a live record follows each."""
        self._settle()
        self._hold()
        self._held.append(rows)
        self._held_rows += len(rows)
        if self._held_rows >= _ROWS_A_PIECE:
            self._write()
        causes = rows["kind"].astype(np.int64) << 8 | rows["fault"]
        lengths = rows["end"] - rows["offset"]
        for cause in np.unique(causes).tolist():
            of = causes == cause
            key = str(KINDS[cause >> 8]), cause & 0xFF, False
            _count(self._before, key, int(np.count_nonzero(of)), int(lengths[of].sum()))
        lost = rows["end"][rows["kind"] != CONTENT]
        if len(lost):
            self._lost_end = max(self._lost_end, int(lost[-1]))

    def _hold(self) -> None:
        if self._rows:
            self._held.append(np.array(self._rows, RANGE))
            self._held_rows += len(self._rows)
            self._rows.clear()

    def _settle(self) -> None:
        """Count ranges as lost, and not as the log's tail, when a live record follows them."""
        if not self._tail or self._last >= self._live_end():
            return
        for (kind, fault, _), (count, length) in self._tail.items():
            _count(self._before, (kind, fault, False), count, length)
        self._tail.clear()
        self._lost_end = max(self._lost_end, self._lost_end_in_tail)

    def finish(self, segment_end: int) -> dict[str, object]:
        """Complete the file. Returns the columns of MAPPED that sum it up."""
        # a record that reaches past the file's end was kept, if it lacks no more than text there
        start = max(self._there_end, self._live_end())
        if start < segment_end:
            kind, fault = DamageKind.MISSING, Fault.MISSING
            self._add(Damage(start, segment_end, kind, fault, 0, None, "segment's end"))
        self._settle()
        self._write()
        self._output.finish(self._bytes)
        causes = [[*key, *counted] for key, counted in [*self._before.items(), *self._tail.items()]]
        return {
            "ranges": self._bytes // RANGE.itemsize,
            "causes": json.dumps(causes),
            "lost_end": self._lost_end,
        }

    def _write(self) -> None:
        self._hold()
        for rows in self._held:
            self._output.write(rows.view(np.uint8))
            self._bytes += rows.nbytes
        self._held.clear()
        self._held_rows = 0


def _count(causes: Causes, cause: tuple[str, int, bool], ranges: int, length: int) -> None:
    counted = causes.setdefault(cause, [0, 0])
    counted[0] += ranges
    counted[1] += length


def range_rows(staging: Staging, run: str) -> Iterator[np.ndarray]:
    """The RANGE rows of a scanned segment, in pieces of bounded size."""
    reader = staging.storage.open(staging.path(run + DAMAGE))
    at, size = 0, reader.state.size
    while at < size:
        raw = np.empty(min(size - at, _ROWS_A_PIECE * RANGE.itemsize), np.uint8)
        reader.read_into(at, raw)
        yield raw.view(RANGE)
        at += len(raw)
    reader.close()


def read_ranges(staging: Staging, run: str, most: int | None = None) -> Iterator[Damage]:
    """The ranges of a scanned segment, at most so many from the first on."""
    return islice((d for rows in range_rows(staging, run) for d in _damages(rows)), most)


def _damages(rows: np.ndarray) -> Iterator[Damage]:
    for offset, end, size, value, has_value, kind, fault, follows in rows.tolist():
        stored = value if has_value else None
        yield Damage(offset, end, KINDS[kind], Fault(fault), size, stored, FOLLOWS[follows])
