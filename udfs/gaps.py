"""Finds the positions that a queue lost where the log lost bytes, and wrong first queueOffsets.

If two neighbouring entries of a queue do not have neighbouring queueOffsets, those between may be
lost. They count as lost only if the log lost enough bytes for so many messages between the two.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from reput.store_format.derived.queue_entries import decode_entries
from reput.store_format.layouts import RECORD_FIXED_BYTES
from reput.udfs.lost import Lost, LostReader
from reput.udfs.queues import GAP_COUNT, QUEUE_KEY, QueueFiles, Row, key_of, opened
from reput.udfs.schemas import in_batches, rows_of, schema
from reput.udfs.staging import LineFile

_CREDIBLE = 1 << 62  # a queueOffset beyond it, or below 0, says nothing of what is lost

# One row for each gap: positions [first, first + count) of a queue, lost between two records.
GAP = schema(
    topic=pa.string(),
    queue_id=pa.int32(),
    batch=pa.bool_(),
    first=pa.int64(),
    count=pa.int64(),
    after=pa.int64(),  # the physical offset of the queue's record before, -1: none
    before=pa.int64(),  # and of the one after
    # The row is no gap but an Opening (damage/openings): the queue's first `count` records, from
    # offset `before` on, have wrong queueOffsets, of which `value` is the first. They count as
    # `first`, first + 1, ...
    decided=pa.bool_(),
    value=pa.int64(),
    more=pa.int64(),  # only in a task's last row: how many rows and positions are not listed
    more_positions=pa.int64(),
    lines=pa.string(),  # and the name of its file in staging, '' where there is none
)
GAP_TOLD = ("topic", "queue_id", "batch", "first", "count", "after", "before")


@dataclass(frozen=True)
class RunGaps:
    """The gaps in one run and before it, as arrays with an item for each gap (see GAP)."""

    counts: Any  # GAP_COUNT
    first: Any
    after: Any
    before: Any


class QueueGaps:
    """Follows one queue's runs in the log's order."""

    def __init__(self, files: QueueFiles, lost: LostReader) -> None:
        self.files, self.lost = files, lost
        self.expected: int | None = None  # the next queueOffset
        self.place = -1  # of the last record

    def __call__(self, row: Row) -> np.ndarray:
        """The GAP_COUNT rows for NumberRuns; none in a batch queue, whose positions do not follow
        queueOffsets.
        """
        counts: np.ndarray = self.of(row).counts
        return counts[:0] if row["batch"] else counts

    def of(self, row: Row) -> RunGaps:
        """The gaps of the queue's next run."""
        offsets, ends, places = self._told(row)
        expected = self.expected
        if expected is None:
            expected = 0 if self.lost.from_start else int(offsets[0])
        credible = (offsets >= 0) & (offsets < _CREDIBLE) & (ends < _CREDIBLE)
        reached = np.maximum.accumulate(np.append(expected, np.where(credible, ends, 0)))
        wanted, places_before = reached[:-1], np.append(self.place, places[:-1])
        maybe = np.flatnonzero(credible & (offsets > wanted))
        missing = offsets[maybe] - wanted[maybe]
        lost = self.lost.between(places_before[maybe], places[maybe])
        sure = missing <= lost // RECORD_FIXED_BYTES
        at = maybe[sure]
        counts = np.zeros(len(at), GAP_COUNT)
        counts["index"], counts["count"] = at, missing[sure]
        self.expected, self.place = int(reached[-1]), int(places[-1])
        return RunGaps(counts, wanted[at], places_before[at], places[at])

    def _told(self, row: Row) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of the run's entries that may have a gap before them: their queueOffsets, the offsets
        that follow, and the physical offsets.

        In a consecutive run only the first entry may have one; the last one's offset is added.
        """
        if row["batch"]:
            entries = decode_entries(self.files.entries(row, 0, row["count"]), True)
            base = entries["baseOffset"].astype(np.int64)
            return base, base + entries["batchSize"], entries["physicalOffset"].astype(np.int64)
        offsets = self.files.offsets(row)
        if not len(offsets):
            first, last = (
                decode_entries(self.files.entries(row, at, at + 1))["physicalOffset"][0]
                for at in (0, row["count"] - 1)
            )
            known = np.array([row["first"], row["greatest"]][: row["count"]], np.int64)
            known_ends = [row["greatest"]] if row["count"] > 1 else []
            known_ends.append(min(row["greatest"], _CREDIBLE) + 1)
            after = np.array(known_ends, np.int64)
            return known, after, np.array([first, last][: row["count"]], np.int64)
        entries = decode_entries(self.files.entries(row, 0, row["count"]))
        ends = np.where(offsets < _CREDIBLE, offsets, 0) + 1
        return offsets, ends, entries["physicalOffset"].astype(np.int64)


def queue_gaps(files: QueueFiles, lost: Lost) -> Callable[[], QueueGaps]:
    """What NumberRuns calls for each queue of a task to get a QueueGaps."""
    reader = LostReader(lost, files.staging)
    return lambda: QueueGaps(files, reader)


@dataclass(frozen=True)
class FindGaps:
    """Turns RUN rows of whole queues, in order, into GAP rows; of a task the first `most` by
    offset.

    lines: also write all of them as JSON lines into a file in staging.
    """

    files: QueueFiles
    lost: Lost
    most: int
    lines: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found, openings = _First(self.most), _First(self.most)
        lines = LineFile(self.files.staging) if self.lines else None
        for row in self._found(rows_of(batches)):
            (openings if row["decided"] else found).add(row)
            if lines:
                lines.add({"type": "missing", **{name: row[name] for name in GAP_TOLD}})
        listed = found.listed() + openings.listed()
        if listed:
            listed[-1]["more"] = found.dropped + openings.dropped
            listed[-1]["more_positions"] = found.positions
            listed[-1]["lines"] = lines.finish() if lines else ""
        yield from in_batches(iter(listed), GAP)

    def _found(self, rows: Iterator[Row]) -> Iterator[Row]:
        lost = LostReader(self.lost, self.files.staging)
        for _, runs in groupby(rows, key_of(QUEUE_KEY)):
            queue = QueueGaps(self.files, lost)
            decided: Row | None = None
            for row in opened(self.files, runs):
                told = {
                    **{name: row[name] for name in QUEUE_KEY},
                    "more": 0,
                    "more_positions": 0,
                    "lines": "",
                }
                if row["decided"]:
                    if decided is None:
                        place = decode_entries(self.files.entries(row, 0, 1))["physicalOffset"]
                        decided = {
                            **told, "first": row["decided_from"], "count": 0, "after": -1,
                            "before": int(place[0]), "decided": True, "value": row["first"],
                        }  # fmt: skip
                    decided["count"] += row["decided"]
                elif decided:
                    yield decided
                    decided = None
                if not self.lost.any:
                    if decided is None:
                        break
                    continue
                gaps = queue.of(row)
                for i in range(len(gaps.counts)):
                    yield {
                        **told, "first": int(gaps.first[i]), "count": int(gaps.counts["count"][i]),
                        "after": int(gaps.after[i]), "before": int(gaps.before[i]),
                        "decided": False, "value": 0,
                    }  # fmt: skip
            if decided:
                yield decided
            for _ in runs:  # read the rest of the queue's runs, so that groupby goes on
                pass


class _First:
    """Keeps the first `most` GAP rows by their offsets in the log; they may come in any order."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rows: list[Row] = []
        self.dropped = self.positions = 0

    def add(self, row: Row) -> None:
        self._rows.append(row)
        if len(self._rows) >= 2 * self._most:
            self._cut()

    def listed(self) -> list[Row]:
        self._cut()
        return self._rows

    def _cut(self) -> None:
        self._rows.sort(key=gap_order)
        self.dropped += len(self._rows[self._most :])
        self.positions += sum(row["count"] for row in self._rows[self._most :])
        del self._rows[self._most :]


def gap_order(row: Row) -> tuple[int, str, int, int]:
    return row["after"], row["topic"], row["queue_id"], row["first"]
