"""The queues of a store, whatever keeps them: the interface for all readers of queues, and a reader
of many queues a few entries at a time.

`FileQueues` are ConsumeQueue files; rocksdb/queues.py has those that a broker keeps in RocksDB.
"""

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from reput.store_format.derived import queue_files
from reput.store_format.derived.queue_reader import NoEntry, QueueReader
from reput.store_format.faults import StoreChanged
from reput.store_format.files.folder import Folder, queue_folders, topic_folders
from reput.store_format.names import BATCH_CONSUME_QUEUE, CONSUME_QUEUE, is_queue_topic

if TYPE_CHECKING:
    from reput.store_format.derived.queue_files import Entries, QueueEntry
    from reput.store_format.derived.queue_reader import Boundary
    from reput.store_format.log.reader import LogReader
    from reput.store_format.release.profiles import Profile

# ---
# Entries of one queue a few at a time, as arrays: for a reader of many queues side by side.
#
# The file that was read last stays open, and no entry becomes a Python object: opening files and
# making objects both take longer than reading the entries.

Numbers = npt.NDArray[np.int64]


@dataclass(slots=True)
class Slice:
    """Some entries, in order, unchecked: an entry may point to no place in any log."""

    positions: Numbers  # of each entry's first message
    messages: Numbers  # how many positions each entry takes
    places: Numbers  # physical offsets
    sizes: Numbers
    tags_codes: Numbers

    def __len__(self) -> int:
        return len(self.positions)

    def part(self, chosen: Any) -> "Slice":
        """Some of these entries, by a mask or a slice."""
        return Slice(
            self.positions[chosen], self.messages[chosen], self.places[chosen],
            self.sizes[chosen], self.tags_codes[chosen],
        )  # fmt: skip


def no_entries() -> Slice:
    return Slice(*(np.empty(0, np.int64) for _ in fields(Slice)))


