"""Which ranges of the log were lost: offsets and lengths, read from staging files when needed.

A segment's ranges are in a file of its own, 16 MB for a million; the driver has a row a segment.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from reput.udfs.ranges import CONTENT, range_rows
from reput.udfs.staging import Staging

Int64s = npt.NDArray[np.int64]

PLACE = np.dtype([("offset", "<i8"), ("length", "<i8")])
_PIECES_HELD = 4


class LostPiece(NamedTuple):
    """What was lost in one segment, or in a hole before it: the ranges up to the next piece's
    start.

    run: names the file of its ranges in staging, '' for none. Only ranges that start before `end`,
    the log's end, count. more: further ranges (offset, length); total: the bytes of all ranges.
    """

    start: int
    end: int
    run: str
    more: tuple[tuple[int, int], ...]
    total: int


@dataclass(frozen=True)
class Lost:
    """What the whole log lost: a piece for each segment with losses, in ascending order.

    from_start: the log begins at physical offset 0, so the first message of each queue was in it.
    """

    pieces: tuple[LostPiece, ...]
    from_start: bool

    @property
    def any(self) -> bool:
        return bool(self.pieces)


NOTHING_LOST = Lost((), False)


class LostReader:
    """Answers how much was lost between two offsets; holds the ranges of a few segments."""

    def __init__(self, lost: Lost, staging: Staging) -> None:
        self._pieces, self._staging = lost.pieces, staging
        self.from_start = lost.from_start
        self.any = lost.any
        self._starts = np.array([piece.start for piece in lost.pieces], np.int64)
        totals = [piece.total for piece in lost.pieces]
        self._before = np.append(0, np.cumsum(np.array(totals, np.int64)))
        self._held: dict[int, tuple[Int64s, Int64s]] = {}

    def between(self, after: Int64s, before: Int64s) -> Int64s:
        """Bytes of the ranges that start in [after, before), for each pair of places."""
        return self._up_to(before) - self._up_to(after)

    def _up_to(self, places: Int64s) -> Int64s:
        numbers = np.searchsorted(self._starts, places, side="right") - 1
        found = np.zeros(len(places), np.int64)
        for number in np.unique(numbers[numbers >= 0]).tolist():
            mine = numbers == number
            offsets, sums = self._ranges(number)
            found[mine] = self._before[number] + sums[np.searchsorted(offsets, places[mine])]
        return found

    def _ranges(self, number: int) -> tuple[Int64s, Int64s]:
        """Where a piece's ranges start, and the sum of lengths before each range and after the
        last.
        """
        if number not in self._held:
            if len(self._held) == _PIECES_HELD:
                del self._held[next(iter(self._held))]
            rows = places_of(self._staging, self._pieces[number])
            sums = np.append(0, np.cumsum(rows["length"].astype(np.int64)))
            self._held[number] = rows["offset"].astype(np.int64), sums
        return self._held[number]


class LongestLost:
    """The longest range that the log lost, up to a segment; read once, when it is asked for."""

    def __init__(self, lost: Lost | None, staging: Staging) -> None:
        self._pieces, self._staging = lost.pieces if lost else (), staging
        self.from_start = lost is None or lost.from_start

    def up_to(self, place: int) -> int:
        """The bytes of the longest range in the segments up to the one of `place`."""
        return max((most for start, most in self._longest if start <= place), default=0)

    @cached_property
    def _longest(self) -> list[tuple[int, int]]:
        return [
            (piece.start, int(places_of(self._staging, piece)["length"].max(initial=0)))
            for piece in self._pieces
        ]


def places_of(staging: Staging, piece: LostPiece) -> np.ndarray:
    """A piece's ranges as PLACE rows, in order."""
    parts = [np.array(list(piece.more), PLACE)] if piece.more else []
    for found in range_rows(staging, piece.run) if piece.run else ():
        lost = found[(found["kind"] != CONTENT) & (found["offset"] < piece.end)]
        rows = np.empty(len(lost), PLACE)
        rows["offset"], rows["length"] = lost["offset"], lost["end"] - lost["offset"]
        parts.append(rows)
    whole = np.concatenate(parts) if parts else np.empty(0, PLACE)
    return whole[np.argsort(whole["offset"], kind="stable")]
