"""The walk from record to record, a window at a time, which every reader of a log uses; and which
segment a file is by its own records.

Scan, salvage, recovery, dump and copying differ in what they do with a sound record and with a
fault; how both are found is here (as in leveldb's log::Reader). The loop in this module runs once
for each window, the kernel `records.walk` once for each record.

The body of a record that is longer than a window is never held. It is hashed piece by piece where
a CRC has to be compared. The record comes as a step of its own, whose window has only the bytes
before and after the body (`bodyElided` in its row).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format.faults import Fault
from reput.store_format.files.protocol import InputStorage
from reput.store_format.layouts import CRC_PROPERTY_BYTES, RECORD_FIXED_BYTES, RECORD_HEAD_BYTES
from reput.store_format.log import records
from reput.store_format.log.properties import CRC_PROPERTY_NAME, new_spans
from reput.store_format.log.record import Read as Read
from reput.store_format.log.record import crc_of, read_oversize
from reput.store_format.log.rules import NO_CHECKS as NO_CHECKS
from reput.store_format.log.rules import Checks as Checks
from reput.store_format.log.segments import Finding, ReadBy, Segment, begins_at, rename_text
from reput.store_format.names import segment_name

Marks = npt.NDArray[np.uint8]
# room for a window, and for the RECORD_ROWs of its records
Buffers = tuple[records.Bytes, records.Rows]


class Step(NamedTuple):
    """One window of a walk. The window and rows are valid until the walk goes on."""

    at: int  # the physical offset of the window's first byte
    window: records.Bytes
    rows: records.Rows  # RECORD_ROW: records that are whole, and start at their physicalOffset
    wrong: Marks | None  # uint8 for each row: the Fault of its CRC, or 0; None where all are right
    next: int  # the physical offset that the walk has reached
    fault: Fault  # what stands there; NONE: a record, or the walk was asked to stop there
    head: int = 0  # bytes before each record: a walk stands where they begin

    def start(self, number: int) -> int:
        """Where a walk stands to read the row of this number: its physicalOffset, or its head's."""
        return int(self.rows["physicalOffset"][number]) - self.head

    def until_wrong(self) -> "Step":
        """The step, ended before its first row with a wrong CRC; that becomes its fault."""
        if self.wrong is None:
            return self
        good = int(np.argmax(self.wrong != 0))
        fault = Fault(int(self.wrong[good]))
        return Step(
            self.at, self.window, self.rows[:good], None, self.start(good), fault, self.head
        )


