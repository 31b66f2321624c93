"""Index files from puts: chain each file's puts by slot range, then write the file in order."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from store_format.index_file import (
    NOTHING_BEFORE,
    Before,
    capacity,
    chain,
    file_bytes,
    fill_entries,
    header,
    slot_range,
)
from store_format.layouts import INDEX_ENTRY_BYTES, INDEX_PUT, INDEX_SLOT
from store_format.names import INDEX
from store_format.store_files import Reader
from udfs.schemas import BUILT, CHAINED
from udfs.staging import PUTS, Staging, attempt_name, read_range

Row = dict[str, Any]
Puts = np.ndarray

_PUTS_A_READ = 1 << 16


@dataclass(frozen=True)
class IndexFiles:
    """What the index stages need: staging, where the puts are, and the files' shape.

    runs: names of the splits' run files, in the log's order; ends: how many puts there are up
    to the end of each, so that put number g is found by bisection.
    """

    staging: Staging
    runs: tuple[str, ...]
    ends: tuple[int, ...]
    slots: int  # maxHashSlotNum
    index_num: int  # maxIndexNum
    ranges: int
    count_every_put: bool
    empty_index_count: int

    @property
    def total(self) -> int:
        return self.ends[-1] if self.ends else 0

    def bounds(self, file: int) -> tuple[int, int]:
        """The puts [start, stop) of a file."""
        a_file = capacity(self.index_num)
        start = file * a_file
        return start, max(start, min(start + a_file, self.total))

    def puts(self, start: int, stop: int) -> Iterator[Puts]:
        """INDEX_PUT rows [start, stop), a bounded number at a time."""
        run = bisect_right(self.ends, start)
        while start < stop:
            run_start = self.ends[run - 1] if run else 0
            run_stop = min(self.ends[run], stop)
            reader = self.staging.storage.open(self.staging.path(self.runs[run] + PUTS))
            while start < run_stop:
                count = min(run_stop - start, _PUTS_A_READ)
                yield _read_puts(reader, start - run_start, count)
                start += count
            reader.close()
            run += 1

    def put(self, number: int) -> Before:
        """Time and place of one put; of none where number is negative."""
        if number < 0:
            return NOTHING_BEFORE
        (puts,) = self.puts(number, number + 1)
        return Before(int(puts["storeTimestamp"][0]), int(puts["physicalOffset"][0]))


def _read_puts(reader: Reader, at: int, count: int) -> Puts:
    buffer = np.empty(count * INDEX_PUT.itemsize, np.uint8)
    reader.read_into(at * INDEX_PUT.itemsize, buffer)
    return buffer.view(INDEX_PUT)


@dataclass(frozen=True)
class ChainRanges:
    """Chains one slot range of one file for each `id` = file * ranges + range; CHAINED rows."""

    files: IndexFiles

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                row = self._chain(*divmod(number, self.files.ranges))
                yield pa.RecordBatch.from_pylist([row], CHAINED)

    def _chain(self, file: int, number: int) -> Row:
        """Write the range's chains (native int32), then its slots as on disk."""
        files = self.files
        low, high = slot_range(number, files.ranges, files.slots)
        start, stop = files.bounds(file)
        newest = np.zeros(high - low, np.int32)
        previous = np.empty(_PUTS_A_READ, np.int32)
        name = attempt_name(f"chain-{file:08d}-{number:04d}")
        output = files.staging.storage.create(files.staging.path(name))
        entry, count = 1, 0
        for puts in files.puts(start, stop):
            chained = chain(puts, entry, files.slots, low, newest, previous)
            output.write(previous[:chained])
            entry += len(puts)
            count += chained
        output.write(newest.astype(INDEX_SLOT).view(np.uint8))
        output.finish(count * previous.itemsize + newest.nbytes)
        used = int(np.count_nonzero(newest))
        return {"file": file, "range": number, "chain": name, "puts": count, "used": used}


@dataclass(frozen=True)
class BuildIndexFiles:
    """CHAINED rows of whole files, in order of their ranges, to finished files: BUILT rows."""

    files: IndexFiles

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (row for batch in batches for row in batch.to_pylist())
        for file, ranges in groupby(rows, itemgetter("file")):
            yield pa.RecordBatch.from_pylist([self._build(file, list(ranges))], BUILT)

    def _build(self, file: int, ranges: list[Row]) -> Row:
        files, staging = self.files, self.files.staging
        start, stop = files.bounds(file)
        before = files.put(start - 1)
        first = files.put(start) if start < stop else None
        last = files.put(stop - 1) if start < stop else None
        used = stop - start if files.count_every_put else sum(row["used"] for row in ranges)
        count = 1 + stop - start if start < stop else files.empty_index_count
        name = attempt_name("index")
        output = staging.storage.create(staging.path(name), digest=True)
        output.write(header(first, last, before, used, count))
        for row in ranges:
            low, high = slot_range(row["range"], files.ranges, files.slots)
            output.write(read_range(staging, row["chain"], row["puts"] * 4, (high - low) * 4))
        output.write(bytes(INDEX_ENTRY_BYTES))  # entry 0 is never used
        for entries in self._entries(ranges, start, stop, before, first):
            output.write(entries)
        written = output.finish(file_bytes(files.slots, files.index_num))
        begin, end = first or before, last or before
        return {
            "folder": INDEX,
            "number": file,
            "name": name,
            "length": written.length,
            "used": file_bytes(files.slots, 1 + stop - start),
            "skipped": 0,
            "sha256": written.sha256,
            "entries": stop - start,
            "begin": begin.timestamp,
            "end": end.timestamp,
        }

    def _entries(
        self, ranges: list[Row], start: int, stop: int, before: Before, first: Before | None
    ) -> Iterator[np.ndarray]:
        """The file's entries as on disk, with the chains of all ranges merged."""
        files, staging = self.files, self.files.staging
        lows = np.array(
            [slot_range(row["range"], files.ranges, files.slots)[0] for row in ranges], np.int64
        )
        sizes = np.array([row["puts"] for row in ranges], np.int64)
        cursors = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)[:-1]])
        parts = [read_range(staging, row["chain"], 0, row["puts"] * 4) for row in ranges]
        previous = (np.concatenate(parts) if len(parts) > 1 else parts[0]).view(np.int32)
        # the first entry is measured against the file before, the others against the first
        begin, at = before.timestamp, 0
        for puts in files.puts(start, stop):
            out = np.empty(len(puts) * INDEX_ENTRY_BYTES, np.uint8)
            head = 1 if at == 0 else 0
            for part in (slice(0, head), slice(head, len(puts))):
                fill_entries(
                    puts[part], files.slots, lows, previous, cursors, begin,
                    out[part.start * INDEX_ENTRY_BYTES :],
                )  # fmt: skip
                begin = first.timestamp if first else begin
            at += len(puts)
            yield out
