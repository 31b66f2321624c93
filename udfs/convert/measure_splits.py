"""Measures splits before a log is written anew: walks and checks their records, and writes to
staging how long each one that is taken becomes.
"""

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from reput.store_format.convert.changes import Changes
from reput.store_format.convert.looked import Looked, Looks
from reput.store_format.derive.scan import End, Scan, ScanRules
from reput.store_format.faults import Fault
from reput.store_format.layouts import SYS_TRANSACTION_COMMIT, SYS_TRANSACTION_MASK
from reput.store_format.log.records import Bytes, Rows
from reput.store_format.log.segments import Splits
from reput.store_format.storage.protocol import Storage
from reput.store_format.storage.read_ahead import open_ahead
from reput.udfs.rebuild.scan_splits import RunFile, scan_buffers, scanned_row
from reput.udfs.schemas import SCANNED, ids_of, schema
from reput.udfs.staging import Staging, read_range, scan_name

RECORDS, QUEUES, ORDER = ".records", ".queues", ".order"

# One record that is taken. In staging files only, in native byte order.
MEASURED_RECORD = np.dtype(
    [
        ("offset", "<u4"),  # physicalOffset, counted from the split's start
        ("size", "<u4"),  # bytes, as it becomes
    ]
)

# What decides about the same record's number in its queue, and about its place among the records of
# several stores; only where that is asked for.
MEASURED_ORDER = np.dtype(
    [
        ("storeTimestamp", "<i8"),  # milliseconds
        ("queue", "<i8"),  # SPLIT_QUEUE.number; -1 where the record has no position in its queue
    ]
)

# SCANNED, and what becomes of the split.
MEASURED = SCANNED
for _name, _kind in (
    ("taken", pa.int64()),  # records; they have a file of MEASURED_RECORD rows
    ("longest", pa.int64()),  # bytes of the longest record, as it is or becomes
):
    MEASURED = MEASURED.append(pa.field(_name, _kind))

# What a split has of a queue (convert.looked.Tally), in a file beside.
SPLIT_QUEUE = schema(
    number=pa.int64(), topic=pa.string(), queue_id=pa.int32(), records=pa.int64(),
    taken=pa.int64(), bytes=pa.int64(), positions=pa.int64(), counted=pa.int64(),
    least=pa.int64(), greatest=pa.int64(), sys_flags=pa.int32(), long=pa.int32(),
    below=pa.list_(pa.int64()),  # of those counted: how many are below each mark of the queue
)  # fmt: skip

Marks = dict[tuple[str, int], tuple[int, ...]]  # by topic and queue id: queueOffsets


@dataclass(frozen=True)
class MeasureSplits:
    """Measures those of `numbers` that belong to the groups whose indices arrive in `id`.

    numbers, groups, firsts: as for ScanSplits.
    """

    storage: Storage  # that the store is on
    staging: Staging
    splits: Splits
    rules: ScanRules
    changes: Changes
    numbers: range | tuple[int, ...]
    groups: tuple[int, ...]
    firsts: dict[int, int]
    ordered: bool = False  # MEASURED_ORDER rows are wanted
    marks: Marks = field(default_factory=dict)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        ends = (*self.groups[1:], len(self.numbers))
        for group in ids_of(batches):
            numbers = self.numbers[self.groups[group] : ends[group]]
            rows = [self._measure(number) for number in numbers]
            yield pa.RecordBatch.from_pylist(rows, MEASURED)

    def _measure(self, number: int) -> dict[str, Any]:
        segment = self.splits.segment(number)
        stretch = self.splits.stretch(number, self.firsts.get(number))
        begin = stretch.start - segment.start
        until = stretch.end - segment.start + self.storage.window_bytes
        whole = self.splits.total * self.splits.split_bytes
        reader = open_ahead(self.storage, segment.path, segment.state, begin, until, whole)
        run = scan_name(number)
        buffers = scan_buffers(stretch.end - stretch.start, self.storage.window_bytes)
        looks = Looks(self.changes, self.rules.records, self.rules.dispatch.split_properties)
        output = _Output(self.staging, run, self.ordered)
        with closing(reader):
            scan = Scan(
                segment.read_by(reader), stretch, self.rules, buffers,
                lambda end: _Measured(end, looks, output, stretch.start, self.marks),
            )  # fmt: skip
            for _ in scan.run():
                pass
        output.finish()
        taken: Any = scan.outputs
        if scan.end.records:
            self._write_queues(run, looks, taken.below)
        return {
            **scanned_row(number, run, scan.end, []), "taken": taken.taken,
            "longest": taken.longest,
        }  # fmt: skip

    def _write_queues(self, run: str, looks: Looks, below: dict[int, list[int]]) -> None:
        rows = [
            {**tally._asdict(), "below": below.get(tally.number, [])} for tally in looks.tallies()
        ]
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, SPLIT_QUEUE) as stream:
            stream.write_batch(pa.RecordBatch.from_pylist(rows, SPLIT_QUEUE))
        output = RunFile(self.staging, run + QUEUES)
        output.write(np.frombuffer(sink.getvalue(), np.uint8))
        output.finish()


