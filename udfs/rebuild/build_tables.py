"""Builds the tables of queues in RocksDB from runs: each is a range of keys, made by one task.

`CountRuns` says what queues there are, `cuts_of` where ranges begin, `ShareRuns` gives each run to
the ranges that it reaches into, and `BuildTables` writes a range's table. Keys are as
RocksDBConsumeQueueTable has them: an entry's is its record's own queueOffset, so that what the log
lacks is a hole, and of two records with one queueOffset the later one counts.
"""

import os
import tempfile
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reput.store_format.damage.losses import NO_LOSSES, Losses
from reput.store_format.damage.offset_votes import AS_IT_IS, runs_by_vote
from reput.store_format.derived.queue_entries import decode_entries
from reput.store_format.faults import SALVAGE
from reput.store_format.layouts import QUEUE_ENTRY_BYTES, ROCKSDB_ENTRY
from reput.store_format.rocksdb.keys import queue_key
from reput.store_format.storage.protocol import Reader
from reput.store_format.storage.rocksdb_tables import TableWriter, table_options
from reput.udfs.range_files import loss_reader
from reput.udfs.schemas import RUN, in_batches, rows_of, schema
from reput.udfs.staged_runs import LOG_ORDER, QUEUE_KEY, Row, StagedRuns, key_of
from reput.udfs.staging import ENTRIES, Staging, local_folder, table_file_name

Int64s = npt.NDArray[np.int64]

_ENTRIES_A_PUT = 1 << 16
_AHEAD_MOST, _AHEAD_BYTES = 1 << 18, 64 << 20  # read of a split, and of all splits, at a time
_NOTHING = np.empty(0, np.uint8)
_COPIED_BYTES = 1 << 20
_UNSIGNED = (1 << 64) - 1

# A row for each queue of a task: how many entries it has there, its first run, and its
# least and greatest queueOffset, as unsigned numbers (which are a key's order) less 1 << 63.
COUNTED = schema(
    topic=pa.string(), queue_id=pa.int32(), batch=pa.bool_(),
    split=pa.int64(), part=pa.int32(), entries_at=pa.int64(),
    first=pa.int64(), entries=pa.int64(), least=pa.int64(), greatest=pa.int64(),
)  # fmt: skip

# A row for each run and range that it reaches into.
SHARED = RUN.append(pa.field("range", pa.int64()))

# A row for each queue of each table.
TABLE = schema(
    name=pa.string(),  # of the table, in staging
    topic=pa.string(),
    queue_id=pa.int32(),
    entries=pa.int64(),
    place=pa.int64(),  # physicalOffset of the entry that the log has last
    position=pa.int64(),  # its queueOffset
    end=pa.int64(),  # where its record ends
)


class RangeStart(NamedTuple):
    """A key at which a range begins: what the queue's keys begin with, an unsigned queueOffset."""

    queue: bytes
    position: int


def _ordered(offsets: Any) -> Any:
    """int64 queueOffsets as numbers of the order that their big-endian bytes have."""
    return offsets.view(np.uint64)


@dataclass(frozen=True)
class CountRuns:
    """COUNTED rows of the RUN rows that arrive."""

    files: StagedRuns

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found: dict[tuple[Any, ...], Row] = {}
        for row in rows_of(batches):
            least, greatest = _bounds(self.files, row)
            row = {**row, "entries": row["count"], "least": least, "greatest": greatest}
            key = key_of(QUEUE_KEY)(row)
            found[key] = merged(found[key], row) if key in found else row
        names = COUNTED.names
        for row in found.values():
            row["least"], row["greatest"] = row["least"] - (1 << 63), row["greatest"] - (1 << 63)
        yield from in_batches(({n: row[n] for n in names} for row in found.values()), COUNTED)


def merged(one: Row, other: Row) -> Row:
    """What two COUNTED rows say of one queue."""
    first = min(one, other, key=key_of(LOG_ORDER))
    return {
        **first,
        "entries": one["entries"] + other["entries"],
        "least": min(one["least"], other["least"]),
        "greatest": max(one["greatest"], other["greatest"]),
    }


def _bounds(files: StagedRuns, row: Row) -> tuple[int, int]:
    """The least and greatest queueOffset of a run, unsigned."""
    first, last = row["first"], row["first"] + row["count"] - 1
    if row["offsets_at"] < 0 and (first >= 0 or last < 0):
        return first & _UNSIGNED, last & _UNSIGNED
    offsets = _ordered(_offsets(files, row))
    return int(offsets.min()), int(offsets.max())


def _offsets(files: StagedRuns, row: Row) -> Int64s:
    offsets: Int64s = files.offsets(row)
    if not len(offsets):
        first = np.uint64(row["first"] & _UNSIGNED)
        offsets = (first + np.arange(row["count"], dtype=np.uint64)).view(np.int64)
    return offsets


