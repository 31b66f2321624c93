"""Builds the tables of queues in RocksDB from runs: the range of keys of each, its rows."""

import os
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from reput.store_format.damage.queue_ends import NO_LOSSES, Losses
from reput.store_format.damage.votes import runs_by_vote
from reput.store_format.derived.queue_files import decode_entries
from reput.store_format.faults import SALVAGE
from reput.store_format.files.private import Scratch, scratch_folder
from reput.store_format.layouts import QUEUE_ENTRY_BYTES, ROCKSDB_ENTRY
from reput.store_format.rocksdb.database import TableWriter, table_options
from reput.store_format.rocksdb.queues import queue_of_topic, topic_key
from reput.udfs.range_files import loss_reader
from reput.udfs.rebuild.carried import Int64s, run_items, whole
from reput.udfs.rebuild.runs import LOG_ORDER, QUEUE_KEY, StagedRuns, key_of
from reput.udfs.staging import RUN, TIMED, Staging, local_folder, rows_in, schema, table_file_name

# ---
# Where the tables of queues in RocksDB begin and end: each has a range of keys.
#
# `CountRuns` counts the entries of each queue, `cuts_of` returns where ranges begin, and
# `ShareRuns` gives each run to the ranges that it reaches into. A store may have hundred thousands
# of queues with a few entries each, so runs are columns here.

_ROWS_AT_ONCE = 1 << 17
_KEYS_AT_ONCE = 1 << 16
_SIGN = np.int64(-1 << 63)

# A row for each queue of a task: its entries there, its first run, its least, greatest and last
# queueOffset, and how many entries have queueOffset 0: more than one where the topic was made
# again. Keys order queueOffsets as unsigned numbers; these columns have them less 1 << 63.
COUNTED = schema(
    topic=pa.string(), queue_id=pa.int32(), batch=pa.bool_(),
    split=pa.int64(), part=pa.int32(), entries_at=pa.int64(),
    first=pa.int64(), entries=pa.int64(), least=pa.int64(), greatest=pa.int64(),
    last=pa.int64(), zeros=pa.int64(),
)  # fmt: skip
_FIRST_RUN = ("split", "part", "entries_at", "first")

# A row for each run and range that it reaches into, of runs with or without their bytes.
SHARED, CARRYING = (each.append(pa.field("range", pa.int64())) for each in (RUN, TIMED))


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
    raw = run_items(files, rows, "offsets_at", 8, before=QUEUE_ENTRY_BYTES)
    found: Int64s = raw.reshape(-1).view(np.int64)
    return found


def queue_keys(rows: pa.RecordBatch) -> list[bytes]:
    topics = rows.column("topic").dictionary_encode()
    known = [topic_key(topic) for topic in topics.dictionary.to_pylist()]
    ids = np.asarray(rows.column("queue_id")).astype(">i4").view("V4").tolist()
    return [
        queue_of_topic(known[topic], queue_id)
        for topic, queue_id in zip(topics.indices.to_pylist(), ids, strict=True)
    ]


def with_keys(queues: pa.Table) -> pa.Table:
    """The rows with their queue's key prefix in the column `key`."""
    keys = [pa.array(queue_keys(some), pa.binary()) for some in queues.to_batches(_KEYS_AT_ONCE)]
    return queues.append_column("key", pa.chunked_array(keys, pa.binary()))