class _Measured:
    """Gets a scan's records instead of a dispatch."""

    def __init__(
        self, end: End, looks: Looks, output: "_Output", start: int, marks: Marks
    ) -> None:  # fmt: skip
        self._end, self._looks, self._output, self._start = end, looks, output, start
        self._marks = marks
        self.taken = self.longest = 0
        self.below: dict[int, list[int]] = {}  # by the queue's stable number

    def dispatch(self, window: Bytes, rows: Rows) -> Generator[Any, None, tuple[int, Fault]]:
        """Measure rows. It yields nothing, and takes all of them."""
        for looked, some in self._looks.look(window, rows):
            self._looks.count(window, looked, some)
            kept = np.flatnonzero(looked.sizes > 0)
            if len(kept) < len(some):
                kept_rows, looked_kept = some[kept], looked.of(kept)
            else:
                kept_rows, looked_kept = some, looked
            self._output.write(kept_rows, looked_kept, self._start, self._looks)
            if self._marks:
                self._count_below(kept_rows, looked_kept)
            self.taken += len(kept)
            longest = max(int(looked.sizes.max()), int(some["size"].max()))
            self.longest = max(self.longest, longest)
        self._end.count(rows)
        yield from ()
        return len(rows), Fault.NONE

    def empty(self) -> Iterator[Any]:
        return iter(())

    def _count_below(self, rows: Rows, looked: Looked) -> None:
        stable = self._looks.stable[looked.numbers]
        for key, marks in self._marks.items():
            number = self._looks.keys.get(key)
            if number is None:
                continue
            mine = rows[stable == number]
            offsets = mine["queueOffset"][reaching_queues(mine["sysFlag"])]
            below = self.below.setdefault(number, [0] * len(marks))
            for n, mark in enumerate(marks):
                below[n] += int(np.count_nonzero(offsets < mark))


class _Output:
    """The files of a split."""

    def __init__(self, staging: Staging, run: str, ordered: bool) -> None:
        self._records = RunFile(staging, run + RECORDS)
        self._order = RunFile(staging, run + ORDER) if ordered else None

    def write(self, rows: Rows, looked: Looked, start: int, looks: Looks) -> None:
        """Write rows that are taken. start: the split's."""
        taken = np.empty(len(rows), MEASURED_RECORD)
        taken["offset"] = rows["physicalOffset"] - start
        taken["size"] = looked.sizes
        self._records.write(taken.view(np.uint8))
        if self._order is not None:
            order = np.empty(len(rows), MEASURED_ORDER)
            order["storeTimestamp"] = rows["storeTimestamp"]
            queue = looks.stable[looked.numbers]
            order["queue"] = np.where(reaching_queues(rows["sysFlag"]), queue, -1)
            self._order.write(order.view(np.uint8))

    def finish(self) -> None:
        self._records.finish()
        if self._order is not None:
            self._order.finish()


def reaching_queues(sys_flags: np.ndarray) -> np.ndarray:
    """One bool for each record: whether it has a position in its queue."""
    kinds = sys_flags & SYS_TRANSACTION_MASK
    reaching: np.ndarray = (kinds == 0) | (kinds == SYS_TRANSACTION_COMMIT)
    return reaching


def measured_records(staging: Staging, run: str, taken: int) -> Any:
    """The MEASURED_RECORD rows of a split."""
    raw = read_range(staging, run + RECORDS, 0, taken * MEASURED_RECORD.itemsize)
    return raw.view(MEASURED_RECORD)


def measured_order(staging: Staging, run: str, taken: int) -> Any:
    """The MEASURED_ORDER rows of a split."""
    raw = read_range(staging, run + ORDER, 0, taken * MEASURED_ORDER.itemsize)
    return raw.view(MEASURED_ORDER)


def split_queues(staging: Staging, run: str) -> list[dict[str, Any]]:
    """The SPLIT_QUEUE rows of a split that has records."""
    with pa.ipc.open_stream(staging.storage.read_bytes(staging.path(run + QUEUES))) as stream:
        return [row for batch in stream for row in batch.to_pylist()]
