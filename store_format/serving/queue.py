"""One queue of a served store: where it starts and ends, and some of its entries at a time."""

from reput.store_format.derived.queue_entries import QueueEntry
from reput.store_format.derived.queue_reader import QueueReader
from reput.store_format.derived.queue_times import Boundary
from reput.store_format.log.reader import LogReader
from reput.store_format.release.profiles import Profile


class ServedQueue:
    """A queue as it was when this was made; positions count messages."""

    def __init__(
        self, reader: QueueReader, log: LogReader, profile: Profile, limit: int | None
    ) -> None:
        """limit: records from this physical offset on are not there. Raises BadQueue."""
        self.reader, self._log, self._profile = reader, log, profile
        self.minimum = reader.minimum(log.start, profile)
        self.maximum = reader.maximum() if limit is None else reader.position_of(limit)

    def some(self, first: int, most: int) -> list[QueueEntry]:
        """The entries from the one that holds `first` on, `most` at most, of one queue file."""
        return [entry for entry in self.reader.some(first, most) if entry.position < self.maximum]

    def at_time(self, timestamp: int, boundary: Boundary) -> int:
        """The position at a time in milliseconds (getOffsetInQueueByTime)."""
        found = self.reader.position_by_time(timestamp, boundary, self._log, self._profile)
        return min(found, self.maximum)

    def earliest_time(self) -> int:
        """When the first message was stored, in milliseconds; -1 where there is none."""
        for entry in self.some(max(self.minimum, 0), 1):
            return self._log.store_timestamp(entry.physical_offset, entry.size)
        return -1
