"""Builds the files of small queues right where their runs are numbered, thousands at a time.

A store may have hundred thousands of queues with a few entries each. Then a rebuild's time goes
into a row, an open and a rename for each run and file. So this module takes the queues with few
entries whose runs simply follow each other: their runs are columns, entries of many queues are read
at once, and the files are made where the output will have them (`StagingStorage.place`). All other
queues are handed on.
"""

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from reput.store_format.damage.queue_ends import LAST_FIRST_OFFSET
from reput.store_format.derived.queue_files import pre_blank
from reput.store_format.layouts import QUEUE_ENTRY_BYTES
from reput.store_format.names import CONSUME_QUEUE, QueuePath, segment_name
from reput.udfs.rebuild.read_runs import Int64s, read_runs
from reput.udfs.staged_runs import QUEUE_KEY, StagedRuns
from reput.udfs.staging import BUILT, PLACED_TREE, RUN, queue_file_name

MOST_ENTRIES = 1 << 12  # of a small queue, with the pre-blanks of its first file
_RUNS_AT_ONCE = 1 << 15
_ENTRIES_AT_ONCE = 1 << 18


class SmallQueues:
    """Takes the small queues out of one task's RUN rows and builds their files."""

    def __init__(self, files: StagedRuns) -> None:
        self._files = files
        self._staging = files.staging
        self._file_bytes = files.file_bytes(False)
        self._in_file = files.entries_a_file(False)
        self._zeros = memoryview(bytes(self._file_bytes))
        self._large: tuple[Any, ...] | None = None  # the queue that is being handed on
        self.built: list[pa.RecordBatch] = []  # BUILT rows, to be fetched by `take`

    def others(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The RUN rows of all other queues. batches: whole queues, each in the log's order."""
        held: list[pa.RecordBatch] = []
        for batch in batches:
            if batch.num_rows:
                held.append(batch)
            if sum(each.num_rows for each in held) >= _RUNS_AT_ONCE:
                rows = _joined(held)
                starts = _queue_starts(rows)
                last = int(starts[-1])  # this queue may go on in the next batch
                if last == 0:
                    self._large = _key(rows, 0)
                    last = rows.num_rows
                yield from self._others(rows.slice(0, last), starts[starts < last])
                held = [rows.slice(last)] if last < rows.num_rows else []
        if held:
            rows = _joined(held)
            yield from self._others(rows, _queue_starts(rows))

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

        Each entry then stands at its queueOffset, whatever the release (`queue_runs.number_run`).
        """
        first, count = _numbers(rows, "first"), _numbers(rows, "count")
        plain = (_numbers(rows, "offsets_at") < 0) & ~np.asarray(rows.column("batch"))
        plain[1:] &= first[1:] == first[:-1] + count[:-1]
        begins = first[starts]
        total = np.add.reduceat(count, starts)
        # no run comes before the first one of a queue
        plain[starts] = (
            (_numbers(rows, "offsets_at")[starts] < 0)
            & ~np.asarray(rows.column("batch"))[starts]
            & (begins >= 0)
            & (begins <= LAST_FIRST_OFFSET - MOST_ENTRIES)
            & (begins % self._in_file + total <= MOST_ENTRIES)
        )
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
        split, at, count = (_numbers(runs, name) for name in ("split", "entries_at", "count"))
        rows = read_runs(self._files, split, at, count, QUEUE_ENTRY_BYTES)
        entries = memoryview(rows).cast("B")
        topics = runs.column("topic").take(pa.array(starts)).to_pylist()
        queue_ids = _numbers(runs, "queue_id")[starts].tolist()
        begins, in_file = _numbers(runs, "first")[starts].tolist(), self._in_file
        built: list[tuple[Any, ...]] = []
        at = 0
        for topic, queue_id, first, count in zip(
            topics, queue_ids, begins, total.tolist(), strict=True
        ):
            folder = str(QueuePath(CONSUME_QUEUE, topic, queue_id))
            position, after = first, first + count
            for segment in range(first // in_file, (after - 1) // in_file + 1):
                stop = min(after, (segment + 1) * in_file)
                here = entries[at : at + (stop - position) * QUEUE_ENTRY_BYTES]
                at += len(here)
                blank = pre_blank(position - segment * in_file) if position == first else b""
                built.append(self._file(folder, segment, blank, here, stop - position))
                position = stop
        columns = list(zip(*built, strict=True))
        return pa.RecordBatch.from_arrays(
            [pa.array(column, field.type) for column, field in zip(columns, BUILT, strict=True)],
            schema=BUILT,
        )

    def _file(
        self, folder: str, segment: int, blank: bytes, entries: memoryview, count: int
    ) -> tuple[Any, ...]:
        """Make a file. Returns the values of its BUILT row."""
        path = f"{folder}/{segment_name(segment * self._file_bytes)}"
        content = bytes(entries) if not blank else blank + bytes(entries)
        digest = hashlib.sha256(content)
        digest.update(self._zeros[len(content) :])
        name = f"{PLACED_TREE}/{path}"
        storage, length = self._staging.storage, self._file_bytes
        if not storage.place(self._staging.folder, name, content, length):
            name = queue_file_name()
            output = storage.create(self._staging.path(name))
            output.write(content)
            output.finish(length)
        return (folder, segment, name, length, len(content), digest.hexdigest(), count, 0, 0, 0)


def built_rows(stream: bytes) -> Iterator[pa.RecordBatch]:
    """The BUILT rows of one `SmallQueues.take`."""
    with pa.ipc.open_stream(stream) as rows:
        yield from rows


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    table = pa.Table.from_batches(batches).combine_chunks().cast(RUN)
    return table.to_batches()[0]


def _numbers(rows: pa.RecordBatch, name: str) -> Any:
    return np.asarray(rows.column(name))


def _queue_starts(rows: pa.RecordBatch) -> Int64s:
    """The number of each queue's first row."""
    new = np.zeros(rows.num_rows, np.bool_)
    new[:1] = True
    for name in QUEUE_KEY:
        column = rows.column(name)
        new[1:] |= np.asarray(pc.not_equal(column.slice(1), column.slice(0, rows.num_rows - 1)))
    return np.flatnonzero(new)


def _key(rows: pa.RecordBatch, row: int) -> tuple[Any, ...]:
    return tuple(rows.column(name)[row].as_py() for name in QUEUE_KEY)
