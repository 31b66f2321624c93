"""The positions that a queue lost where the log lost bytes.

If two neighbouring entries of a queue do not have neighbouring queueOffsets, the queueOffsets
between may be lost. They count as lost only if the log lost enough bytes for all their messages
between the two records.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from reput.store_format.damage.losses import LossReader, most_messages
from reput.store_format.damage.run_reader import Run, RunReader, all_entries, place_of

# Before the run's entry number `index`, `count` positions are lost.
GAP_COUNT = np.dtype([("index", "<i8"), ("count", "<i8")])
NO_GAPS = np.empty(0, GAP_COUNT)

_MOST_UNEXPLAINED = 2  # messages missing where the log lost too few bytes; more are a leap
_CREDIBLE = 1 << 62  # a queueOffset from here on, or below 0, shows no gap


@dataclass(frozen=True)
class RunGaps:
    """Gaps in one run and before it, as arrays with an item for each gap.

    counts: GAP_COUNT; first: the gap's first position; after, before: the physical offsets of the
    queue's records around it, -1 for none.
    """

    counts: Any
    first: Any
    after: Any
    before: Any


_NONE = np.empty(0, np.int64)
_NO_RUN_GAPS = RunGaps(NO_GAPS, _NONE, _NONE, _NONE)


class QueueGaps:
    """Follows one queue's runs in the log's order."""

    def __init__(self, files: RunReader, lost: LossReader) -> None:
        self.files, self.lost = files, lost
        self.expected: int | None = None  # the next queueOffset
        # The last record's physical offset; None: it has to be read from the last run's entries.
        self._place: int | None = -1
        self._last: Run = {}

    def __call__(self, run: Run) -> np.ndarray:
        """GAP_COUNT rows for NumberRuns; none in a batch queue (positions are no queueOffsets)."""
        counts: np.ndarray = self.of(run)[0].counts
        return NO_GAPS if run["batch"] else counts

    @property
    def place(self) -> int:
        """The physical offset of the queue's last record."""
        if self._place is None:
            self._place = place_of(self.files, self._last, self._last["count"] - 1)
        return self._place

    def of(self, run: Run) -> tuple[RunGaps, RunGaps]:
        """(lost positions, gaps where the log lost too few bytes) of the queue's next run."""
        if self._just_goes_on(run):
            assert self.expected is not None
            self.expected += run["count"]
            self._place, self._last = None, run
            return _NO_RUN_GAPS, _NO_RUN_GAPS
        offsets, ends, places = self._asked_entries(run)
        expected = self.expected
        if expected is None:
            expected = 0 if self.lost.from_start else int(offsets[0])
        credible = (offsets >= 0) & (offsets < _CREDIBLE) & (ends < _CREDIBLE)
        reached = np.maximum.accumulate(np.append(expected, np.where(credible, ends, 0)))
        wanted, places_before = reached[:-1], np.append(self.place, places[:-1])
        maybe = np.flatnonzero(credible & (offsets > wanted))
        missing = offsets[maybe] - wanted[maybe]
        lost = self.lost.between(places_before[maybe], places[maybe])
        sure = missing <= most_messages(lost, run["batch"])
        if self.files.damage.no_room:
            key = run["topic"], run["queue_id"]
            kept = [(*key, place) in self.files.damage.no_room for place in places[maybe].tolist()]
            sure |= np.array(kept, np.bool_)
        self.expected, self._place = int(reached[-1]), int(places[-1])

        def gaps(these: Any) -> RunGaps:
            at = maybe[these]
            counts = np.zeros(len(at), GAP_COUNT)
            counts["index"], counts["count"] = at, missing[these]
            return RunGaps(counts, wanted[at], places_before[at], places[at])

        return gaps(sure), gaps(~sure & (missing <= _MOST_UNEXPLAINED))

    def _just_goes_on(self, run: Run) -> bool:
        """Whether a run has no gap, as almost all have: then its entries are not even read."""
        goes_on = run["offsets_at"] < 0 and run["first"] == self.expected
        return bool(
            goes_on and not run["batch"] and not run["decided"] and run["first"] >= 0
            and run["greatest"] < _CREDIBLE
        )  # fmt: skip

    def _asked_entries(self, run: Run) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(queueOffsets, next queueOffsets, physicalOffsets) of entries that may follow a gap.

        In a consecutive run only the first entry may; the last one is added for its offsets.
        """
        if run["batch"]:
            entries = all_entries(self.files, run)
            base = entries["baseOffset"].astype(np.int64)
            return base, base + entries["batchSize"], entries["physicalOffset"].astype(np.int64)
        offsets = self.files.offsets(run)
        if len(offsets):
            places = all_entries(self.files, run)["physicalOffset"].astype(np.int64)
            return offsets, np.where(offsets < _CREDIBLE, offsets, 0) + 1, places
        last = run["count"] - 1
        asked = [(0, run["first"])] if last == 0 else [(0, run["first"]), (last, run["greatest"])]
        ends = [run["greatest"]] if last else []
        ends.append(min(run["greatest"], _CREDIBLE) + 1)
        places = np.array([place_of(self.files, run, number) for number, _ in asked], np.int64)
        return np.array([offset for _, offset in asked], np.int64), np.array(ends, np.int64), places