class Walk:
    """Walks the records of one segment, in one buffer that is filled window after window."""

    def __init__(
        self,
        read: Read,
        end: int,
        rules: records.RecordRules,
        checks: Checks,
        buffer: records.Bytes,
        rows: records.Rows | None = None,
        doubt: Callable[[int], Fault] | None = None,
    ) -> None:
        """end: where the segment ends; buffer: room for a window; rows: RECORD_ROW, as many as may
        stand in a window.

        doubt: called with the offset of a record that reaches past the window, before more is read.
        It returns a fault where the record is not worth reading, else NONE. Callers who go on after
        a fault need it: without it, forged sizes could make a walk read the same megabytes many
        times.
        """
        self.read, self.end = read, end
        self._data_from = read.data_from if isinstance(read, ReadBy) else int
        # bytes before each record, where the walk stands
        self.head: int = records.head_bytes(end, rules)
        self._rules, self._checks, self._doubt = rules, checks, doubt
        # In a DLedger log: index and term of the first entry, and of the last; else -1.
        self.sequence = np.full(4, -1, np.int64)
        self._buffer = buffer
        self._rows = np.zeros(most_rows(len(buffer)), records.RECORD_ROW) if rows is None else rows
        self._spans = new_spans() if checks.property else None
        self._window = buffer[:0]
        self._window_at = 0

    def use(self, buffers: Buffers) -> None:
        """Read into these from now on: the last step stays valid."""
        self._buffer, self._rows = buffers
        self._window = self._buffer[:0]

    def steps(self, at: int, stop: int) -> Iterator[Step]:
        """Sound records from the record at `at` until one starts at or after `stop`.

        Ends with the first fault, a wrong CRC too. Gives no step where `at` is not before `stop`.
        """
        for step in self.marked(at, stop):
            if step.wrong is not None:
                yield step.until_wrong()
                return
            yield step

    def marked(self, at: int, stop: int) -> Iterator[Step]:
        """Records in [at, stop); those that only fail a CRC are marked, and the walk goes on."""
        self.sequence[:] = -1
        while at < stop:
            window = self.load(at)
            count, stood, code = records.walk(
                window, 0, len(window), stop - at, self.end - at, at, self._rules, self._rows,
                self.sequence,
            )  # fmt: skip
            rows, fault = self._rows[:count], Fault(code)
            if fault == Fault.NEED_MORE and stood == 0:
                doubt = self._more_for(at, window)
                if doubt == Fault.NEED_MORE:
                    continue
                if doubt != Fault.NONE:
                    yield Step(at, window, rows, None, at, doubt, self.head)
                    return
                step = self._long(at, window)
            else:
                if fault == Fault.NEED_MORE:
                    fault = Fault.NONE
                    if self._doubt is None:
                        self._window = self._window[:0]
                marks = self.marks(window, rows)
                step = Step(at, window, rows, marks, at + stood, fault, self.head)
            yield step
            at = step.next
            if step.fault != Fault.NONE:
                return

    def _more_for(self, at: int, window: records.Bytes) -> Fault:
        """What to do about a record that reaches past the window. NEED_MORE: read a new window;
        NONE: it is longer than any window; else the fault for which it is not worth reading.
        """
        partial = len(window) < min(len(self._buffer), self.end - at)
        far = at - self._window_at > len(self._window) // 2  # half of a new window would be new
        if self._doubt is not None and not (partial and far):
            doubt = self._doubt(at)
            if doubt != Fault.NONE:
                return doubt
        if partial:
            self._window = self._window[:0]
            return Fault.NEED_MORE
        return Fault.NONE

    def _long(self, at: int, window: records.Bytes) -> Step:
        """The step of one record that is longer than a window."""
        place, rules = at + self.head, self._rules
        if self.head:
            _, size = records.entry(window, 0, len(window), self.end - at, at, rules)
        else:
            _, size = records.frame(window, 0, len(window), self.end - at, rules)
        fault, around, row = read_oversize(self.read, place, size, rules)
        if fault == Fault.NONE and self.head:
            fault = Fault(records.goes_on(window, 0, self.sequence))
        if fault != Fault.NONE:
            return Step(at, window, row[:0], None, at, fault, self.head)
        wrong = self._mark_of_long(place, around, row)
        marks = None if wrong == Fault.NONE else np.array([wrong], np.uint8)
        return Step(place, around, row, marks, place + size, Fault.NONE, self.head)

    def _mark_of_long(self, at: int, around: records.Bytes, rows: records.Rows) -> Fault:
        checks, row = self._checks, rows[0]
        body, body_crc = int(row["bodyLength"]), int(row["bodyCRC"])
        properties = around[int(row["propertiesAt"]) :]
        named = checks.property and CRC_PROPERTY_NAME in properties.tobytes()
        if checks.seal or named:
            row["bodyCRC"] = crc_of(self.read, at, int(row["size"]) - CRC_PROPERTY_BYTES)
        bad_seal = named and self._bad_property_crcs(around, rows)[0]
        if not checks.seal:
            row["bodyCRC"] = body_crc
        if checks.body and body:
            body_at = at + int(row["bodyAt"]) - int(row["at"])
            if crc_of(self.read, body_at, body) != body_crc:
                return Fault.BODY_CRC
        return Fault.PROPERTY_CRC if bad_seal else Fault.NONE

    def marks(self, window: records.Bytes, rows: records.Rows) -> Marks | None:
        """The CRC fault of each row, or 0; None where no row has one."""
        wrong: Marks | None = None
        if self._checks.property:
            bad = self._bad_property_crcs(window, rows)
            if np.count_nonzero(bad):  # ten times as fast as any()
                wrong = np.zeros(len(rows), np.uint8)
                wrong[bad] = Fault.PROPERTY_CRC
        if self._checks.body:
            bad = records.bad_bodies(window, rows)
            if np.count_nonzero(bad):
                wrong = np.zeros(len(rows), np.uint8) if wrong is None else wrong
                wrong[bad] = Fault.BODY_CRC
        return wrong

    def _bad_property_crcs(
        self, window: records.Bytes, rows: records.Rows
    ) -> npt.NDArray[np.bool_]:
        assert self._spans is not None
        return records.bad_property_crcs(window, rows, self._checks.split_properties, self._spans)

    def places(self, at: int, end: int) -> Iterator[int]:
        """The offsets in [at, end) at which a magic number and the right physicalOffset stand.

        Both fields lie before `end`. Nothing else is checked.
        """
        least = self.head + RECORD_HEAD_BYTES
        while at + least <= end:
            window = self.load(at, least, end)
            found = -1
            if at > self._window_at or window.any():
                found = records.find_record(window, 0, len(window), at, self._rules)
            if found < 0:
                at += len(window) - least + 1
            else:
                yield at + found
                at += found + 1

    def windows(self, at: int, end: int, overlap: int = 0) -> Iterator[tuple[int, records.Bytes]]:
        """[at, end) in pieces (physical offset, bytes). Each piece begins with the last `overlap`
        bytes of the piece before, and is valid until the next piece. A hole may be left out.
        """
        while (at := max(at, self._data_from(at) - overlap)) < end:
            window = self.load(at, overlap + 1, end)
            yield at, window
            if at + len(window) >= end:
                return
            at += len(window) - overlap

    def load(self, at: int, least: int = 1, end: int | None = None) -> records.Bytes:
        """The bytes from `at` on that are in the window. A new window is read where these are fewer
        than `least`. Nothing is read past `end`, by default the segment's.
        """
        end = self.end if end is None else end
        within = at - self._window_at
        if not 0 <= within <= len(self._window) - min(least, end - at):
            self._window = self._buffer[:0]  # if the read fails, the buffer's bytes are not used
            window = self._buffer[: end - at]
            self.read(at, window)
            self._window, self._window_at, within = window, at, 0
        return self._window[within : within + end - at]


