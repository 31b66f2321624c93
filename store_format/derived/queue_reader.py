"""Reads one queue: its entries by position and by time, and where it starts and ends.

It reads only the entries that it is asked for, and those that a bisection needs. The rules are
those of ConsumeQueue and BatchConsumeQueue; the profile says how releases differ.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from reput.store_format.derived.consume_queue import entry_bytes
from reput.store_format.derived.queue_entries import (
    Bytes,
    Entries,
    QueueEntry,
    decode_entries,
    entry_of,
    is_pre_blank,
    is_used,
)
from reput.store_format.faults import StoreError
from reput.store_format.log.reader import LogReader
from reput.store_format.names import (
    BATCH_CONSUME_QUEUE,
    CONSUME_QUEUE,
    QueuePath,
    check_topic,
    parse_segment_name,
)
from reput.store_format.release.profiles import Profile
from reput.store_format.storage.protocol import FileState, Reader, Storage

_RANGE_ENTRIES = 1 << 12  # read at a time
_ARRAY_ENTRIES = 1 << 16


class Boundary(StrEnum):
    """Which message near a time is wanted (BoundaryType, from 5.1.1 on)."""

    LOWER = "lower"  # the first one that is not before the time
    UPPER = "upper"  # the last one that is not after the time


class BadQueue(StoreError):
    """A queue's files hold what cannot be; says file, offset, field, value and reason."""

    def __init__(self, path: str, offset: int, field: str, value: int, reason: str) -> None:
        self.path, self.offset, self.field = path, offset, field
        self.value, self.reason = value, reason
        super().__init__(f"{path}: offset {offset}: {field} {value}: {reason}")


class NoEntry(StoreError):
    """A position that the queue does not hold."""

    def __init__(self, folder: str, position: int, start: int, end: int) -> None:
        self.folder, self.position, self.start, self.end = folder, position, start, end
        super().__init__(f"{folder}: position {position} is not in the queue, [{start}, {end})")


@dataclass(frozen=True, slots=True)
class QueueFile:
    """One file of a queue: its path, the logical byte offset in its name, and its state."""

    path: str
    start: int
    state: FileState


def queue_folder(store: str, topic: str, queue_id: int, batch: bool = False) -> str:
    """Where a queue's files are. Raises UnsafeName."""
    folder = BATCH_CONSUME_QUEUE if batch else CONSUME_QUEUE
    return f"{store}/{QueuePath(folder, check_topic(topic), queue_id)}"


