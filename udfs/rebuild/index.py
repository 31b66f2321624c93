"""Builds index files from puts: finds the chains of each range of slots, then writes the file.

If there are at least as many files as cores, one task builds a whole file (BuildWhole). Otherwise
several tasks find the chains of one file, a range of slots each (ChainRanges), and write them to
staging, where MergeRanges reads them and writes the file.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain as in_turn
from itertools import cycle, groupby, pairwise
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reput.store_format.derived.index_file import (
    NO_MESSAGE,
    IndexedMessage,
    capacity,
    chain,
    file_bytes,
    fill_entries,
    header,
    slot_range,
)
from reput.store_format.derived.index_header import IndexHeader
from reput.store_format.dispatch.dispatch import firsts, key_hashes, unpacked
from reput.store_format.files.protocol import Reader, Writer
from reput.store_format.layouts import INDEX_ENTRY_BYTES, INDEX_MESSAGE, INDEX_SLOT
from reput.store_format.names import INDEX
from reput.udfs.staging import (
    BUILT,
    CHAINED,
    HASHES,
    MESSAGES,
    Staging,
    attempt_name,
    ids_of,
    index_file_name,
    read_range,
    rows_of,
    stage,
)

Row = dict[str, Any]
Puts = np.ndarray
Int32s = npt.NDArray[np.int32]

_PUTS_A_READ = 1 << 16


@dataclass(frozen=True)
class IndexFiles:
    """What the index stages need: staging, where the puts are, and the sizes of the files.

    runs: the names of the splits' run files, in the log's order.
    ends: for each run, how many puts there are up to its end; a put's run is found by bisection.
    begins: the first put of each file whose predecessor is not full (`begins_early`).
    """

    staging: Staging
    runs: tuple[str, ...]
    ends: tuple[int, ...]
    slots: int  # maxHashSlotNum
    index_num: int  # maxIndexNum
    ranges: int
    every_put_up_to: int  # hashSlotCount counts every key of messages below this physical offset
    empty_index_count: int
    begins: Mapping[int, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return self.ends[-1] if self.ends else 0

    def bounds(self, file: int) -> tuple[int, int]:
        """The puts [start, stop) of a file."""
        a_file = capacity(self.index_num)
        early = max((number for number in self.begins if number <= file), default=0)
        start = self.begins.get(early, 0) + (file - early) * a_file
        stop = min(start + a_file, self.begins.get(file + 1, self.total))
        return start, max(start, stop)

    def begins_early(self, heads: Sequence[IndexHeader]) -> dict[int, int]:
        """{number of a file: its first put} where the file before it ended before it was full.

        After a restart further west IndexService.load has an older file last, so a broker never
        goes on with the newest one. heads: of the files there; what the log's puts do not bear out
        is damage.
        """
        begins, at, a_file = dict[int, int](), 0, capacity(self.index_num)
        for number, (head, after) in enumerate(pairwise(heads), 1):
            stop = at + head.entries
            if head.entries < a_file and at < stop < self.total and (
                self.put(stop - 1).physical_offset == head.end_offset < after.begin_offset
                and self.put(stop).physical_offset == after.begin_offset
            ):  # fmt: skip
                begins[number] = stop
            at = begins.get(number, at + a_file)
        return begins

    def hashes(self, start: int, stop: int) -> Iterator[Int32s]:
        """The keyHash of each put in [start, stop), a bounded number at a time."""
        for run, at, end in self._in_runs(start, stop):
            with closing(self._open(run, HASHES)) as reader:
                yield from map(key_hashes, _pieces(reader, at, end))

    def puts(self, start: int, stop: int) -> Iterator[Puts]:
        """INDEX_PUT rows [start, stop), a bounded number at a time."""
        for run, at, end in self._in_runs(start, stop):
            with (
                closing(self._open(run, HASHES)) as all_hashes,
                closing(self._open(run, MESSAGES)) as all_messages,
            ):
                begun = sum(map(firsts, _pieces(all_hashes, 0, at)))  # with puts before `at`
                for hashes in _pieces(all_hashes, at, end):
                    first = begun - int(hashes[0] >= 0)
                    begun += firsts(hashes)
                    messages = _read(all_messages, first, begun - first, INDEX_MESSAGE)
                    yield unpacked(hashes, messages)

    def _in_runs(self, start: int, stop: int) -> Iterator[tuple[str, int, int]]:
        """Where the puts [start, stop) are: (run, first put in it, last put in it + 1)."""
        run = bisect_right(self.ends, start)
        while start < stop:
            run_start = self.ends[run - 1] if run else 0
            run_stop = min(self.ends[run], stop)
            if start < run_stop:
                yield self.runs[run], start - run_start, run_stop - run_start
            start = run_stop
            run += 1

    def _open(self, run: str, kind: str) -> Reader:
        return self.staging.storage.open(self.staging.path(run + kind))

    def counted_besides(self, start: int, stop: int) -> int:
        """How many of the puts [start, stop) hashSlotCount counts although their slot was in use.

        Releases up to 4.7.0 count such puts too.
        """
        every = start
        if start < stop and self.put(start).physical_offset < self.every_put_up_to:
            every = stop
            if self.put(stop - 1).physical_offset >= self.every_put_up_to:
                every = start + sum(
                    int(np.count_nonzero(puts["physicalOffset"] < self.every_put_up_to))
                    for puts in self.puts(start, stop)
                )
        newest = np.zeros(self.slots if every > start else 0, np.int32)
        for hashes in self.hashes(start, every):
            chain(hashes, 1, self.slots, 0, newest, np.empty(len(hashes), np.int32))
        return every - start - int(np.count_nonzero(newest))

    def put(self, number: int) -> IndexedMessage:
        """The message of put `number`; NO_MESSAGE if it is negative."""
        if number < 0:
            return NO_MESSAGE
        (puts,) = self.puts(number, number + 1)
        return IndexedMessage(int(puts["storeTimestamp"][0]), int(puts["physicalOffset"][0]))


def _read(reader: Reader, at: int, count: int, dtype: np.dtype[Any]) -> np.ndarray:
    buffer = np.empty(count * dtype.itemsize, np.uint8)
    reader.read_into(at * dtype.itemsize, buffer)
    return buffer.view(dtype)


def _pieces(reader: Reader, at: int, end: int) -> Iterator[Int32s]:
    """Packed hashes [at, end) of a run, a bounded number at a time."""
    for here in range(at, end, _PUTS_A_READ):
        yield _read(reader, here, min(end - here, _PUTS_A_READ), np.dtype(np.int32))


class Chain(NamedTuple):
    """The chains of one range of a file's slots."""

    number: int  # of the range
    previous: Int32s  # in native byte order, in the order of the range's puts
    slots: np.ndarray  # INDEX_SLOT, as on disk

    @property
    def used(self) -> int:
        return int(np.count_nonzero(self.slots))


