"""Finds where a log ends when a store is opened (CommitLog.recoverAbnormally)."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

import numpy as np

from reput.broker.writer.log_cutter import LogCutter, segment_path
from reput.broker.writer.torn_records import first_torn
from reput.store_format.derived.checkpoint import Checkpoint, vouched_for, was_durable
from reput.store_format.dispatch.scan import ScanRules
from reput.store_format.faults import REASONS, DamageFound, Fault, StoreError
from reput.store_format.files.protocol import Bytes, Files
from reput.store_format.log.records import RECORD_ROW, Rows, first_bad_property_crc
from reput.store_format.log.walk import Step, Walk, most_rows
from reput.store_format.names import COMMIT_LOG, parse_segment_name

_WINDOW_BYTES = 8 << 20


@dataclass
class LogEnd:
    """What recovery found. Offsets are physical; times in milliseconds."""

    start: int  # of the first segment
    end: int  # where the next record goes
    checked_from: int  # the segment from which records were checked
    last_timestamp: int = 0  # storeTimestamp of the last record, 0 for none
    fault: Fault = Fault.ZEROS  # why it ends there
    cut_bytes: int = 0  # bytes that were not zero and were cut off after the end


class LogRecovery:
    """Finds a log's end when a store is opened, and then cuts the log there. `find` changes nothing
    but the length of a last segment that a crash has left too short.
    """

    def __init__(
        self,
        files: Files,
        segment_bytes: int,
        rules: ScanRules,
        checkpoint: Checkpoint | None,
        checkpoint_lost: bool = False,
    ) -> None:
        """checkpoint: after a crash, what was durable; None after a clean stop.

        checkpoint_lost: the file `checkpoint` was missing, so it is not known what was durable.
        """
        self.checkpoint_lost = checkpoint_lost
        self.files, self.segment_bytes, self.rules = files, segment_bytes, rules
        self.checkpoint = checkpoint
        self._property_crc = rules.dispatch.property_crc  # instead of the body's
        self._empty: list[int] = []  # a last file without a byte: MappedFileQueue.load removes it
        self.segments = self._segments()
        window = min(_WINDOW_BYTES, segment_bytes)
        self._window = np.empty(window, np.uint8)
        self._rows = np.zeros(most_rows(window), RECORD_ROW)

    def find(self) -> LogEnd:
        """Find the end. Raises DamageFound where live records follow a fault."""
        end = self.find_end()
        self.refuse_damage(end)
        return end

    def refuse_damage(self, end: LogEnd) -> None:
        """Raise DamageFound where live records follow the end that a walk has found."""
        if end.fault not in (Fault.BLANK, Fault.ZEROS) or end.end < max(self.segments, default=0):
            self._refuse_damage(self._number_of(end), end)

    def _number_of(self, end: LogEnd) -> int:
        """The number of the segment in which a walk stopped."""
        number = (end.end - self.segments[0]) // self.segment_bytes
        return number - 1 if end.fault == Fault.BLANK else number

    def find_end(self) -> LogEnd:
        """The log's first fault, or its end if it has none, whatever follows."""
        if not self.segments:
            return LogEnd(0, 0, 0)
        number = self._first_to_check()
        end = LogEnd(self.segments[0], self.segments[number], self.segments[number])
        while True:
            segment = self.segments[number]
            self._walk(segment, end)
            if end.fault != Fault.BLANK or number + 1 == len(self.segments):
                break
            number += 1
        return end

    def _segments(self) -> list[int]:
        """The segments' offsets; after a crash the last one may still lack its length."""
        empty: list[int] = []
        segments = [parse_segment_name(name) for name in self.files.names(COMMIT_LOG)]
        for number, segment in enumerate(segments):
            path = segment_path(segment)
            with closing(self.files.open_read(path)) as file:
                length = file.length()
                last = number == len(segments) - 1
                if length == 0 and last:
                    empty.append(segment)
                elif length < self.segment_bytes and last and self.checkpoint is not None:
                    self._complete(path)
                elif length != self.segment_bytes:
                    raise StoreError(
                        f"{path}: has {length} bytes, but mappedFileSizeCommitLog "
                        f"is {self.segment_bytes}"
                    )
            if segment != segments[0] + number * self.segment_bytes:
                raise StoreError(f"{path}: a hole before it; segments are missing")
        self._empty = empty
        return [segment for segment in segments if segment not in empty]

    def _complete(self, path: str) -> None:
        with closing(self.files.open(path)) as file:
            file.set_length(self.segment_bytes)
            file.sync()

    def _first_to_check(self) -> int:
        """The first segment whose records are checked (CommitLog.isMappedFileMatchedRecover).

        After a crash: the last segment whose first record is not newer than what the checkpoint
        says is durable. After a clean stop: the last segment with a record.
        """
        safe = None if self.checkpoint is None else vouched_for(self.checkpoint)
        for number in range(len(self.segments) - 1, 0, -1):
            timestamp = self._first_timestamp(self.segments[number])
            if timestamp > 0 and (safe is None or timestamp <= safe):
                return number
        return 0

    def first_timestamps(self, after: int) -> list[int]:
        """The storeTimestamp of the first record of each segment that begins after an offset."""
        return [self._first_timestamp(segment) for segment in self.segments if segment > after]

    def _first_timestamp(self, segment: int) -> int:
        """The storeTimestamp of a segment's first record; 0 if no whole record stands there."""
        with self._open_walk(segment) as walk:
            return self._timestamp_at(walk, segment, segment) or 0

    def _timestamp_at(self, walk: Walk, segment: int, at: int) -> int | None:
        """The storeTimestamp of the record at a place; None if no whole record stands there."""
        for step in self._steps(walk, segment, at, at + 1):
            if len(step.rows):
                return int(step.rows["storeTimestamp"][0])
        return None

    def _walk(self, segment: int, end: LogEnd) -> None:
        """Walk from a segment's start to its end or first fault, and note that place in `end`."""
        segment_end = segment + self.segment_bytes
        end.end, end.fault = segment, Fault.NONE
        with self._open_walk(segment) as walk:
            for step in self._steps(walk, segment, segment, segment_end):
                if len(step.rows):
                    end.last_timestamp = int(step.rows["storeTimestamp"][-1])
                end.end, end.fault = step.next, step.fault
        if end.fault in (Fault.NONE, Fault.BLANK):
            end.end, end.fault = segment_end, Fault.BLANK

    @contextmanager
    def _open_walk(self, segment: int) -> Iterator[Walk]:
        file = self.files.open_read(segment_path(segment))

        def read(at: int, buffer: Bytes) -> None:
            file.read_at(at - segment, buffer)

        rules, end = self.rules, segment + self.segment_bytes
        try:
            yield Walk(read, end, rules.records, rules.checks, self._window, self._rows)
        finally:
            file.close()

    def _steps(self, walk: Walk, segment: int, at: int, stop: int) -> Iterator[Step]:
        """The steps of a walk, up to a record that fails a check which the walk does not make."""
        for step in walk.steps(at, stop):
            good, fault = len(step.rows), step.fault
            if self._property_crc:
                bad = self._first_bad_property_crc(step.window, step.rows)
                if bad < good:
                    good, fault = bad, Fault.PROPERTY_CRC
            if self.checkpoint is not None:
                durable = self.checkpoint.physic_msg_timestamp
                torn = int(first_torn(step.window, step.rows[:good], segment, durable))
                if torn < good:
                    good, fault = torn, Fault.LENGTHS
            if good < len(step.rows):
                place = int(step.rows["physicalOffset"][good])
                yield step._replace(rows=step.rows[:good], next=place, fault=fault)
                return
            yield step

    def _first_bad_property_crc(self, window: Bytes, rows: Rows) -> int:
        rules = self.rules.dispatch
        bad: int = first_bad_property_crc(
            window, rows, rules.split_properties, rules.zero_property_crc
        )
        return bad

    def _refuse_damage(self, number: int, end: LogEnd) -> None:
        """Raise DamageFound if the record that follows the fault cannot be left from a crash.

        After a crash: a record that was durable before it (derived/checkpoint). After a clean
        stop nothing was lost, so: a record as new as the last one. An older record is stale, from
        before the log was cut and written anew.
        """
        found = self._record_after(number, end.end)
        if found is None:
            return
        at, timestamp = found
        if self.checkpoint is None:
            live = timestamp >= end.last_timestamp
        else:
            live = was_durable(timestamp, None if self.checkpoint_lost else self.checkpoint)
        if live:
            fault = Fault.ZEROS if end.fault == Fault.BLANK else end.fault
            field, reason = REASONS[fault]
            segment = self.segments[number]
            raise DamageFound(
                f"{segment_path(segment)}: at offset {end.end}: {field}: {reason}; live records "
                f"follow from {at} on. A writer would cut them off: use `reput recover` first"
            )

    def _record_after(self, number: int, fault_at: int) -> tuple[int, int] | None:
        """(place, storeTimestamp) of the first whole record after a fault."""
        for segment in self.segments[number:]:
            with self._open_walk(segment) as walk:
                segment_end = segment + self.segment_bytes
                for at in walk.places(max(segment, fault_at + 1), segment_end):
                    timestamp = self._timestamp_at(walk, segment, at)
                    if timestamp is not None:
                        return at, timestamp
        return None

    def to_cut(self, end: LogEnd) -> int:
        """How many bytes after the end are not zero, so that `cut` would cut them off."""
        return self._cutter().to_cut(end.end)

    def cut(self, end: LogEnd, keep: str = "") -> None:
        """Leave nothing after the end, and make the log durable up to it.

        keep: a folder where what is cut off is kept, in files named by their physical offset.
        """
        for segment in self._empty:
            self.files.remove(segment_path(segment))
            self.files.sync_folder(COMMIT_LOG)
        if not self.segments:
            return
        end.cut_bytes += self._cutter(keep).cut(end.end, end.fault == Fault.BLANK)
        if self.checkpoint is not None:
            for segment in self.segments:
                if segment >= end.checked_from:
                    with closing(self.files.open(segment_path(segment))) as file:
                        file.sync()

    def _cutter(self, keep: str = "") -> LogCutter:
        return LogCutter(self.files, self.segments, self.segment_bytes, self._window, keep)
