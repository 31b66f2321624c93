"""`ServedStore`: a store as clients see it, opened once for all: topics, queues, log's files."""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from reput.store_format.derived.index_reader import BadIndex
from reput.store_format.derived.queue_files import BadQueue
from reput.store_format.derived.queue_reader import Boundary
from reput.store_format.derived.queues import Queue, Slice
from reput.store_format.discover.config import configured_topics
from reput.store_format.faults import StoreChanged
from reput.store_format.files.disk import fill_from
from reput.store_format.files.protocol import InputStorage, Reader
from reput.store_format.layouts import RECORD_FIXED_BYTES
from reput.store_format.log.reader import LogReader, NoRecord, NotInLog
from reput.store_format.log.rules import head_bytes
from reput.store_format.log.segments import Segment
from reput.store_format.names import REVIVE_TOPIC
from reput.store_format.notes import Notes
from reput.store_format.query.reader import OpenedStore
from reput.store_format.release.profiles import Profile, release_key
from reput.store_format.rocksdb.database import RocksDBError

# ---
# One queue of a served store: its first and last position, and its entries.


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


# ---
# The log's files for answers: read, or sent to a socket without passing through Python.


class LogFile:
    """An open segment. It is closed once nothing refers to it, such as an answer being sent."""

    def __init__(self, storage: InputStorage, segment: Segment) -> None:
        self.start = segment.start
        self.reader: Reader = storage.open(segment.path, segment.state)
        fileno = getattr(self.reader, "fileno", None)
        # None where the segment is no file of this machine
        self.descriptor: int | None = None if fileno is None else int(fileno())
        # fills a buffer from an offset in the file; raises StoreChanged, OSError
        self.read_into: Callable[[int, Any], None] = self.reader.read_into
        if self.descriptor is not None:  # most reads are small, so each call in between counts
            self.read_into = partial(fill_from, self.descriptor, segment.path)

    def __del__(self) -> None:
        if hasattr(self, "reader"):
            with suppress(StoreChanged, OSError):  # the bytes that were sent were checked
                self.reader.close()


class LogRange(NamedTuple):
    file: LogFile
    start: int  # in the file
    length: int

    def read(self) -> bytes:
        """The bytes. Raises StoreChanged where the file has become too short, OSError."""
        buffer = np.empty(self.length, np.uint8)
        self.file.read_into(self.start, buffer)
        return buffer.tobytes()


class LogFiles:
    """The segments of a log; each is opened when it is first needed, and stays open."""

    def __init__(self, storage: InputStorage, segments: list[Segment]) -> None:
        self._storage = storage
        self._segments: list[Segment] = []
        self._files: list[LogFile | None] = []
        self.relist(segments)

    def relist(self, segments: list[Segment]) -> None:
        """Take the segments that exist now: some may be new, some gone, the last ones longer."""
        known = {s.path: file for s, file in zip(self._segments, self._files, strict=True)}
        self._segments = segments
        self.starts = np.array([segment.start for segment in segments], np.int64)
        self.ends = np.array([segment.end for segment in segments], np.int64)
        self._files = [known.get(segment.path) for segment in segments]

    def read(self, number: int, place: int, buffer: Any) -> None:
        """Fill a buffer from a physical offset in a segment. Raises StoreChanged, OSError."""
        file = self._files[number] or self._file(number)
        file.read_into(place - file.start, buffer)

    def range(self, place: int, length: int) -> LogRange:
        """The bytes [place, place + length) by physical offsets. Raises NotInLog."""
        number = bisect_right(self.starts, place) - 1
        if number < 0 or place + length > self.ends[number]:
            raise NotInLog(place, int(self.starts[0]), int(self.ends[-1]))
        return LogRange(self._file(number), place - self._segments[number].start, length)

    def close(self) -> None:
        """Let go of the files: each is closed once no answer needs it."""
        self._files = [None] * len(self._segments)

    def _file(self, number: int) -> LogFile:
        file = self._files[number]
        if file is None:
            segment = self._segments[number]
            file = self._files[number] = LogFile(self._storage, segment)
        return file


# ---
# The physical offset at which the log ended at a given time.


def end_at(log: LogReader, time: int, notes: Notes) -> int:
    """The physical offset before which all records were stored at `time` (milliseconds) or earlier.

    Reads the first record of each segment, and all records of one segment. So, if the broker's
    clock was set back, records with a storeTimestamp up to `time` may follow that offset.
    """
    end, walked = log.end, log.segments[0]
    for segment in log.segments:
        try:
            first = log.record_at(segment.start)
        except NoRecord:
            continue
        if first.store_timestamp > time:
            end = segment.start
            break
        walked = segment
    try:
        for step in log.steps(walked.start, min(walked.end, end)):
            later = np.flatnonzero(step.rows["storeTimestamp"] > time)
            if len(later):
                return int(step.rows["physicalOffset"][later[0]])
    except NoRecord as error:
        notes.note(f"{error}; what follows may have been stored later, and is not served")
        return error.place
    return end