class QueueReader:
    """Reads one queue. Each call opens the files that it needs and closes them again.

    Positions count messages. The queue's files are listed once, when the reader is made; it does
    not see what is appended later.
    """

    def __init__(self, storage: Storage, folder: str, batch: bool = False) -> None:
        """Raises BadQueue where the files are not those of a queue. A missing folder is a queue
        without entries.
        """
        self.storage, self.folder, self.batch = storage, folder, batch
        self._size = entry_bytes(batch)
        try:
            listed = storage.list(folder)
        except (FileNotFoundError, NotADirectoryError):
            listed = []
        self.files: list[QueueFile] = []
        for name, state in listed:
            path = f"{folder}/{name}"
            try:
                start = parse_segment_name(name)
            except ValueError as error:
                raise BadQueue(path, 0, "name", 0, str(error)) from None
            if state is None:
                raise BadQueue(path, 0, "file", 0, "is not a regular file")
            self.files.append(QueueFile(path, start, state))
        if self.files and self.files[-1].state.size == 0:
            self.files.pop()  # MappedFileQueue.load drops it too
        for before, after in zip(self.files, self.files[1:], strict=False):
            if before.start + before.state.size != after.start:
                raise BadQueue(
                    after.path, 0, "name", after.start,
                    f"the file before ends at {before.start + before.state.size}: a hole, or a "
                    f"file of a wrong length",
                )  # fmt: skip
        self._ends: dict[str, int] = {}  # of each file by its path: how many entries are used

    # --- where it starts and ends ----------------------------------------------------------------

    def maximum(self) -> int:
        """The position after the last entry, 0 where there is none (getMaxOffsetInQueue)."""
        last = self.last()
        return 0 if last is None else last.position + last.messages

    def entries_end(self) -> int:
        """How many entries the queue's files have room for up to the end of its last one, counted
        from logical offset 0: where the next one goes. 0 where there is none.
        """
        for file in reversed(self.files):
            with _Open(self, file) as entries:
                if entries.used():
                    return self._position(file, entries.used())
        return 0

    def last(self) -> QueueEntry | None:
        """The last entry, pre-blanks left out."""
        for file in reversed(self.files):
            with _Open(self, file) as entries:
                used = entries.used()
                if used:
                    fields = entries[used - 1]
                    if not self.batch and is_pre_blank(fields):
                        return None
                    return entry_of(fields, self._position(file, used - 1), self.batch)
        return None

    def minimum(self, log_start: int, profile: Profile) -> int:
        """The first position whose record has not expired (correctMinOffset).

        log_start: the log's smallest physical offset. As RocketMQ it looks at the first file only.
        If that has no such position, it gives what RocketMQ has after a start: 0, or -1 for an
        empty batch queue.
        """
        if not self.files:
            return -1 if self.batch else 0
        if self.batch:
            return self._batch_minimum(log_start)
        first = self.files[0]
        if profile.bisects_queue_min:
            return self._bisected_minimum(log_start)
        with _Open(self, first) as entries:
            used = entries.used()
            at = entries.bisect(0, used, lambda e: int(e["physicalOffset"]) < log_start)
            return self._position(first, at) if at < used else 0

    def _bisected_minimum(self, log_start: int) -> int:
        """The rule from 5.0.0 on. In a log that starts at 0 it may give any
        pre-blank's position.
        """
        first, last = self.files[0], self._used_files()[-1]
        with _Open(self, last) as entries:
            used = entries.used()
            if used and int(entries[used - 1]["physicalOffset"]) < log_start:
                return self._position(last, used)
        with _Open(self, first) as entries:
            used = entries.used()
            if not used or (first.start == 0 and _place(entries[0])[0] >= log_start):
                return 0
            low, high = 0, used - 1
            while high - low > 1:
                middle = (low + high) // 2
                place = _place(entries[middle])[0]
                low, high = (low, middle) if place > log_start else (middle, high)
                if place == log_start:
                    high = middle
            for number in range(low, high + 1):
                if _place(entries[number])[0] >= log_start:
                    return self._position(first, number)
        return 0

    def _batch_minimum(self, log_start: int) -> int:
        with _Open(self, self.files[0]) as entries:
            used = entries.used()
            if not used:
                return -1
            at = entries.bisect(0, used, lambda e: int(e["physicalOffset"]) < log_start)
            entry = entry_of(entries[max(at - 1, 0)], 0, True)
            return entry.position + entry.messages if at else entry.position

    # --- entries by position ---------------------------------------------------------------------

    def entry(self, position: int) -> QueueEntry:
        """The entry that holds a position. Raises NoEntry, BadQueue."""
        for entry in self.entries(position, position + 1):
            return entry
        raise NoEntry(self.folder, position, self._first_position(), self.maximum())

    def entries(self, first: int, stop: int | None = None) -> Iterator[QueueEntry]:
        """The entries that hold positions [first, stop), in order; without stop, to the end.

        Positions that the queue does not hold give none; pre-blanks are left out. Raises BadQueue
        for an entry that points to no place in any log.
        """
        for number in range(self._file_of(first), len(self.files)):
            file = self.files[number]
            with _Open(self, file) as entries:
                used = entries.used()
                at = self._number_of(entries, file, first, used)
                while at < used:
                    many = min(_RANGE_ENTRIES, used - at)
                    if not self.batch and stop is not None:
                        many = min(many, max(stop - self._position(file, at), 0))
                    if many == 0:
                        return
                    for i, fields in enumerate(entries.range(at, at + many)):
                        if not self.batch and is_pre_blank(fields):
                            continue
                        if not is_used(fields):
                            raise self._bad_entry(file, at + i, fields)
                        entry = entry_of(fields, self._position(file, at + i), self.batch)
                        if stop is not None and entry.position >= stop:
                            return
                        yield entry
                    at += many

    def arrays(self, first: int) -> Iterator[Entries]:
        """The entries from position `first` on, thousands at a time, as arrays of the layout.

        Pre-blanks are left out; nothing is checked. Of a batch queue, whole batches.
        """
        for number in range(self._file_of(first), len(self.files)):
            file = self.files[number]
            with _Open(self, file) as entries:
                used = entries.used()
                at = self._number_of(entries, file, first, used)
                while at < used:
                    some = entries.range(at, min(at + _ARRAY_ENTRIES, used))
                    at += len(some)
                    yield some if self.batch else some[~is_pre_blank(some)]

    def _bad_entry(self, file: QueueFile, number: int, fields: Any) -> BadQueue:
        place, size = _place(fields)
        field, value = ("physicalOffset", place) if place < 0 else ("size", size)
        reason = "points to no place in any log, and entries follow"
        return BadQueue(file.path, number * self._size, field, value, reason)

    def _first_position(self) -> int:
        if not self.files:
            return 0
        with _Open(self, self.files[0]) as entries:
            used = entries.used()
            return (
                entry_of(entries[0], self._position(self.files[0], 0), self.batch)[0] if used else 0
            )

    def _file_of(self, position: int) -> int:
        """The number of the file that may hold a position; the first one where it is before all."""
        if not self.batch:
            starts = [file.start for file in self.files]
            return max(bisect_right(starts, position * self._size) - 1, 0)
        for number in range(len(self.files) - 1, 0, -1):
            with _Open(self, self.files[number]) as entries:
                if entries.used() and int(entries[0]["baseOffset"]) <= position:
                    return number
        return 0

    def _number_of(self, entries: "_Open", file: QueueFile, position: int, used: int) -> int:
        """The index, within its file, of the entry with this position, or of the
        first one after.
        """
        if not self.batch:
            return max(position - self._position(file, 0), 0)
        return entries.bisect(
            0, used, lambda e: int(e["baseOffset"]) + int(e["batchSize"]) <= position
        )

    def _position(self, file: QueueFile, number: int) -> int:
        return file.start // self._size + number

    # --- entries by time -------------------------------------------------------------------------

    def position_by_time(
        self, timestamp: int, boundary: Boundary, log: LogReader, profile: Profile
    ) -> int:
        """The position at a time in milliseconds (getOffsetInQueueByTime).

        Up to 5.1.0 RocketMQ ignores the boundary: it chooses a file by the files' times of change,
        and gives the message nearest to the time in it. From 5.1.1 on it searches by store times
        for the message that the boundary asks for. From 5.2.0 on the result is between minimum and
        maximum.
        """
        if not self.files:
            return 0
        if self.batch:
            found = self._batch_by_time(timestamp, boundary, profile)
        elif profile.queue_time_boundaries:
            found = self._by_boundary(timestamp, boundary, log, profile)
        else:
            found = self._nearest(timestamp, log, profile)
        if profile.queue_time_within:
            found = min(max(found, self.minimum(log.start, profile)), self.maximum())
        return found

    def _low(self, file: QueueFile, log: LogReader, profile: Profile) -> int:
        return max(self.minimum(log.start, profile) - self._position(file, 0), 0)

    def _used_files(self) -> list[QueueFile]:
        """The files without those at the end that have no entry: RocketMQ's recovery
        removes these.
        """
        files = list(self.files)
        while len(files) > 1:
            with _Open(self, files[-1]) as entries:
                if entries.used():
                    break
            files.pop()
        return files

    def _nearest(self, timestamp: int, log: LogReader, profile: Profile) -> int:
        files = self._used_files()
        changed = (f for f in files if f.state.mtime // 1_000_000 >= timestamp)
        file = next(changed, files[-1])
        with _Open(self, file) as entries:
            low, high = self._low(file, log, profile), entries.used() - 1
            left = right = -1
            left_time = right_time = -1
            while low <= high:
                middle = (low + high) // 2
                place, size = _place(entries[middle])
                if place < log.start:
                    low, left = middle + 1, middle
                    continue
                time = log.store_timestamp(place, size)
                if time < 0:
                    return 0
                if time == timestamp:
                    return self._position(file, middle)
                if time > timestamp:
                    high, right, right_time = middle - 1, middle, time
                else:
                    low, left, left_time = middle + 1, middle, time
        if left_time == -1:
            return _toward_zero(file.start + right * self._size, self._size)
        if right_time == -1:
            return self._position(file, left)
        near = right if timestamp - left_time > right_time - timestamp else left
        return self._position(file, near)

    def _file_by_time(self, timestamp: int, boundary: Boundary, log: LogReader) -> QueueFile | None:
        """MappedFileQueue.getConsumeQueueMappedFileByTime."""
        files = self._used_files()
        if boundary == Boundary.LOWER:
            for file in files[:-1]:
                if self._time_of(file, file.state.size // self._size - 1, log) >= timestamp:
                    return file
            return files[-1]
        for file in reversed(files):
            if self._time_of(file, 0, log) <= timestamp:
                return file
        return None

    def _time_of(self, file: QueueFile, number: int, log: LogReader) -> int:
        with _Open(self, file) as entries:
            time = log.store_timestamp(*_place(entries[number]))
            return time if time > 0 else -1

    def _by_boundary(
        self, timestamp: int, boundary: Boundary, log: LogReader, profile: Profile
    ) -> int:
        """ConsumeQueue.binarySearchInQueueByTime."""
        file = self._file_by_time(timestamp, boundary, log)
        if file is None:
            return 0
        lower = boundary == Boundary.LOWER
        with _Open(self, file) as entries:

            def time_at(number: int) -> int:
                return log.store_timestamp(*_place(entries[number]))

            low, high = self._low(file, log, profile), entries.used() - 1
            if high < 0:
                return 0
            floor, ceiling = low, high
            if time_at(ceiling) < timestamp:
                return self._position(file, ceiling + 1 if lower else ceiling)
            if floor <= ceiling and time_at(floor) > timestamp:
                return self._position(file, 0) if lower else 0
            left = right = -1
            while low <= high:
                middle = (low + high) // 2
                if _place(entries[middle])[0] < log.start:
                    low, left = middle + 1, middle
                    continue
                time = time_at(middle)
                if time < 0:
                    return 0
                if time == timestamp:
                    step, end = (-1, floor) if lower else (1, ceiling)
                    while middle != end and time_at(middle + step) == timestamp:
                        middle += step
                    return self._position(file, middle)
                if time > timestamp:
                    high, right = middle - 1, middle
                else:
                    low, left = middle + 1, middle
            found = right if lower else left
            return _toward_zero(file.start + found * self._size, self._size)

    def _batch_by_time(self, timestamp: int, boundary: Boundary, profile: Profile) -> int:
        """BatchConsumeQueue.getOffsetInQueueByTime: the base of a batch, by its own store time."""
        upper = boundary == Boundary.UPPER and profile.batch_time_boundaries
        files = self._used_files()
        number = len(files) - 1
        while number >= 0 and not self._starts_by(files[number], timestamp):
            number -= 1
        if number < 0:
            return -1
        with _Open(self, files[number]) as entries:
            right = entries.used() - 1
            if right < 0:
                return -1
            left = 0
            if timestamp >= int(entries[right]["storeTimestamp"]):
                return int(entries[right]["baseOffset"])
            while left <= right:
                middle = (left + right) // 2
                time = int(entries[middle]["storeTimestamp"])
                if middle in (left, right):
                    if time >= timestamp:
                        return int(entries[middle]["baseOffset"])
                    if middle == right:
                        return -1
                    left = middle + 1
                elif upper:
                    left, right = (middle, right) if time <= timestamp else (left, middle - 1)
                else:
                    left, right = (middle + 1, right) if time < timestamp else (left, middle)
        return -1

    def _starts_by(self, file: QueueFile, timestamp: int) -> bool:
        with _Open(self, file) as entries:
            return bool(entries.used()) and int(entries[0]["storeTimestamp"]) <= timestamp


class _Open:
    """One file of a queue while it is read; entries by their number in it."""

    def __init__(self, queue: QueueReader, file: QueueFile) -> None:
        self.queue, self.file = queue, file
        self._size = queue._size
        self._reader: Reader | None = None

    def __enter__(self) -> "_Open":
        self._reader = self.queue.storage.open(self.file.path, self.file.state)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._reader
        self._reader.close()

    def range(self, first: int, stop: int) -> Any:
        """Entries [first, stop), as an array of the layout."""
        assert self._reader
        raw: Bytes = np.empty((stop - first) * self._size, np.uint8)
        self._reader.read_into(first * self._size, raw)
        return decode_entries(raw, self.queue.batch)

    def __getitem__(self, number: int) -> Any:
        return self.range(number, number + 1)[0]

    def bisect(self, low: int, high: int, before: Any) -> int:
        """The first entry in [low, high) for which `before` is false; it is true for all earlier
        ones.
        """
        while low < high:
            middle = (low + high) // 2
            if before(self[middle]):
                low = middle + 1
            else:
                high = middle
        return low

    def used(self) -> int:
        """How many entries of the file are used; they are at its start."""
        ends = self.queue._ends
        if self.file.path not in ends:
            whole = self.file.state.size // self._size
            ends[self.file.path] = self.bisect(0, whole, lambda entry: bool(is_used(entry)))
        return ends[self.file.path]


def _place(entry: Any) -> tuple[int, int]:
    return int(entry["physicalOffset"]), int(entry["size"])


def _toward_zero(dividend: int, divisor: int) -> int:
    """Java's division."""
    return -(-dividend // divisor) if dividend < 0 else dividend // divisor
