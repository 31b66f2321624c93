"""Queues that a broker keeps in RocksDB (RocksDBConsumeQueueStore): their keys, and the queues read
as `Queues`.

A queue's entries count from its min to its max row in the family `offset`. A broker that cut its
log leaves entries after max (truncateDirty). Those of expired messages stay until a compaction.
"""

from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from reput.store_format.derived.queue_files import (
    BadQueue,
    Entries,
    QueueEntry,
    is_used,
    queue_folder,
    record_of,
)
from reput.store_format.derived.queue_reader import Boundary, NoEntry
from reput.store_format.derived.queues import (
    FileQueues,
    PastEnd,
    Queues,
    Slice,
    no_entries,
    past_end,
)
from reput.store_format.files.folder import Folder
from reput.store_format.layouts import ROCKSDB_ENTRY, ROCKSDB_OFFSET
from reput.store_format.log.reader import LogReader
from reput.store_format.names import ROCKSDB_QUEUES, UnsafeName, check_topic
from reput.store_format.release.profiles import Profile
from reput.store_format.rocksdb.database import CURRENT, Database, RocksDBError, open_database

# ---
# Keys of queues in RocksDB, as functions of bytes. Numbers are big-endian.
#
# Of the family `default`, entries (RocksDBConsumeQueueTable):
#     int topicLength | 01 | topic | 01 | int queueId | 01 | long queueOffset -> ROCKSDB_ENTRY
# Of the family `offset` (RocksDBConsumeQueueOffsetTable):
#     int topicLength | 01 | topic | 01 | "max" or "min" | 01 | int queueId   -> ROCKSDB_OFFSET

ENTRIES, OFFSETS = "default", "offset"  # column families
MAX, MIN = b"max", b"min"
_SEPARATOR = b"\x01"
_BEHIND = b"\x02"  # sorts after _SEPARATOR, and so after all of a queue's keys
CHECKPOINT_TOPIC = "CHECKPOINT_TOPIC"  # TopicValidator.RMQ_SYS_ROCKSDB_OFFSET_TOPIC
_POSITION_MOST = (1 << 63) - 1


class QueueOffset(NamedTuple):
    """The parts of a key of the family `offset`."""

    topic: str
    queue_id: int
    kind: bytes  # MAX or MIN


def _int(value: int) -> bytes:
    return value.to_bytes(4, "big", signed=True)


def topic_key(topic: str) -> bytes:
    """The prefix of all keys of a topic's entries."""
    raw = topic.encode("utf-8", "surrogatepass")
    return b"%b\x01%b\x01" % (_int(len(raw)), raw)


def queue_of_topic(topic: bytes, queue_id: bytes) -> bytes:
    """A queue's key from parts made before. topic: by `topic_key`; queue_id: its four bytes."""
    return topic + queue_id + _SEPARATOR


def queue_key(topic: str, queue_id: int) -> bytes:
    """The prefix of all keys of a queue's entries."""
    return queue_of_topic(topic_key(topic), _int(queue_id))


def entry_key(queue: bytes, position: int) -> bytes:
    """The key of an entry. queue: from `queue_key`."""
    return queue + min(max(position, 0), _POSITION_MOST).to_bytes(8, "big")


def behind_queue(queue: bytes) -> bytes:
    """A key after all of a queue's entries (RocksDBConsumeQueueTable.buildDeleteCQKey)."""
    return queue[:-1] + _BEHIND


def offset_key(topic: str, queue_id: int, kind: bytes) -> bytes:
    raw = topic.encode("utf-8", "surrogatepass")
    return b"%b\x01%b\x01%b\x01%b" % (_int(len(raw)), raw, kind, _int(queue_id))


CHECKPOINT_KEY = offset_key(CHECKPOINT_TOPIC, 0, MAX)  # its value: 8 bytes, a physical offset


def parse_offset_key(key: bytes) -> QueueOffset | None:
    """The parts of an `offset` row's key; None for another key, or an impossible topic."""
    length = int.from_bytes(key[:4], "big")
    if len(key) != 14 + length or key[4:5] != _SEPARATOR:
        return None
    rest = key[5 + length :]
    if rest[:1] != _SEPARATOR or rest[4:5] != _SEPARATOR or rest[1:4] not in (MAX, MIN):
        return None
    try:
        topic = check_topic(key[5 : 5 + length].decode())
    except (UnicodeDecodeError, UnsafeName):
        return None
    return QueueOffset(topic, int.from_bytes(rest[5:], "big", signed=True), rest[1:4])


def parse_entry_key(key: bytes) -> tuple[bytes, int] | None:
    """(the queue's key prefix, position) of an entry's key; None for another key."""
    length = int.from_bytes(key[:4], "big")
    at = 4 + 1 + length
    marks = key[4:5] + key[at : at + 1] + key[at + 5 : at + 6]
    if len(key) != 19 + length or marks != _SEPARATOR * 3:
        return None
    return key[:-8], int.from_bytes(key[-8:], "big", signed=True)


def topic_of(queue: bytes) -> tuple[str, int]:
    """(topic, queue id) of a queue's key prefix."""
    return queue[5:-6].decode("utf-8", "replace"), int.from_bytes(queue[-5:-1], "big", signed=True)


