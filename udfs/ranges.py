"""The file in staging with the damaged ranges of a segment: rows of one size, read in pieces."""

import json
from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np

from reput.store_format.damage.tolerant import Damage, Kind
from reput.store_format.faults import Fault
from reput.udfs.staging import Staging

DAMAGE = ".damage"
_ROWS_A_PIECE = 1 << 14
_KINDS = tuple(Kind)
FOLLOWS = ("record", "stale record", "BLANK", "zeros", "segment's end", "the log's end")

# One row for each range; see damage/tolerant.Damage. kind, follows: indices in the tuples above.
RANGE = np.dtype(
    [
        ("offset", "<i8"),
        ("end", "<i8"),
        ("size", "<i8"),
        ("value", "<i8"),
        ("hasValue", "u1"),
        ("kind", "u1"),
        ("fault", "u1"),
        ("follows", "u1"),
    ]
)
CONTENT = _KINDS.index(Kind.CONTENT)

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
        value = d.value if d.value is not None else 0
        row = (d.offset, d.end, d.size, value, d.value is not None, _KINDS.index(d.kind))
        self._rows.append((*row, int(d.fault), FOLLOWS.index(d.follows)))
        if len(self._rows) == _ROWS_A_PIECE:
            self._write()
        counted = self._tail.setdefault((str(d.kind), int(d.fault), True), [0, 0])
        counted[0] += 1
        counted[1] += d.length
        self._last = d.offset
        if d.kind != Kind.CONTENT:
            self._lost_end_in_tail = d.end

    def _settle(self) -> None:
        """Count ranges as lost, and not as the log's tail, when a live record follows them."""
        if not self._tail or self._last >= self._live_end():
            return
        for (kind, fault, _), (count, length) in self._tail.items():
            counted = self._before.setdefault((kind, fault, False), [0, 0])
            counted[0] += count
            counted[1] += length
        self._tail.clear()
        self._lost_end = max(self._lost_end, self._lost_end_in_tail)

    def finish(self, segment_end: int) -> dict[str, object]:
        """Complete the file. Returns the columns of MAPPED that sum it up."""
        if self._there_end < segment_end:
            self._add(Damage(self._there_end, segment_end, Kind.MISSING, Fault.MISSING, 0, None,
                             "segment's end"))  # fmt: skip
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
        raw = np.array(self._rows, RANGE).view(np.uint8)
        self._output.write(raw)
        self._bytes += len(raw)
        self._rows.clear()


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
        told = value if has_value else None
        yield Damage(offset, end, _KINDS[kind], Fault(fault), size, told, FOLLOWS[follows])
