"""Finds where a log ends when a store is opened, and records that lost a sector in a crash; and
cuts off what follows the end.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from reput.store_format.derived.after_crash import vouched_for, was_dispatched, was_durable
from reput.store_format.derived.checkpoint import Checkpoint
from reput.store_format.dispatch.scan import ScanRules
from reput.store_format.faults import REASONS, DamageFound, Fault, StoreError
from reput.store_format.files.adapters import FilesRead
from reput.store_format.files.folder import Folder
from reput.store_format.files.protocol import SECTOR_BYTES, Bytes, Files, OpenFile
from reput.store_format.kernels.jit import allocating
from reput.store_format.layouts import CRC_PROPERTY_BYTES
from reput.store_format.log.records import RECORD_ROW, Rows, first_bad_property_crc
from reput.store_format.log.walk import Read, Step, Walk, most_rows
from reput.store_format.names import COMMIT_LOG, segment_name, segments_among

# ---
# Cuts off what a crash left after a log's end.
#
# All sound records are kept. The rest of the last segment is filled with zeros and later segments
# are removed, so that nothing that was cut can come back. RocketMQ only moves its write position
# (CommitLog.recoverAbnormally), after which some of the old records do come back.


def segment_path(segment: int, folder: str = COMMIT_LOG) -> str:
    """The file of the segment that begins at a physical offset."""
    return f"{folder}/{segment_name(segment)}"


class LogCutter:
    """Cuts the segments of a log; offsets are physical, sizes in bytes."""

    def __init__(
        self, files: Files, segments: list[int], segment_bytes: int, window: Bytes, keep: str,
        folder: str = COMMIT_LOG,
    ) -> None:  # fmt: skip
        """segments: their physical offsets; `cut` takes those it removes out of the list.

        window: the buffer for reading. keep: a folder where what is cut off is kept, in files named
        by their physical offset; '' for nowhere. folder: where the segments are.
        """
        self._files, self._segments, self._segment_bytes = files, segments, segment_bytes
        self._window, self._keep, self._folder = window, keep, folder

    def to_cut(self, end: int) -> int:
        """How many bytes `cut` would cut off: up to each segment's last that is not zero."""
        after = [s for s in self._segments if s + self._segment_bytes > end]
        return sum(self._used(segment, max(segment, end)) for segment in after)

    def cut(self, end: int, after_blank: bool) -> int:
        """Leave nothing after the end; returns how many bytes were cut off, see `to_cut`.

        after_blank: the log ends with a BLANK, so `end` belongs to the segment that ends there.
        """
        segments, cut_bytes = self._segments, 0
        number = max(n for n, s in enumerate(segments) if n == 0 or s < end)
        if end in segments and not after_blank:
            number = segments.index(end)
        for segment in reversed(segments[number + 1 :]):
            used = self._used(segment, segment)
            if used or segment > end + self._segment_bytes:
                cut_bytes += used
                self._remove(segment, bool(used))
        segment = segments[number]
        used = self._used(segment, end)
        if used:
            cut_bytes += used
            if self._keep:
                self._copy_away(segment, end, used)
            self._zero(segment, end)
        return cut_bytes

    def _remove(self, segment: int, holds_bytes: bool) -> None:
        if self._keep and holds_bytes:
            self._make_keep()
            self._files.rename(segment_path(segment, self._folder), self._new_name(segment))
            self._files.sync_folder(self._keep)
        else:
            self._files.remove(segment_path(segment, self._folder))
        self._segments.remove(segment)
        self._files.sync_folder(self._folder)

    def _make_keep(self) -> None:
        """Make `keep`; raises StoreError where it is a link, which may lead out of the store."""
        parts = self._keep.split("/")
        for depth in range(1, len(parts) + 1):
            path = "/".join(parts[:depth])
            if self._files.exists(path):
                self._files.is_folder(path)
        self._files.make_folder(self._keep)

    def _new_name(self, offset: int) -> str:
        """A free name in `keep`: what is cut now never overwrites what was cut before."""
        name, number = f"{self._keep}/{segment_name(offset)}", 0
        while self._files.exists(name if not number else f"{name}.{number}"):
            number += 1
        return f"{name}.{number}" if number else name

    def _copy_away(self, segment: int, at: int, length: int) -> None:
        """Copy so many bytes of a segment from a place on, durably, into a file of `keep`."""
        self._make_keep()
        part = f"{self._keep}/{segment_name(at)}.part"
        if self._files.exists(part):  # left by a run that was killed here
            self._files.remove(part)
        with (
            closing(self._files.open_read(segment_path(segment, self._folder))) as source,
            closing(self._files.create(part)) as kept,
        ):
            for start, window in self._windows(source, segment, at):
                if window.any():
                    kept.write_at(start - at, window)
            kept.set_length(length)
            kept.sync()
        self._files.rename(part, self._new_name(at))
        self._files.sync_folder(self._keep)

    def _zero(self, segment: int, at: int) -> None:
        """Write zeros over all other bytes from a place to the segment's end.

        The file never becomes shorter meanwhile: from its length the next open takes the size.
        """
        with closing(self._files.open(segment_path(segment, self._folder))) as file:
            for start, window in self._windows(file, segment, at):
                other = np.flatnonzero(window)
                if len(other):
                    low, high = int(other[0]), int(other[-1]) + 1
                    file.write_at(start - segment + low, np.zeros(high - low, np.uint8))
            file.sync()

    def _used(self, segment: int, at: int) -> int:
        """How many bytes a segment has from a place to its last byte that is not zero."""
        used = 0
        with closing(self._files.open_read(segment_path(segment, self._folder))) as file:
            for start, window in self._windows(file, segment, at):
                if window.any():
                    used = start - at + int(np.flatnonzero(window)[-1]) + 1
        return used

    def _windows(self, file: OpenFile, segment: int, at: int) -> Iterator[tuple[int, Bytes]]:
        """(offset, bytes) of the parts from a place to the segment's end, all in the one window."""
        end = segment + self._segment_bytes
        for start in range(at, end, len(self._window)):
            window = self._window[: end - start]
            file.read_at(start - segment, window)
            yield start, window