def most_rows(window_bytes: int) -> int:
    """How many records may stand in a window."""
    return window_bytes // RECORD_FIXED_BYTES + 1


# ---
# Which segment a file is by its own records, whatever its name.
#
# Each record holds its physicalOffset. If a file's first two records agree on where the file
# begins, and the file has another segment's name, it was renamed or swapped with another file.


ASSUMED = "--assume-names reads it as that"  # ends such findings


class Proven(NamedTuple):
    """Segments by the names that their records prove, in order, and what was found."""

    segments: list[Segment]
    findings: list[Finding]


def proven_names(
    storage: InputStorage, segments: Sequence[Segment], segment_bytes: int, assume: bool
) -> Proven:
    """Compare the segments' names with their records.

    assume: segments get the places that their records prove, and a segment whose place another one
    takes is left out. Otherwise all stay, none of their messages is read, and findings tell what
    --assume-names would do. Raises what opening and reading the files raises.
    """
    starts = {each.path: begins_at(storage, each, segment_bytes) for each in segments}
    wanted = Counter(start for start in starts.values() if start is not None)
    named, moved = {each.start for each in segments}, dict[str, int]()
    for each in segments:
        start = starts[each.path]
        if start is not None and start != each.start and wanted[start] == 1:
            moved[each.path] = start
    findings = [
        Finding(
            path,
            f"by its records it is segment {segment_name(start)}: "
            + ("it is read as that" if assume else ASSUMED),
            not assume,
            "" if assume or start in named else rename_text(path, start),  # it has that name
        )
        for path, start in moved.items()
    ]
    if not assume:
        return Proven(list(segments), findings)
    by_start = {each.start: each for each in segments if each.path not in moved}
    for each in segments:
        if each.path in moved:
            start = moved[each.path]
            if start in by_start:
                taken = f"{each.path} proves to be {segment_name(start)}; left out"
                findings.append(Finding(by_start[start].path, taken, True))
            by_start[start] = each._replace(start=start)
    return Proven([by_start[start] for start in sorted(by_start)], findings)