_ROWS = 1 << 12  # read at a time
_POSITION = np.dtype(">i8")


def queues_folder(store: Folder) -> Folder | None:
    """The folder of a store's queues in RocksDB; None if it has none."""
    for name in ROCKSDB_QUEUES:
        if any(file == CURRENT for file, _ in store.listed(name)):
            return store / name
    return None


class RocksDBQueues:
    """All queues of a database; see `Queues`. Raises RocksDBError if it cannot be read."""

    def __init__(self, store: str, folder: Folder) -> None:
        self.store, self.database = store, open_database(folder)
        try:
            self.maxima = dict(self.offsets(MAX))
        except RocksDBError:
            self.close()
            raise

    def offsets(self, kind: bytes) -> Iterator[tuple[tuple[str, int], tuple[int, int]]]:
        """(topic, queue id) and (physicalOffset, queueOffset) of each row of a kind: MAX or MIN."""
        for key, value in self.database.rows(OFFSETS):
            about = parse_offset_key(key)
            if about is not None and about.kind == kind and len(value) == ROCKSDB_OFFSET.itemsize:
                place, position = np.frombuffer(value, ROCKSDB_OFFSET)[0].item()
                yield (about.topic, about.queue_id), (place, position)

    def topics(self) -> list[str]:
        return sorted({topic for topic, _ in self.maxima})

    def of(self, topic: str) -> list[tuple[int, bool]]:
        return sorted((queue_id, False) for name, queue_id in self.maxima if name == topic)

    def open(self, topic: str, queue_id: int, batch: bool) -> "RocksDBQueue":
        return RocksDBQueue(
            self.database, queue_folder(self.store, topic, queue_id), topic, queue_id,
            self.maxima.get((topic, queue_id), (-1, -1))[1],
        )  # fmt: skip

    def file_bytes(self, batch: bool) -> int:
        return 0

    def dispatched_to(self) -> int:
        """The dispatch checkpoint. It is reliable, as both families are flushed together."""
        value = self.database.get(OFFSETS, CHECKPOINT_KEY)
        return -1 if value is None else int.from_bytes(value[:8], "big", signed=True)

    def close(self) -> None:
        self.database.close()


