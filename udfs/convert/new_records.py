"""Dispatches the records of a new segment while they are in memory.

So the files derived from the new log need no second reading of it.
"""

from typing import Any

import numpy as np

from reput.store_format.dispatch.scan import End, IndexPuts, Outputs, Runs, ScanRules
from reput.store_format.faults import Fault
from reput.store_format.log.records import RECORD_ROW, Bytes, walk
from reput.store_format.log.walk import most_rows
from reput.udfs.rebuild.scan import RunFiles, scan_buffers, scanned_row
from reput.udfs.staging import Staging, scan_name

_STRETCH_BYTES = 16 << 20  # no split is shorter by itself: a measuring task's buffers fit here


class NewRecords:
    """The records of one new segment, which is one split: its SCANNED row, and its run files."""

    def __init__(
        self, staging: Staging, rules: ScanRules, number: int, start: int, segment_bytes: int,
        window_bytes: int,
    ) -> None:  # fmt: skip
        """number: the segment's, from 0 on; window_bytes: as in the measuring tasks' buffers."""
        self._number, self._rules, self._segment_end = number, rules, start + segment_bytes
        self._run = scan_name(number)
        self._files = RunFiles(staging, self._run, number)
        self._end = End(first=start, next=start)
        buffers = scan_buffers(min(segment_bytes, _STRETCH_BYTES), window_bytes)
        self._outputs = Outputs(rules, buffers, self._end)
        self._rows = np.zeros(0, RECORD_ROW)
        self._sequence = np.full(4, -1, np.int64)

    def put(self, window: Bytes, at: int) -> None:
        """Dispatch the records that fill a window, which begins at the physical offset `at`.

        It walks the bytes as a scan would, and stops at the first record that a scan would refuse.
        """
        if self._end.fault != Fault.NONE:
            return
        if len(self._rows) < most_rows(len(window)):
            self._rows = np.zeros(most_rows(len(window)), RECORD_ROW)
        length = len(window)
        count, stood, code = walk(
            window, 0, length, length, self._segment_end - at, at, self._rules.records,
            self._rows, self._sequence,
        )  # fmt: skip
        rows, fault = self._rows[:count], Fault(code)
        good, refused = self._dispatch(window, rows)
        if refused != Fault.NONE:
            stood, fault = int(rows["at"][good]), refused
        self._end.next = at + stood
        if fault != Fault.NONE:
            self._end.fault, self._end.rest_is_zero = fault, False
            size = window[stood : stood + 4].tobytes()
            self._end.size = int.from_bytes(size, "big", signed=True)

    def _dispatch(self, window: Bytes, rows: Any) -> tuple[int, Fault]:
        steps = self._outputs.dispatch(window, rows)
        while True:
            try:
                self._keep(next(steps))
            except StopIteration as done:
                good, fault = done.value
                return good, fault

    def _keep(self, part: IndexPuts | Runs) -> None:
        if isinstance(part, IndexPuts):
            self._files.add_puts(part)
        else:
            self._files.add_runs(part)

    def finish(self, last: bool) -> dict[str, Any]:
        """Complete the files; returns the SCANNED row. last: no later segment has a record."""
        end = self._end
        if end.fault == Fault.NONE:
            end.fault = Fault.ZEROS if last else Fault.BLANK
            if not last:
                end.next = self._segment_end
        for part in self._outputs.empty():
            self._keep(part)
        self._files.finish(end.records)
        return scanned_row(self._number, self._run, end, self._files.unsafe)
