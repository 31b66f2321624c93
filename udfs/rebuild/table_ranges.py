"""Where the tables of queues in RocksDB begin and end: each has a range of keys.

`CountRuns` counts the entries of each queue, `cuts_of` returns where ranges begin, and `ShareRuns`
gives each run to the ranges that it reaches into. A store may have hundred thousands of queues with
a few entries each, so runs are columns here.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reput.store_format.rocksdb.queues import queue_key, queue_of_topic, topic_key
from reput.udfs.rebuild.read_runs import Int64s, read_runs
from reput.udfs.staged_runs import LOG_ORDER, QUEUE_KEY, Row, StagedRuns, key_of
from reput.udfs.staging import RUN, schema

_ROWS_AT_ONCE = 1 << 17
_SIGN = np.int64(-1 << 63)

# A row for each queue of a task: its entries there, its first run, and its least and greatest
# queueOffset. Keys order queueOffsets as unsigned numbers; these columns have them less 1 << 63.
COUNTED = schema(
    topic=pa.string(), queue_id=pa.int32(), batch=pa.bool_(),
    split=pa.int64(), part=pa.int32(), entries_at=pa.int64(),
    first=pa.int64(), entries=pa.int64(), least=pa.int64(), greatest=pa.int64(),
)  # fmt: skip
_FIRST_RUN = ("split", "part", "entries_at", "first")

# A row for each run and range that it reaches into.
SHARED = RUN.append(pa.field("range", pa.int64()))


class RangeStart(NamedTuple):
    """A key at which a range begins: the queue's key prefix, and an unsigned queueOffset."""

    queue: bytes
    position: int


def unsigned(offsets: Int64s) -> npt.NDArray[np.uint64]:
    """The offsets as unsigned numbers, whose order is that of their big-endian bytes."""
    return offsets.view(np.uint64)


def numbers(rows: pa.RecordBatch, name: str) -> Int64s:
    return np.asarray(rows.column(name)).astype(np.int64, copy=False)


def listed_offsets(files: StagedRuns, rows: pa.RecordBatch) -> Int64s:
    """The queueOffsets of RUN rows that all have `offsets_at`, one run after the other."""
    split, at, count = (numbers(rows, name) for name in ("split", "offsets_at", "count"))
    found: Int64s = read_runs(files, split, at, count, 8).reshape(-1).view(np.int64)
    return found


def queue_keys(rows: pa.RecordBatch) -> list[bytes]:
    """The key prefix of each row's queue."""
    topics = rows.column("topic").dictionary_encode()
    known = [topic_key(topic) for topic in topics.dictionary.to_pylist()]
    ids = np.asarray(rows.column("queue_id")).astype(">i4").view("V4").tolist()
    return [
        queue_of_topic(known[topic], queue_id)
        for topic, queue_id in zip(topics.indices.to_pylist(), ids, strict=True)
    ]


