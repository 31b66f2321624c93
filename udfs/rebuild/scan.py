"""Scans splits in tasks: yields SCANNED rows, and writes entries and puts to staging."""

import json
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa

from reput.store_format.dispatch.scan import (
    Buffers,
    Bytes,
    End,
    IndexPuts,
    Outputs,
    Rows,
    Runs,
    Scan,
    ScanRules,
)
from reput.store_format.fate import gather
from reput.store_format.faults import Fault
from reput.store_format.files.protocol import InputStorage
from reput.store_format.files.read_ahead import open_ahead
from reput.store_format.log.rules import RecordRules
from reput.store_format.log.segments import Segment, Splits
from reput.store_format.log.walk import Step
from reput.store_format.names import UnsafeName, check_queue_topic
from reput.store_format.query.counts import PutSums
from reput.udfs.staging import (
    ENTRIES,
    HASHES,
    MESSAGES,
    RUN,
    RUNS,
    SCANNED,
    SUMS,
    LateFile,
    Staging,
    attempt_name,
    ids_of,
    scan_name,
    schema,
    stage,
)

_UNSAFE_SHOWN = 5


@dataclass(frozen=True)
class SplitsTask:
    """A task on those of `numbers` that belong to the groups whose indices arrive in `id`.

    groups: where in `numbers` each group starts. firsts: the first record of a split, if it is
    known from the split before; otherwise the scan looks for it.
    """

    storage: InputStorage  # that the store is on
    staging: Staging
    splits: Splits
    rules: ScanRules
    numbers: range | tuple[int, ...]
    groups: tuple[int, ...]
    firsts: dict[int, int]

    def asked(self, batches: Iterator[pa.RecordBatch]) -> Iterator[range | tuple[int, ...]]:
        """The numbers of each group that arrives."""
        ends = (*self.groups[1:], len(self.numbers))
        for group in ids_of(batches):
            yield self.numbers[self.groups[group] : ends[group]]

    @contextmanager
    def scan(self, number: int, outputs: Callable[[int, Buffers, End], Any]) -> Iterator[Scan]:
        """A split's scan. outputs: makes that of Scan, of where the split starts too."""
        segment = self.splits.segment(number)
        stretch = self.splits.stretch(number, self.firsts.get(number))
        begin = stretch.start - segment.start
        until = stretch.end - segment.start + self.storage.window_bytes  # for the last record
        whole = self.splits.total * self.splits.split_bytes
        reader = open_ahead(self.storage, segment.path, segment.state, begin, until, whole)
        buffers = scan_buffers(stretch.end - stretch.start, self.storage.window_bytes)
        with closing(reader):
            yield Scan(
                segment.read_by(reader), stretch, self.rules, buffers,
                lambda end: outputs(stretch.start, buffers, end),
            )  # fmt: skip


@dataclass(frozen=True)
class ScanSplits(SplitsTask):
    """Scans splits. sums: whether to stage what `all_sums` reads."""

    sums: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for numbers in self.asked(batches):
            yield pa.RecordBatch.from_pylist(self._scan_all(numbers), SCANNED)

    def _scan_all(self, numbers: range | tuple[int, ...]) -> list[dict[str, Any]]:
        """A row for each split. A split without a record stages no files, because making a file can
        take longer than the scan. The last split always has a .runs file, for the progress.
        """
        rows = []
        for number in numbers:
            row, output = self._scan(number)
            if row["records"] or number == numbers[-1]:
                output.finish()
            rows.append(row)
        return rows

    def _scan(self, number: int) -> tuple[dict[str, Any], "RunFiles"]:
        """The row of a split, and its files, which are still to be completed."""
        run = scan_name(number)
        output = RunFiles(self.staging, run, number)
        outputs = Summed if self.sums else Outputs
        with self.scan(number, lambda _, *buffers: outputs(self.rules, *buffers)) as scan:
            for part in scan.run():
                match part:
                    case IndexPuts():
                        output.add_puts(part)
                    case Runs():
                        output.add_runs(part)
        if isinstance(scan.outputs, Summed) and scan.end.records:
            scan.outputs.write(LateFile(self.staging, run + SUMS))
        return scanned_row(number, run, scan.end, output), output


