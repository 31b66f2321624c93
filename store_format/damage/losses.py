"""How many bytes the log lost between two places: a queue's gaps are measured against them.

A segment's lost ranges are read when they are needed, 16 MB for a million of them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format.damage.ranges import CONTENT
from reput.store_format.layouts import INNER_FIXED_BYTES, RECORD_FIXED_BYTES

Int64s = npt.NDArray[np.int64]

PLACE = np.dtype([("offset", "<i8"), ("length", "<i8")])
_SEGMENTS_HELD = 4


class SegmentLoss(NamedTuple):
    """What was lost in one segment, or in a hole before it: ranges up to the next loss's start.

    run: names the file of the segment's ranges in staging, '' for none. Only ranges that start
    before `end`, the log's end, count. more: further ranges (offset, length); total: the bytes of
    all ranges.
    """

    start: int
    end: int
    run: str
    more: tuple[tuple[int, int], ...]
    total: int


@dataclass(frozen=True)
class Losses:
    """What the whole log lost: an item for each segment with losses, in ascending order.

    from_start: the log begins at physical offset 0, so the first message of each queue was in it.
    """

    segments: tuple[SegmentLoss, ...]
    from_start: bool

    @property
    def any(self) -> bool:
        return bool(self.segments)


NO_LOSSES = Losses((), False)


def most_messages(lost: Any, batch: bool) -> Any:
    """How many messages of a queue these lost bytes held at most: a whole number, or an array.

    A record of a batch queue may have many: as many as a broker counts in its body, which is not
    compressed (SendMessageProcessor.sendBatchMessage).
    """
    alone = lost // RECORD_FIXED_BYTES
    return np.maximum(alone, (lost - RECORD_FIXED_BYTES) // INNER_FIXED_BYTES) if batch else alone


ReadPlaces = Callable[[SegmentLoss], np.ndarray]  # a segment's lost ranges as PLACE rows, in order


class LossReader:
    """Answers how much was lost between two offsets; holds the ranges of a few segments."""

    def __init__(self, losses: Losses, read: ReadPlaces) -> None:
        self._segments, self._read = losses.segments, read
        self.from_start = losses.from_start
        self.any = losses.any
        self._starts = np.array([each.start for each in self._segments], np.int64)
        totals = [each.total for each in self._segments]
        self._before = np.append(0, np.cumsum(np.array(totals, np.int64)))
        self._held: dict[int, tuple[Int64s, Int64s]] = {}

    def between(self, after: Int64s, before: Int64s) -> Int64s:
        """Bytes of the ranges that start in [after, before), for each pair of places."""
        return self._up_to(before) - self._up_to(after)

    def may_take(self, length: int, place: int) -> bool:
        """Whether one range of at least `length` bytes was lost in the segments up to `place`'s.

        What stood before the start of a damaged log is unknown, unless that is physical offset 0.
        """
        if self.any and not self.from_start:
            return True
        return length <= max((most for at, most in self._longest if at <= place), default=0)

    @cached_property
    def _longest(self) -> list[tuple[int, int]]:
        """Where each segment with losses starts, and the bytes of its longest lost range."""
        return [
            (each.start, int(self._read(each)["length"].max(initial=0))) for each in self._segments
        ]

    def _up_to(self, places: Int64s) -> Int64s:
        numbers = np.searchsorted(self._starts, places, side="right") - 1
        found = np.zeros(len(places), np.int64)
        for number in np.unique(numbers[numbers >= 0]).tolist():
            mine = numbers == number
            offsets, sums = self._ranges(number)
            found[mine] = self._before[number] + sums[np.searchsorted(offsets, places[mine])]
        return found

    def _ranges(self, number: int) -> tuple[Int64s, Int64s]:
        """Where a segment's ranges start; the sum of lengths before each, and after the last."""
        if number not in self._held:
            if len(self._held) == _SEGMENTS_HELD:
                del self._held[next(iter(self._held))]
            rows = self._read(self._segments[number])
            sums = np.append(0, np.cumsum(rows["length"].astype(np.int64)))
            self._held[number] = rows["offset"].astype(np.int64), sums
        return self._held[number]


def lost_places(loss: SegmentLoss, ranges: Iterable[np.ndarray]) -> np.ndarray:
    """A segment's lost ranges as PLACE rows, in order; ranges: RANGE rows of its file."""
    parts = [np.array(list(loss.more), PLACE)] if loss.more else []
    for found in ranges:
        lost = found[(found["kind"] != CONTENT) & (found["offset"] < loss.end)]
        rows = np.empty(len(lost), PLACE)
        rows["offset"], rows["length"] = lost["offset"], lost["end"] - lost["offset"]
        parts.append(rows)
    whole = np.concatenate(parts) if parts else np.empty(0, PLACE)
    return whole[np.argsort(whole["offset"], kind="stable")]