# ---
# The topics that are served: those of config/topics.json, and others that have queues.

PERM_READ, PERM_WRITE = 4, 2  # PermName
_DEFAULT_QUEUES = 16  # TopicConfig.defaultReadQueueNums
_INT = 1 << 31
# Of a topic. A hostile topics.json may have any number, and requests loop over all queues.
_MOST_QUEUES = 1 << 16


class Topic(NamedTuple):
    """The configuration of a topic (TopicConfig)."""

    name: str
    read_queues: int
    write_queues: int
    perm: int
    sys_flag: int
    order: bool
    filter_type: str
    attributes: dict[str, str]
    configured: bool  # whether config/topics.json has the topic

    @property
    def empty_minimum(self) -> int:
        """The minimum of a queue without entries (ConsumeQueue, BatchConsumeQueue)."""
        return -1 if self.attributes.get("queue.type") == "BatchCQ" else 0


def served_topics(
    configured: Mapping[str, Any] | None, folders: Mapping[str, int]
) -> dict[str, Topic]:
    """All topics by name. folders: topic -> its greatest queue id plus 1, if it has queues."""
    found = {
        name: _configured(name, config)
        for name, config in (configured or {}).items()
        if isinstance(config, dict)
    }
    for name, queues in folders.items():
        if name not in found:
            found[name] = topic(name, queues)
    return found


def _configured(name: str, config: Mapping[str, Any]) -> Topic:
    attributes = config.get("attributes")
    return Topic(
        name,
        _queues(config.get("readQueueNums")),
        _queues(config.get("writeQueueNums")),
        _int(config.get("perm"), PERM_READ | PERM_WRITE),
        _int(config.get("topicSysFlag"), 0),
        config.get("order") is True,
        str(config.get("topicFilterType", "SINGLE_TAG")),
        {str(k): str(v) for k, v in attributes.items()} if isinstance(attributes, dict) else {},
        True,
    )


def _queues(value: Any) -> int:
    return min(_int(value, _DEFAULT_QUEUES), _MOST_QUEUES)


def _int(value: Any, default: int) -> int:
    return value if type(value) is int and -_INT <= value < _INT else default


def queue_folders(store: OpenedStore) -> dict[str, int]:
    """Topic -> its greatest queue id plus 1, for topics that have folders of queues."""
    counts = {topic: store.queues.of(topic) for topic in store.queues.topics()}
    return {topic: queues[-1][0] + 1 for topic, queues in counts.items() if queues}


# ---
# `ServedStore`: a store as clients see it, opened once for all clients.

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
        opened = self._again()
        self._close_opened()
        self.opened = opened
        self.files.relist(self.log.segments)
        self._look()

    def close(self) -> None:
        """Close all files; nothing is asked of the store any more."""
        self._close_opened()
        self.files.close()

    def _close_opened(self) -> None:
        for queue in self._held.values():
            queue.entries.close()
        self.opened.close()

    def _look(self) -> None:
        opened = self.opened
        self.limit = self.log.end if self._at_limit is None else min(self._at_limit, self.log.end)
        configured = configured_topics(opened.folder, self._notes)
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


# ---
# Topics that a broker makes when it starts, whatever is in its store (TopicConfigManager.init).

_BOTH, _INHERIT = PERM_READ | PERM_WRITE, 1  # PermName


def topic(name: str, queues: int = 1, perm: int = _BOTH) -> Topic:
    """A topic that is not in config/topics.json."""
    return Topic(name, queues, queues, perm, 0, False, "SINGLE_TAG", {}, False)


def booted_topics(release: str, broker: str, cluster: str) -> list[Topic]:
    """The topics of a release. RocketMQ's Proxy starts only if the cluster's own topic exists."""
    made = [
        topic("SELF_TEST_TOPIC"),
        topic("TBW102", 8, _BOTH | _INHERIT),
        topic("BenchmarkTest", 1024),
        topic(cluster, _DEFAULT_QUEUES, _BOTH | _INHERIT),
        topic(broker, 1, _BOTH | _INHERIT),
        topic("OFFSET_MOVED_EVENT"),
        topic("SCHEDULE_TOPIC_XXXX", 18),
        topic(f"{cluster}_REPLY_TOPIC"),
    ]
    if release_key(release) >= (5, 0, 0):
        made += [
            topic(f"{REVIVE_TOPIC}{cluster}", 8),  # BrokerConfig.reviveQueueNum
            topic(f"rmq_sys_SYNC_BROKER_MEMBER_{broker}", 1, _INHERIT),
            topic("RMQ_SYS_TRANS_HALF_TOPIC"),
            topic("RMQ_SYS_TRANS_OP_HALF_TOPIC"),
        ]
    if release_key(release) >= (5, 3, 1):
        made.append(topic("rmq_sys_wheel_timer"))
    return made
