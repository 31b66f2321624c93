"""The files of one queue: their shape and names, entries decoded, entries by number."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format import layouts, names
from reput.store_format.faults import StoreError
from reput.store_format.files.folder import Folder
from reput.store_format.files.protocol import FileState, Listed, Reader, is_folder

# ---
# ConsumeQueue segments: fixed-size files of entries, addressed by position.
#
# A queue's segment number n holds positions [n * E, (n + 1) * E) if a file has E entries. Its name
# is the logical byte offset of its first position.

Bytes = npt.NDArray[np.uint8]


def entry_bytes(batch: bool) -> int:
    return layouts.BATCH_QUEUE_ENTRY_BYTES if batch else layouts.QUEUE_ENTRY_BYTES


def segment_bytes(configured: int, batch: bool) -> int:
    """A configured file size, rounded up to whole entries.

    MessageStoreConfig.getMappedFileSizeConsumeQueue; for a batch queue it must be a multiple.
    """
    size = entry_bytes(batch)
    return -(-configured // size) * size


def pre_blank(count: int) -> bytes:
    """The entries before a queue's first one (ConsumeQueue.fillPreBlank)."""
    return layouts.PRE_BLANK.tobytes() * count


# ---
# Decodes entries of ConsumeQueues; no other module does.

Entries = npt.NDArray[Any]  # QUEUE_ENTRY or BATCH_QUEUE_ENTRY


class QueueEntry(NamedTuple):
    """One entry. An entry of a batch queue takes `messages` positions from `position` on."""

    position: int  # in the queue, in messages
    physical_offset: int
    size: int  # of the record
    tags_code: int  # the tags' hash; on the schedule topic the time of delivery
    messages: int = 1
    store_timestamp: int | None = None  # milliseconds; batch queues and RocksDB have it


def layout_of(batch: bool) -> np.dtype[Any]:
    return layouts.BATCH_QUEUE_ENTRY if batch else layouts.QUEUE_ENTRY


def is_batch(folder: str) -> bool:
    """Whether a queue's folder, below the store, is a batch queue's."""
    return folder.split("/")[0] == names.BATCH_CONSUME_QUEUE