def cuts_of(queues: Iterable[Row], ranges: int, most: int, whole: bool) -> tuple[RangeStart, ...]:
    """Where all ranges but the first begin: about `ranges` of them, of about as many entries.

    queues: COUNTED rows, one a queue. most: entries of a range at most, where its keys are even;
    whole: each queue is in one range.
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
        yield from in_batches(self._shared(rows_of(batches)), SHARED)

    def _shared(self, rows: Iterator[Row]) -> Iterator[Row]:
        for row in rows:
            key = queue_key(row["topic"], row["queue_id"])
            least, greatest = _bounds(self.files, row)
            low = bisect_right(self.cuts, RangeStart(key, least))
            high = bisect_right(self.cuts, RangeStart(key, greatest))
            for number in range(low, high + 1):
                yield {**row, "range": number}


@dataclass(frozen=True)
class BuildTables:
    """Writes the table of each range from its SHARED rows, all of which it gets; TABLE rows."""

    files: StagedRuns
    cuts: tuple[RangeStart, ...]
    losses: Losses = NO_LOSSES

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for (number,), rows in groupby(rows_of(batches), key_of(("range",))):
            yield from in_batches(iter(self._build(number, rows)), TABLE)

    def _build(self, number: int, rows: Iterator[Row]) -> list[Row]:
        start = self.cuts[number - 1] if number else RangeStart(b"", 0)
        stop = self.cuts[number] if number < len(self.cuts) else None
        runs = sorted(
            ((queue_key(row["topic"], row["queue_id"]), {**row, **AS_IT_IS}) for row in rows),
            key=lambda each: (each[0], *key_of((*LOG_ORDER, "entries_at"))(each[1])),
        )
        if self.files.firsts == SALVAGE:
            runs = list(self._decided(runs))
        queues = list(dict.fromkeys(queue for queue, _ in runs))
        entries = _entries_of(self.files, queues, runs)
        kept = np.ones(len(entries.rows), np.bool_)
        if queues and queues[0] == start.queue:
            kept &= (entries.queue > 0) | (entries.keys >= np.uint64(start.position))
        if stop is not None and queues and queues[-1] == stop.queue:
            kept &= (entries.queue < len(queues) - 1) | (entries.keys < np.uint64(stop.position))
        entries = entries.some(kept)
        about = [_named(each) for each in _lasts(entries, dict(runs), queues)]
        entries = entries.in_order()
        counts = np.bincount(entries.queue, minlength=len(queues))
        with NewTable(self.files.staging) as table:
            table.put(queues, entries)
            table.finish()
            return [
                {"name": table.name, "entries": int(counts[queue]), **row} for queue, row in about
            ]

    def _decided(self, runs: list[tuple[bytes, Row]]) -> Iterator[tuple[bytes, Row]]:
        """Runs whose queueOffsets are decided, where the log is damaged: whole queues come in."""
        lost = loss_reader(self.losses, self.files.staging)
        for queue, some in groupby(runs, lambda each: each[0]):
            for row in runs_by_vote(self.files, (row for _, row in some), lost):
                if not row["is_left_out"]:
                    yield queue, row


@dataclass(frozen=True)
class _Entries:
    """Entries of a range, queue by queue. queue: the number of each one's; keys: unsigned
    queueOffsets; rows: ROCKSDB_ENTRY.
    """

    queue: Int64s
    keys: npt.NDArray[np.uint64]
    rows: npt.NDArray[Any]

    def some(self, which: Any) -> "_Entries":
        return _Entries(self.queue[which], self.keys[which], self.rows[which])

    def in_order(self) -> "_Entries":
        """By key; of those with one key that which was put last."""
        goes_on = (self.queue[1:] > self.queue[:-1]) | (self.keys[1:] > self.keys[:-1])
        if goes_on.all():
            return self
        order = np.lexsort((self.keys, self.queue))  # which keeps the log's order
        queue, keys = self.queue[order], self.keys[order]
        last = np.append((queue[1:] != queue[:-1]) | (keys[1:] != keys[:-1]), True)
        return self.some(order[last])


def _entries_of(files: StagedRuns, queues: list[bytes], runs: list[tuple[bytes, Row]]) -> _Entries:
    """All entries of some runs, in their order."""
    counts = np.array([row["count"] for _, row in runs], np.int64)
    ends = np.cumsum(counts)
    total = int(counts.sum())
    numbers = {queue: number for number, queue in enumerate(queues)}
    queue = np.repeat(np.array([numbers[name] for name, _ in runs], np.int64), counts)
    firsts = np.array([row["first"] for _, row in runs], np.int64).view(np.uint64)
    within = np.arange(total) - np.repeat(ends - counts, counts)
    keys = np.repeat(firsts, counts) + within.astype(np.uint64)
    raw = np.empty((total, QUEUE_ENTRY_BYTES), np.uint8)
    times = np.empty(total, np.int64)
    with SplitFiles(files) as opened:
        for (_, row), end in zip(runs, ends.tolist(), strict=True):
            at = end - row["count"]
            opened.read(row, row["entries_at"], raw[at:end])
            opened.read(row, row["times_at"], times[at:end])
            if row["offsets_at"] >= 0 or row["decided"]:
                keys[at:end] = _ordered(_offsets(files, row))
    rows = np.empty(total, ROCKSDB_ENTRY)
    found = decode_entries(raw.reshape(-1))
    for name in found.dtype.names or ():
        rows[name] = found[name]
    rows["storeTimestamp"] = times
    return _Entries(queue, keys, rows)


class SplitFiles:
    """The entries files of splits, each opened once. What is read lies mostly behind what was read
    before, so some more is read at a time.
    """

    def __init__(self, files: StagedRuns) -> None:
        self._files = files
        self._readers: dict[int, Reader] = {}
        self._ahead = min(_AHEAD_MOST, _AHEAD_BYTES // max(len(files.runs), 1))
        self._windows: dict[tuple[int, str], tuple[int, Any]] = {}

    def __enter__(self) -> "SplitFiles":
        return self

    def __exit__(self, *_: object) -> None:
        for reader in self._readers.values():
            reader.close()

    def read(self, row: Row, at: int, to: Any) -> None:
        """Fill an array from a split's file."""
        out = to.reshape(-1).view(np.uint8)
        kind = (row["split"], to.dtype.str)
        start, window = self._windows.get(kind, (0, _NOTHING))
        if not start <= at <= at + len(out) <= start + len(window):
            reader = self._reader(row["split"])
            if len(out) >= self._ahead:
                reader.read_into(at, out)
                return
            length = min(self._ahead, reader.state.size - at)
            start, window = at, np.empty(length, np.uint8)
            reader.read_into(at, window)
            self._windows[kind] = start, window
        out[:] = window[at - start : at - start + len(out)]

    def _reader(self, split: int) -> Reader:
        if split not in self._readers:
            staging = self._files.staging
            path = staging.path(self._files.runs[split] + ENTRIES)
            self._readers[split] = staging.storage.open(path)
        return self._readers[split]


