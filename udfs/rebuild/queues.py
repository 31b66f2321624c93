"""Builds queue files from runs: many small queues at once, in two stages, or in shares."""

import hashlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reput.store_format.damage import queue_ends
from reput.store_format.damage.votes import AS_IT_IS, runs_by_vote
from reput.store_format.derived.queue_files import decode_entries, entry_bytes, pre_blank
from reput.store_format.dispatch.runs import NO_POSITION, Beginning, begin
from reput.store_format.faults import REFUSE, SALVAGE, DamageFound
from reput.store_format.files.protocol import Writer
from reput.store_format.layouts import QUEUE_ENTRY_BYTES
from reput.store_format.names import BATCH_CONSUME_QUEUE, CONSUME_QUEUE, QueuePath, segment_name
from reput.udfs.range_files import loss_reader
from reput.udfs.rebuild.carried import Int64s, carrying, joined, queue_starts, run_items, whole
from reput.udfs.rebuild.runs import (
    LOG_ORDER,
    ODD_MOST,
    QUEUE_KEY,
    SEGMENT_KEY,
    ListRuns,
    Row,
    StagedRuns,
    key_of,
)
from reput.udfs.staging import (
    BUILT,
    CARRIED,
    PLACED,
    PLACED_TREE,
    RUN,
    LateFile,
    Staging,
    attempt_name,
    ids_of,
    in_batches,
    queue_file_name,
    rows_of,
)

# ---
# Builds the files of small queues right where their runs are numbered, thousands at a time.
#
# A store may have hundred thousands of queues with a few entries each. Then a rebuild's time goes
# into a row, an open and a rename for each run and file. So this module takes the queues with few
# entries whose runs simply follow each other: their runs are columns, entries of many queues are
# read at once, and the files are made where the output will have them (`Storage.place`). All
# other queues are handed on.

MOST_ENTRIES = 1 << 12  # of a small queue, with the pre-blanks of its first file
CARRIED_ENTRIES = 1 << 20  # of one whose runs carry them
_RUNS_AT_ONCE = 1 << 15
_BYTES_AT_ONCE = 1 << 25
_ENTRIES_AT_ONCE = 1 << 18


