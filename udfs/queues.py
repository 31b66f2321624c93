"""ConsumeQueue segments from runs: number the queues' runs, then build file by file.

Both functions get their rows sorted, all rows of one key in one partition: `number` by queue
and the log's order, `build` by segment file and the log's order.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from store_format.consume_queue import entry_bytes, pre_blank, segment_bytes
from store_format.derived.queue_entries import decode_entries
from store_format.faults import DamageFound
from store_format.names import BATCH_CONSUME_QUEUE, CONSUME_QUEUE, QueuePath
from store_format.queue_runs import NO_POSITION, PlaceRules, fold, start_position
from store_format.store_files import Writer
from udfs.schemas import BUILT, PLACED, RUN, ids_of, in_batches, rows_of
from udfs.staging import ENTRIES, RUNS, Staging, attempt_name, read_range

Row = dict[str, Any]

_NO_ENTRIES = np.empty(0, np.uint8)
_NO_OFFSETS = np.empty(0, np.int64)
_ENTRIES_A_WRITE = 4096

QUEUE_KEY = ("topic", "queue_id", "batch")
LOG_ORDER = ("split", "part")
SEGMENT_KEY = (*QUEUE_KEY, "segment")


@dataclass(frozen=True)
class ListRuns:
    """The RUN rows of the splits whose numbers arrive in `id`; runs: their names in staging."""

    staging: Staging
    runs: dict[int, str]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for split in ids_of(batches):
            if split in self.runs:
                raw = self.staging.storage.read_bytes(self.staging.path(self.runs[split] + RUNS))
                with pa.ipc.open_stream(raw) as stream:
                    for rows in stream:
                        yield rows.replace_schema_metadata(None)


@dataclass(frozen=True)
class QueueFiles:
    """What the queue stages need: staging, the splits' run names, and the rules."""

    staging: Staging
    runs: dict[int, str]
    rules: PlaceRules
    queue_file_bytes: int  # mappedFileSizeConsumeQueue
    batch_file_bytes: int  # mapperFileSizeBatchConsumeQueue

    def entries_a_file(self, batch: bool) -> int:
        return self.file_bytes(batch) // entry_bytes(batch)

    def file_bytes(self, batch: bool) -> int:
        return segment_bytes(self.batch_file_bytes if batch else self.queue_file_bytes, batch)

    def positions(self, row: Row, position: int) -> tuple[np.ndarray, int]:
        """Each entry's position when the run is appended at `position`, and the next one."""
        entries, offsets = _NO_ENTRIES, _NO_OFFSETS
        if row["offsets_at"] >= 0:
            name = self.runs[row["split"]] + ENTRIES
            entries = self.entries(row, 0, row["count"])
            raw = read_range(self.staging, name, row["offsets_at"], 8 * row["count"])
            offsets = raw.view(np.int64)
        positions = np.empty(row["count"], np.int64)
        if row["batch"]:
            positions[:] = np.arange(position, position + row["count"])
            return positions, position + row["count"]
        after = fold(entries, offsets, row["first"], row["count"], position, self.rules, positions)
        return positions, after

    def entries(self, row: Row, start: int, stop: int) -> np.ndarray:
        """Entries [start, stop) of a run, as on disk."""
        size = entry_bytes(row["batch"])
        name = self.runs[row["split"]] + ENTRIES
        at = row["entries_at"] + start * size
        return read_range(self.staging, name, at, (stop - start) * size)


