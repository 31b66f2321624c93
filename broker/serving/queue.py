"""One queue of a served store: its first and last position, and its entries."""

from reput.store_format.derived.queue_reader import Boundary
from reput.store_format.derived.queues import Queue, Slice
from reput.store_format.log.reader import LogReader
from reput.store_format.release.profiles import Profile


class ServedQueue:
    """A queue as it was when this object was made. Positions count messages, not entries."""

    def __init__(self, entries: Queue, log: LogReader, profile: Profile, limit: int) -> None:
        """limit: records from this physical offset on are not served. Raises BadQueue."""
        self.entries, self._log, self._profile = entries, log, profile
        self.batch = entries.batch
        self.maximum = entries.end_within(limit)
        self.minimum = entries.minimum(log.start, profile)

    def some(self, first: int, most: int) -> Slice:
        """At most `most` entries of one queue file, from the entry that holds position `first`."""
        found = self.entries.some(first, most)
        if len(found) and found.positions[-1] >= self.maximum:
            return found.part(found.positions < self.maximum)
        return found

    def at_time(self, timestamp: int, boundary: Boundary) -> int:
        """The position at a time in milliseconds (getOffsetInQueueByTime)."""
        if not self._profile.batch_time_boundaries:  # only from 5.1.4 on a request has a boundary
            boundary = Boundary.LOWER
        found = self.entries.position_by_time(timestamp, boundary, self._log, self._profile)
        is_last = boundary == Boundary.UPPER or not self._profile.queue_time_boundaries
        if is_last and found >= self.maximum > self.minimum and not self.batch:
            return self.maximum - 1  # as if the queue's files ended at `maximum`
        return min(found, self.maximum)

    def earliest_time(self) -> int:
        """The storeTimestamp of the first message; -1 if the queue has no message."""
        return self.time_of(self.some(max(self.minimum, 0), 1))

    def time_of(self, found: Slice) -> int:
        """The storeTimestamp of the first message of a slice; -1 if the slice is empty."""
        if not len(found):
            return -1
        return self._log.store_timestamp(int(found.places[0]), int(found.sizes[0]))
