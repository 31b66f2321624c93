"""Reads one queue: its entries by position, the position at a time, and where it starts and ends.

Only the entries that are asked for, and those that a bisection needs, are read. The rules are
those of ConsumeQueue and BatchConsumeQueue; the profile says how releases differ.
"""

from bisect import bisect_right
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from reput.store_format.derived.queue_files import (
    BadQueue,
    Entries,
    OpenQueueFile,
    QueueEntry,
    QueueFile,
    QueueFiles,
    entry_of,
    is_pre_blank,
    is_used,
    record_of,
)
from reput.store_format.faults import StoreError
from reput.store_format.files.folder import Folder
from reput.store_format.log.reader import LogReader
from reput.store_format.release.profiles import Profile

# ---
# The position of a queue at a time, as RocketMQ's releases search for it.


class Boundary(StrEnum):
    """Which message near a time is wanted (BoundaryType, from 5.1.1 on)."""

    LOWER = "lower"  # the first message that is not before the time
    UPPER = "upper"  # the last message that is not after the time


def position_at(
    queue: QueueFiles,
    timestamp: int,
    boundary: Boundary,
    log: LogReader,
    profile: Profile,
    minimum: int,
) -> int:
    """The position at a time in milliseconds (getOffsetInQueueByTime), before it is confined to
    the queue's minimum and maximum.

    Up to 5.1.0 RocketMQ ignores the boundary: it chooses a file by the files' times of change, and
    gives the message nearest to the time in it. From 5.1.1 on it searches by store times for the
    message that the boundary asks for.
    """
    if not queue.all:
        return 0
    if queue.batch:
        return _batch_by_time(queue, timestamp, boundary, profile)
    if profile.queue_time_boundaries:
        return _by_boundary(queue, timestamp, boundary, log, minimum)
    return _nearest(queue, timestamp, log, minimum)


def _first_live(queue: QueueFiles, file: QueueFile, minimum: int) -> int:
    return max(minimum - queue.position(file, 0), 0)


