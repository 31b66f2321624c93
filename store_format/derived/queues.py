"""The queues of a store, whatever keeps them: the interface for all readers of queues.

`FileQueues` are ConsumeQueue files; rocksdb/queues.py has those that a broker keeps in RocksDB.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

from reput.store_format.derived.queue_files import queue_folder
from reput.store_format.derived.queue_slices import QueueSlices
from reput.store_format.files.protocol import InputStorage, listed
from reput.store_format.names import BATCH_CONSUME_QUEUE, CONSUME_QUEUE, UnsafeName, is_queue_id

if TYPE_CHECKING:
    from reput.store_format.derived.queue_entries import Entries, QueueEntry
    from reput.store_format.derived.queue_slices import Slice
    from reput.store_format.derived.queue_times import Boundary
    from reput.store_format.log.reader import LogReader
    from reput.store_format.release.profiles import Profile


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

    def __init__(
        self, storage: InputStorage, store: str, file_bytes: Callable[[bool], int]
    ) -> None:
        """file_bytes: computes what `file_bytes` returns; called once for each kind of queue."""
        self.storage, self.store = storage, store
        self._look = file_bytes
        self._file_bytes: dict[bool, int] = {}
        self._of: dict[str, list[tuple[int, bool]]] = {}
        self._topics: list[str] | None = None

    def topics(self) -> list[str]:
        if self._topics is None:
            kinds = (CONSUME_QUEUE, BATCH_CONSUME_QUEUE)
            names = sorted({name for kind in kinds for name in self._folders(f"/{kind}")})
            self._topics = [name for name in names if self.of(name)]
        return self._topics

    def of(self, topic: str) -> list[tuple[int, bool]]:
        if topic not in self._of:
            found = []
            for batch in (False, True):
                try:
                    names = self._folders(queue_folder("", topic, 0, batch).rpartition("/")[0])
                except UnsafeName:
                    return []
                found += [(int(name), batch) for name in names if is_queue_id(name)]
            self._of[topic] = sorted(found)
        return self._of[topic]

    def open(self, topic: str, queue_id: int, batch: bool) -> QueueSlices:
        folder = queue_folder(self.store, topic, queue_id, batch)
        return QueueSlices(self.storage, folder, batch)

    def file_bytes(self, batch: bool) -> int:
        if batch not in self._file_bytes:
            self._file_bytes[batch] = self._look(batch)
        return self._file_bytes[batch]

    def dispatched_to(self) -> int:
        return -1

    def close(self) -> None:
        """Files are opened as they are read."""

    def _folders(self, below: str) -> list[str]:
        return [n for n, state in listed(self.storage, self.store + below) if state is None]
