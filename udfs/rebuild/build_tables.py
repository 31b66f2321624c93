"""Builds the tables of queues in RocksDB from runs. One task makes each table, a range of keys.

Keys are as in RocksDBConsumeQueueTable: an entry's key has its record's own queueOffset. So a
message that the log lacks leaves a hole, and of two records with one queueOffset the later one
counts. Runs and queues are columns, because there may be very many small ones (table_ranges).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reput.store_format.damage.queue_ends import NO_LOSSES, Losses
from reput.store_format.damage.votes import runs_by_vote
from reput.store_format.derived.queue_files import decode_entries
from reput.store_format.faults import SALVAGE
from reput.store_format.layouts import QUEUE_ENTRY_BYTES, ROCKSDB_ENTRY
from reput.udfs.range_files import loss_reader
from reput.udfs.rebuild.new_table import NewTable
from reput.udfs.rebuild.read_runs import Int64s, read_runs
from reput.udfs.rebuild.table_ranges import (
    SHARED,
    RangeStart,
    listed_offsets,
    numbers,
    queue_keys,
    unsigned,
)
from reput.udfs.staged_runs import LOG_ORDER, QUEUE_KEY, StagedRuns, key_of
from reput.udfs.staging import schema

_ENTRIES_A_PUT = 1 << 16

# A row for each queue of each table.
TABLE = schema(
    name=pa.string(),  # of the table, in staging
    topic=pa.string(),
    queue_id=pa.int32(),
    entries=pa.int64(),
    place=pa.int64(),  # physicalOffset of the queue's last entry in the log's order
    position=pa.int64(),  # that entry's queueOffset
    end=pa.int64(),  # where its record ends
)

# SHARED rows of which the first `decided` entries have the queueOffsets decided_from and following.
_DECIDED = SHARED.append(pa.field("decided", pa.int64())).append(
    pa.field("decided_from", pa.int64())
)


@dataclass(frozen=True)
class BuildTables:
    """Writes the table of each range from all SHARED rows of the range; yields TABLE rows."""

    files: StagedRuns
    cuts: tuple[RangeStart, ...]
    losses: Losses = NO_LOSSES

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, rows in _by_range(batches):
            runs = self._decided(rows)
            if runs.num_rows:
                yield from self._built(number, runs)

    def _built(self, number: int, runs: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The table's rows; none if the range has no entry, though runs reach over it."""
        start = self.cuts[number - 1] if number else RangeStart(b"", 0)
        stop = self.cuts[number] if number < len(self.cuts) else None
        begins, queue, runs = _by_queue(runs)
        entries = _entries_of(self.files, queue, runs)
        kept = np.ones(len(entries.rows), np.bool_)
        if begins[0] == start.queue:
            kept &= (entries.queue > 0) | (entries.keys >= np.uint64(start.position))
        if stop is not None and begins[-1] == stop.queue:
            kept &= (entries.queue < len(begins) - 1) | (entries.keys < np.uint64(stop.position))
        if not kept.any():
            return
        entries = entries.some(kept)
        ends = np.flatnonzero(np.append(entries.queue[1:] != entries.queue[:-1], True))
        lasts, first_run = entries.some(ends), np.searchsorted(queue, entries.queue[ends])
        entries = entries.in_order()
        with NewTable(self.files.staging) as table:
            for keys, values in _rows_of(begins, entries):
                table.put_rows(keys, values)
            table.finish()
        named = runs.select(["topic", "queue_id"]).take(pa.array(first_run))
        counts = np.bincount(entries.queue, minlength=len(begins))[lasts.queue]
        place = lasts.rows["physicalOffset"].astype(np.int64)
        columns = [
            [table.name] * len(counts), *named.columns, counts, place, lasts.keys.view(np.int64),
            place + lasts.rows["size"],
        ]  # fmt: skip
        arrays = [pa.array(each, field.type) for each, field in zip(columns, TABLE, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=TABLE)

    def _decided(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The runs; in salvage with decided queueOffsets, for which a range holds whole queues."""
        if self.files.firsts != SALVAGE:
            return rows
        lost, key = loss_reader(self.losses, self.files.staging), key_of(QUEUE_KEY)
        by_queue = sorted(rows.to_pylist(), key=key_of((*QUEUE_KEY, *LOG_ORDER, "entries_at")))
        decided = [
            row
            for _, some in groupby(by_queue, key)
            for row in runs_by_vote(self.files, some, lost) if not row["is_left_out"]
        ]  # fmt: skip
        return pa.RecordBatch.from_pylist(decided, _DECIDED)


def _by_range(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each range. batches: SHARED rows, in the order of their ranges."""
    held: list[pa.RecordBatch] = []
    number = -1
    for rows in batches:
        ranges = numbers(rows, "range")
        cuts = np.flatnonzero(ranges[1:] != ranges[:-1]) + 1
        for start, stop in pairwise([0, *cuts.tolist(), len(ranges)]):
            if held and ranges[start] != number:
                yield number, _joined(held)
                held = []
            number = int(ranges[start])
            held.append(rows.slice(start, stop - start))
    if held:
        yield number, _joined(held)


def _joined(rows: list[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.Table.from_batches(rows).combine_chunks().to_batches()[0]


def _by_queue(runs: pa.RecordBatch) -> tuple[list[bytes], Int64s, pa.RecordBatch]:
    """(key prefix of each queue, number of each run's queue, runs).

    All are in the order of the queues' keys; the runs of a queue are in the log's order.
    """
    keys = queue_keys(runs)
    begins = sorted(set(keys))
    number = dict(zip(begins, range(len(begins)), strict=True))
    queue = np.array([number[key] for key in keys], np.int64)
    log_order = [numbers(runs, name) for name in ("entries_at", *reversed(LOG_ORDER))]
    order = np.lexsort((*log_order, queue))
    return begins, queue[order], runs.take(pa.array(order))


@dataclass(frozen=True)
class _Entries:
    """Entries of a range. queue: each entry's queue; keys: queueOffsets; rows: ROCKSDB_ENTRY."""

    queue: Int64s
    keys: npt.NDArray[np.uint64]
    rows: npt.NDArray[np.void]

    def some(self, which: npt.NDArray[np.bool_] | Int64s | slice) -> "_Entries":
        return _Entries(self.queue[which], self.keys[which], self.rows[which])

    def in_order(self) -> "_Entries":
        """The entries by key; of entries with one key, only the one that was put last."""
        goes_on = (self.queue[1:] > self.queue[:-1]) | (self.keys[1:] > self.keys[:-1])
        if goes_on.all():
            return self
        order = np.lexsort((self.keys, self.queue))  # keeps the log's order among equal keys
        queue, keys = self.queue[order], self.keys[order]
        last = np.append((queue[1:] != queue[:-1]) | (keys[1:] != keys[:-1]), True)
        return self.some(order[last])


def _entries_of(files: StagedRuns, queue: Int64s, runs: pa.RecordBatch) -> _Entries:
    """All entries of some runs, in their order. queue: the number of each run's queue."""
    split, count = numbers(runs, "split"), numbers(runs, "count")
    within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    keys = unsigned(np.repeat(numbers(runs, "first"), count)) + within.astype(np.uint64)
    listed = numbers(runs, "offsets_at") >= 0
    if listed.any():
        keys[np.repeat(listed, count)] = unsigned(
            listed_offsets(files, runs.filter(pa.array(listed)))
        )
    if "decided" in runs.schema.names:
        decided = within < np.repeat(numbers(runs, "decided"), count)
        by_vote = np.repeat(numbers(runs, "decided_from"), count) + within
        keys[decided] = unsigned(by_vote)[decided]
    raw = read_runs(files, split, numbers(runs, "entries_at"), count, QUEUE_ENTRY_BYTES)
    found = decode_entries(raw.reshape(-1))
    rows = np.empty(len(found), ROCKSDB_ENTRY)
    for name in found.dtype.names or ():
        rows[name] = found[name]
    times = read_runs(files, split, numbers(runs, "times_at"), count, 8)
    rows["storeTimestamp"] = times.reshape(-1).view(np.int64)
    return _Entries(np.repeat(queue, count), keys, rows)


def _rows_of(begins: list[bytes], entries: _Entries) -> Iterator[tuple[list[bytes], list[bytes]]]:
    """(keys, values) of entries, some at a time. entries: by key; begins: queues' key prefixes."""
    lengths = np.array([len(queue) for queue in begins], np.int64)[entries.queue]
    ends = np.flatnonzero(np.append(lengths[1:] != lengths[:-1], len(lengths) > 0)) + 1
    at = 0
    for end in ends.tolist():
        for first in range(at, end, _ENTRIES_A_PUT):
            yield _rows_of_one_length(
                begins, entries.some(slice(first, min(first + _ENTRIES_A_PUT, end)))
            )
        at = end


def _rows_of_one_length(
    begins: list[bytes], entries: _Entries
) -> tuple[list[bytes], list[bytes]]:  # fmt: skip
    """The same for queues whose keys have one length."""
    first, last = int(entries.queue[0]), int(entries.queue[-1])
    heads = np.frombuffer(b"".join(begins[first : last + 1]), np.uint8)
    heads = heads.reshape(last + 1 - first, -1)[entries.queue - first]
    positions = entries.keys.astype(">u8").view(np.uint8).reshape(-1, 8)
    keys = np.concatenate([heads, positions], axis=1)
    values = np.ascontiguousarray(entries.rows)
    return (
        keys.reshape(-1).view(f"V{keys.shape[1]}").tolist(),
        values.view(f"V{values.dtype.itemsize}").tolist(),
    )