def _nearest(queue: QueueFiles, timestamp: int, log: LogReader, minimum: int) -> int:
    files = queue.used()
    changed = (f for f in files if f.state.mtime // 1_000_000 >= timestamp)
    file = next(changed, files[-1])
    with queue.open(file) as entries:
        low, high = _first_live(queue, file, minimum), entries.used() - 1
        left = right = -1
        left_time = right_time = -1
        while low <= high:
            middle = (low + high) // 2
            place, size = record_of(entries[middle])
            if place < log.start:
                low, left = middle + 1, middle
                continue
            time = log.store_timestamp(place, size)
            if time < 0:
                return 0
            if time == timestamp:
                return queue.position(file, middle)
            if time > timestamp:
                high, right, right_time = middle - 1, middle, time
            else:
                low, left, left_time = middle + 1, middle, time
    if left_time == -1:
        return _position(queue, file, right)
    if right_time == -1:
        return queue.position(file, left)
    near = right if timestamp - left_time > right_time - timestamp else left
    return queue.position(file, near)


def _file_by_time(
    queue: QueueFiles, timestamp: int, boundary: Boundary, log: LogReader
) -> QueueFile | None:
    """MappedFileQueue.getConsumeQueueMappedFileByTime."""
    files = queue.used()
    if boundary == Boundary.LOWER:
        for file in files[:-1]:
            if _time_of(queue, file, file.state.size // queue.entry_bytes - 1, log) >= timestamp:
                return file
        return files[-1]
    for file in reversed(files):
        if _time_of(queue, file, 0, log) <= timestamp:
            return file
    return None


def _time_of(queue: QueueFiles, file: QueueFile, number: int, log: LogReader) -> int:
    with queue.open(file) as entries:
        time = log.store_timestamp(*record_of(entries[number]))
        return time if time > 0 else -1


def _by_boundary(
    queue: QueueFiles, timestamp: int, boundary: Boundary, log: LogReader, minimum: int
) -> int:
    """ConsumeQueue.binarySearchInQueueByTime."""
    file = _file_by_time(queue, timestamp, boundary, log)
    if file is None:
        return 0
    lower = boundary == Boundary.LOWER
    with queue.open(file) as entries:

        def time_at(number: int) -> int:
            return log.store_timestamp(*record_of(entries[number]))

        low, high = _first_live(queue, file, minimum), entries.used() - 1
        if high < 0:
            return 0
        floor, ceiling = low, high
        if time_at(ceiling) < timestamp:
            return queue.position(file, ceiling + 1 if lower else ceiling)
        if floor <= ceiling and time_at(floor) > timestamp:
            return queue.position(file, 0) if lower else 0
        left = right = -1
        while low <= high:
            middle = (low + high) // 2
            if record_of(entries[middle])[0] < log.start:
                low, left = middle + 1, middle
                continue
            time = time_at(middle)
            if time < 0:
                return 0
            if time == timestamp:
                step, end = (-1, floor) if lower else (1, ceiling)
                while middle != end and time_at(middle + step) == timestamp:
                    middle += step
                return queue.position(file, middle)
            if time > timestamp:
                high, right = middle - 1, middle
            else:
                low, left = middle + 1, middle
        return _position(queue, file, right if lower else left)


def _batch_by_time(queue: QueueFiles, timestamp: int, boundary: Boundary, profile: Profile) -> int:
    """BatchConsumeQueue.getOffsetInQueueByTime: the base of a batch, by its own store time."""
    upper = boundary == Boundary.UPPER and profile.batch_time_boundaries
    files = queue.used()
    number = len(files) - 1
    while number >= 0 and not _starts_by(queue, files[number], timestamp):
        number -= 1
    if number < 0:
        return -1
    with queue.open(files[number]) as entries:
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


def _starts_by(queue: QueueFiles, file: QueueFile, timestamp: int) -> bool:
    with queue.open(file) as entries:
        return bool(entries.used()) and int(entries[0]["storeTimestamp"]) <= timestamp


def _position(queue: QueueFiles, file: QueueFile, number: int) -> int:
    """The position of a file's entry `number`; of -1, for none, what RocketMQ makes of it.

    There -1 is a byte of the file, and Java divides toward zero: it is in the entry before the
    file, or in entry 0 of a queue's first file.
    """
    return max(queue.position(file, number), 0)


_RANGE_ENTRIES = 1 << 12  # read at a time
_ARRAY_ENTRIES = 1 << 16


class NoEntry(StoreError):
    """A position that the queue does not hold."""

    def __init__(self, folder: str, position: int, start: int, end: int) -> None:
        self.folder, self.position, self.start, self.end = folder, position, start, end
        super().__init__(f"{folder}: position {position} is not in the queue, [{start}, {end})")


class QueueReader:
    """Reads one queue. Each call opens the files that it needs and closes them again.

    Positions count messages. The queue's files are listed once, when the reader is made; it does
    not see what is appended later.
    """

    def __init__(self, folder: Folder, batch: bool = False) -> None:
        """Raises BadQueue for files that are no queue's. A missing folder is an empty queue."""
        self.storage, self.folder, self.batch = folder.storage, folder.path, batch
        self._files = QueueFiles(folder, batch)

    @property
    def files(self) -> list[QueueFile]:
        """The queue's files in order; an empty last one is left out."""
        return self._files.all

    # --- where it starts and ends ----------------------------------------------------------------

    def maximum(self) -> int:
        """The position after the last entry, 0 where there is none (getMaxOffsetInQueue)."""
        last = self.last()
        return 0 if last is None else last.position + last.messages

    def entries_end(self) -> int:
        """The number of the next entry, counted from logical offset 0 in entries, not messages; 0
        where the queue has no entry.
        """
        for file in reversed(self.files):
            with self._files.open(file) as entries:
                used = entries.used()
                if used:
                    return self._files.position(file, used)
        return 0

    def may_be_cut(self) -> bool:
        """Whether files at the queue's end may be missing: it has no file, or its last file has no
        entry, or is full, so that another file may have followed.
        """
        if not self.files:
            return True
        last = self.files[-1]
        with self._files.open(last) as entries:
            return entries.used() in (0, last.state.size // self._files.entry_bytes)

    def first_if_cut(self) -> QueueEntry | None:
        """The first entry, if files before it may be missing; None if the queue begins there.

        Those files are not missing but expired where the log begins behind the entry's message.
        """
        if not self.files or not self.files[0].start:
            return None
        file = self.files[0]
        with self._files.open(file) as entries:
            if not entries.used() or (not self.batch and is_pre_blank(entries[0])):
                return None  # pre-blanks are in a queue's very first file
            return entry_of(entries[0], self._files.position(file, 0), self.batch)

    def refuse_cut(self, usual: int) -> None:
        """Raise BadQueue where a file ends within an entry, or is shorter than others (`usual`)."""
        for file in self.files:
            size = file.state.size
            if size % self._files.entry_bytes or size < usual:
                raise BadQueue(file.path, 0, "length", size, f"was cut: others have {usual}")

    def last(self) -> QueueEntry | None:
        for file in reversed(self.files):
            with self._files.open(file) as entries:
                used = entries.used()
                if used:
                    fields = entries[used - 1]
                    if not self.batch and is_pre_blank(fields):
                        return None
                    return entry_of(fields, self._files.position(file, used - 1), self.batch)
        return None

    def minimum(self, log_start: int, profile: Profile) -> int:
        """The first position whose record has not expired (correctMinOffset).

        log_start: the log's smallest physical offset. As in RocketMQ only the first file is read.
        If it has no such position, the result is what RocketMQ has after a start: 0, or -1 for an
        empty batch queue.
        """
        if not self.files:
            return -1 if self.batch else 0
        if self.batch:
            return self._batch_minimum(log_start)
        first = self.files[0]
        if profile.bisects_queue_min:
            return self._bisected_minimum(log_start)
        with self._files.open(first) as entries:
            used = entries.used()
            at = entries.bisect(0, used, lambda e: int(e["physicalOffset"]) < log_start)
            return self._files.position(first, at) if at < used else 0

    def _bisected_minimum(self, log_start: int) -> int:
        """The rule from 5.0.0 on. In a log from 0 on the result may be any pre-blank's position."""
        first, last = self.files[0], self._files.used()[-1]
        with self._files.open(last) as entries:
            used = entries.used()
            if used and int(entries[used - 1]["physicalOffset"]) < log_start:
                return self._files.position(last, used)
        with self._files.open(first) as entries:
            used = entries.used()
            if not used or (first.start == 0 and record_of(entries[0])[0] >= log_start):
                return 0
            low, high = 0, used - 1
            while high - low > 1:
                middle = (low + high) // 2
                place = record_of(entries[middle])[0]
                low, high = (low, middle) if place > log_start else (middle, high)
                if place == log_start:
                    high = middle
            for number in range(low, high + 1):
                if record_of(entries[number])[0] >= log_start:
                    return self._files.position(first, number)
        return 0

    def _batch_minimum(self, log_start: int) -> int:
        with self._files.open(self.files[0]) as entries:
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

        Positions that the queue does not hold are skipped; pre-blanks are left out. Raises BadQueue
        for an entry that is no place in any log.
        """
        for number in range(self._file_of(first), len(self.files)):
            file = self.files[number]
            with self._files.open(file) as entries:
                used = entries.used()
                at = self._number_of(entries, file, first, used)
                while at < used:
                    many = min(_RANGE_ENTRIES, used - at)
                    if not self.batch and stop is not None:
                        many = min(many, max(stop - self._files.position(file, at), 0))
                    if many == 0:
                        return
                    for i, fields in enumerate(entries.range(at, at + many)):
                        if not self.batch and is_pre_blank(fields):
                            continue
                        if not is_used(fields):
                            raise self._bad_entry(file, at + i, fields)
                        entry = entry_of(fields, self._files.position(file, at + i), self.batch)
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
            with self._files.open(file) as entries:
                used = entries.used()
                at = self._number_of(entries, file, first, used)
                while at < used:
                    some = entries.range(at, min(at + _ARRAY_ENTRIES, used))
                    at += len(some)
                    blank = None if self.batch else is_pre_blank(some)
                    yield some if blank is None or not blank.any() else some[~blank]

    def _bad_entry(self, file: QueueFile, number: int, fields: Any) -> BadQueue:
        place, size = record_of(fields)
        field, value = ("physicalOffset", place) if place < 0 else ("size", size)
        reason = "is no place in any log, and entries follow"
        return BadQueue(file.path, number * self._files.entry_bytes, field, value, reason)

    def _first_position(self) -> int:
        if not self.files:
            return 0
        with self._files.open(self.files[0]) as entries:
            used = entries.used()
            return (
                entry_of(entries[0], self._files.position(self.files[0], 0), self.batch)[0]
                if used
                else 0
            )

    def _file_of(self, position: int) -> int:
        """The number of the file that may hold a position; 0 where it is before all files."""
        if not self.batch:
            starts = [file.start for file in self.files]
            return max(bisect_right(starts, position * self._files.entry_bytes) - 1, 0)
        for number in range(len(self.files) - 1, 0, -1):
            with self._files.open(self.files[number]) as entries:
                if entries.used() and int(entries[0]["baseOffset"]) <= position:
                    return number
        return 0

    def _number_of(self, entries: OpenQueueFile, file: QueueFile, position: int, used: int) -> int:
        """The index in the file of the entry with this position, or of the first entry after."""
        if not self.batch:
            return max(position - self._files.position(file, 0), 0)
        return entries.bisect(
            0, used, lambda e: int(e["baseOffset"]) + int(e["batchSize"]) <= position
        )

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
        minimum = self.minimum(log.start, profile)
        found = position_at(self._files, timestamp, boundary, log, profile, minimum)
        if profile.queue_time_within:
            found = min(max(found, minimum), self.maximum())
        return found
