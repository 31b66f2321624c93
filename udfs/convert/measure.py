"""Measures splits before a log is written anew.

A task walks and checks a split's records, and writes to staging the new size of each that is taken.
"""

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from reput.store_format.dispatch.scan import End
from reput.store_format.faults import Fault
from reput.store_format.log.records import Bytes, Rows
from reput.store_format.rewrite.changes import WHOLE, Changes
from reput.store_format.rewrite.placing import EarlierLog, Marks, SharedRecords
from reput.store_format.rewrite.selection import RecordSelector, Selection, Tally
from reput.udfs.rebuild.scan import SplitsTask, scanned_row
from reput.udfs.staging import SCANNED, LateFile, Staging, read_range, scan_name, schema

RECORDS, QUEUES, ORDER, PUTS = ".records", ".queues", ".order", ".puts"

# One record that is taken. In staging files only, in native byte order.
MEASURED_RECORD = np.dtype(
    [
        ("offset", "<u4"),  # physicalOffset, counted from the split's start
        ("size", "<u4"),  # its new size, bytes
    ]
)

# What decides the same record's place among the records of several stores, and its puts, whose rows
# are in a file of their own. Written only if asked for.
MEASURED_ORDER = np.dtype(
    [
        ("storeTimestamp", "<i8"),  # milliseconds
        ("puts", "<i8"),  # how many; 0 where the record has no position in its queue
    ]
)
# A position that a record has in a queue. Of a record the first one is that in its own queue.
MEASURED_PUT = np.dtype(
    [
        ("queue", "<i8"),  # SPLIT_QUEUE.number
        ("queueOffset", "<i8"),
        ("messages", "<i8"),  # positions; 1 but in a batch queue
    ]
)

# SCANNED, and what becomes of the split.
MEASURED = SCANNED
for _name, _kind in (
    ("taken", pa.int64()),  # records; they have a file of MEASURED_RECORD rows
    ("longest", pa.int64()),  # bytes of the longest record, old or new
):
    MEASURED = MEASURED.append(pa.field(_name, _kind))

# What a split has of a queue; in a file of its own. number: as in RecordSelector.stable.
SPLIT_QUEUE = schema(
    number=pa.int64(), topic=pa.string(), queue_id=pa.int32(),
    **dict.fromkeys(Tally._fields, pa.int64()),
)  # fmt: skip


@dataclass(frozen=True)
class MeasureSplits(SplitsTask):
    changes: Changes
    ordered: bool = False  # MEASURED_ORDER rows are wanted
    # Where some records are left out: physical offsets, in order, of those that are taken
    # nevertheless of topics in WHOLE.
    waiting: tuple[int, ...] = ()
    earlier: tuple[EarlierLog, ...] = ()  # records that one of these logs has too are left out

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for numbers in self.asked(batches):
            rows = [self._measure(number) for number in numbers]
            yield pa.RecordBatch.from_pylist(rows, MEASURED)

    def _measure(self, number: int) -> dict[str, Any]:
        run = scan_name(number)
        selector = RecordSelector(self.changes, self.rules, self.ordered)
        output = _Output(self.staging, run, self.ordered)
        choice = _Choice(self.changes, self.waiting, SharedRecords(self.earlier))
        with closing(choice), self.scan(
            number, lambda start, _, end: _Measured(end, selector, output, start, choice)
        ) as scan:  # fmt: skip
            for _ in scan.run():
                pass
        output.finish()
        taken: Any = scan.outputs
        if scan.end.records:
            self._write_queues(run, selector)
        return {
            **scanned_row(number, run, scan.end), "taken": taken.taken,
            "longest": taken.longest,
        }  # fmt: skip

    def _write_queues(self, run: str, selector: RecordSelector) -> None:
        rows = [
            {"number": selector.keys[key], "topic": key[0], "queue_id": key[1], **tally._asdict()}
            for key, tally in selector.tallies().items()
        ]
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, SPLIT_QUEUE) as stream:
            stream.write_batch(pa.RecordBatch.from_pylist(rows, SPLIT_QUEUE))
        output = LateFile(self.staging, run + QUEUES)
        output.write(np.frombuffer(sink.getvalue(), np.uint8))
        output.finish()