@dataclass(frozen=True)
class NumberRuns:
    """RUN rows of whole queues, in order, to PLACED rows: one for each segment a run reaches."""

    files: QueueFiles
    gaps: Callable[[], Callable[[Row], Row | None]] | None = None  # a queue's, see udfs.gaps

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        queues = groupby(rows_of(batches), key_of(QUEUE_KEY))
        yield from in_batches((row for _, rows in queues for row in self._number(rows)), PLACED)

    def _number(self, rows: Iterator[Row]) -> Iterator[Row]:
        start = position = NO_POSITION
        gap_before = self.gaps() if self.gaps else None
        for row in rows:
            gap = gap_before(row) if gap_before else None
            # positions in a batch queue are no queueOffsets: its entries say them
            repeat = gap["count"] if gap and not row["batch"] else 0
            if position == NO_POSITION:
                start = position = self._start(row) - repeat
            positions, after = self.files.positions(row, position + repeat)
            in_file = self.files.entries_a_file(row["batch"])
            last = (after - 1) // in_file
            # The file is looked up before an entry is skipped: if the last one is full, an entry
            # that is then skipped has created the next (ConsumeQueue.putMessagePositionInfo).
            if after % in_file == 0 and len(positions) and _skips_at_end(positions):
                last += 1
            if after > position or last == position // in_file:
                for segment in range(position // in_file, last + 1):
                    yield {
                        **row, "position": position + repeat, "repeat": repeat,
                        "start": start, "segment": segment,
                    }  # fmt: skip
            position = after

    def _start(self, row: Row) -> int:
        try:
            return start_position(row["first"], row["batch"])
        except ValueError as error:
            entry = decode_entries(self.files.entries(row, 0, 1), row["batch"])[0]
            raise DamageFound(
                f"topic {row['topic']!r}, queue {row['queue_id']}: the record at physical offset "
                f"{entry['physicalOffset']}: {error}"
            ) from None


@dataclass(frozen=True)
class BuildQueueFiles:
    """PLACED rows of whole segments, in order, to finished files: one BUILT row each."""

    files: QueueFiles

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from in_batches(self._built(rows_of(batches)), BUILT)

    def _built(self, placed: Iterator[Row]) -> Iterator[Row]:
        for key, rows in groupby(placed, key_of(SEGMENT_KEY)):
            topic, queue_id, batch, segment = key
            folder = BATCH_CONSUME_QUEUE if batch else CONSUME_QUEUE
            yield self._build(str(QueuePath(folder, topic, queue_id)), segment, rows)

    def _build(self, folder: str, segment: int, rows: Iterator[Row]) -> Row:
        name = attempt_name("queue")
        staging = self.files.staging
        output = staging.storage.create(staging.path(name), digest=True)
        entries = blank = skipped = 0
        batch = False
        for row in rows:
            batch = row["batch"]
            low = segment * self.files.entries_a_file(batch)
            high = low + self.files.entries_a_file(batch)
            positions, _ = self.files.positions(row, row["position"])
            if blank == entries == 0 and low < row["start"]:
                blank = row["start"] - low
                output.write(pre_blank(blank))
            entries += self._append(row, positions, low, high, output)
            # a run that reaches over several segments is counted in its first
            if low <= row["position"] < high:
                skipped += int(np.count_nonzero(positions == NO_POSITION))
        written = output.finish(self.files.file_bytes(batch))
        return {
            "folder": folder,
            "number": segment,
            "name": name,
            "length": written.length,
            "used": (blank + entries) * entry_bytes(batch),
            "sha256": written.sha256,
            "entries": entries,
            "skipped": skipped,
            "begin": 0,
            "end": 0,
        }

    def _append(self, row: Row, positions: np.ndarray, low: int, high: int, output: Writer) -> int:
        """Write those of the run's entries whose positions are in [low, high), the segment's."""
        chosen = np.flatnonzero((positions >= low) & (positions < high))
        position = int(row["position"])
        repeated = max(min(position, high) - max(position - int(row["repeat"]), low), 0)
        if repeated:
            write_times(output, self.files.entries(row, 0, 1), repeated)
        if len(chosen) == 0:
            return repeated
        start, stop = int(chosen[0]), int(chosen[-1]) + 1
        entries = self.files.entries(row, start, stop)
        if stop - start != len(chosen):  # some between are skipped
            size = entry_bytes(row["batch"])
            entries = entries.reshape(-1, size)[chosen - start].reshape(-1)
        output.write(entries)
        return repeated + len(chosen)


def write_times(output: Writer, entry: np.ndarray, times: int) -> None:
    """The same entry again and again, in pieces."""
    for at in range(0, times, _ENTRIES_A_WRITE):
        output.write(np.tile(entry, min(_ENTRIES_A_WRITE, times - at)))


def _skips_at_end(positions: np.ndarray) -> bool:
    """After the last entry that has a position: is one skipped for its queueOffset?"""
    placed = np.flatnonzero(positions >= 0)
    after = positions[placed[-1] + 1 :] if len(placed) else positions
    return bool((after == NO_POSITION).any())


def key_of(names: tuple[str, ...]) -> Any:
    def key(row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in names)

    return key


__all__ = ["LOG_ORDER", "QUEUE_KEY", "RUN", "SEGMENT_KEY", "BuildQueueFiles", "ListRuns",
           "NumberRuns", "QueueFiles"]  # fmt: skip