def chain_range(files: IndexFiles, file: int, number: int) -> Chain:
    """The chains of range `number` of a file's slots. Reads all puts of the file."""
    low, high = slot_range(number, files.ranges, files.slots)
    start, stop = files.bounds(file)
    newest = np.zeros(high - low, np.int32)
    previous = np.empty(stop - start, np.int32)
    entry, count = 1, 0
    for hashes in files.hashes(start, stop):
        count += chain(hashes, entry, files.slots, low, newest, previous[count:])
        entry += len(hashes)
    return Chain(number, previous[:count], newest.byteswap(inplace=True).view(INDEX_SLOT))


@dataclass(frozen=True)
class ChainRanges:
    """Finds the chains of one range for each `id` = file * ranges + range; yields CHAINED rows."""

    files: IndexFiles

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for place in ids_of(batches):
            file, number = divmod(place, self.files.ranges)
            row = self._write(file, chain_range(self.files, file, number))
            yield pa.RecordBatch.from_pylist([row], CHAINED)

    def _write(self, file: int, chain: Chain) -> Row:
        staging = self.files.staging
        name = attempt_name(f"chain-{file:08d}-{chain.number:04d}")
        stage(staging, name, chain.previous, chain.slots)
        return {"file": file, "range": chain.number, "chain": name, "puts": len(chain.previous)}