# ---
# Finds a record whose topic or properties lack a part after a crash: no length or CRC tells.

_LIGHT = b"INNER_MULTI_DISPATCH\1"


def first_torn(
    buf: Bytes, rows: Rows, segment: int, segment_end: int, durable_before: int, read: Read
) -> int:
    """The first row that lost a sector of its topic or properties; len(rows) if there is none.

    A lost sector reads as zeros from its first byte to its last, the next record's first bytes
    too. In the fixed fields a wrong length shows it, in the body the CRC. NULs that a producer
    sent, or a release left after the properties (5.2.0's crc32ReservedLength), are no lost sector:
    they begin before it, or intact bytes follow in it. Rows stored before `durable_before`
    (milliseconds) cannot be torn. read: of the segment, for what follows the last row.
    """
    row, past = _first_torn(buf, rows, segment, durable_before)
    if not past:
        return int(row)
    end = int(rows[-1]["physicalOffset"]) + int(rows[-1]["size"])
    rest = np.empty(min(int(past), segment_end - end), np.uint8)
    read(end, rest)
    return int(row) + bool(rest.any())


@allocating
def _first_torn(buf: Bytes, rows: Rows, segment: int, durable_before: int) -> tuple[int, int]:
    """(the row, how many bytes of the lost sector follow the last row and were not looked at)."""
    for i in range(len(rows)):
        row = rows[i]
        if row.storeTimestamp < durable_before:
            continue
        elided = row.bodyLength if row.bodyElided else 0
        end = row.at + row.size - elided
        # add it to a place in buf after the body to get the place in the file
        shift = row.physicalOffset - segment - row.at + elided
        known = end if i == len(rows) - 1 else len(buf)
        topic_end = row.topicAt + row.topicLength
        at = row.topicAt + -(row.topicAt + shift) % SECTOR_BYTES
        while at < end:
            inside = at < topic_end or at >= row.propertiesAt
            first = at == row.topicAt or at == row.propertiesAt
            n, stop = at, at + SECTOR_BYTES
            if inside and (first or buf[at - 1] != 0):
                while n < min(stop, known) and buf[n] == 0:
                    n += 1
                if n in (stop, known):
                    return i, stop - n
            at = stop
    return len(rows), 0


