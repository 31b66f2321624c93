"""The file in staging with the damaged ranges of a segment: rows of one size, read in pieces."""

import json
from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np

from reput.store_format.damage.queue_ends import Losses, LossReader, ReadPlaces, lost_places
from reput.store_format.damage.ranges import RANGE, Damage, DamageKind, RangeTotals, as_row, damages
from reput.store_format.faults import Fault
from reput.udfs.staging import Staging

DAMAGE = ".damage"
_ROWS_A_PIECE = 1 << 14


class RangeFile:
    """Takes a segment's ranges in order and writes them as they come.

    there_end: where the segment's file ends; later ranges are missing, not damaged.
    live_end: returns where the last live record so far ends; later ranges may be the log's tail.
    """

    def __init__(
        self, staging: Staging, run: str, there_end: int, live_end: Callable[[], int]
    ) -> None:
        self._output = staging.storage.create(staging.path(run + DAMAGE))
        self._rows: list[tuple[int, ...]] = []
        self._held: list[np.ndarray] = []  # earlier ranges, as RANGE rows
        self._held_rows = 0
        self._there_end, self._live_end = there_end, live_end
        self._bytes = 0
        self._totals = RangeTotals(live_end)

    def add(self, damage: Damage) -> None:
        if damage.offset < self._there_end:
            self._add(damage._replace(end=min(damage.end, self._there_end)))

    def _add(self, damage: Damage) -> None:
        self._totals.add(damage)
        self._rows.append(as_row(damage))
        if self._held_rows + len(self._rows) >= _ROWS_A_PIECE:
            self._write()

    def add_rows(self, rows: np.ndarray) -> None:
        """Add RANGE rows, each of which is followed by a live record."""
        self._totals.add_rows(rows)
        self._hold()
        self._held.append(rows)
        self._held_rows += len(rows)
        if self._held_rows >= _ROWS_A_PIECE:
            self._write()

    def _hold(self) -> None:
        if self._rows:
            self._held.append(np.array(self._rows, RANGE))
            self._held_rows += len(self._rows)
            self._rows.clear()

    def finish(self, segment_end: int) -> dict[str, object]:
        """Complete the file. Returns the columns of MAPPED that sum up its ranges."""
        # a record past the file's end is live if it lacks only text there: it is not missing
        start = max(self._there_end, self._live_end())
        if start < segment_end:
            kind, fault = DamageKind.MISSING, Fault.MISSING
            self._add(Damage(start, segment_end, kind, fault, 0, None, "segment's end"))
        self._write()
        self._output.finish(self._bytes)
        return {
            "ranges": self._bytes // RANGE.itemsize,
            "causes": json.dumps(self._totals.causes),
            "lost_end": self._totals.lost_end,
        }

    def _write(self) -> None:
        self._hold()
        for rows in self._held:
            self._output.write(rows.view(np.uint8))
            self._bytes += rows.nbytes
        self._held.clear()
        self._held_rows = 0


def range_rows(staging: Staging, run: str) -> Iterator[np.ndarray]:
    """The RANGE rows of a scanned segment, in pieces of bounded size; none if `run` is ''."""
    if not run:
        return
    reader = staging.storage.open(staging.path(run + DAMAGE))
    at, size = 0, reader.state.size
    while at < size:
        raw = np.empty(min(size - at, _ROWS_A_PIECE * RANGE.itemsize), np.uint8)
        reader.read_into(at, raw)
        yield raw.view(RANGE)
        at += len(raw)
    reader.close()


def read_ranges(staging: Staging, run: str, most: int | None = None) -> Iterator[Damage]:
    """The first ranges of a scanned segment, at most `most`."""
    return islice((d for rows in range_rows(staging, run) for d in damages(rows)), most)


def places_in(staging: Staging) -> ReadPlaces:
    """A function that reads a segment's lost ranges from staging."""
    return lambda loss: lost_places(loss, range_rows(staging, loss.run))


def loss_reader(losses: Losses, staging: Staging) -> LossReader:
    """A reader of how much was lost between two offsets, by the files in staging."""
    return LossReader(losses, places_in(staging))