@dataclass(frozen=True)
class CountRuns:
    """COUNTED rows of the RUN rows that arrive, which are in the log's order."""

    files: StagedRuns

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from merge_counts(self._counted(batch) for batch in batches if batch.num_rows)

    def _counted(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        bounds = _bounds(self.files, rows)
        found = {name: rows.column(name) for name in (*QUEUE_KEY, *_FIRST_RUN)}
        found["entries"] = rows.column("count")
        for name, offsets in zip(("least", "greatest", "last"), bounds, strict=False):
            found[name] = pa.array(offsets.view(np.int64) ^ _SIGN)
        found["zeros"] = pa.array(bounds.zeros)
        return pa.RecordBatch.from_arrays([found[name] for name in COUNTED.names], schema=COUNTED)


def merge_counts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A COUNTED row for each queue of those that arrive, which are in the log's order. As a task it
    gets all rows of a queue: else the driver would get one from each task.
    """
    held: list[pa.RecordBatch] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        held.append(batch)
        # a merge costs a step for each queue: so it waits for as many new rows
        if sum(each.num_rows for each in held[1:]) >= max(_ROWS_AT_ONCE, held[0].num_rows):
            held = [_merged(held)]
    if held:
        yield _merged(held)


def _merged(counted: list[pa.RecordBatch]) -> pa.RecordBatch:
    """A row for each queue of COUNTED rows, which are in the log's order."""
    rows = pa.Table.from_batches(counted).group_by(list(QUEUE_KEY), use_threads=False)
    kinds = {**dict.fromkeys(_FIRST_RUN, "first"), "entries": "sum", "least": "min",
             "greatest": "max", "last": "last", "zeros": "sum"}  # fmt: skip
    found = rows.aggregate(list(kinds.items()))
    columns = [found[name] for name in QUEUE_KEY]
    columns += [found[f"{name}_{kind}"] for name, kind in kinds.items()]
    table = pa.Table.from_arrays(columns, names=[*QUEUE_KEY, *kinds]).select(COUNTED.names)
    return table.cast(COUNTED).combine_chunks().to_batches()[0]


class _Bounds(NamedTuple):
    """Of each run: its least, greatest and last queueOffset, unsigned; its queueOffsets of 0."""

    least: Any
    greatest: Any
    last: Any
    zeros: Any


def _bounds(files: StagedRuns, rows: pa.RecordBatch) -> _Bounds:
    first, count = numbers(rows, "first"), numbers(rows, "count")
    last = first + count - 1
    wraps = (first < 0) & (last >= 0)
    zeros = (wraps | (first == 0)).astype(np.int64)
    least, greatest = unsigned(np.where(wraps, 0, first)), unsigned(np.where(wraps, -1, last))
    ends = unsigned(last)
    listed = numbers(rows, "offsets_at") >= 0
    if listed.any():
        offsets = unsigned(listed_offsets(files, rows.filter(pa.array(listed))))
        stops = np.cumsum(count[listed])
        starts = stops - count[listed]
        least[listed] = np.minimum.reduceat(offsets, starts)
        greatest[listed] = np.maximum.reduceat(offsets, starts)
        zeros[listed] = np.add.reduceat((offsets == 0).astype(np.int64), starts)
        ends[listed] = offsets[stops - 1]
    return _Bounds(least, greatest, ends, zeros)


def cuts_of(queues: pa.Table, ranges: int, most: int, whole: bool) -> tuple[RangeStart, ...]:
    """The start of each range but the first; ranges have about as many entries each.

    queues: COUNTED rows, one for each queue. ranges: about how many are wanted.
    most: entries in a range, if its keys are evenly spread; whole: no queue is split.
    """
    total = pc.sum(queues["entries"]).as_py() or 0
    wanted = max(1, min(most, -(-total // max(ranges, 1))))
    cuts: list[RangeStart] = []
    held = 0
    for row in rows_in(with_keys(queues).sort_by("key")):
        key, entries = row["key"], row["entries"]
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
    """SHARED rows of the RUN rows that arrive, CARRYING ones of TIMED rows."""

    files: StagedRuns
    cuts: tuple[RangeStart, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in batches:
            if rows.num_rows:
                yield self._shared(whole([rows], RUN, TIMED))

    def _shared(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        keys, ends = queue_keys(rows), _bounds(self.files, rows)[:2]
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
        schema = CARRYING if "carried" in rows.schema.names else SHARED
        return pa.RecordBatch.from_arrays(columns, schema=schema)


# ---
# A table of a RocksDB in staging. The RocksDB library writes it on a local disk.

_COPIED_BYTES = 1 << 20


class NewTable:
    """A table in staging, which its first rows create."""

    def __init__(self, staging: Staging) -> None:
        self._staging, self.name = staging, table_file_name()
        self._writer: TableWriter | None = None
        self._scratch = ExitStack()
        self._path = ""

    def __enter__(self) -> "NewTable":
        return self

    def __exit__(self, *_: object) -> None:
        self._scratch.close()

    def put_rows(self, keys: list[bytes], values: list[bytes]) -> None:
        """Write some rows, whose keys are above all earlier ones."""
        if self._writer is None:
            self._path = self._local_path()
            self._writer = TableWriter(self._path, table_options(True, True))
        self._writer.put(keys, values)

    def finish(self) -> None:
        if self._writer is None:
            return
        self._writer.finish()
        if local_folder(self._staging) is None:
            copy_in(self._staging, self._path, self.name)

    def _local_path(self) -> str:
        """A path for the library, which can write local files only."""
        folder = local_folder(self._staging)
        if folder is None:
            folder = self._scratch.enter_context(scratch_folder(Scratch.TABLE))
        return f"{folder}/{self.name}"


def copy_in(staging: Staging, path: str, name: str) -> None:
    output = staging.storage.create(staging.path(name))
    with open(path, "rb") as file:
        while some := file.read(_COPIED_BYTES):
            output.write(some)
    output.finish(os.path.getsize(path))


# ---
# Builds the tables of queues in RocksDB from runs. One task makes each table, a range of keys.
#
# Keys are as in RocksDBConsumeQueueTable: an entry's key has its record's own queueOffset. So a
# message that the log lacks leaves a hole, and of two records with one queueOffset the later one
# counts. Runs and queues are columns, because there may be very many small ones.

_ENTRIES_A_PUT = 1 << 16
REPLACED_NAMED = 20  # as many as a report names

# A row for each queue of each table.
TABLE = schema(
    name=pa.string(),  # of the table, in staging
    topic=pa.string(),
    queue_id=pa.int32(),
    entries=pa.int64(),
    place=pa.int64(),  # physicalOffset of the queue's last entry in the log's order
    position=pa.int64(),  # that entry's queueOffset
    end=pa.int64(),  # where its record ends
    replaced=pa.int64(),  # records whose queueOffset a later one has: no entry leads to them
    # of the first REPLACED_NAMED of them: queueOffset, physicalOffset, and the later record's
    named=pa.list_(pa.int64()),
)


# SHARED rows of which the first `decided` entries have the queueOffsets decided_from and following.
_DECIDED = SHARED.append(pa.field("decided", pa.int64())).append(
    pa.field("decided_from", pa.int64())
)


@dataclass(frozen=True)
class BuildTables:
    """Writes the table of each range from all SHARED rows of the range; yields TABLE rows.

    begins: by a queue's key prefix the place of its first record that has a row, where earlier ones
    are of a life that its topic had before.
    """

    files: StagedRuns
    cuts: tuple[RangeStart, ...]
    losses: Losses = NO_LOSSES
    begins: Mapping[bytes, int] = field(default_factory=dict)

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
        for which in [n for n, key in enumerate(begins) if key in self.begins]:
            places = entries.rows["physicalOffset"].astype(np.int64)
            kept &= (places >= self.begins[begins[which]]) | (entries.queue != which)
        if not kept.any():
            return
        entries = entries.some(kept)
        ends = np.flatnonzero(np.append(entries.queue[1:] != entries.queue[:-1], True))
        lasts, first_run = entries.some(ends), np.searchsorted(queue, entries.queue[ends])
        entries, gone, later = entries.in_order()
        with NewTable(self.files.staging) as table:
            for keys, values in _rows_of(begins, entries):
                table.put_rows(keys, values)
            table.finish()
        named = runs.select(["topic", "queue_id"]).take(pa.array(first_run))
        counts = np.bincount(entries.queue, minlength=len(begins))[lasts.queue]
        place = lasts.rows["physicalOffset"].astype(np.int64)
        columns = [
            [table.name] * len(counts), *named.columns, counts, place, lasts.keys.view(np.int64),
            place + lasts.rows["size"], *_replaced(gone, later, lasts.queue),
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
            for row in runs_by_vote(self.files, iter(self.files.living(some)[0]), lost)
            if not row["is_left_out"]
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
                yield number, whole(held, SHARED, CARRYING)
                held = []
            number = int(ranges[start])
            held.append(rows.slice(start, stop - start))
    if held:
        yield number, whole(held, SHARED, CARRYING)


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

    def in_order(self) -> "tuple[_Entries, _Entries, _Entries]":
        """By key, of entries with one key only the one that was put last; the others; and for each
        of these the one that replaces it.
        """
        goes_on = (self.queue[1:] > self.queue[:-1]) | (self.keys[1:] > self.keys[:-1])
        if goes_on.all():
            return self, self.some(slice(0)), self.some(slice(0))
        order = np.lexsort((self.keys, self.queue))  # keeps the log's order among equal keys
        queue, keys = self.queue[order], self.keys[order]
        last = np.append((queue[1:] != queue[:-1]) | (keys[1:] != keys[:-1]), True)
        stays, gone = order[last], np.flatnonzero(~last)
        return self.some(stays), self.some(order[gone]), self.some(stays[np.cumsum(last)[gone]])


def _replaced(gone: _Entries, later: _Entries, queues: Int64s) -> tuple[list[int], list[Any]]:
    """TABLE's `replaced` and `named` of some queues. gone: by queue; later: what replaces each."""
    starts, ends = (
        np.searchsorted(gone.queue, queues, side).tolist() for side in ("left", "right")
    )
    each = np.stack(
        [gone.keys.view(np.int64), gone.rows["physicalOffset"], later.rows["physicalOffset"]], 1
    ).astype(np.int64)
    named = [
        each[s : min(e, s + REPLACED_NAMED)].ravel() for s, e in zip(starts, ends, strict=True)
    ]
    return [end - start for start, end in zip(starts, ends, strict=True)], named


def _entries_of(files: StagedRuns, queue: Int64s, runs: pa.RecordBatch) -> _Entries:
    """All entries of some runs, in their order. queue: the number of each run's queue."""
    count = numbers(runs, "count")
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
    raw = run_items(files, runs, "entries_at", QUEUE_ENTRY_BYTES)
    found = decode_entries(raw.reshape(-1))
    rows = np.empty(len(found), ROCKSDB_ENTRY)
    for name in found.dtype.names or ():
        rows[name] = found[name]
    times = run_items(files, runs, "times_at", 8, "times")
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
    """Keys and values of the rows of queues whose keys have one length."""
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