def written_in_part(store: Folder, known: Checkpoint, window: Bytes, row: Any) -> bool:
    """Whether a log's last record may have been written in part, where only zeros follow it.

    A process that is killed within a write leaves its first bytes, and zeros. A record that a queue
    or the index has was written before; one of which the checkpoint knows is durable. 5.2.0 leaves
    room for a `__CRC32#` after the properties of each message of light queues, and no byte in it.
    """
    field = "properties" if row["propertiesLength"] else "topic"
    at = int(row[f"{field}At"])
    text = window[at : at + int(row[f"{field}Length"])].tobytes()
    written = text.rstrip(b"\0")
    if len(written) == len(text):
        return False
    if len(text) - len(written) == CRC_PROPERTY_BYTES and _LIGHT in text and written[-1:] == b"\2":
        return False
    if was_durable(int(row["storeTimestamp"]), known):
        return False
    return not was_dispatched(store, window, row)


# ---
# Finds where a log ends when a store is opened (CommitLog.recoverAbnormally).

_WINDOW_BYTES = 8 << 20


@dataclass
class LogEnd:
    """What recovery found. Offsets are physical; times in milliseconds."""

    start: int  # of the first segment
    end: int  # where the next record goes
    checked_from: int  # the segment from which records were checked
    last_timestamp: int = 0  # storeTimestamp of the last record, 0 for none
    fault: Fault = Fault.ZEROS  # why it ends there
    cut_bytes: int = 0  # that were cut off after the end, up to the last one that is not zero


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
        self._written_in_part: tuple[int, ...] = ()  # the last record, if it may be so
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
            number = (end.end - self.segments[0]) // self.segment_bytes
            self._refuse_damage(number - (end.fault == Fault.BLANK), end)

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
        if end.fault == Fault.ZEROS and self._written_in_part:
            (place,) = self._written_in_part
            self._walk(segment, end, place)
            end.end, end.fault = place, Fault.LENGTHS
        return end

    def _segments(self) -> list[int]:
        """The segments' offsets; after a crash the last one may still lack its length."""
        empty: list[int] = []
        segments = [int(name) for name in segments_among(self.files.names(COMMIT_LOG))]
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

    def _walk(self, segment: int, end: LogEnd, stop: int = 1 << 63) -> None:
        """Note in `end` where a walk from a segment's start meets its end, a fault, or `stop`."""
        segment_end = segment + self.segment_bytes
        end.end, end.fault = segment, Fault.NONE
        self._written_in_part = ()
        with self._open_walk(segment) as walk:
            for step in self._steps(walk, segment, segment, min(segment_end, stop)):
                if len(step.rows):
                    end.last_timestamp = int(step.rows["storeTimestamp"][-1])
                    self._note_last(step)
                end.end, end.fault = step.next, step.fault
        if end.fault in (Fault.NONE, Fault.BLANK):
            end.end, end.fault = segment_end, Fault.BLANK

    def _note_last(self, step: Step) -> None:
        """Note whether a step's last record may be written in part, if it is the log's last."""
        self._written_in_part, row = (), step.rows[-1]
        if self.checkpoint is not None and written_in_part(
            Folder(FilesRead(self.files), ""), self.checkpoint, step.window, row
        ):
            self._written_in_part = (int(row["physicalOffset"]),)

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
                segment_end = segment + self.segment_bytes
                torn = first_torn(
                    step.window, step.rows[:good], segment, segment_end, durable, walk.read
                )
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

        After a crash: a record that was durable before it (derived/after_crash). After a clean
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
        """How many bytes after the end `cut` would cut off, up to the last that is not zero."""
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
