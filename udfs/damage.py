"""Scan damaged segments past their damage: one row a segment, and a file of its ranges."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from store_format.faults import Fault
from store_format.scan import End, IndexPuts, Read, Runs, ScanRules
from store_format.segments import Segment
from store_format.store_files import Reader, Storage
from store_format.tolerant import (
    MOST_RANGES,
    Before,
    Damage,
    Kind,
    scan_past_damage,
)
from udfs.scan import RunFiles, scanned_row
from udfs.schemas import SCANNED, ids_of, schema
from udfs.staging import RUNS, Staging, attempt_name

DAMAGE = ".damage"

# One row a damaged range; see store_format.tolerant.Damage.
RANGE = schema(
    offset=pa.int64(),
    end=pa.int64(),
    kind=pa.string(),
    fault=pa.int32(),
    size=pa.int64(),
    value=pa.int64(),
    follows=pa.string(),
)
# One row a segment.
MAPPED = SCANNED.append(pa.field("segment", pa.int64()))
MAPPED = MAPPED.append(pa.field("live_end", pa.int64()))  # where its last live record ends
MAPPED = MAPPED.append(pa.field("ranges", pa.int64()))
MAPPED = MAPPED.append(pa.field("given_up", pa.bool_()))  # too many: the rest was not looked at


@dataclass(frozen=True)
class DamagedSegment:
    """One segment to scan: its number, file, and what the log holds before it."""

    number: int
    segment: Segment
    last_timestamp: int | None
    is_last: bool  # no later one has anything


@dataclass(frozen=True)
class MapSegments:
    """Scans the damaged segments whose places in `segments` arrive in the column `id`.

    runs: (split, run name) of all that is known to be sound: what queues hold is told by those
    before a segment.
    """

    storage: Storage  # that the store is on
    staging: Staging
    segments: tuple[DamagedSegment, ...]
    segment_bytes: int
    splits_a_segment: int
    rules: ScanRules
    runs: tuple[tuple[int, str], ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for place in ids_of(batches):
            yield pa.RecordBatch.from_pylist([self._map(self.segments[place])], MAPPED)

    def _map(self, damaged: DamagedSegment) -> dict[str, object]:
        segment = damaged.segment
        split = damaged.number * self.splits_a_segment
        reader = self.storage.open(segment.path, segment.state)
        run = attempt_name(f"scan-{split:08d}")
        output = RunFiles(self.staging, run, split)
        ranges = RangeFile(self.staging, run)
        before = _Before(self.staging, tuple(r for s, r in self.runs if s < split))
        scan = scan_past_damage(
            padded(reader, segment), segment.start, segment.start + self.segment_bytes,
            self.rules, Before(damaged.last_timestamp, before.greatest, damaged.is_last),
        )  # fmt: skip
        end = End()
        for part in scan.run():
            match part:
                case IndexPuts():
                    output.add_puts(part)
                case Runs():
                    output.add_runs(part)
                case Damage():
                    ranges.add(part)
                case End():
                    end = part
        reader.close()
        if segment.state.size < self.segment_bytes:
            ranges.cut(segment.end, segment.start + self.segment_bytes)
        output.finish(end.records)
        return {
            **scanned_row(split, run, end, output.unsafe),
            "segment": damaged.number,
            "live_end": scan.live_end,
            "ranges": ranges.finish(),
            "given_up": scan.ranges >= MOST_RANGES,
        }


def padded(reader: Reader, segment: Segment) -> Read:
    """Reads physical offsets; what is missing at a short file's end reads as zeros."""
    read_there = segment.read_by(reader)

    def read(offset: int, buffer: np.ndarray) -> None:
        there = max(min(len(buffer), segment.end - offset), 0)
        buffer[there:] = 0
        if there:
            read_there(offset, buffer[:there])

    return read


class RangeFile:
    """The ranges of one segment, in staging."""

    def __init__(self, staging: Staging, run: str) -> None:
        self._output = staging.storage.create(staging.path(run + DAMAGE))
        self._rows: list[Damage] = []

    def add(self, damage: Damage) -> None:
        self._rows.append(damage)

    def cut(self, start: int, end: int) -> None:
        """[start, end) of the segment is not there at all."""
        kept = [d._replace(end=min(d.end, start)) for d in self._rows if d.offset < start]
        missing = Damage(start, end, Kind.MISSING, Fault.MISSING, 0, None, "segment's end")
        self._rows = [*kept, missing]

    def finish(self) -> int:
        """Write them; how many there are."""
        table = pa.Table.from_pylist(
            [{**d._asdict(), "kind": str(d.kind), "fault": int(d.fault)} for d in self._rows], RANGE
        )
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, RANGE) as stream:
            stream.write_table(table)
        raw = sink.getvalue()
        self._output.write(raw)
        self._output.finish(raw.size)
        return len(self._rows)


def read_ranges(staging: Staging, run: str, most: int | None = None) -> list[Damage]:
    """The ranges of a scanned segment, at most so many from the first on."""
    with pa.ipc.open_stream(staging.storage.read_bytes(staging.path(run + DAMAGE))) as stream:
        rows = stream.read_all().slice(0, most).to_pylist()
    return [
        Damage(**{**row, "kind": Kind(row["kind"]), "fault": Fault(row["fault"])}) for row in rows
    ]


@dataclass(frozen=True)
class _Before:
    """What the queues hold by the runs of what is sound; read only if somebody asks."""

    staging: Staging
    runs: tuple[str, ...]

    def greatest(self, topic: str, queue_id: int) -> int | None:
        return self._queues.get((topic, queue_id))

    @cached_property
    def _queues(self) -> dict[tuple[str, int], int]:
        found: dict[tuple[str, int], int] = {}
        for run in self.runs:
            raw = self.staging.storage.read_bytes(self.staging.path(run + RUNS))
            with pa.ipc.open_stream(raw) as stream:
                for rows in stream:
                    names, ids, most = (
                        rows.column(name).to_pylist() for name in ("topic", "queue_id", "greatest")
                    )
                    for key, value in zip(zip(names, ids, strict=True), most, strict=True):
                        found[key] = max(found.get(key, value), value)
        return found