def scanned_row(
    number: int, run: str, end: End, output: "RunFiles | None" = None
) -> dict[str, Any]:
    """The SCANNED row of a stretch that ended with `end`; `run` names its run files."""
    return {
        "split": number, "run": run, **vars(end), "fault": int(end.fault),
        "unsafe_topics": output.unsafe if output else [],
        "runs": output.runs if output else 0, "queues": output.queues if output else 0,
    }  # fmt: skip


class _Kept(threading.local):
    """Kept by each thread: an engine may run tasks in several threads of a process."""

    buffers: Buffers | None = None


_kept = _Kept()


def scan_buffers(stretch_bytes: int, window_bytes: int) -> Buffers:
    """The thread's last buffers if they suffice, else new ones: it scans one stretch at a time."""
    kept = _kept.buffers
    if kept is None or kept.stretch_bytes < stretch_bytes or kept.window_bytes != window_bytes:
        kept = _kept.buffers = Buffers(stretch_bytes, window_bytes=window_bytes)
    return kept


class RunFiles:
    """The files of one scanned split: entries, packed puts, and RUN rows that point to entries."""

    def __init__(self, staging: Staging, run: str, split: int) -> None:
        self._entries = LateFile(staging, run + ENTRIES)
        self._hashes = LateFile(staging, run + HASHES)
        self._messages = LateFile(staging, run + MESSAGES)
        self._rows = LateFile(staging, run + RUNS)
        self._split = split
        self._parts = 0
        self._tables: list[pa.RecordBatch] = []
        self.unsafe: list[str] = []
        self.runs = self.queues = 0  # queues: of one part, at most

    def add_puts(self, part: IndexPuts) -> None:
        self._hashes.write(part.hashes)
        self._messages.write(part.messages.view(np.uint8))

    def add_runs(self, part: Runs) -> None:
        runs = part.runs
        kept = np.flatnonzero((runs.count > 0) & self._safe(part))
        entries_base = self._entries.bytes
        offsets_base = entries_base + len(runs.entries)
        offsets_at = np.where(runs.offsets_at < 0, -1, offsets_base + 8 * runs.offsets_at)
        times_base = offsets_base + runs.offsets.nbytes
        times_at = times_base + 8 * (np.cumsum(runs.count) - runs.count)
        if not len(runs.times):
            times_at[:] = -1
        columns = {
            "topic": pa.array([part.queues[i].topic for i in kept], pa.string()),
            "queue_id": pa.array([part.queues[i].queue_id for i in kept], pa.int32()),
            "batch": pa.array([part.queues[i].batch for i in kept], pa.bool_()),
            "split": pa.array(np.full(len(kept), self._split)),
            "part": pa.array(np.full(len(kept), self._parts, np.int32)),
            "entries_at": pa.array(entries_base + runs.entries_at[kept]),
            "count": pa.array(runs.count[kept]),
            "offsets_at": pa.array(offsets_at[kept]),
            "first": pa.array(runs.first[kept]),
            "greatest": pa.array(runs.greatest[kept]),
            "times_at": pa.array(times_at[kept]),
        }
        self._tables.append(pa.RecordBatch.from_pydict(columns, RUN))
        self._entries.write(runs.entries)
        self._entries.write(runs.offsets.view(np.uint8))
        self._entries.write(runs.times.view(np.uint8))
        self._parts += 1
        self.runs += len(kept)
        self.queues = max(self.queues, len(kept))

    def _safe(self, part: Runs) -> np.ndarray:
        """One bool for each queue: whether its topic can name a folder. Notes the others."""
        safe = np.ones(len(part.queues), np.bool_)
        for i, queue in enumerate(part.queues):
            try:
                check_queue_topic(queue.topic)
            except UnsafeName as error:
                safe[i] = part.runs.count[i] == 0
                if not safe[i] and len(self.unsafe) < _UNSAFE_SHOWN:
                    self.unsafe.append(str(error))
        return safe

    def finish(self) -> None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, RUN) as stream:
            for table in self._tables:
                stream.write_batch(table)
        self._entries.finish()
        self._hashes.finish()
        self._messages.finish()
        self._rows.write(np.frombuffer(sink.getvalue(), np.uint8))
        self._rows.finish()


