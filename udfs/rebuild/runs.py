"""The runs of a job's queues as scans left them in staging: listed, read with few reads, and
numbered.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reput.store_format.damage.contradictions import OldQueues
from reput.store_format.damage.queue_ends import NO_QUEUE_DAMAGE, QueueDamage, run_part
from reput.store_format.damage.queue_findings import GAP_COUNT, NO_GAPS
from reput.store_format.derived.queue_files import decode_entries, entry_bytes, segment_bytes
from reput.store_format.dispatch.runs import NO_POSITION, REPEATED, PositionRules, number_run
from reput.store_format.faults import REFUSE
from reput.store_format.files.manifest_last import ManifestLast
from reput.store_format.layouts import QUEUE_ENTRY_BYTES
from reput.udfs.staging import CARRIED, ENTRIES, RUNS, TIMED, Staging, ids_of, read_range

# ---
# The runs of a job's queues, as scans left them in staging: how to list, read and number them.

Row = dict[str, Any]

_NO_ENTRIES = np.empty(0, np.uint8)
_NO_OFFSETS = np.empty(0, np.int64)

QUEUE_KEY = ("topic", "queue_id", "batch")
LOG_ORDER = ("split", "part")
SEGMENT_KEY = (*QUEUE_KEY, "segment")
LAST_LIFE, ALL_LIVES = "last", "all"  # values of Lives.remade
ODD_MOST = 8  # of a run, that are kept


@dataclass(frozen=True)
class ListRuns:
    """Yields the RUN rows of the splits in `id`. runs: each split's run name in staging.

    topics: those of these topics' queues alone, if any is given.
    """

    staging: Staging
    runs: dict[int, str]
    topics: tuple[str, ...] = ()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for split in ids_of(batches):
            if split in self.runs:
                raw = self.staging.storage.read_bytes(self.staging.path(self.runs[split] + RUNS))
                with pa.ipc.open_stream(raw) as stream:
                    for rows in stream:
                        wanted = rows.replace_schema_metadata(None)
                        if self.topics:
                            import pyarrow.compute as pc  # 0.05 s that the driver need not take

                            names = pa.array(self.topics, wanted.schema.field("topic").type)
                            wanted = wanted.filter(pc.is_in(wanted.column("topic"), names))
                        yield wanted


@dataclass(frozen=True)
class CarryRuns:
    """Yields the CARRIED rows of the splits in `id`, or their TIMED ones."""

    files: "StagedRuns"
    timed: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in ListRuns(self.files.staging, self.files.runs)(batches):
            yield carrying(self.files, rows, self.timed)


class Lives(NamedTuple):
    """Which records a queue has whose topic was deleted and made again, while the log still has the
    messages that were sent before.

    A topic's deletion takes its queues, and the next message has queueOffset 0 again
    (AdminBrokerProcessor.deleteTopic, ConsumeQueueStore.deleteTopicQueueTable).
    queues: queue files that show by their first entry where the life began that they have.
    remade: LAST_LIFE or ALL_LIVES if the user has chosen, else ''.
    """

    queues: OldQueues | None = None
    remade: str = ""

    def begins(self, row: Row, zeros: Sequence[int]) -> int | None:
        """The physical offset from which the log's records belong to a queue; None: all do.

        row: any RUN row of the queue; zeros: the physical offsets of its records that have
        queueOffset 0, without the queue's first record.
        """
        if self.remade == ALL_LIVES:
            return None
        if self.remade == LAST_LIFE:
            return zeros[-1]
        if self.queues is None:
            return None
        place = self.queues.of(row["topic"], row["queue_id"], row["batch"]).first_place()
        return place if place in zeros else None


NO_LIVES = Lives()


class Numbered(NamedTuple):
    """Where the entries of a run go in its queue.

    copies: int64, how often each entry is written: 0 if it is left out, more than 1 if positions
    before it are lost. None, as nearly always, if each is written once.
    after: the queue's next position after the run.
    skipped: how many entries are left out for their queueOffsets.
    skips_at_end: whether a skipped entry comes after the last one that is written.
    shift: the last entry's queueOffset less its position.
    odd: three numbers for each entry that is skipped, and for each one where the shift changes, at
    most ODD_MOST of them: queueOffset, position (-1 if skipped), physicalOffset.
    """

    copies: np.ndarray | None
    after: int
    skipped: int
    skips_at_end: bool
    shift: int = 0
    odd: tuple[int, ...] = ()


@dataclass(frozen=True)
class StagedRuns:
    """What the queue stages need: staging, the splits' run names, and the rules."""

    staging: Staging
    runs: dict[int, str]
    rules: PositionRules
    queue_file_bytes: int  # mappedFileSizeConsumeQueue
    batch_file_bytes: int  # mapperFileSizeBatchConsumeQueue
    firsts: str = REFUSE  # what to do where a queue's first queueOffset is impossible
    damage: QueueDamage = NO_QUEUE_DAMAGE
    lives: Lives = NO_LIVES

    def entries_a_file(self, batch: bool) -> int:
        return self.file_bytes(batch) // entry_bytes(batch)

    def file_bytes(self, batch: bool) -> int:
        return segment_bytes(self.batch_file_bytes if batch else self.queue_file_bytes, batch)

    def offsets(self, row: Row) -> np.ndarray:
        """The queueOffsets of a run; empty if each is the one before plus 1."""
        decided = row.get("decided", 0)
        if row["offsets_at"] < 0 and not decided:
            return _NO_OFFSETS
        if row["offsets_at"] < 0:
            counted = np.arange(row["count"], dtype=np.uint64)
            offsets = (np.uint64(row["first"] % (1 << 64)) + counted).view(np.int64)
        elif row.get("carried") is not None:
            offsets = np.frombuffer(row["carried"][-8 * row["count"] :], np.int64).copy()
        else:
            name = self.runs[row["split"]] + ENTRIES
            raw = read_range(self.staging, name, row["offsets_at"], 8 * row["count"])
            offsets = raw.view(np.int64)
        if decided:
            offsets[:decided] = row["decided_from"] + np.arange(decided)
        return offsets

    def times(self, row: Row) -> np.ndarray:
        """The storeTimestamps of a run."""
        name = self.runs[row["split"]] + ENTRIES
        return read_range(self.staging, name, row["times_at"], 8 * row["count"]).view(np.int64)

    def living(self, rows: Iterable[Row]) -> tuple[list[Row], int]:
        """(a queue's runs, in the log's order, without the records of an earlier life of its topic,
        how many records these were).
        """
        held = list(rows)
        zeros = [self._zeros(row) for row in held]
        again = [each[1:] if n == 0 and each[:1] == [0] else each for n, each in enumerate(zeros)]
        begins = None
        if any(again):
            begins = self.lives.begins(held[0], self._places(held, again))
        if begins is None:
            return held, 0
        rest = [self._from_place(row, begins) for row in held]
        ended = sum(row["count"] for row in held) - sum(row["count"] for row in rest)
        return [row for row in rest if row["count"]], ended

    def _zeros(self, row: Row) -> list[int]:
        """The numbers of the entries in a run whose queueOffset is 0."""
        if row["batch"]:
            entries = decode_entries(self.entries(row, 0, row["count"]), True)
            return np.flatnonzero(entries["baseOffset"] == 0).tolist()
        offsets = self.offsets(row)
        return np.flatnonzero(offsets == 0).tolist() if len(offsets) else [0] * (row["first"] == 0)

    def _places(self, rows: list[Row], numbers: list[list[int]]) -> list[int]:
        """The physical offsets of some entries of each run."""
        return [
            int(decode_entries(self.entries(row, n, n + 1), row["batch"])[0]["physicalOffset"])
            for row, some in zip(rows, numbers, strict=True)
            for n in some
        ]

    def _from_place(self, row: Row, place: int) -> Row:
        """The rest of a run from a physical offset on."""
        entries = decode_entries(self.entries(row, 0, row["count"]), row["batch"])
        cut = int(np.searchsorted(entries["physicalOffset"].astype(np.int64), place))
        if cut in (0, row["count"]):
            return row if not cut else {**row, "count": 0}
        offsets = self.offsets(row)
        first = int(offsets[cut]) if len(offsets) else row["first"] + cut
        if row["batch"]:
            first = int(entries["baseOffset"][cut])
        return {**run_part(row, cut, row["count"]), "first": first}

    def number(self, row: Row, position: int, gaps: np.ndarray, shift: int = 0) -> "Numbered":
        """Give a run its positions, from `position` on. gaps: GAP_COUNT rows, if not a batch.

        shift: that of the run before.
        """
        count = row["count"]
        if row["batch"]:  # a batch queue has an entry for each batch, whatever its queueOffset
            return Numbered(None, position + count, 0, False)
        offsets = self.offsets(row)
        entries = self.entries(row, 0, count) if len(offsets) else _NO_ENTRIES
        positions = np.empty(count, np.int64)
        start, at = position, 0
        for index, missing in [*gaps.tolist(), (count, 0)]:
            position = number_run(
                entries[at * QUEUE_ENTRY_BYTES : index * QUEUE_ENTRY_BYTES], offsets[at:index],
                row["first"] + at, index - at, position, self.rules, positions[at:index],
            )  # fmt: skip
            position += missing
            at = index
        plain = position - start == count and not len(gaps)  # none was skipped
        if plain and not len(offsets) and row["first"] - start == shift:
            return Numbered(None, position, 0, False, shift)
        after_run, odd = self._odd(row, offsets, positions, shift)
        if plain:
            return Numbered(None, position, 0, False, after_run, odd)
        copies = (positions > REPEATED).astype(np.int64)
        placed = np.flatnonzero(copies)
        after = positions[placed[-1] + 1 :] if len(placed) else positions
        copies[gaps["index"]] += gaps["count"]
        skipped = positions == NO_POSITION
        return Numbered(
            copies, position, int(skipped.sum()), bool((after == NO_POSITION).any()), after_run, odd
        )

    def _odd(
        self, row: Row, offsets: np.ndarray, positions: np.ndarray, shift: int
    ) -> tuple[int, tuple[int, ...]]:
        """(the shift after a run, `Numbered.odd`)."""
        if not len(offsets):
            offsets = row["first"] + np.arange(row["count"])
        taken = positions > REPEATED
        shifts = (offsets - positions)[taken]
        changes = np.zeros(len(positions), np.bool_)
        changes[taken] = np.diff(shifts, prepend=shift) != 0
        found: list[int] = []
        for n in np.flatnonzero(changes | (positions == NO_POSITION))[:ODD_MOST].tolist():
            entry = decode_entries(self.entries(row, n, n + 1))[0]
            position = int(positions[n]) if taken[n] else -1
            found += [int(offsets[n]), position, int(entry["physicalOffset"])]
        return int(shifts[-1]) if len(shifts) else shift, tuple(found)

    def gaps(self, row: Row) -> np.ndarray:
        """The GAP_COUNT rows of a PLACED row."""
        size = GAP_COUNT.itemsize
        if not row["gaps"]:
            return NO_GAPS
        raw = read_range(self.staging, row["gaps_name"], row["gaps_at"], row["gaps"] * size)
        return raw.view(GAP_COUNT)

    def entries(self, row: Row, start: int, stop: int) -> np.ndarray:
        """Entries [start, stop) of a run, as on disk."""
        size = entry_bytes(row["batch"])
        if row.get("carried") is not None:
            return np.frombuffer(row["carried"], np.uint8)[start * size : stop * size].copy()
        name = self.runs[row["split"]] + ENTRIES
        at = row["entries_at"] + start * size
        return read_range(self.staging, name, at, (stop - start) * size)


def key_of(names: tuple[str, ...]) -> Any:
    def key(row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in names)

    return key


# ---
# Reads items of many runs from the splits' entries files, with few reads.

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
    """(bytes read, where in them each wanted range begins). Ranges with at most `gap` bytes
    between are one read.
    """
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
    buffer = where = np.empty(0, np.int64)
    if len(places):
        split = np.full(len(places), rows.column("split")[0].as_py())
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
    """The number of each queue's first row."""
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