class SmallQueues:
    """Takes the small queues out of one task's RUN rows and builds their files."""

    def __init__(self, files: StagedRuns) -> None:
        self._files = files
        self._staging = files.staging
        self._file_bytes = files.file_bytes(False)
        self._in_file = files.entries_a_file(False)
        self._large: tuple[Any, ...] | None = None  # the queue that is being handed on
        self.built: list[pa.RecordBatch] = []  # BUILT rows, to be fetched by `take`

    def others(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The RUN rows of all other queues. batches: whole queues, each in the log's order."""
        held: list[pa.RecordBatch] = []
        for batch in batches:
            if batch.num_rows:
                held.append(batch)
            many = sum(each.num_rows for each in held) >= _RUNS_AT_ONCE
            if many or sum(each.nbytes for each in held) >= _BYTES_AT_ONCE:
                rows = whole(held, RUN, CARRIED)
                starts = queue_starts(rows)
                last = int(starts[-1])  # this queue may go on in the next batch
                if last == 0:
                    self._large = _key(rows, 0)
                    last = rows.num_rows
                yield from self._others(rows.slice(0, last), starts[starts < last])
                held = [rows.slice(last)] if last < rows.num_rows else []
        if held:
            rows = whole(held, RUN, CARRIED)
            yield from self._others(rows, queue_starts(rows))

    def take(self) -> Iterator[bytes]:
        """BUILT rows of the files built since the last call, as Arrow streams."""
        for batch in self.built:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, BUILT) as stream:
                stream.write_batch(batch)
            yield sink.getvalue().to_pybytes()
        self.built.clear()

    def _others(self, rows: pa.RecordBatch, starts: Int64s) -> Iterator[pa.RecordBatch]:
        small = self._small(rows, starts)
        sizes = np.diff(np.append(starts, rows.num_rows))
        mask = np.repeat(small, sizes)
        if small.any():
            self._build(rows.filter(pa.array(mask)), sizes[small])
        if not small.all():
            yield rows.filter(pa.array(~mask))

    def _small(self, rows: pa.RecordBatch, starts: Int64s) -> npt.NDArray[np.bool_]:
        """One bool for each queue: whether it has few entries, and its queueOffsets go on by one
        through all runs from a possible first one.

        Each entry then stands at its queueOffset, whatever the release (`runs.number_run`).
        """
        first, count = _numbers(rows, "first"), _numbers(rows, "count")
        alone = (_numbers(rows, "offsets_at") < 0) & ~np.asarray(rows.column("batch"))
        plain = alone.copy()
        plain[1:] &= first[1:] == first[:-1] + count[:-1]
        begins = first[starts]
        total = np.add.reduceat(count, starts)
        most = np.full(len(starts), MOST_ENTRIES)
        if "carried" in rows.schema.names:
            there = np.asarray(rows.column("carried").is_valid())
            most[np.logical_and.reduceat(there, starts)] = max(MOST_ENTRIES, CARRIED_ENTRIES)
        # no run comes before the first one of a queue
        plain[starts] = (
            alone[starts] & (begins >= 0) & (begins <= queue_ends.LAST_FIRST_OFFSET - most)
        )
        plain[starts] &= begins % self._in_file + total <= most
        small: npt.NDArray[np.bool_] = np.logical_and.reduceat(plain, starts)
        if self._large is not None and _key(rows, 0) == self._large:
            small[0] = False
        return small

    def _build(self, rows: pa.RecordBatch, sizes: Int64s) -> None:
        """Build the files of small queues. sizes: how many runs each has, in order."""
        starts = np.cumsum(sizes) - sizes
        total = np.add.reduceat(_numbers(rows, "count"), starts)
        group = (np.cumsum(total) - total) // _ENTRIES_AT_ONCE
        for number in np.unique(group):
            some = np.flatnonzero(group == number)
            start, stop = int(starts[some[0]]), int(starts[some[-1]] + sizes[some[-1]])
            runs = rows.slice(start, stop - start)
            self.built.append(self._build_group(runs, starts[some] - start, total[some]))

    def _build_group(self, runs: pa.RecordBatch, starts: Int64s, total: Int64s) -> pa.RecordBatch:
        raw = run_items(self._files, runs, "entries_at", QUEUE_ENTRY_BYTES)
        entries = memoryview(raw).cast("B")
        topics = runs.column("topic").take(pa.array(starts)).to_pylist()
        queue_ids = _numbers(runs, "queue_id")[starts].tolist()
        begins, in_file = _numbers(runs, "first")[starts].tolist(), self._in_file
        built: list[tuple[Any, ...]] = []
        at = 0
        queues = zip(topics, queue_ids, begins, total.tolist(), strict=True)
        for topic, queue_id, first, count in queues:
            folder = str(QueuePath(CONSUME_QUEUE, topic, queue_id))
            position, after = first, first + count
            for segment in range(first // in_file, (after - 1) // in_file + 1):
                stop = min(after, (segment + 1) * in_file)
                here = entries[at : at + (stop - position) * QUEUE_ENTRY_BYTES]
                at += len(here)
                blank = pre_blank(position - segment * in_file) if position == first else b""
                row = self._file(folder, segment, blank, here, stop - position)
                built.append((*row, position == first))
                position = stop
        columns = zip(zip(*built, strict=True), BUILT, strict=True)
        arrays = [pa.array(column, field.type) for column, field in columns]
        return pa.RecordBatch.from_arrays(arrays, schema=BUILT)

    def _file(
        self, folder: str, segment: int, blank: bytes, entries: memoryview, count: int
    ) -> tuple[Any, ...]:
        """Make a file. Returns the values of its BUILT row, but for `first`."""
        path = f"{folder}/{segment_name(segment * self._file_bytes)}"
        content = bytes(entries) if not blank else blank + bytes(entries)
        name = f"{PLACED_TREE}/{path}"
        storage, length = self._staging.storage, self._file_bytes
        if not storage.place(self._staging.folder, name, content, length):
            name = queue_file_name()
            output = storage.create(self._staging.path(name))
            output.write(content)
            output.finish(length)
        digest = hashlib.sha256(content).hexdigest()
        about = folder, segment, name, length, len(content), digest, count
        return (*about, 0, 0, [], 0, 0)


def built_rows(stream: bytes) -> Iterator[pa.RecordBatch]:
    with pa.ipc.open_stream(stream) as rows:
        yield from rows


def _numbers(rows: pa.RecordBatch, name: str) -> Any:
    return np.asarray(rows.column(name))


def _key(rows: pa.RecordBatch, row: int) -> tuple[Any, ...]:
    return tuple(rows.column(name)[row].as_py() for name in QUEUE_KEY)


# ---
# Builds ConsumeQueue files from runs in two stages.
#
# `NumberRuns` gives each run its positions; one task gets all runs of a queue, in the log's order.
# `BuildQueueFiles` writes the files; one task gets all runs that reach into a file, in the log's
# order.

_ENTRIES_A_WRITE = 1 << 16


@dataclass(frozen=True)
class NumberRuns:
    """Turns RUN rows of whole queues, in order, into PLACED rows: one for each run and file."""

    files: StagedRuns
    losses: queue_ends.Losses = queue_ends.NO_LOSSES
    carries: bool = False  # whether the rows are CARRIED ones

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        small = SmallQueues(self.files)
        # in a damaged log neighbours decide queueOffsets, and SmallQueues asks none
        if not self._keeps_gaps and self.files.firsts != SALVAGE:
            batches = small.others(joined(batches) if self.carries else batches)
        queues = groupby(rows_of(batches), key_of(QUEUE_KEY))
        kept = GapFile(self.files.staging)
        lost = loss_reader(self.losses, self.files.staging)
        placed = (row for _, rows in queues for row in self._number(rows, kept, lost))
        yield from in_batches(placed, PLACED)
        kept.finish()
        for number, stream in enumerate(small.take()):
            row = {"topic": "", "queue_id": number, "batch": False, "segment": 0, "built": stream}
            yield pa.RecordBatch.from_pylist([row], PLACED)

    @property
    def _keeps_gaps(self) -> bool:
        """Whether positions of lost messages are kept."""
        return self.losses.any or bool(self.files.damage.no_room)

    def _runs(self, rows: Iterator[Row], lost: queue_ends.LossReader) -> Iterator[Row]:
        if self.files.firsts == SALVAGE:
            return runs_by_vote(self.files, rows, lost)
        return ({**row, **AS_IT_IS} for row in rows)

    def _number(
        self, rows: Iterator[Row], kept: "GapFile", lost: queue_ends.LossReader
    ) -> Iterator[Row]:
        gaps_before = None
        if self._keeps_gaps:
            from reput.store_format.damage.queue_findings import QueueGaps  # of damaged logs alone

            gaps_before = QueueGaps(self.files, lost)
        start = position = NO_POSITION
        shift, opened = 0, False
        beginning: Beginning | None = None
        living, ended = self.files.living(rows)
        for row in self._runs(iter(living), lost):
            if row["is_left_out"]:
                continue
            gaps = gaps_before(row) if gaps_before else queue_ends.NO_GAPS
            lowest, rest = position, 0
            if beginning is None or beginning.rest == 0:
                beginning = self._begin(row, beginning)
                lowest, position, rest = beginning
                if len(gaps) and gaps[0]["index"] == 0:
                    position -= int(gaps[0]["count"])
                start = position
            numbered = self.files.number(row, position, gaps, shift)
            after, in_file = numbered.after, self.files.entries_a_file(row["batch"])
            last = (after - 1) // in_file
            # RocketMQ looks the file up before it skips an entry. So if the last file is full, a
            # skipped entry has created the next file (ConsumeQueue.putMessagePositionInfo), but not
            # the one whose pre-blanks filled it.
            if after % in_file == 0 and numbered.skips_at_end and rest != 1:
                last += 1
            first = min(lowest, position) // in_file
            if after > position or last >= first:
                found = {"position": position, "start": start, "shift": shift, **kept.add(gaps)}
                size = self.files.file_bytes(row["batch"])
                for segment in range(first, last + 1):
                    opens = not opened and can_be_named(segment, size)
                    opened |= opens
                    part = {**row, **found, "segment": segment, "ended": ended, "opens": opens}
                    if numbered.copies is None and row.get("carried") and row["offsets_at"] < 0:
                        part = self._within(part, numbered.shift)
                    yield part
                    ended = 0
            position, shift = after, numbered.shift

    def _within(self, row: Row, shift: int) -> Row:
        """A PLACED row with those of its run's entries alone that its segment gets: it carries
        their bytes. shift: after the run.
        """
        low = row["segment"] * self.files.entries_a_file(row["batch"]) - row["position"]
        start = min(max(low, 0), row["count"])
        stop = min(max(low + self.files.entries_a_file(row["batch"]), start), row["count"])
        part = queue_ends.run_part(row, start, stop)
        return {**part, "position": row["position"] + start, "shift": shift} if start else part

    def _begin(self, row: Row, before: Beginning | None) -> Beginning:
        if row["batch"]:
            return Beginning(0, 0, int(row["count"]))
        if before is None:
            refuse_first(self.files, row)
        return begin(
            self.files.offsets(row), row["first"], row["count"], before,
            self.files.file_bytes(False), self.files.rules,
        )  # fmt: skip


def refuse_first(files: StagedRuns, row: Row) -> None:
    """Raise DamageFound where a queue's first run begins with an impossible queueOffset."""
    if files.firsts == REFUSE and not queue_ends.can_be_first(row["first"]):
        entry = decode_entries(files.entries(row, 0, 1))[0]
        raise DamageFound(
            f"topic {row['topic']!r}, queue {row['queue_id']}: the record at physical offset "
            f"{entry['physicalOffset']}: queueOffset {row['first']} is out of range for a "
            "queue's first entry: --on-damage salvage goes by the entries that follow, "
            "truncate takes it as RocketMQ does"
        )


class GapFile(LateFile):
    """Writes the gaps of a task's runs to a staging file, which the first gap creates."""

    def __init__(self, staging: Staging) -> None:
        super().__init__(staging, attempt_name("gaps"))

    def add(self, gaps: np.ndarray) -> Row:
        """Write the gaps of a run. Returns their place, as columns of PLACED."""
        at = self.bytes
        self.write(gaps.view(np.uint8))
        return {"gaps_name": self.name, "gaps_at": at, "gaps": len(gaps)}


@dataclass(frozen=True)
class BuildQueueFiles:
    """Writes queue files from PLACED rows, which come file by file, in order; yields BUILT rows."""

    files: StagedRuns

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        built = self._built(rows_of(batches))
        for is_stream, some in groupby(built, lambda each: isinstance(each, bytes)):
            if is_stream:
                for stream in some:
                    yield from built_rows(stream)
            else:
                yield from in_batches(some, BUILT)

    def _built(self, placed: Iterator[Row]) -> Iterator[Any]:
        """A BUILT row for each file; for files that were built already, streams of such rows."""
        for key, rows in groupby(placed, key_of(SEGMENT_KEY)):
            topic, queue_id, batch, segment = key
            if not topic:
                yield from (row["built"] for row in rows)
                continue
            folder = BATCH_CONSUME_QUEUE if batch else CONSUME_QUEUE
            yield self._build(str(QueuePath(folder, topic, queue_id)), segment, rows)

    def _build(self, folder: str, segment: int, rows: Iterator[Row]) -> Row:
        name = queue_file_name()
        staging = self.files.staging
        output: Writer | None = None
        entries = blank = skipped = ended = 0
        odd: list[int] = []
        batch = opens = False
        for row in rows:
            batch = row["batch"]
            if output is None and can_be_named(segment, self.files.file_bytes(batch)):
                output = staging.storage.create(staging.path(name), digest=True)
            low = segment * self.files.entries_a_file(batch)
            high = low + self.files.entries_a_file(batch)
            numbered = self.files.number(row, row["position"], self.files.gaps(row), row["shift"])
            ended += row["ended"]
            opens |= row["opens"]
            if blank == entries == 0 and low < row["start"]:
                blank = min(row["start"], high) - low
                if output:
                    output.write(pre_blank(blank))
            entries += self._append(row, numbered.copies, low, high, output)
            # skipped entries of a run in several files count in the first file
            if low <= row["position"] < high:
                skipped += numbered.skipped
                odd = (odd + list(numbered.odd))[: 3 * ODD_MOST]
        written = output.finish(self.files.file_bytes(batch)) if output else None
        length, used, digest = (
            (written.length, written.used, written.sha256) if written else (0, 0, "")
        )
        return {
            "folder": folder, "number": segment, "name": name if written else "",
            "length": length, "used": used, "sha256": digest,
            "entries": entries, "skipped": skipped, "ended": ended, "odd": odd,
            "begin": 0, "end": 0, "first": opens,
        }  # fmt: skip

    def _append(
        self, row: Row, copies: np.ndarray | None, low: int, high: int, output: Writer | None
    ) -> int:
        """Write the run's entries at positions [low, high), the segment's. Returns how many."""
        if copies is None:
            start: int = max(low - row["position"], 0)
            stop: int = min(high - row["position"], row["count"])
            if output and start < stop:
                output.write(self.files.entries(row, start, stop))
            return max(stop - start, 0)
        ends = int(row["position"]) + np.cumsum(copies)
        here = np.minimum(ends, high) - np.maximum(ends - copies, low)
        chosen = np.flatnonzero(here > 0)
        if len(chosen) == 0:
            return 0
        if output:
            start, stop = int(chosen[0]), int(chosen[-1]) + 1
            size = entry_bytes(row["batch"])
            entries = self.files.entries(row, start, stop)
            if (here[start:stop] != 1).any():  # some are skipped, or also fill lost positions
                times = np.maximum(here[start:stop], 0)
                for numbers in _with_copies(times):
                    output.write(entries.reshape(-1, size)[numbers].reshape(-1))
            else:
                output.write(entries)
        return int(here[chosen].sum())


def can_be_named(segment: int, file_bytes: int) -> bool:
    """Whether the byte offset that names a segment's file fits a Java long and is not negative."""
    return 0 <= segment * file_bytes < 1 << 63


def _with_copies(times: np.ndarray) -> Iterator[np.ndarray]:
    """The index of each entry, repeated as often as the entry is written; in bounded pieces."""
    ends = np.cumsum(times)
    for at in range(0, int(ends[-1]), _ENTRIES_A_WRITE):
        places = np.arange(at, min(at + _ENTRIES_A_WRITE, int(ends[-1])))
        yield np.searchsorted(ends, places, side="right")


# ---
# Builds the queues of a store with few runs: each task takes its share of the queues.
#
# If the lists of runs are short, every task can read all of them. Then no row goes through Spark
# between listing, numbering and building, and its query is as plain as a scan's.


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
        if self.number.carries:
            mine = [carrying(files, rows) for rows in mine if rows.num_rows]
        if mine:
            order = [(name, "ascending") for name in (*QUEUE_KEY, *LOG_ORDER)]
            yield from pa.Table.from_batches(mine).sort_by(order).to_batches()


def _shares(rows: pa.RecordBatch, shares: int) -> Any:
    """The share of each row, by its queue. A topic's queues go to the shares in turn."""
    topics = rows.column("topic").dictionary_encode()
    first = np.array([zlib.crc32(topic.encode()) for topic in topics.dictionary.to_pylist()])
    queues = np.asarray(rows.column("queue_id"))
    return (first[np.asarray(topics.indices)] + queues) % shares