@dataclass(frozen=True)
class CountRuns:
    """COUNTED rows of the RUN rows that arrive, which are in the log's order."""

    files: StagedRuns

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: list[pa.RecordBatch] = []
        for batch in batches:
            if not batch.num_rows:
                continue
            held.append(self._counted(batch))
            # a merge costs a step for each queue: so it waits for as many new rows
            if sum(each.num_rows for each in held[1:]) >= max(_ROWS_AT_ONCE, held[0].num_rows):
                held = [_merged(held)]
        if held:
            yield _merged(held)

    def _counted(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        least, greatest = _bounds(self.files, rows)
        found = {name: rows.column(name) for name in (*QUEUE_KEY, *_FIRST_RUN)}
        found["entries"] = rows.column("count")
        found["least"] = pa.array(least.view(np.int64) ^ _SIGN)
        found["greatest"] = pa.array(greatest.view(np.int64) ^ _SIGN)
        return pa.RecordBatch.from_arrays([found[name] for name in COUNTED.names], schema=COUNTED)


def _merged(counted: list[pa.RecordBatch]) -> pa.RecordBatch:
    """A row for each queue of COUNTED rows, which are in the log's order."""
    rows = pa.Table.from_batches(counted).group_by(list(QUEUE_KEY), use_threads=False)
    kinds = {**dict.fromkeys(_FIRST_RUN, "first"), "entries": "sum", "least": "min",
             "greatest": "max"}  # fmt: skip
    found = rows.aggregate(list(kinds.items()))
    columns = [found[name] for name in QUEUE_KEY]
    columns += [found[f"{name}_{kind}"] for name, kind in kinds.items()]
    table = pa.Table.from_arrays(columns, names=[*QUEUE_KEY, *kinds]).select(COUNTED.names)
    return table.cast(COUNTED).combine_chunks().to_batches()[0]


def merged(one: Row, other: Row) -> Row:
    """Two COUNTED rows of one queue as one."""
    first = min(one, other, key=key_of(LOG_ORDER))
    return {
        **first,
        "entries": one["entries"] + other["entries"],
        "least": min(one["least"], other["least"]),
        "greatest": max(one["greatest"], other["greatest"]),
    }


def _bounds(files: StagedRuns, rows: pa.RecordBatch) -> tuple[Any, Any]:
    """The least and greatest queueOffset of each run, unsigned."""
    first, count = numbers(rows, "first"), numbers(rows, "count")
    last = first + count - 1
    wraps = (first < 0) & (last >= 0)
    least, greatest = unsigned(np.where(wraps, 0, first)), unsigned(np.where(wraps, -1, last))
    listed = numbers(rows, "offsets_at") >= 0
    if listed.any():
        offsets = unsigned(listed_offsets(files, rows.filter(pa.array(listed))))
        starts = np.cumsum(count[listed]) - count[listed]
        least[listed] = np.minimum.reduceat(offsets, starts)
        greatest[listed] = np.maximum.reduceat(offsets, starts)
    return least, greatest


def cuts_of(queues: Iterable[Row], ranges: int, most: int, whole: bool) -> tuple[RangeStart, ...]:
    """The start of each range but the first; ranges have about as many entries each.

    queues: COUNTED rows, one for each queue. ranges: about how many are wanted.
    most: entries in a range, if its keys are evenly spread; whole: no queue is split.
    """
    rows = sorted(((queue_key(row["topic"], row["queue_id"]), row) for row in queues),
                  key=lambda each: each[0])  # fmt: skip
    total = sum(row["entries"] for _, row in rows)
    wanted = max(1, min(most, -(-total // max(ranges, 1))))
    cuts: list[RangeStart] = []
    held = 0
    for key, row in rows:
        entries = row["entries"]
        if held and held + entries > wanted:
            cuts.append(RangeStart(key, 0))
            held = 0
        pieces = 1 if whole else -(-entries // wanted)
        low, high = row["least"] + (1 << 63), row["greatest"] + (1 << 63) + 1
        places = {low + (high - low) * piece // pieces for piece in range(1, pieces)} - {low}
        cuts += [RangeStart(key, place) for place in sorted(places)]
        held = held + entries if pieces == 1 else entries // pieces
    return tuple(cuts)


@dataclass(frozen=True)
class ShareRuns:
    """SHARED rows of the RUN rows that arrive."""

    files: StagedRuns
    cuts: tuple[RangeStart, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in batches:
            if rows.num_rows:
                yield self._shared(rows)

    def _shared(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        keys, ends = queue_keys(rows), _bounds(self.files, rows)
        low, high = (
            np.array(
                [bisect_right(self.cuts, each) for each in zip(keys, end.tolist(), strict=True)],
                np.int64,
            )
            for end in ends
        )
        times = high - low + 1
        row = np.repeat(np.arange(len(keys)), times)
        number = np.arange(len(row)) - np.repeat(np.cumsum(times) - times, times) + low[row]
        columns = [*rows.take(pa.array(row)).columns, pa.array(number)]
        return pa.RecordBatch.from_arrays(columns, schema=SHARED)
