"""Scans damaged segments past their damage: a row for each, and a file of its ranges."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from reput.store_format.damage.evidence import NextOffset, Queue
from reput.store_format.damage.liveness import Before, Given
from reput.store_format.damage.queue_ends import last_of, last_of_batches
from reput.store_format.damage.ranges import Damage, Ranges
from reput.store_format.damage.tolerant import MOST_RANGES, TolerantScan
from reput.store_format.derived.queue_files import entry_bytes
from reput.store_format.dispatch.scan import End, IndexPuts, Read, Runs, ScanRules
from reput.store_format.files.protocol import InputStorage, Reader
from reput.store_format.log.segments import Segment
from reput.udfs.range_files import RangeFile
from reput.udfs.rebuild.scan import RunFiles, scanned_row
from reput.udfs.staging import (
    ENTRIES,
    RUNS,
    SCANNED,
    Staging,
    ids_of,
    past_name,
    read_range,
    scan_name,
)

NOTED_EVERY_SECONDS = 2.0

# One row for each damaged segment: a SCANNED row of its scan, and what is damaged in it.
MAPPED = SCANNED.append(pa.field("segment", pa.int64()))
MAPPED = MAPPED.append(pa.field("live_end", pa.int64()))  # where its last live record ends
MAPPED = MAPPED.append(pa.field("ranges", pa.int64()))
# JSON, an array for each cause of damage: kind, fault, whether no live record of the segment
# follows, number of ranges, number of bytes.
MAPPED = MAPPED.append(pa.field("causes", pa.string()))
MAPPED = MAPPED.append(pa.field("lost_end", pa.int64()))  # end of the last lost range before it
MAPPED = MAPPED.append(pa.field("given_up", pa.bool_()))  # after MOST_RANGES the scan stopped


@dataclass(frozen=True)
class DamagedSegment:
    """One segment to scan. last_timestamp: storeTimestamp of the last record before it."""

    number: int
    segment: Segment
    last_timestamp: int | None
    is_last: bool  # all later segments are empty
    given: tuple[Given, ...] = ()  # its pieces that are judged by the whole log


@dataclass(frozen=True)
class MapSegments:
    """Scans those of `segments` whose indices arrive in the column `id`.

    runs: (split, run name) of all sound splits. Those before a segment give each queue's last
    queueOffset there; a record of the segment whose queueOffset is not above it is stale.
    unread: (split, bytes) that follow the sound records of a split and were not scanned yet.
    """

    storage: InputStorage  # that the store is on
    staging: Staging
    segments: tuple[DamagedSegment, ...]
    segment_bytes: int
    splits_a_segment: int
    rules: ScanRules
    runs: tuple[tuple[int, str], ...]
    unread: tuple[tuple[int, int], ...] = ()
    most_ranges: int = MOST_RANGES

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for place in ids_of(batches):
            yield pa.RecordBatch.from_pylist([self._map(self.segments[place])], MAPPED)

    def _map(self, damaged: DamagedSegment) -> dict[str, object]:
        segment = damaged.segment
        split = damaged.number * self.splits_a_segment
        reader = self.storage.open(segment.path, segment.state)
        run = scan_name(split)
        output = RunFiles(self.staging, run, split)
        before = _Before(
            self.staging, tuple(each for each in self.runs if each[0] < split),
            tuple(each for each in self.unread if each[0] < split),
        )  # fmt: skip
        progress = _Progress(self.staging, run, segment.start, lambda: scan.reporter.count)
        read = progress.reads(padded(reader, segment))
        scan = TolerantScan(
            read, segment.start, segment.start + self.segment_bytes, self.rules,
            Before(damaged.last_timestamp, before.last, damaged.is_last, damaged.given),
        )  # fmt: skip
        ranges = RangeFile(self.staging, run, segment.end, lambda: scan.live.end)
        scan.most_ranges = self.most_ranges
        end = End()
        for part in scan.run():
            match part:
                case IndexPuts():
                    output.add_puts(part)
                case Runs():
                    output.add_runs(part)
                case Damage():
                    ranges.add(part)
                case Ranges():
                    ranges.add_rows(part.rows)
                case End():
                    end = part
        reader.close()
        output.finish()
        progress.note(self.segment_bytes)
        return {
            **scanned_row(split, run, end, output),
            "segment": damaged.number,
            "live_end": scan.live.end,
            **ranges.finish(segment.start + self.segment_bytes),
            "given_up": scan.reporter.count >= scan.most_ranges,
        }


def padded(reader: Reader, segment: Segment) -> Read:
    """A function that reads by physical offsets; bytes that a short file lacks read as zeros."""
    read_there = segment.read_by(reader)

    def read(offset: int, buffer: np.ndarray) -> None:
        there = max(min(len(buffer), segment.end - offset), 0)
        buffer[there:] = 0
        if there:
            read_there(offset, buffer[:there])

    return read


class _Progress:
    """Notes for the driver how far a task is in its segment: by names of empty files in staging."""

    def __init__(self, staging: Staging, run: str, start: int, ranges: Callable[[], int]) -> None:
        self._staging, self._run, self._start, self._ranges = staging, run, start, ranges
        self._done = 0
        self._noted = (-1, -1)
        self._at = time.monotonic()

    def reads(self, read: Read) -> Read:
        """A function that reads as `read` does, and notes now and then how far it has come."""

        def noting(offset: int, buffer: np.ndarray) -> None:
            read(offset, buffer)
            self._done = max(self._done, offset - self._start)
            if time.monotonic() >= self._at + NOTED_EVERY_SECONDS:
                self.note(self._done)

        return noting

    def note(self, done: int) -> None:
        self._at = time.monotonic()
        if self._noted == (done, self._ranges()):
            return  # this file exists already
        self._noted = done, self._ranges()
        path = self._staging.path(past_name(self._run, *self._noted))
        self._staging.storage.create(path).finish(0)


@dataclass(frozen=True)
class _Before:
    """The last queueOffset of each queue in the sound runs, which are read when first needed."""

    staging: Staging
    runs: tuple[tuple[int, str], ...]
    unread: tuple[tuple[int, int], ...]

    def last(self, topic: str, queue_id: int) -> NextOffset | None:
        return self._queues.get((topic, queue_id))

    @cached_property
    def _queues(self) -> dict[Queue, NextOffset]:
        found: dict[Queue, NextOffset] = {}
        for split, run in self.runs:
            lost = sum(length for at, length in self.unread if at >= split)
            raw = self.staging.storage.read_bytes(self.staging.path(run + RUNS))
            with pa.ipc.open_stream(raw) as stream:
                for rows in stream:
                    for row in rows.to_pylist():
                        found[row["topic"], row["queue_id"]] = NextOffset(
                            self._last_of(run, row), lost
                        )
        return found

    def _last_of(self, run: str, row: dict[str, Any]) -> int:
        if row["batch"]:
            length = row["count"] * entry_bytes(True)
            return last_of_batches(
                read_range(self.staging, run + ENTRIES, row["entries_at"], length)
            )
        if row["offsets_at"] < 0:
            return int(row["greatest"])
        raw = read_range(self.staging, run + ENTRIES, row["offsets_at"], 8 * row["count"])
        return last_of(raw.view(np.int64))
