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
from reput.store_format.layouts import ROCKSDB_ENTRY
from reput.store_format.rocksdb.keys import queue_key
from reput.store_format.storage.rocksdb_tables import TableWriter, table_options
from reput.udfs.range_files import loss_reader
from reput.udfs.schemas import RUN, in_batches, rows_of, schema
from reput.udfs.staged_runs import LOG_ORDER, QUEUE_KEY, Row, StagedRuns, key_of
from reput.udfs.staging import Staging, local_folder, table_file_name

Int64s = npt.NDArray[np.int64]

_ENTRIES_A_PUT = 1 << 16
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


class Cut(NamedTuple):
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


def cuts_of(queues: Iterable[Row], ranges: int, most: int, whole: bool) -> tuple[Cut, ...]:
    """Where ranges begin but the first, so that there are about so many, of about as many entries.

    queues: COUNTED rows, one a queue. most: entries of a range at most, where its keys are even;
    whole: each queue is in one range.
    """
    rows = sorted(((queue_key(row["topic"], row["queue_id"]), row) for row in queues),
                  key=lambda each: each[0])  # fmt: skip
    total = sum(row["entries"] for _, row in rows)
    wanted = max(1, min(most, -(-total // max(ranges, 1))))
    cuts: list[Cut] = []
    held = 0
    for key, row in rows:
        entries = row["entries"]
        if held and held + entries > wanted:
            cuts.append(Cut(key, 0))
            held = 0
        pieces = 1 if whole else -(-entries // wanted)
        low, high = row["least"] + (1 << 63), row["greatest"] + (1 << 63) + 1
        places = {low + (high - low) * piece // pieces for piece in range(1, pieces)} - {low}
        cuts += [Cut(key, place) for place in sorted(places)]
        held = held + entries if pieces == 1 else entries // pieces
    return tuple(cuts)


@dataclass(frozen=True)
class ShareRuns:
    """SHARED rows of the RUN rows that arrive."""

    files: StagedRuns
    cuts: tuple[Cut, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from in_batches(self._shared(rows_of(batches)), SHARED)

    def _shared(self, rows: Iterator[Row]) -> Iterator[Row]:
        for row in rows:
            key = queue_key(row["topic"], row["queue_id"])
            least, greatest = _bounds(self.files, row)
            low = bisect_right(self.cuts, Cut(key, least))
            high = bisect_right(self.cuts, Cut(key, greatest))
            for number in range(low, high + 1):
                yield {**row, "range": number}


@dataclass(frozen=True)
class BuildTables:
    """Writes the table of each range from its SHARED rows, all of which it gets; TABLE rows."""

    files: StagedRuns
    cuts: tuple[Cut, ...]
    losses: Losses = NO_LOSSES

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for (number,), rows in groupby(rows_of(batches), key_of(("range",))):
            yield from in_batches(iter(self._build(number, rows)), TABLE)

    def _build(self, number: int, rows: Iterator[Row]) -> list[Row]:
        start = self.cuts[number - 1] if number else Cut(b"", 0)
        stop = self.cuts[number] if number < len(self.cuts) else None
        of_range = sorted(
            ((queue_key(row["topic"], row["queue_id"]), row) for row in rows),
            key=lambda each: (each[0], *key_of((*LOG_ORDER, "entries_at"))(each[1])),
        )
        lost = loss_reader(self.losses, self.files.staging)
        built: list[Row] = []
        with NewTable(self.files.staging) as table:
            for queue, some in groupby(of_range, lambda each: each[0]):
                low = start.position if queue == start.queue else 0
                high = stop.position if stop is not None and queue == stop.queue else None
                runs: Iterator[Row] = (row for _, row in some)
                if self.files.firsts == SALVAGE:
                    runs = runs_by_vote(self.files, runs, lost)
                else:
                    runs = ({**row, **AS_IT_IS} for row in runs)
                row = self._queue(table, queue, low, high, runs)
                if row is not None:
                    built.append({"name": table.name, **row})
            table.finish()
        return built

    def _queue(
        self, table: "NewTable", queue: bytes, low: int, high: int | None, runs: Iterator[Row]
    ) -> Row | None:
        """Write those of a queue's entries whose unsigned queueOffsets are in [low, high)."""
        offsets, values, about = [], [], None
        for row in runs:
            about = about or row
            if row["is_left_out"]:
                continue
            some = _offsets(self.files, row)
            keys = _ordered(some)
            here = keys >= np.uint64(low)
            if high is not None:
                here &= keys < np.uint64(high)
            if not here.any():
                continue
            entries = np.empty(row["count"], ROCKSDB_ENTRY)
            found = decode_entries(self.files.entries(row, 0, row["count"]))
            for name in found.dtype.names or ():
                entries[name] = found[name]
            entries["storeTimestamp"] = self.files.times(row)
            offsets.append(some[here])
            values.append(entries[here])
        if about is None or not offsets:
            return None
        positions = np.concatenate(offsets)
        rows = np.concatenate(values).astype(ROCKSDB_ENTRY)  # numpy joins in the machine's order
        last = rows[-1]
        result = {
            "topic": about["topic"], "queue_id": about["queue_id"],
            "place": int(last["physicalOffset"]), "position": int(positions[-1]),
            "end": int(last["physicalOffset"]) + int(last["size"]),
        }  # fmt: skip
        kept = _last_of_each(_ordered(positions))
        if kept is not None:
            positions, rows = positions[kept], rows[kept]
        table.put(queue, positions, rows)
        return {**result, "entries": len(positions)}


def _last_of_each(keys: Any) -> Any:
    """Which of these are to be kept, in the order of keys: the last with each; None: all."""
    if (keys[1:] > keys[:-1]).all():
        return None
    order = np.argsort(keys, kind="stable")
    in_order = keys[order]
    return order[np.append(in_order[1:] != in_order[:-1], True)]


class NewTable:
    """A table of queues' entries in staging, which is made for its first entry."""

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

    def put(self, queue: bytes, positions: Int64s, rows: Any) -> None:
        if self._writer is None:
            self._path = self._local_path()
            self._writer = TableWriter(self._path, table_options(True, True))
        for at in range(0, len(rows), _ENTRIES_A_PUT):
            some = positions[at : at + _ENTRIES_A_PUT]
            keys = np.empty((len(some), len(queue) + 8), np.uint8)
            keys[:, : len(queue)] = np.frombuffer(queue, np.uint8)
            keys[:, len(queue) :] = some.astype(">i8").view(np.uint8).reshape(-1, 8)
            values = np.ascontiguousarray(rows[at : at + _ENTRIES_A_PUT])
            self._writer.put(
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