class _Measured:
    """Takes a scan's records in place of a dispatch."""

    def __init__(
        self, end: End, selector: RecordSelector, output: "_Output", start: int, choice: "_Choice"
    ) -> None:  # fmt: skip
        self._end, self._selector, self._output, self._start = end, selector, output, start
        self._choice = choice
        self.taken = self.longest = 0

    def dispatch(self, window: Bytes, rows: Rows) -> Generator[Any, None, tuple[int, Fault]]:
        """Measure rows. It yields nothing, and takes all of them."""
        for selection, some in self._selector.select(window, rows):
            shared = self._choice.leave_out(window, some, selection, self._selector)
            self._selector.count(window, selection, some, shared)
            kept = selection.sizes > 0
            self._output.write(some, selection, kept, self._start, self._selector)
            self.taken += int(np.count_nonzero(kept))
            longest = max(int(selection.sizes.max()), int(some["size"].max()))
            self.longest = max(self.longest, longest)
        self._end.count(rows)
        yield from ()
        return len(rows), Fault.NONE

    def empty(self) -> Iterator[Any]:
        return iter(())


class _Choice:
    """Leaves out records that a RecordSelector would take."""

    def __init__(self, changes: Changes, waiting: tuple[int, ...], shared: SharedRecords) -> None:
        self._selects, self._shared = changes.selects, shared
        self._whole = WHOLE - set(changes.topics)
        self._is_whole = bytearray()  # for each queue, by its stable number: topic in _whole?
        self._waiting = np.array(waiting, np.int64)
        self.close = shared.close

    def leave_out(
        self, window: Bytes, rows: Rows, selection: Selection, selector: RecordSelector
    ) -> Marks:
        """Set the sizes of such rows to 0. Returns whether an earlier store has each row too."""
        if not self._selects:
            return np.zeros(0, np.bool_)
        new = islice(selector.keys, len(self._is_whole), None)
        self._is_whole += bytes(topic in self._whole for topic, _ in new)
        flags = np.frombuffer(bytes(self._is_whole), np.bool_)
        whole = flags[selector.stable[selection.numbers]]
        if np.count_nonzero(whole):
            selection.sizes[whole & ~np.isin(rows["physicalOffset"], self._waiting)] = 0
        shared = self._shared.of(window, rows)
        selection.sizes[shared] = 0
        return shared


class _Output:
    def __init__(self, staging: Staging, run: str, ordered: bool) -> None:
        self._records = LateFile(staging, run + RECORDS)
        self._order = LateFile(staging, run + ORDER) if ordered else None
        self._puts = LateFile(staging, run + PUTS) if ordered else None

    def write(
        self, rows: Rows, selection: Selection, kept: Marks, start: int, selector: RecordSelector
    ) -> None:
        taken = np.empty(np.count_nonzero(kept), MEASURED_RECORD)
        taken["offset"] = rows["physicalOffset"][kept] - start
        taken["size"] = selection.sizes[kept]
        self._records.write(taken.view(np.uint8))
        if self._order is not None and self._puts is not None:
            positions = selection.positions.taken(kept)
            order = np.empty(len(taken), MEASURED_ORDER)
            order["storeTimestamp"] = rows["storeTimestamp"][kept]
            order["puts"] = positions.stops - positions.firsts
            self._order.write(order.view(np.uint8))
            puts = np.empty(len(positions.puts), MEASURED_PUT)
            puts["queue"] = selector.stable[positions.puts["queue"]]
            puts["queueOffset"] = positions.puts["queueOffset"]
            puts["messages"] = positions.puts["batchSize"]
            self._puts.write(puts.view(np.uint8))

    def finish(self) -> None:
        for each in (self._records, self._order, self._puts):
            if each is not None:
                each.finish()


def measured_records(staging: Staging, run: str, taken: int) -> Any:
    raw = read_range(staging, run + RECORDS, 0, taken * MEASURED_RECORD.itemsize)
    return raw.view(MEASURED_RECORD)


def measured_order(staging: Staging, run: str, taken: int) -> Any:
    raw = read_range(staging, run + ORDER, 0, taken * MEASURED_ORDER.itemsize)
    return raw.view(MEASURED_ORDER)


def measured_puts(staging: Staging, run: str, order: Any) -> Any:
    """The MEASURED_PUT rows of a split. order: its MEASURED_ORDER rows."""
    raw = read_range(staging, run + PUTS, 0, int(order["puts"].sum()) * MEASURED_PUT.itemsize)
    return raw.view(MEASURED_PUT)


def split_queues(staging: Staging, run: str) -> list[dict[str, Any]]:
    with pa.ipc.open_stream(staging.storage.read_bytes(staging.path(run + QUEUES))) as stream:
        return [row for batch in stream for row in batch.to_pylist()]
