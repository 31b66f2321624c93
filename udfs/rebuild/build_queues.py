"""Builds ConsumeQueue files from runs in two stages.

`NumberRuns` gives each run its positions; one task gets all runs of a queue, in the log's order.
`BuildQueueFiles` writes the files; one task gets all runs that reach into a file, in the log's
order.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from reput.store_format.damage.queue_ends import NO_LOSSES, Losses, LossReader, can_be_first
from reput.store_format.damage.queue_findings import NO_GAPS, QueueGaps
from reput.store_format.damage.votes import AS_IT_IS, runs_by_vote
from reput.store_format.derived.queue_files import decode_entries, entry_bytes, pre_blank
from reput.store_format.dispatch.runs import NO_POSITION, Beginning, begin
from reput.store_format.faults import REFUSE, SALVAGE, DamageFound
from reput.store_format.files.protocol import Writer
from reput.store_format.names import BATCH_CONSUME_QUEUE, CONSUME_QUEUE, QueuePath
from reput.udfs.range_files import loss_reader
from reput.udfs.rebuild.small_queues import SmallQueues, built_rows
from reput.udfs.staged_runs import QUEUE_KEY, SEGMENT_KEY, Row, StagedRuns, key_of
from reput.udfs.staging import (
    BUILT,
    PLACED,
    Staging,
    attempt_name,
    in_batches,
    queue_file_name,
    rows_of,
)

_ENTRIES_A_WRITE = 1 << 16


@dataclass(frozen=True)
class NumberRuns:
    """Turns RUN rows of whole queues, in order, into PLACED rows: one for each run and file."""

    files: StagedRuns
    losses: Losses = NO_LOSSES

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        small = SmallQueues(self.files)
        # in a damaged log neighbours decide queueOffsets, and SmallQueues asks none
        if not self._keeps_gaps and self.files.firsts != SALVAGE:
            batches = small.others(batches)
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

    def _runs(self, rows: Iterator[Row], lost: LossReader) -> Iterator[Row]:
        if self.files.firsts == SALVAGE:
            return runs_by_vote(self.files, rows, lost)
        return ({**row, **AS_IT_IS} for row in rows)

    def _number(self, rows: Iterator[Row], kept: "GapFile", lost: LossReader) -> Iterator[Row]:
        gaps_before = QueueGaps(self.files, lost) if self._keeps_gaps else None
        start = position = NO_POSITION
        beginning: Beginning | None = None
        for row in self._runs(rows, lost):
            if row["is_left_out"]:
                continue
            gaps = gaps_before(row) if gaps_before else NO_GAPS
            lowest, rest = position, 0
            if beginning is None or beginning.rest == 0:
                beginning = self._begin(row, beginning)
                lowest, position, rest = beginning
                if len(gaps) and gaps[0]["index"] == 0:
                    position -= int(gaps[0]["count"])
                start = position
            numbered = self.files.number(row, position, gaps)
            after, in_file = numbered.after, self.files.entries_a_file(row["batch"])
            last = (after - 1) // in_file
            # RocketMQ looks the file up before it skips an entry. So if the last file is full, a
            # skipped entry has created the next file (ConsumeQueue.putMessagePositionInfo), but not
            # the one whose pre-blanks filled it.
            if after % in_file == 0 and numbered.skips_at_end and rest != 1:
                last += 1
            first = min(lowest, position) // in_file
            if after > position or last >= first:
                found = kept.add(gaps)
                for segment in range(first, last + 1):
                    yield {**row, **found, "position": position, "start": start, "segment": segment}
            position = after

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
    if files.firsts == REFUSE and not can_be_first(row["first"]):
        entry = decode_entries(files.entries(row, 0, 1))[0]
        raise DamageFound(
            f"topic {row['topic']!r}, queue {row['queue_id']}: the record at physical offset "
            f"{entry['physicalOffset']}: queueOffset {row['first']} is out of range for a "
            "queue's first entry: --on-damage salvage goes by the entries that follow, "
            "truncate takes it as RocketMQ does"
        )


class GapFile:
    """Writes the gaps of a task's runs to a staging file, which the first gap creates."""

    def __init__(self, staging: Staging) -> None:
        self._staging = staging
        self._output: Writer | None = None
        self._name, self._bytes = "", 0

    def add(self, gaps: np.ndarray) -> Row:
        """Write the gaps of a run. Returns their place, as columns of PLACED."""
        found = {"gaps_name": self._name, "gaps_at": self._bytes, "gaps": len(gaps)}
        if len(gaps):
            if self._output is None:
                self._name = found["gaps_name"] = attempt_name("gaps")
                self._output = self._staging.storage.create(self._staging.path(self._name))
            self._output.write(gaps.view(np.uint8))
            self._bytes += gaps.nbytes
        return found

    def finish(self) -> None:
        if self._output:
            self._output.finish(self._bytes)


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
        entries = blank = skipped = 0
        batch = False
        for row in rows:
            batch = row["batch"]
            if output is None and can_be_named(segment, self.files.file_bytes(batch)):
                output = staging.storage.create(staging.path(name), digest=True)
            low = segment * self.files.entries_a_file(batch)
            high = low + self.files.entries_a_file(batch)
            numbered = self.files.number(row, row["position"], self.files.gaps(row))
            if blank == entries == 0 and low < row["start"]:
                blank = min(row["start"], high) - low
                if output:
                    output.write(pre_blank(blank))
            entries += self._append(row, numbered.copies, low, high, output)
            # skipped entries of a run in several files count in the first file
            if low <= row["position"] < high:
                skipped += numbered.skipped
        written = output.finish(self.files.file_bytes(batch)) if output else None
        return {
            "folder": folder,
            "number": segment,
            "name": name if written else "",
            "length": written.length if written else 0,
            "used": (blank + entries) * entry_bytes(batch),
            "sha256": written.sha256 if written else "",
            "entries": entries,
            "skipped": skipped,
            "begin": 0,
            "end": 0,
        }

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
