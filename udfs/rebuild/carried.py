"""Items of many runs from the splits' entries files, read with few reads; runs that carry them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reput.store_format.derived.queue_files import entry_bytes
from reput.store_format.files.manifest_last import ManifestLast
from reput.udfs.rebuild.runs import QUEUE_KEY, ListRuns, StagedRuns
from reput.udfs.staging import CARRIED, ENTRIES, TIMED

Int64s = npt.NDArray[np.int64]

_GAP_BYTES = 1 << 10  # up to so many unwanted bytes are read to save a read
_GAP_IN_CARRIED = 1 << 18  # where a read is a request


def run_items(
    files: StagedRuns, rows: pa.RecordBatch, where: str, size: int, carried: str = "carried",
    before: int = 0,
) -> Any:  # fmt: skip
    """The items of runs at `where`, one run after the other, as uint8 rows of `size` bytes; from
    the runs themselves where they carry them. before: bytes for each item that come before the
    items in the column `carried`.
    """
    split, at, count = (np.asarray(rows.column(name)) for name in ("split", where, "count"))
    if carried not in rows.schema.names:
        return read_runs(files, split, at, count, size)
    there, ends, content = _binary(rows.column(carried))
    own = _items(content, (ends[:-1] + before * count)[there], count[there], size)
    if there.all():
        return own
    found = np.empty((int(count.sum()), size), np.uint8)
    mine = np.repeat(there, count)
    found[mine] = own
    found[~mine] = read_runs(files, split[~there], at[~there], count[~there], size)
    return found


def read_runs(files: StagedRuns, split: Int64s, at: Int64s, count: Int64s, size: int) -> Any:
    """The items of runs, one run after the other, as uint8 rows of `size` bytes.

    For each run: split; at: where its items begin in the split's file; count: of items, at least 1.
    Both the bytes read and the rows are held in memory.
    """
    remote = isinstance(files.staging.storage, ManifestLast)
    gap = _GAP_IN_CARRIED if remote else _GAP_BYTES
    buffer, where = _read_all(files, split, at, count * size, gap)
    return _items(buffer, where, count, size)


def _items(buffer: npt.NDArray[np.uint8], where: Int64s, count: Int64s, size: int) -> Any:
    """The items of ranges of a buffer, which mostly follow each other."""
    if (where[1:] == where[:-1] + count[:-1] * size).all():
        begin = int(where[0]) if len(where) else 0
        return buffer[begin : begin + int(count.sum()) * size].reshape(-1, size)
    number = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    windows = np.lib.stride_tricks.sliding_window_view(buffer, size)
    return np.ascontiguousarray(windows[np.repeat(where, count) + number * size])


def _read_all(
    files: StagedRuns, split: Int64s, at: Int64s, lengths: Int64s, gap: int
) -> tuple[npt.NDArray[np.uint8], Int64s]:
    """(bytes read, where each range begins in them). Ranges at most `gap` apart are one read."""
    if not len(at):
        return np.empty(0, np.uint8), at
    order = np.lexsort((at, split))
    ends = at + lengths
    apart = np.ones(len(order), np.bool_)
    before, after = order[:-1], order[1:]
    apart[1:] = (split[before] != split[after]) | (at[after] - ends[before] > gap)
    reads = np.flatnonzero(apart)
    lows = at[order[reads]]
    lengths = ends[order[np.append(reads[1:], len(order)) - 1]] - lows
    places = np.cumsum(lengths) - lengths
    buffer = np.empty(int(lengths.sum()), np.uint8)
    _read(files, split[order[reads]], lows, lengths, places, buffer)
    where = np.empty(len(order), np.int64)  # of each range in the buffer
    where[order] = places[np.cumsum(apart) - 1] + at[order] - lows[np.cumsum(apart) - 1]
    return buffer, where


def _read(
    files: StagedRuns, splits: Int64s, lows: Int64s, lengths: Int64s, places: Int64s,
    buffer: npt.NDArray[np.uint8],
) -> None:  # fmt: skip
    """Read ranges of the splits' entries files, sorted by split, each to its place."""
    opened, reader = -1, None
    for split, low, length, place in zip(
        splits.tolist(), lows.tolist(), lengths.tolist(), places.tolist(), strict=True
    ):
        if split != opened:
            if reader is not None:
                reader.close()
            path = files.staging.path(files.runs[split] + ENTRIES)
            opened, reader = split, files.staging.storage.open(path)
        assert reader is not None
        reader.read_into(low, buffer[place : place + length])
    if reader is not None:
        reader.close()


# ---
# Runs that carry their bytes. On an object store, and on a cluster, each read of another machine's
# file is a request: so where many tasks build, short runs take their bytes along. One task reads
# them, of a split all together, and the engine brings them to the task that has their queue.

CARRIED_BYTES = 1 << 14  # of a run that carries its bytes, at most
JOINED_BYTES = 1 << 20


@dataclass(frozen=True)
class CarryRuns:
    """Yields the CARRIED rows of the splits in `id`, or their TIMED ones."""

    files: StagedRuns
    timed: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in ListRuns(self.files.staging, self.files.runs)(batches):
            yield carrying(self.files, rows, self.timed)


