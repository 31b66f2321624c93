"""Builds the queues of a store with few runs: each task takes its share of the queues.

If the lists of runs are short, every task can read all of them. Then no row goes through Spark
between listing, numbering and building, and its query is as plain as a scan's.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from reput.udfs.rebuild.build_queues import BuildQueueFiles, NumberRuns
from reput.udfs.staged_runs import LOG_ORDER, QUEUE_KEY, ListRuns
from reput.udfs.staging import ids_of


@dataclass(frozen=True)
class BuildShares:
    """Builds all files of the queues in each share in `id`; yields BUILT rows."""

    number: NumberRuns
    shares: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        build = BuildQueueFiles(self.number.files)
        for share in ids_of(batches):
            # All runs are numbered before a file is built, because building reads what `number`
            # writes to staging. Runs are numbered by segment, so a queue's rows come in order.
            placed = list(self.number(self._runs(share)))
            yield from build(iter(placed))

    def _runs(self, share: int) -> Iterator[pa.RecordBatch]:
        """The RUN rows of a share: whole queues, each in the log's order."""
        files = self.number.files
        splits = pa.RecordBatch.from_pydict({"id": sorted(files.runs)})
        listed = ListRuns(files.staging, files.runs)(iter([splits]))
        mine = [rows.filter(pa.array(_shares(rows, self.shares) == share)) for rows in listed]
        if mine:
            order = [(name, "ascending") for name in (*QUEUE_KEY, *LOG_ORDER)]
            yield from pa.Table.from_batches(mine).sort_by(order).to_batches()


def _shares(rows: pa.RecordBatch, shares: int) -> Any:
    """The share of each row, by its queue. A topic's queues go to the shares in turn."""
    topics = rows.column("topic").dictionary_encode()
    first = np.array([zlib.crc32(topic.encode()) for topic in topics.dictionary.to_pylist()])
    queues = np.asarray(rows.column("queue_id"))
    return (first[np.asarray(topics.indices)] + queues) % shares
