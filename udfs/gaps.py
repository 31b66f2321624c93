"""Which positions of a queue are missing where the log lost bytes, and how queues begin.

Two entries of a queue that follow each other tell: the first one's queueOffset and the next
one's. What is between them counts as lost only if bytes for so many messages were.
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

# One row a gap: positions [first, first + count) of a queue, lost between two places of the log.
GAP = schema(
    topic=pa.string(),
    queue_id=pa.int32(),
    batch=pa.bool_(),
    first=pa.int64(),
    count=pa.int64(),
    after=pa.int64(),  # the physical offset of the queue's record before, -1: none
    before=pa.int64(),  # and of the one after
    # Not a gap: the queue's first `count` records, from place `before` on, say impossible
    # queueOffsets (`value`, the first); they count as `first`, first + 1, ...
    decided=pa.bool_(),
    value=pa.int64(),
    more=pa.int64(),  # the last row of a task: rows, positions that are not listed
    more_positions=pa.int64(),
    lines=pa.string(),  # and the name of its file in staging, '' where there is none
)
GAP_TOLD = ("topic", "queue_id", "batch", "first", "count", "after", "before")


@dataclass(frozen=True)
class RunGaps:
    """The gaps in and before one run: arrays, one item each; see GAP and queues.GAP_COUNT."""

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
        """As NumberRuns wants them: none in a batch queue, whose positions are no queueOffsets."""
        counts: np.ndarray = self.of(row).counts
        return counts[:0] if row["batch"] else counts

    def of(self, row: Row) -> RunGaps:
        """The gaps of this run, which is taken in."""
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
        """queueOffsets, the next ones, and places, of a run's entries that can have a gap before.

        Of a consecutive run only the first can: it is given with the last one's place.
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
    """For NumberRuns: follows a queue's gaps, one queue after the other, in one task."""
    reader = LostReader(lost, files.staging)
    return lambda: QueueGaps(files, reader)


@dataclass(frozen=True)
class FindGaps:
    """RUN rows of whole queues, in order, to GAP rows: the first `most` of a task by their places.

    lines: all of them go as JSON lines into a file of staging as well.
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
            for _ in runs:  # groupby goes on only behind them
                pass


class _First:
    """The first rows by their places, at most `most`, whatever order they come in; see GAP."""

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
