"""Which records of an old log go where in the new one, split by split."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format.files.protocol import Storage
from reput.store_format.log.records import RecordRules
from reput.store_format.log.segments import Segment
from reput.store_format.rewrite.placing import place
from reput.store_format.rewrite.selection import Changes
from reput.udfs.convert.measure_splits import measured_records
from reput.udfs.staging import Staging, read_range

# Files of a split whose records were ordered before: the new physical offset of each record, and
# its new queueOffset (-1: it keeps its own); int64.
PLACES, NUMBERS = ".places", ".numbers"
_SPLITS_HELD = 4

Numbers = npt.NDArray[np.int64]


class Piece(NamedTuple):
    """A split of an old log, of which records are taken."""

    start: int  # the physical offset of the split in its log
    first: int  # physical offset of its first record that is taken
    run: str  # the name of its files in staging
    taken: int  # records
    at: int  # where the new log ends before the first of these records
    segment: Segment  # that the split is in
    longest: int  # bytes of the longest record, before or after


@dataclass(frozen=True)
class OldLog:
    """A log that is written anew: which records are taken, what changes. end: of its records."""

    storage: Storage
    rules: RecordRules
    split_properties: bool
    changes: Changes
    pieces: tuple[Piece, ...]
    start: int
    end: int
    ordered: bool = False  # places and queueOffsets were worked out before, and are in staging


class Placed(NamedTuple):
    """The records of a piece.

    offsets: old physical offsets; places: new ones; sizes: new sizes, in bytes;
    numbers: new queueOffsets, -1 for a record that keeps its own.
    """

    offsets: Numbers
    places: Numbers
    sizes: Numbers
    numbers: Numbers

    def between(self, first: int, stop: int) -> "Placed":
        return Placed(*(each[first:stop] for each in self))


class PlacedRecords:
    """Reads where the records of an old log go. Holds a few splits."""

    def __init__(self, staging: Staging, log: OldLog, segment_bytes: int) -> None:
        """segment_bytes: of the new log's segments."""
        self._staging, self._log, self._segment_bytes = staging, log, segment_bytes
        self._starts = np.array([piece.first for piece in log.pieces], np.int64)
        self._held: OrderedDict[int, Placed] = OrderedDict()

    def of(self, number: int) -> Placed:
        """The records of a piece by its number."""
        if number in self._held:
            self._held.move_to_end(number)
            return self._held[number]
        piece = self._log.pieces[number]
        measured = measured_records(self._staging, piece.run, piece.taken)
        if self._log.ordered:
            places, numbers = self._column(piece, PLACES), self._column(piece, NUMBERS)
        else:
            places, _, _ = placed(measured, piece.at, self._segment_bytes)
            numbers = np.full(len(places), -1)
        offsets = measured["offset"].astype(np.int64) + piece.start
        found = Placed(offsets, places, measured["size"].astype(np.int64), numbers)
        self._held[number] = found
        if len(self._held) > _SPLITS_HELD:
            self._held.popitem(last=False)
        return found

    def _column(self, piece: Piece, suffix: str) -> Numbers:
        return read_range(self._staging, piece.run + suffix, 0, 8 * piece.taken).view(np.int64)

    def links(self, offsets: Numbers) -> Numbers:
        """The new physical offsets for links, which are old ones. 0 is no link, and stays."""
        return np.where(offsets == 0, 0, self.found(offsets)[0])

    def found(self, offsets: Numbers) -> tuple[Numbers, Numbers]:
        """The new physical offsets for old ones, and the new size of each record.

        An offset out of the log, as of an expired record, stays. One at which no record is that is
        taken becomes 0. In both cases the size is 0.
        """
        places, sizes = offsets.copy(), np.zeros(len(offsets), np.int64)
        log = self._log
        asked = np.flatnonzero((offsets >= log.start) & (offsets < log.end))
        numbers = np.searchsorted(self._starts, offsets[asked], "right") - 1
        places[asked] = 0
        for number in np.unique(numbers[numbers >= 0]).tolist():
            records = self.of(number)
            some = asked[numbers == number]
            at = np.searchsorted(records.offsets, offsets[some])
            at = np.minimum(at, len(records.offsets) - 1)
            hit = records.offsets[at] == offsets[some]
            places[some[hit]], sizes[some[hit]] = records.places[at[hit]], records.sizes[at[hit]]
        return places, sizes


def placed(measured: Any, at: int, segment_bytes: int) -> tuple[Numbers, Numbers, int]:
    """(new physical offsets of MEASURED_RECORD rows, indices of those that begin a segment, where
    the last one ends). at: where the new log ends before the first.
    """
    places = np.empty(len(measured), np.int64)
    begins = np.empty(len(measured), np.int64)
    end, count = place(measured["size"], at, segment_bytes, places, begins)
    return places, begins[:count], end