class QueueSlices(QueueReader):
    """A queue that is read in slices. `close` lets go of the file that it has open."""

    _held: queue_files.OpenQueueFile | None = None
    _held_file: queue_files.QueueFile | None = None

    def some(self, first: int, most: int) -> Slice:
        """At most `most` entries from the one with position `first` on, all of one file."""
        if not self.files:
            return no_entries()
        file = self.files[self._file_of(first)]
        entries = self._opened(file)
        used = entries.used()
        at = min(self._number_of(entries, file, first, used), used)
        rows = entries.range(at, min(at + most, used))
        if self.batch:
            return _sliced(_int64(rows["baseOffset"]), _int64(rows["batchSize"]), rows)
        position = self._files.position(file, at)
        positions = np.arange(position, position + len(rows))
        return _sliced(positions, np.ones(len(rows), np.int64), rows)

    def file_end(self, position: int) -> int:
        """The position after the file that holds `position`; of a batch queue, the queue's end."""
        if self.batch or not self.files:
            return self.maximum()
        file = self.files[self._file_of(position)]
        return self._files.position(file, file.state.size // self._files.entry_bytes)

    def end_within(self, limit: int) -> int:
        """The position after the last message whose record ends at `limit` or before."""
        last = self.last()
        if last is None or last.physical_offset + last.size <= limit:
            return self.maximum()
        for file in reversed(self.files):
            with self._files.open(file) as entries:
                used = entries.used()
                at = entries.bisect(0, used, lambda e: sum(queue_files.record_of(e)) <= limit)
                if at:
                    before = self._files.position(file, at - 1)
                    entry = queue_files.entry_of(entries[at - 1], before, self.batch)
                    return entry.position + entry.messages
        return max(self._first_position(), 0)

    def close(self) -> None:
        """Let go of the file that is open, if one is; another use opens it again."""
        held, self._held, self._held_file = self._held, None, None
        if held is not None:
            with suppress(StoreChanged):  # its entries were read as they were
                held.__exit__()

    def _opened(self, file: queue_files.QueueFile) -> queue_files.OpenQueueFile:
        if self._held is None or self._held_file is not file:
            self.close()
            self._held, self._held_file = self._files.open(file).__enter__(), file
        return self._held


def _sliced(positions: Numbers, messages: Numbers, rows: Any) -> Slice:
    if not len(positions):
        return no_entries()
    columns = (_int64(rows[name]) for name in ("physicalOffset", "size", "tagsCode"))
    return Slice(positions, messages, *columns)


def _int64(column: Any) -> Numbers:
    found: Numbers = column.astype(np.int64)
    return found


class Queue(Protocol):
    """One queue, as it was when it was opened. Positions count messages; see `QueueSlices`.

    folder: names the queue in messages; it ends with its topic and id.
    """

    folder: str
    batch: bool

    def maximum(self) -> int: ...
    def minimum(self, log_start: int, profile: "Profile") -> int: ...
    def may_be_cut(self) -> bool: ...
    def first_if_cut(self) -> "QueueEntry | None": ...
    def refuse_cut(self, usual: int) -> None: ...
    def last(self) -> "QueueEntry | None": ...
    def entry(self, position: int) -> "QueueEntry": ...
    def entries(self, first: int, stop: int | None = None) -> "Iterator[QueueEntry]": ...
    def arrays(self, first: int) -> "Iterator[Entries]": ...
    def position_by_time(
        self, timestamp: int, boundary: "Boundary", log: "LogReader", profile: "Profile"
    ) -> int: ...
    def some(self, first: int, most: int) -> "Slice": ...
    def file_end(self, position: int) -> int: ...
    def end_within(self, limit: int) -> int: ...
    def close(self) -> None: ...


class Queues(Protocol):
    """All queues of one store, listed once. Each method may raise BadQueue."""

    def topics(self) -> list[str]:
        """The topics that have a queue, by name."""

    def of(self, topic: str) -> list[tuple[int, bool]]:
        """(queue id, whether it is a batch queue) of each queue of a topic."""

    def open(self, topic: str, queue_id: int, batch: bool) -> Queue: ...

    def file_bytes(self, batch: bool) -> int:
        """The length of whole queue files, for `Queue.refuse_cut`; 0: not known."""

    def dispatched_to(self) -> int:
        """The physical offset up to which the queues note that the log is dispatched; -1: none."""

    def close(self) -> None: ...


class FileQueues:
    """Queues in files, below consumequeue/ and batchconsumequeue/."""

    def __init__(self, store: Folder, file_bytes: Callable[[bool], int]) -> None:
        """file_bytes: computes what `file_bytes` returns; called once for each kind of queue."""
        self.store = store
        self._look = file_bytes
        self._file_bytes: dict[bool, int] = {}
        self._of: dict[str, list[tuple[int, bool]]] = {}
        self._topics: list[str] | None = None

    def topics(self) -> list[str]:
        if self._topics is None:
            found: dict[str, list[tuple[int, bool]]] = {}
            for kind in (CONSUME_QUEUE, BATCH_CONSUME_QUEUE):
                for _, topic, queue_id in queue_folders(self.store, kind):
                    if queue_id >= 0:
                        found.setdefault(topic, []).append((queue_id, kind == BATCH_CONSUME_QUEUE))
            self._of |= {topic: sorted(queues) for topic, queues in found.items()}
            self._topics = sorted(found)
        return self._topics

    def of(self, topic: str) -> list[tuple[int, bool]]:
        if topic not in self._of:
            if not is_queue_topic(topic):
                return []
            self._of[topic] = sorted(
                (path.queue_id, kind == BATCH_CONSUME_QUEUE)
                for kind in (CONSUME_QUEUE, BATCH_CONSUME_QUEUE)
                for path in topic_folders(self.store, kind, topic)
                if path.queue_id >= 0
            )
        return self._of[topic]

    def open(self, topic: str, queue_id: int, batch: bool) -> QueueSlices:
        folder = queue_files.queue_folder(self.store.path, topic, queue_id, batch)
        return QueueSlices(Folder(self.store.storage, folder), batch)

    def file_bytes(self, batch: bool) -> int:
        if batch not in self._file_bytes:
            self._file_bytes[batch] = self._look(batch)
        return self._file_bytes[batch]

    def dispatched_to(self) -> int:
        return -1

    def close(self) -> None:
        """Files are opened as they are read."""


@dataclass(frozen=True)
class PastEnd:
    """The last messages of a queue whose records would lie past the log's end."""

    topic: str
    queue_id: int
    first: int  # queueOffset
    count: int


def past_end(queues: Queues, end: int) -> Iterator[PastEnd]:
    """What each queue has of records that do not end at the physical offset `end` or before.

    Reads a few entries of each queue. A queue that cannot be read is left out.
    """
    for topic in queues.topics():
        for queue_id, batch in queues.of(topic):
            try:
                with closing(queues.open(topic, queue_id, batch)) as queue:
                    first, last = queue.end_within(end), queue.maximum()
            except queue_files.BadQueue:
                continue
            if first < last:
                yield PastEnd(topic, queue_id, first, last - first)


def entry_place(store: Folder, topic: str, queue_id: int, position: int) -> int:
    """The physical offset that a queue file of a store has at a position; -1 where it has none."""
    folder = queue_files.queue_folder(store.path, topic, queue_id, False)
    try:
        with closing(QueueSlices(Folder(store.storage, folder), False)) as queue:
            return queue.entry(position).physical_offset
    except (queue_files.BadQueue, NoEntry):
        return -1
