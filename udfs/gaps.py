"""Which positions of a queue are missing where the log lost bytes.

Two runs of a queue that follow each other tell: the first one's last queueOffset and the next
one's first. It counts as lost only if bytes for so many messages were lost between them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from store_format.derived.queue_entries import decode_entries
from store_format.layouts import RECORD_FIXED_BYTES
from udfs.queues import QUEUE_KEY, QueueFiles, Row, key_of
from udfs.schemas import rows_of, schema

MOST_GAPS = 100_000  # a task: more are counted, not listed

# One row a gap: positions [first, first + count) of a queue, lost between two places of the log.
GAP = schema(
    topic=pa.string(),
    queue_id=pa.int32(),
    batch=pa.bool_(),
    first=pa.int64(),
    count=pa.int64(),
    after=pa.int64(),  # the physical offset of the queue's record before, -1: none
    before=pa.int64(),  # and of the one after
    more=pa.int64(),  # gaps of the task that are not listed
)


@dataclass(frozen=True)
class Lost:
    """What the log lost: ascending places, and how many bytes from each on.

    from_start: the log begins at physical offset 0, so each queue began in it.
    """

    places: Any  # int64
    lengths: Any  # int64
    from_start: bool

    def between(self, after: int, before: int) -> int:
        """Bytes lost between two places."""
        low, high = np.searchsorted(self.places, (after, before))
        return int(self.lengths[low:high].sum())


@dataclass
class QueueGaps:
    """Follows one queue's runs in the log's order."""

    files: QueueFiles
    lost: Lost
    expected: int | None = None  # the next queueOffset
    place: int = -1  # of the last record

    def __call__(self, row: Row) -> Row | None:
        """The gap in front of this run, if any; the run is taken in."""
        first, last = (self._entry(row, at) for at in (0, row["count"] - 1))
        place = int(first["physicalOffset"])
        expected = self.expected
        if expected is None:
            expected = 0 if self.lost.from_start else row["first"]
        missing = row["first"] - expected
        gap = None
        if missing > 0 and missing * RECORD_FIXED_BYTES <= self.lost.between(self.place, place):
            gap = {
                **{name: row[name] for name in QUEUE_KEY},
                "first": expected, "count": missing, "after": self.place, "before": place,
                "more": 0,
            }  # fmt: skip
        after = row["greatest"] + 1
        if row["batch"]:
            after = int(last["baseOffset"]) + int(last["batchSize"])
        self.expected = max(after, self.expected or 0)
        self.place = int(last["physicalOffset"])
        return gap

    def _entry(self, row: Row, at: int) -> Any:
        return decode_entries(self.files.entries(row, at, at + 1), row["batch"])[0]


@dataclass(frozen=True)
class FindGaps:
    """RUN rows of whole queues, in order, to GAP rows, at most MOST_GAPS a task."""

    files: QueueFiles
    lost: Lost

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found: list[Row] = []
        more = 0
        for _, rows in groupby(rows_of(batches), key_of(QUEUE_KEY)):
            queue = QueueGaps(self.files, self.lost)
            for row in rows:
                gap = queue(row)
                if gap and len(found) < MOST_GAPS:
                    found.append(gap)
                elif gap:
                    more += 1
        if found:
            found[-1]["more"] = more
            yield pa.RecordBatch.from_pylist(found, GAP)
