"""The position of a queue at a time, as RocketMQ's releases search for it."""

from enum import StrEnum

from reput.store_format.derived.queue_files import QueueFile, QueueFiles, record_of
from reput.store_format.log.reader import LogReader
from reput.store_format.release.profiles import Profile


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
