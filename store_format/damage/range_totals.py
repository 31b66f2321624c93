"""A segment's damaged ranges counted by cause, those of the log's tail apart."""

from collections.abc import Callable

import numpy as np

from reput.store_format.damage.ranges import CONTENT, KINDS, Damage, DamageKind

Causes = dict[tuple[str, int, bool], list[int]]  # (kind, fault, in the tail) -> [ranges, bytes]


class RangeTotals:
    """Counts ranges as they come, in the log's order.

    live_end: returns where the last live record so far ends; ranges after it are the log's tail,
    unless a live record still follows.
    """

    def __init__(self, live_end: Callable[[], int]) -> None:
        self._live_end = live_end
        self._before: Causes = {}
        self._tail: Causes = {}
        self._last = -1  # where the last range starts
        self._lost_end = self._lost_end_in_tail = -1

    @property
    def causes(self) -> list[list[object]]:
        """[kind, fault, in the tail, ranges, bytes] of each cause."""
        self._settle()
        return [[*key, *counted] for key, counted in [*self._before.items(), *self._tail.items()]]

    @property
    def lost_end(self) -> int:
        """Where the last lost range before the tail ends; -1 where none is."""
        self._settle()
        return self._lost_end

    def add(self, damage: Damage) -> None:
        self._settle()
        _count(self._tail, (str(damage.kind), int(damage.fault), True), 1, damage.length)
        self._last = damage.offset
        if damage.kind != DamageKind.CONTENT:
            self._lost_end_in_tail = damage.end

    def add_rows(self, rows: np.ndarray) -> None:
        """Count RANGE rows, each followed by a live record."""
        self._settle()
        causes = rows["kind"].astype(np.int64) << 8 | rows["fault"]
        lengths = rows["end"] - rows["offset"]
        for cause in np.unique(causes).tolist():
            of = causes == cause
            key = str(KINDS[cause >> 8]), cause & 0xFF, False
            _count(self._before, key, int(np.count_nonzero(of)), int(lengths[of].sum()))
        lost = rows["end"][rows["kind"] != CONTENT]
        if len(lost):
            self._lost_end = max(self._lost_end, int(lost[-1]))

    def _settle(self) -> None:
        """Once a live record follows the tail's ranges, count them as ranges before the tail."""
        if not self._tail or self._last >= self._live_end():
            return
        for (kind, fault, _), (count, length) in self._tail.items():
            _count(self._before, (kind, fault, False), count, length)
        self._tail.clear()
        self._lost_end = max(self._lost_end, self._lost_end_in_tail)


def _count(causes: Causes, cause: tuple[str, int, bool], ranges: int, length: int) -> None:
    counted = causes.setdefault(cause, [0, 0])
    counted[0] += ranges
    counted[1] += length