def decode_entries(raw: bytes | Bytes, batch: bool = False) -> Entries:
    """The whole entries in `raw`, as an array; an incomplete one at the end is left out."""
    layout = layout_of(batch)
    return np.frombuffer(raw, layout, len(raw) // layout.itemsize)


def entry_of(fields: Any, position: int, batch: bool) -> QueueEntry:
    """One entry of an array as a value. position: not used for a batch queue."""
    place, size = int(fields["physicalOffset"]), int(fields["size"])
    tags = int(fields["tagsCode"])
    if not batch:
        return QueueEntry(position, place, size, tags)
    base, messages = int(fields["baseOffset"]), int(fields["batchSize"])
    return QueueEntry(base, place, size, tags, messages, int(fields["storeTimestamp"]))


def is_used(entries: Any) -> Any:
    """One bool for each entry: it is a message's or a pre-blank (ConsumeQueue.recover)."""
    return (entries["physicalOffset"] >= 0) & (entries["size"] > 0)


def is_message(entries: Any) -> Any:
    """One bool for each entry: RocketMQ's readers take it. They stop at the first other entry."""
    return entries["size"] > 0


def is_pre_blank(entries: Any) -> Any:
    """One bool for each entry: it only fills a queue's first file up to its first message."""
    blank = layouts.PRE_BLANK.item()
    return (entries["physicalOffset"] == blank[0]) & (entries["size"] == blank[1])


class BadQueue(StoreError):
    """A queue's files hold an impossible value: has file, offset, field, value and reason."""

    def __init__(self, path: str, offset: int, field: str, value: int, reason: str) -> None:
        self.path, self.offset, self.field = path, offset, field
        self.value, self.reason = value, reason
        super().__init__(f"{path}: offset {offset}: {field} {value}: {reason}")


@dataclass(frozen=True, slots=True)
class QueueFile:
    """One file of a queue: its path, the logical byte offset in its name, and its state."""

    path: str
    start: int
    state: FileState


def queue_folder(store: str, topic: str, queue_id: int, batch: bool = False) -> str:
    """Where a queue's files are. Raises UnsafeName."""
    folder = names.BATCH_CONSUME_QUEUE if batch else names.CONSUME_QUEUE
    return f"{store}/{names.QueuePath(folder, names.check_queue_topic(topic), queue_id)}"


class QueueFiles:
    """A queue's files, listed once; each use of a file opens and closes it."""

    def __init__(
        self, folder: Folder, batch: bool = False, there: Sequence[Listed] | None = None
    ) -> None:
        """there: what was in the folder, if it was listed before; else a missing folder is an empty
        queue. Raises BadQueue for files that are no queue's.
        """
        self.storage, self.folder, self.batch = folder.storage, folder.path, batch
        self.entry_bytes = entry_bytes(batch)
        self.all: list[QueueFile] = []
        for name, state in folder.listed() if there is None else there:
            path = f"{folder}/{name}"
            start = names.segment_start(name)
            if start is None or (state is None and is_folder(folder.storage, path)):
                continue  # log/there names it
            if state is None:  # RocketMQ reads what a link leads to
                path, state = folder.storage.follow(path)
            if state is None:
                raise BadQueue(path, 0, "file", 0, "is not a regular file")
            self.all.append(QueueFile(path, start, state))
        if self.all and self.all[-1].state.size == 0:
            self.all.pop()  # MappedFileQueue.load drops it too
        for before, after in zip(self.all, self.all[1:], strict=False):
            if before.start + before.state.size != after.start:
                raise BadQueue(
                    after.path, 0, "name", after.start,
                    f"the file before ends at {before.start + before.state.size}: a hole, or a "
                    f"file of a wrong length",
                )  # fmt: skip
        self._ends: dict[str, int] = {}  # of each file by its path: how many entries are used

    def open(self, file: QueueFile) -> "OpenQueueFile":
        """A file's entries, within a `with`."""
        return OpenQueueFile(self, file)

    def position(self, file: QueueFile, number: int) -> int:
        """The position of a file's entry; an entry of a batch queue holds its own position."""
        return file.start // self.entry_bytes + number

    def used(self) -> list[QueueFile]:
        """The files, less those without entries at the end, which recovery removes."""
        files = list(self.all)
        while len(files) > 1:
            with self.open(files[-1]) as entries:
                if entries.used():
                    break
            files.pop()
        return files


class OpenQueueFile:
    """One file of a queue while it is read; entries by their number in it."""

    def __init__(self, files: QueueFiles, file: QueueFile) -> None:
        self.files, self.file = files, file
        self._size = files.entry_bytes
        self._reader: Reader | None = None

    def __enter__(self) -> "OpenQueueFile":
        self._reader = self.files.storage.open(self.file.path, self.file.state)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._reader
        self._reader.close()

    def range(self, first: int, stop: int) -> Any:
        """Entries [first, stop), as an array of the layout."""
        assert self._reader
        raw: Bytes = np.empty((stop - first) * self._size, np.uint8)
        self._reader.read_into(first * self._size, raw)
        return decode_entries(raw, self.files.batch)

    def __getitem__(self, number: int) -> Any:
        return self.range(number, number + 1)[0]

    def bisect(self, low: int, high: int, before: Callable[[Any], bool]) -> int:
        """The first number in [low, high) for which `before` is false; it is true up to there."""
        while low < high:
            middle = (low + high) // 2
            if before(self[middle]):
                low = middle + 1
            else:
                high = middle
        return low

    def used(self) -> int:
        """How many entries of the file are used; they are at its start."""
        ends = self.files._ends
        if self.file.path not in ends:
            whole = self.file.state.size // self._size
            ends[self.file.path] = self.bisect(0, whole, lambda entry: bool(is_used(entry)))
        return ends[self.file.path]


def record_of(entry: Any) -> tuple[int, int]:
    """Physical offset and size of the record that an entry points to."""
    return int(entry["physicalOffset"]), int(entry["size"])