@dataclass(frozen=True)
class MergeRanges:
    """Writes files from CHAINED rows, which come file by file and in order; yields BUILT rows."""

    files: IndexFiles

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for file, ranges in groupby(rows_of(batches), itemgetter("file")):
            row = build_file(self.files, file, [self._read(row) for row in ranges])
            yield pa.RecordBatch.from_pylist([row], BUILT)

    def _read(self, row: Row) -> Chain:
        low, high = slot_range(row["range"], self.files.ranges, self.files.slots)
        previous = read_range(self.files.staging, row["chain"], 0, row["puts"] * 4)
        slots = read_range(self.files.staging, row["chain"], row["puts"] * 4, (high - low) * 4)
        return Chain(row["range"], previous.view(np.int32), slots.view(INDEX_SLOT))


@dataclass(frozen=True)
class BuildWhole:
    """Builds each file in `id`, with one range of all slots; yields BUILT rows."""

    files: IndexFiles

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for file in ids_of(batches):
            row = build_file(self.files, file, [chain_range(self.files, file, 0)])
            yield pa.RecordBatch.from_pylist([row], BUILT)


def build_file(files: IndexFiles, file: int, chains: list[Chain]) -> Row:
    """Write one file into staging; returns its BUILT row. chains: of all its ranges, in order."""
    staging = files.staging
    start, stop = files.bounds(file)
    before = files.put(start - 1)
    first = files.put(start) if start < stop else None
    last = files.put(stop - 1) if start < stop else None
    used = sum(each.used for each in chains) + files.counted_besides(start, stop)
    count = 1 + stop - start if start < stop else files.empty_index_count
    name = index_file_name()
    output = staging.storage.create(staging.path(name), digest=True)
    begin, end = first or before, last or before
    _write_behind(output, in_turn(
        [header(first, last, before, used, count)],
        (each.slots.view(np.uint8) for each in chains),
        [bytes(INDEX_ENTRY_BYTES)],  # entry 0 is never used
        _entries(files, chains, start, stop, before.timestamp, begin.timestamp),
    ))  # fmt: skip
    written = output.finish(file_bytes(files.slots, files.index_num))
    return {
        "folder": INDEX,
        "number": file,
        "name": name,
        "length": written.length,
        "used": written.used,
        "skipped": 0,
        "ended": 0,
        "odd": [],
        "sha256": written.sha256,
        "entries": stop - start,
        "begin": begin.timestamp,
        "end": end.timestamp,
    }


def _write_behind(output: Writer, pieces: Iterable[Any]) -> None:
    """Write pieces by a thread, each while the next one is made: tasks of queues end earlier."""
    with ThreadPoolExecutor(1) as pool:
        written: Future[Any] = pool.submit(bytes)
        for piece in pieces:
            written.result()
            written = pool.submit(output.write, piece)
        written.result()


def _entries(
    files: IndexFiles, chains: list[Chain], start: int, stop: int, before: int, begin: int
) -> Iterator[np.ndarray]:
    """The file's entries as on disk, with the chains of all ranges merged.

    The first entry's timeDiff counts from the time `before`, all others from `begin`. Each array is
    valid until the one after the next.
    """
    lows = np.array(
        [slot_range(each.number, files.ranges, files.slots)[0] for each in chains], np.int64
    )
    sizes = np.array([len(each.previous) for each in chains], np.int64)
    cursors = np.cumsum(sizes) - sizes
    previous = [each.previous for each in chains]
    merged = np.concatenate(previous) if len(previous) > 1 else previous[0]
    room = [np.empty(_PUTS_A_READ * INDEX_ENTRY_BYTES, np.uint8) for _ in range(2)]
    head = 1
    for puts, out in zip(files.puts(start, stop), cycle(room), strict=False):
        for part, since in ((slice(0, head), before), (slice(head, len(puts)), begin)):
            fill_entries(
                puts[part], files.slots, lows, merged, cursors, since,
                out[part.start * INDEX_ENTRY_BYTES :],
            )  # fmt: skip
        head = 0
        yield out[: len(puts) * INDEX_ENTRY_BYTES]