# ---
# What a report counts of a log while it is scanned, so that it is read once.


class Summed(Outputs):
    """Outputs that also count all records, and gather marks of what `any_fate` concerns."""

    def __init__(self, rules: ScanRules, buffers: Buffers, end: End) -> None:
        super().__init__(rules, buffers, end)
        from reput.store_format.fate.delays import any_fate  # a rebuild's scan needs none

        self._put = PutSums(rules.dispatch.split_properties, rules.batch_topics)
        self._marks = gather.Taken(any_fate, rules.dispatch.split_properties)

    def dispatch(
        self, window: Bytes, rows: Rows
    ) -> Generator[IndexPuts | Runs, None, tuple[int, Fault]]:
        done, fault = yield from super().dispatch(window, rows)
        if done:
            step = Step(0, window, rows[:done], None, 0, fault)
            self._put.count(step)
            self._marks.add(step)
        return done, fault

    def write(self, file: LateFile) -> None:
        marks, out = self._marks.gathered(), BytesIO()
        said = [*self._put.parts(), marks.skipped, marks.skips, marks.last_timestamp]
        text = np.frombuffer(json.dumps(said).encode(), np.uint8)
        np.savez(out, marks=marks.marks, ended=marks.ended, said=text)
        file.write(np.frombuffer(out.getbuffer(), np.uint8))
        file.finish()


def all_sums(
    staging: Staging, runs: Iterable[str], rules: ScanRules
) -> tuple[PutSums, gather.Gathered]:
    """What a scan with `sums` has counted in the splits of these runs, in the log's order."""
    put, marks = PutSums(rules.dispatch.split_properties, rules.batch_topics), []
    for run in runs:
        raw = np.load(BytesIO(staging.storage.read_bytes(staging.path(run + SUMS))))
        *parts, skipped, skips, last = json.loads(raw["said"].tobytes())
        put.take(*parts)
        skipped = [gather.Skipped(*each) for each in skipped]
        marks.append(gather.Gathered(raw["marks"], raw["ended"], skipped, skips, last, [], 0))
    return put, gather.joined(marks)


# ---
# Gathers the marks of delayed messages, timers and their deliveries, a segment a task.

# One row for each segment. marks: the file in staging with them (MARK).
GATHERED = schema(
    segment=pa.int64(), marks=pa.string(), last_timestamp=pa.int64(), unread_to=pa.int64()
)


@dataclass(frozen=True)
class GatherMarks:
    """Gathers from the segments whose numbers arrive in the column `id`. end: of the log."""

    storage: InputStorage
    staging: Staging
    segments: tuple[Segment, ...]
    rules: RecordRules
    split: bool  # Profile.split_properties
    end: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from reput.store_format.fate.delays import concerns  # a rebuild's scan needs none

        for number in ids_of(batches):
            found = gather.gather_segment(
                self.storage, self.segments[number], self.rules, concerns, self.split, self.end
            )
            name = stage(self.staging, attempt_name("marks"), found.marks.tobytes())
            row = [number, name, found.last_timestamp, found.unread_to]
            yield pa.RecordBatch.from_pylist(
                [dict(zip(GATHERED.names, row, strict=True))], GATHERED
            )

    def read(self, rows: list[dict[str, Any]]) -> gather.Gathered:
        """What all tasks gathered, by their rows."""
        parts = []
        for row in sorted(rows, key=lambda each: each["segment"]):
            raw = self.staging.storage.read_bytes(self.staging.path(row["marks"]))
            marks = np.frombuffer(raw, gather.MARK)
            ended, last, unread = np.zeros(0, gather.ENDED), row["last_timestamp"], row["unread_to"]
            parts.append(gather.Gathered(marks, ended, [], 0, last, [], unread))
        return gather.joined(parts)