def _lasts(
    entries: _Entries, runs: dict[bytes, Row], queues: list[bytes]
) -> Iterator[tuple[int, Row, Any, int]]:
    """Of each queue that has entries the one that the log has last: (number, a run, row, key)."""
    if not len(entries.queue):
        return
    ends = np.flatnonzero(np.append(entries.queue[1:] != entries.queue[:-1], True))
    keys = entries.keys.view(np.int64)
    for at in ends.tolist():
        number = int(entries.queue[at])
        yield number, runs[queues[number]], entries.rows[at], int(keys[at])


def _named(last: tuple[int, Row, Any, int]) -> tuple[int, Row]:
    number, run, row, position = last
    place = int(row["physicalOffset"])
    return number, {
        "topic": run["topic"], "queue_id": run["queue_id"], "place": place,
        "position": position, "end": place + int(row["size"]),
    }  # fmt: skip


class NewTable:
    """A table in staging, which is made for its first row."""

    def __init__(self, staging: Staging) -> None:
        self._staging, self.name = staging, table_file_name()
        self._writer: TableWriter | None = None
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._path = ""

    def __enter__(self) -> "NewTable":
        return self

    def __exit__(self, *_: object) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()

    def put_rows(self, keys: list[bytes], values: list[bytes]) -> None:
        """Write some rows, whose keys are behind those before."""
        if self._writer is None:
            self._path = self._local_path()
            self._writer = TableWriter(self._path, table_options(True, True))
        self._writer.put(keys, values)

    def put(self, queues: list[bytes], entries: _Entries) -> None:
        """Write entries, which are in the order of their keys. queues: what the keys begin with."""
        lengths = np.array([len(queue) for queue in queues], np.int64)[entries.queue]
        ends = np.flatnonzero(np.append(lengths[1:] != lengths[:-1], True)) + 1
        at = 0
        for end in ends[: len(lengths)].tolist():
            for first in range(at, end, _ENTRIES_A_PUT):
                self._put(queues, entries.some(slice(first, min(first + _ENTRIES_A_PUT, end))))
            at = end

    def _put(self, queues: list[bytes], entries: _Entries) -> None:
        """The same of queues whose keys have one length."""
        first, last = int(entries.queue[0]), int(entries.queue[-1])
        begins = np.frombuffer(b"".join(queues[first : last + 1]), np.uint8)
        begins = begins.reshape(last + 1 - first, -1)[entries.queue - first]
        positions = entries.keys.astype(">u8").view(np.uint8).reshape(-1, 8)
        keys = np.concatenate([begins, positions], axis=1)
        values = np.ascontiguousarray(entries.rows)
        self.put_rows(
            keys.reshape(-1).view(f"V{keys.shape[1]}").tolist(),
            values.view(f"V{values.dtype.itemsize}").tolist(),
        )

    def finish(self) -> None:
        if self._writer is None:
            return
        self._writer.finish()
        if self._temporary is not None:
            copy_in(self._staging, self._path, self.name)

    def _local_path(self) -> str:
        """Where the library may write it: it knows local files alone."""
        folder = local_folder(self._staging)
        if folder is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="reput-table-")
            folder = self._temporary.name
        return f"{folder}/{self.name}"


def copy_in(staging: Staging, path: str, name: str) -> None:
    """Copy a local file into staging."""
    output = staging.storage.create(staging.path(name))
    with open(path, "rb") as file:
        while some := file.read(_COPIED_BYTES):
            output.write(some)
    output.finish(os.path.getsize(path))
