"""`ServedStore`: a store as clients see it, opened once for all clients."""

from collections import OrderedDict
from collections.abc import Callable, Iterator

from reput.broker.serving.log_ranges import LogFiles
from reput.broker.serving.queue import ServedQueue
from reput.broker.serving.topics import Topic, queue_folders, served_topics
from reput.store_format.derived.index_reader import BadIndex
from reput.store_format.derived.queue_files import BadQueue
from reput.store_format.discover.config import configured_topics
from reput.store_format.layouts import RECORD_FIXED_BYTES
from reput.store_format.log.reader import LogReader
from reput.store_format.log.rules import head_bytes
from reput.store_format.notes import Notes
from reput.store_format.query.reader import OpenedStore
from reput.store_format.rocksdb.database import RocksDBError

_OPEN_QUEUES = 256  # queues that keep a file open


def bounds(topic: Topic, queue: ServedQueue | None) -> tuple[int, int]:
    """A queue's first position, and the position after its last. queue: None if it has no files."""
    return (topic.empty_minimum, 0) if queue is None else (queue.minimum, queue.maximum)


class ServedStore:
    """The log, queues and index of a store, as the files were at the last look.

    at: time in milliseconds as of which the store is served; None: now.
    limit: physical offset from which on records are not served: they were stored after `at`, or the
    log does not have them.
    """

    def __init__(
        self, again: Callable[[], OpenedStore], notes: Notes, at: int | None = None,
        limit: int | None = None, far: bool = False,
    ) -> None:  # fmt: skip
        """again: opens the store; called now, and by `refresh`.
        far: the files are not on this machine, so reading them takes long.
        """
        self.far = far
        self._again, self._notes, self.at, self._at_limit = again, notes, at, limit
        self._made: dict[str, Topic] = {}
        self.opened = again()
        self.files = LogFiles(self.opened.storage, self.log.segments)
        self._look()

    def refresh(self) -> None:
        """Look at the files again: a store that is served may grow."""
        before = self.opened
        self.opened = self._again()
        before.close()
        self.files.relist(self.log.segments)
        for queue in self._held.values():
            queue.entries.close()
        self._look()

    def _look(self) -> None:
        opened = self.opened
        self.limit = self.log.end if self._at_limit is None else min(self._at_limit, self.log.end)
        configured = configured_topics(opened.storage, opened.path, self._notes)
        self.topics: dict[str, Topic] = served_topics(configured, queue_folders(opened))
        self.topics = {**self._made, **self.topics}
        self._queues: dict[tuple[str, int], ServedQueue | None] = {}
        self._held: OrderedDict[tuple[str, int], ServedQueue] = OrderedDict()
        self._served_end = -1  # -1: not computed yet

    @property
    def log(self) -> LogReader:
        return self.opened.log

    def queue(self, topic: str, queue_id: int) -> ServedQueue | None:
        """A queue of a topic; None if the store has no folder of the queue, or it is damaged."""
        key = topic, queue_id
        if topic not in self.topics:  # nothing is kept of names that clients make up
            return None
        if key not in self._queues:
            kinds = (batch for n, batch in self.opened.queues.of(topic) if n == queue_id)
            batch = next(kinds, None)
            if batch is None:
                return None
            self._queues[key] = self._open(topic, queue_id, batch)
        queue = self._queues[key]
        if queue is not None:
            self._held[key] = queue
            self._held.move_to_end(key)
            if len(self._held) > _OPEN_QUEUES:
                self._held.popitem(last=False)[1].entries.close()
        return queue

    def time_at(self, topic: str, queue_id: int, position: int) -> int:
        """The storeTimestamp of the message at a position of a queue; -1 if no message is there
        (getMessageStoreTimeStamp).
        """
        queue = self.queue(topic, queue_id)
        if queue is None or not max(queue.minimum, 0) <= position < queue.maximum:
            return -1
        return queue.time_of(queue.some(position, 1))

    def earliest_time(self) -> int:
        """The storeTimestamp of the log's first message; -1 if the log has no message."""
        log = self.log
        first = log.start + head_bytes(log.segments[0].end, log.rules)
        return log.store_timestamp(first, RECORD_FIXED_BYTES)

    def served_end(self) -> int:
        """The physical offset after the last message in any queue: later records are not served."""
        if self._served_end < 0:
            self._served_end = max([self.log.start, *self._queue_ends()])
        return self._served_end

    def _queue_ends(self) -> Iterator[int]:
        """The physical offset after the last message of each queue that has messages."""
        for topic in self.opened.queues.topics():
            for queue_id, _ in self.opened.queues.of(topic):
                queue = self.queue(topic, queue_id)
                if queue is None or queue.maximum <= max(queue.minimum, 0):
                    continue
                last = queue.some(queue.maximum - 1, 1)
                if len(last):
                    yield int(last.places[0] + last.sizes[0])

    def make_topic(self, made: Topic) -> None:
        """Add a topic that a broker makes by itself, such as a group's %RETRY%, unless known."""
        if made.name not in self.topics:
            self.topics[made.name] = self._made[made.name] = made

    def by_key(
        self, topic: str, key: str, most: int, begin: int, end: int
    ) -> tuple[list[int], int, int]:
        """(physical offsets of the newest messages whose key has this hash, ascending; the index's
        last storeTimestamp; the index's last physical offset). The last two are 0 if no message is
        found, as in a damaged index. most: number of messages; begin, end: milliseconds.
        """
        try:
            in_rocksdb = self.opened.rocksdb_index()
            if in_rocksdb is not None:
                places = sorted(
                    place
                    for place in set(in_rocksdb.places(topic, key, begin, end))
                    if place < self.limit
                )
                if not places or not most:
                    return [], 0, 0
                return places[-most:], in_rocksdb.last_timestamp, in_rocksdb.last_offset
            index = self.opened.index()
            if self.at is None:
                found = index.query(topic, key, most, begin, end)
            else:
                found = index.query(topic, key, most, begin, min(end, self.at), until=self.limit)
        except (BadIndex, RocksDBError) as error:
            self._notes.note(f"{error}; no keys are found in it")
            return [], 0, 0
        places = sorted(hit.physical_offset for hit in found.hits)
        if not places:
            return [], 0, 0
        if self.at is None:
            return places, found.last_timestamp, found.last_offset
        last = index.last_before(self.limit)
        return places, self.log.store_timestamp(last, RECORD_FIXED_BYTES), last

    def _open(self, topic: str, queue_id: int, batch: bool) -> ServedQueue | None:
        opened = self.opened
        try:
            entries = opened.queues.open(topic, queue_id, batch)
            return ServedQueue(entries, opened.log, opened.profile, self.limit)
        except BadQueue as error:
            self._notes.note(f"{error}; the queue is not served")
            return None