class RocksDBQueue:
    """One queue; see `Queue`. RocksDB has no batch queues."""

    batch = False

    def __init__(
        self, database: Database, folder: str, topic: str, queue_id: int, last_position: int
    ) -> None:
        """last_position: the queueOffset of its max row, -1 without one."""
        self.folder, self._database, self._last = folder, database, last_position
        self._queue = queue_key(topic, queue_id)

    # --- where it starts and ends ----------------------------------------------------------------

    def maximum(self) -> int:
        """RocksDBConsumeQueueStore.getMaxOffsetInQueue."""
        return self._last + 1

    def may_be_cut(self) -> bool:
        """A killed broker's queues end at its last flush, which the index does not show."""
        return True

    def first_if_cut(self) -> QueueEntry | None:
        """None: rows go by compaction, one by one, once their messages have expired."""
        return None

    def refuse_cut(self, usual: int) -> None:
        """There are no files that could be cut."""

    def last(self) -> QueueEntry | None:
        found = self._row_at_or_before(self._last)
        return None if found is None else _entry(*found)

    def minimum(self, log_start: int, profile: Profile) -> int:
        """RocksDBConsumeQueueOffsetTable.getMinCqOffset; holes are skipped."""
        if self._last < 0:
            return 0
        return self._bisect(lambda row: int(row["physicalOffset"]) < log_start)

    def end_within(self, limit: int) -> int:
        """The position after the last message whose record ends at or before `limit`."""
        last = self.last()
        if last is None or last.physical_offset + last.size <= limit:
            return self.maximum()
        found = self._row_at_or_before(self._bisect(lambda row: sum(record_of(row)) <= limit) - 1)
        return 0 if found is None else found[0] + 1

    def file_end(self, position: int) -> int:
        return self.maximum()

    # --- entries by position ---------------------------------------------------------------------

    def entry(self, position: int) -> QueueEntry:
        """The entry at a position. Raises NoEntry, BadQueue."""
        for entry in self.entries(position, position + 1):
            return entry
        first = next((found.position for found in self.entries(0)), 0)
        raise NoEntry(self.folder, position, first, self.maximum())

    def entries(self, first: int, stop: int | None = None) -> Iterator[QueueEntry]:
        """The entries at positions [first, stop), in order; without stop, to the end."""
        for positions, rows in self.rows(first, stop):
            used = is_used(rows)
            for position, row, fine in zip(positions.tolist(), rows, used, strict=True):
                if not fine:
                    place, size = record_of(row)
                    field, value = ("physicalOffset", place) if place < 0 else ("size", size)
                    raise BadQueue(self.folder, position, field, value, "is no place in any log")
                yield _entry(position, row)

    def arrays(self, first: int) -> Iterator[Entries]:
        """The entries from position `first` on, thousands at a time (ROCKSDB_ENTRY)."""
        for _, rows in self.rows(first, None):
            yield rows

    def some(self, first: int, most: int) -> Slice:
        for positions, rows in self.rows(first, None, most):
            columns = (
                rows[name].astype(np.int64) for name in ("physicalOffset", "size", "tagsCode")
            )
            return Slice(positions.astype(np.int64), np.ones(len(rows), np.int64), *columns)
        return no_entries()

    # --- entries by time -------------------------------------------------------------------------

    def position_by_time(
        self, timestamp: int, boundary: Boundary, log: LogReader, profile: Profile
    ) -> int:
        """The position at a time in milliseconds; see QueueReader.position_by_time."""
        minimum = self.minimum(log.start, profile)
        found = self._at_time(timestamp, boundary, minimum)
        if profile.queue_time_within:
            found = min(max(found, minimum), self.maximum())
        return found

    def _at_time(self, timestamp: int, boundary: Boundary, low: int) -> int:
        """RocksDBConsumeQueueTable.binarySearchInCQByTime, by the entries' own storeTimestamps."""
        if self._last < 0:
            return 0
        last = self._row_at_or_before(self._last)
        if last is None or low > self._last:
            return low
        upper = boundary == Boundary.UPPER
        if int(last[1]["storeTimestamp"]) < timestamp:
            return last[0] if upper else last[0] + 1
        first = self._row_at_or_after(low)
        if first is not None and int(first[1]["storeTimestamp"]) > timestamp:
            return 0 if upper else first[0]
        if upper:
            behind = self._bisect(lambda row: int(row["storeTimestamp"]) <= timestamp, low)
            found = self._row_at_or_before(behind - 1)
            return low if found is None else found[0]
        return self._bisect(lambda row: int(row["storeTimestamp"]) < timestamp, low)

    def close(self) -> None:
        """The database stays open for others."""

    # --- rows ------------------------------------------------------------------------------------

    def _bisect(self, before: Any, low: int = 0) -> int:
        """The position of the first row from `low` on for which `before` is false, as it must be
        for all later rows; else `maximum`. Holes are skipped.
        """
        high = self._last + 1
        while low < high:
            middle = (low + high) // 2
            found = self._row_at_or_after(middle)
            if found is None or found[0] >= high or not before(found[1]):
                high = middle
            else:
                low = found[0] + 1
        found = self._row_at_or_after(low)
        return self._last + 1 if found is None else found[0]

    def _row_at_or_after(self, position: int) -> tuple[int, Any] | None:
        for positions, rows in self.rows(position, None, 1):
            return int(positions[0]), rows[0]
        return None

    def _row_at_or_before(self, position: int) -> tuple[int, Any] | None:
        if position < 0:
            return None
        try:
            at = entry_key(self._queue, position)
            found = self._database.last_row(ENTRIES, entry_key(self._queue, 0), at)
        except RocksDBError as error:
            raise self._bad(position, error.reason) from None
        if found is None:
            return None
        positions, rows = self._decoded([found])
        return int(positions[0]), rows[0]

    def rows(
        self, first: int, stop: int | None, most: int | None = None
    ) -> Iterator[tuple[Any, Entries]]:
        """(positions, ROCKSDB_ENTRY) of rows [first, stop) up to the max row, some at a time."""
        stop = self._last + 1 if stop is None else min(stop, self._last + 1)
        if max(first, 0) >= stop:
            return
        rows = self._database.rows(
            ENTRIES, entry_key(self._queue, first),
            min(entry_key(self._queue, stop), behind_queue(self._queue)),
        )  # fmt: skip
        rows = islice(rows, most)
        try:
            while some := list(islice(rows, _ROWS)):
                yield self._decoded(some)
        except RocksDBError as error:
            raise self._bad(first, error.reason) from None

    def _decoded(self, rows: list[tuple[bytes, bytes]]) -> tuple[Any, Entries]:
        for key, value in rows:
            if len(value) != ROCKSDB_ENTRY.itemsize or len(key) != len(self._queue) + 8:
                position = int.from_bytes(key[len(self._queue) :], "big")
                raise self._bad(position, f"expected {ROCKSDB_ENTRY.itemsize} bytes", len(value))
        positions = np.frombuffer(b"".join(key[-8:] for key, _ in rows), _POSITION)
        return positions, np.frombuffer(b"".join(value for _, value in rows), ROCKSDB_ENTRY)

    def _bad(self, position: int, reason: str, length: int = 0) -> BadQueue:
        return BadQueue(self.folder, position, "value", length, reason)


def _entry(position: int, row: Any) -> QueueEntry:
    place, size = record_of(row)
    return QueueEntry(position, place, size, int(row["tagsCode"]), 1, int(row["storeTimestamp"]))


def past_end_of(store: Folder, end: int) -> Iterator[PastEnd]:
    """What a store's queues name past the log's end; nothing where RocksDB cannot be read."""
    queues: Queues = FileQueues(store, lambda _: 0)
    folder = None if queues.topics() else queues_folder(store)
    if folder is not None:
        try:
            queues = RocksDBQueues(store.path, folder)
        except RocksDBError:
            return  # who judges the store says so
    with closing(queues):
        yield from past_end(queues, end)
