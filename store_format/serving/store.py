"""`ServedStore`: a store as clients are to see it, opened once for all of them."""

from typing import Any

from reput.store_format.derived.index_reader import BadIndex
from reput.store_format.derived.queue_files import BadQueue
from reput.store_format.layouts import RECORD_FIXED_BYTES
from reput.store_format.query.config import configured_topics
from reput.store_format.query.opened import OpenedStore
from reput.store_format.query.told import Told
from reput.store_format.serving.log_ranges import LogFiles
from reput.store_format.serving.queue import ServedQueue
from reput.store_format.serving.topics import (
    PERM_READ,
    PERM_WRITE,
    Topic,
    queue_folders,
    served_topics,
)


class ServedStore:
    """The log, queues and index of a store.

    limit: records from this physical offset on are not served, as if they were not there.
    """

    def __init__(self, opened: OpenedStore, told: Told, limit: int | None = None) -> None:
        self.opened, self.limit, self._told = opened, limit, told
        self.files = LogFiles(opened.storage, opened.log.segments)
        configured = configured_topics(opened.storage, opened.path, told)
        self.topics: dict[str, Topic] = served_topics(configured, queue_folders(opened))
        self._queues: dict[tuple[str, int], ServedQueue | None] = {}

    @property
    def log(self) -> Any:
        return self.opened.log

    def queue(self, topic: str, queue_id: int) -> ServedQueue | None:
        """A queue of a topic; None where the store has no folder of it, or what is in it is no
        queue's.
        """
        key = topic, queue_id
        if topic not in self.topics:  # nothing is kept of names that clients make up
            return None
        if key not in self._queues:
            if all(number != queue_id for number, _ in self.opened.queues_of(topic)):
                return None
            self._queues[key] = self._open(topic, queue_id)
        return self._queues[key]

    def time_at(self, topic: str, queue_id: int, position: int) -> int:
        """When the message at a position of a queue was stored, in milliseconds; -1 where there is
        none (getMessageStoreTimeStamp).
        """
        queue = self.queue(topic, queue_id)
        if queue is None or not max(queue.minimum, 0) <= position < queue.maximum:
            return -1
        for entry in queue.some(position, 1):
            return int(self.log.store_timestamp(entry.physical_offset, entry.size))
        return -1

    def earliest_time(self) -> int:
        """When the log's first message was stored, in milliseconds; -1 where there is none."""
        return int(self.log.store_timestamp(self.log.start, RECORD_FIXED_BYTES))

    def make_topic(self, name: str) -> None:
        """A topic of one queue that a broker makes by itself, such as a group's %RETRY%."""
        if name not in self.topics:
            self.topics[name] = Topic(
                name, 1, 1, PERM_READ | PERM_WRITE, 0, False, "SINGLE_TAG", {}, False
            )

    def by_key(
        self, topic: str, key: str, most: int, begin: int, end: int
    ) -> tuple[list[int], int, int]:
        """(physical offsets of the newest messages whose key has this hash, ascending; when the
        index was last written to; and the last offset in it). An index that is damaged has none.
        """
        try:
            found = self.opened.index().query(topic, key, most, begin, end)
        except BadIndex as error:
            self._told.note(f"{error}; no keys are found in it")
            return [], 0, 0
        places = sorted(hit.physical_offset for hit in found.hits)
        return places, found.last_timestamp, found.last_offset

    def _open(self, topic: str, queue_id: int) -> ServedQueue | None:
        for number, batch in self.opened.queues_of(topic):
            if number == queue_id:
                try:
                    reader = self.opened.queue(topic, queue_id, batch)
                    return ServedQueue(reader, self.opened.log, self.opened.profile, self.limit)
                except BadQueue as error:
                    self._told.note(f"{error}; the queue is not served")
                    return None
        return None