def carrying(files: StagedRuns, rows: pa.RecordBatch, timed: bool = False) -> pa.RecordBatch:
    """RUN rows of one split as CARRIED rows, or TIMED ones: of short runs the bytes are read."""
    count, at, offsets_at, times_at = (
        np.asarray(rows.column(name)) for name in ("count", "entries_at", "offsets_at", "times_at")
    )
    batch = np.asarray(rows.column("batch"))
    size = count * np.where(batch, entry_bytes(True), entry_bytes(False))
    listed, times = np.where(offsets_at >= 0, 8 * count, 0), 8 * count * timed
    short = size + listed + times <= CARRIED_BYTES
    # for each run its entries, then its queueOffsets; most have none; after these the times of all
    places = np.concatenate([np.stack([at, offsets_at], 1)[short].ravel(), times_at[short]])
    lengths = np.concatenate([np.stack([size, listed], 1)[short].ravel(), times[short]])
    own = np.arange(len(lengths)) < 2 * short.sum()
    places, lengths, own = (each[lengths > 0] for each in (places, lengths, own))
    split = np.resize(np.asarray(rows.column("split")), len(places))  # all the same
    buffer, where = _read_all(files, split, places, lengths, _GAP_IN_CARRIED)
    columns = [*rows.columns]
    for sizes, mine in ((size + listed, own), (times, ~own))[: 1 + timed]:
        ends = np.append(0, np.cumsum(np.where(short, sizes, 0)))
        columns.append(
            _binary_array(short, ends, _put_together(buffer, where[mine], lengths[mine]))
        )
    return pa.RecordBatch.from_arrays(columns, schema=TIMED if timed else CARRIED)


def _put_together(
    buffer: npt.NDArray[np.uint8], where: Int64s, lengths: Int64s
) -> npt.NDArray[np.uint8]:
    """Ranges of a buffer, one behind the other; mostly they are so already."""
    if not len(where):
        return np.empty(0, np.uint8)
    begins = np.flatnonzero(np.append(True, where[1:] != where[:-1] + lengths[:-1]))
    if len(begins) == 1:
        return buffer[int(where[0]) : int(where[-1] + lengths[-1])]
    total = np.add.reduceat(lengths, begins).tolist()
    pieces = zip(where[begins].tolist(), total, strict=True)
    return np.concatenate([buffer[at : at + length] for at, length in pieces])


def joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """CARRIED rows of whole queues, in the log's order, with runs that follow each other as one:
    as if the log had been cut into larger splits.
    """
    for batch in batches:
        for rows in pa.Table.from_batches([batch]).cast(CARRIED).to_batches():
            yield _joined(rows)


def _joined(rows: pa.RecordBatch) -> pa.RecordBatch:
    count, first = np.asarray(rows.column("count")), np.asarray(rows.column("first"))
    carried = rows.column("carried")
    plain = np.asarray(carried.is_valid()) & (np.asarray(rows.column("offsets_at")) < 0)
    plain &= ~np.asarray(rows.column("batch"))
    _, ends, content = _binary(carried)
    piece = ends[:-1] // JOINED_BYTES
    goes_on = np.zeros(len(count), np.bool_)
    goes_on[1:] = plain[1:] & plain[:-1] & (first[1:] == first[:-1] + count[:-1])
    goes_on[1:] &= piece[1:] == piece[:-1]
    starts = np.union1d(np.flatnonzero(~goes_on), queue_starts(rows))
    if len(starts) == len(count):
        return rows
    found = {name: rows.column(name).take(pa.array(starts)) for name in rows.schema.names}
    lasts = np.append(starts[1:], len(count)) - 1
    found["count"] = pa.array(np.add.reduceat(count, starts))
    found["greatest"] = rows.column("greatest").take(pa.array(lasts))
    valid = np.asarray(carried.is_valid())[starts]
    found["carried"] = _binary_array(valid, np.append(ends[starts], ends[-1]), content)
    return pa.RecordBatch.from_arrays([found[name] for name in CARRIED.names], schema=CARRIED)


def whole(rows: list[pa.RecordBatch], *kinds: pa.Schema) -> pa.RecordBatch:
    """Rows of one of these kinds as one batch; an engine may have changed the type of bytes."""
    kind = next(each for each in kinds if len(each) == rows[0].num_columns)
    return pa.Table.from_batches(rows).combine_chunks().cast(kind).to_batches()[0]


def queue_starts(rows: pa.RecordBatch) -> Int64s:
    import pyarrow.compute as pc

    new = np.zeros(rows.num_rows, np.bool_)
    new[:1] = True
    for name in QUEUE_KEY:
        column = rows.column(name)
        new[1:] |= np.asarray(pc.not_equal(column.slice(1), column.slice(0, rows.num_rows - 1)))
    return np.flatnonzero(new)


def _binary(column: pa.Array) -> tuple[npt.NDArray[np.bool_], Int64s, npt.NDArray[np.uint8]]:
    """(which values are there, where each begins and the last one ends, all bytes)."""
    _, ends, content = column.buffers()
    found = np.frombuffer(ends, np.int32)[column.offset : column.offset + len(column) + 1]
    whole = np.frombuffer(content, np.uint8) if content else np.empty(0, np.uint8)
    return np.asarray(column.is_valid()), found.astype(np.int64), whole


def _binary_array(valid: npt.NDArray[np.bool_], ends: Int64s, content: Any) -> pa.Array:
    bits = np.packbits(valid, bitorder="little")
    buffers = [pa.py_buffer(bits), pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.binary(), len(valid), buffers)
