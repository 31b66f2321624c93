"""Logs of one queue, which RocketMQ keeps beside its CommitLog, read as if each were a store.

`compacted:FOLDER` is a queue of a compacted topic: FOLDER is `compaction/compactionLog/TOPIC/QUEUE`
of a store. `tiered:FOLDER` is one of a tiered store (PosixFileSegment): FOLDER holds COMMIT_LOG.
Both have records like the CommitLog's, but their physicalOffset is the place in the queue's own
log. So whatever reads a log can read these: a command sees a store's root with `commitlog/`, and
the store's `config/` if that is known. Nothing can be written there.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from reput.store_format import layouts, names
from reput.store_format.faults import StoreError
from reput.store_format.files import protocol
from reput.store_format.files.adapters import ReaderOf
from reput.store_format.files.overlap import Whereabouts

COMPACTED, TIERED = "compacted", "tiered"
Segments = list[protocol.Listed]
Files = list[tuple[str, int, int]]  # path, first byte in the queue, length
_HOLE = "hole"  # the tag of a missing segment


class ReadOnly(protocol.InputStorage):
    """Files of another storage, shown as a store's by paths that begin with a scheme."""

    scheme: str

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "storage":
            raise AttributeError(name)

        def refuse(*_: object, **__: object) -> None:
            raise StoreError(f"{self.scheme}: is only read; give another place")

        return refuse


class QueueLog(ReadOnly):
    """A queue's own log on another storage, as a store of this log alone."""

    def __init__(self, storage: protocol.Storage) -> None:
        self.storage = storage
        self.window_bytes, self.reads_ahead = storage.window_bytes, storage.reads_ahead

    def resolve(self, path: str) -> str:
        """The absolute path; the scheme stays, so that the path leads back here."""
        return f"{self.scheme}:{self.storage.resolve(self._inner(path)).rstrip('/')}"

    def list(self, folder: str) -> Segments:
        root, _, name = folder.rpartition("/")
        if name == names.COMMIT_LOG:
            return self._segments(self._inner(root))
        if name == names.CONFIG:
            return self.storage.list(f"{self._store(self._inner(root))}/{names.CONFIG}")
        inner = self._inner(folder)
        self._segments(inner)  # raises if there is no such log
        return [protocol.Listed(names.COMMIT_LOG, None)]

    def read_bytes(self, path: str) -> bytes:
        """A small file's content; only files of config/ exist."""
        root, _, name = path.rpartition("/")
        root, _, folder = root.rpartition("/")
        if folder != names.CONFIG:
            raise FileNotFoundError(path)
        return self.storage.read_bytes(f"{self._store(self._inner(root))}/{names.CONFIG}/{name}")

    def whereabouts(self, path: str) -> Whereabouts:
        """The whereabouts of the queue's folder, for any path in it."""
        root = self._inner(path)
        for name in (names.COMMIT_LOG, names.CONFIG):
            root = root.partition(f"/{name}/")[0].removesuffix(f"/{name}")
        return self.storage.whereabouts(root)

    def walk(self, folder: str) -> Iterator[protocol.Listed]:
        yield from self.list(folder)

    def lock_holder(self, store: str) -> int | None:
        """The process that holds the lock of the store that the queue belongs to."""
        root = self._store(self._inner(store))
        return self.storage.lock_holder(root) if root else None

    def has_folder(self, path: str) -> bool:
        return self.storage.has_folder(self._inner(path))

    def _inner(self, path: str) -> str:
        return path.removeprefix(f"{self.scheme}:")

    def _segments(self, folder: str) -> Segments:
        raise NotImplementedError

    def _store(self, folder: str) -> str:
        """The store that the queue belongs to; '' if unknown."""
        raise NotImplementedError


class CompactedLog(QueueLog):
    """A queue of a compacted topic (CompactionLog).

    A compacted file ends with zeros, and files that were compacted away are missing. Here each file
    but the last has a BLANK after its last record, and a missing file is a BLANK alone. As for a
    broker (TopicPartitionLog.recover), the file of that name in compactionCq tells where they end.
    """

    scheme = COMPACTED

    def _store(self, folder: str) -> str:
        store, separator, _ = folder.rpartition(f"/{names.COMPACTION_LOG}/")
        return store if separator else ""

    def _segments(self, folder: str) -> Segments:
        there = {name: state for name, state in self.storage.list(folder)
                 if names.segment_start(name) is not None and state is not None}  # fmt: skip
        starts = sorted(map(names.parse_segment_name, there))
        found: Segments = []
        for number, start in enumerate(starts):
            name = names.segment_name(start)
            state = there[name]
            found.append(protocol.Listed(name, state))
            after = starts[number + 1] if number + 1 < len(starts) else 0
            hole = start + state.size
            while state.size and hole + state.size <= after:
                found.append(
                    protocol.Listed(
                        names.segment_name(hole), protocol.FileState(state.size, 0, _HOLE)
                    )
                )
                hole += state.size
        return found

    def open(self, path: str, state: protocol.FileState | None = None) -> protocol.Reader:
        root, _, name = path.rpartition("/")
        root = self._inner(root).removesuffix(f"/{names.COMMIT_LOG}")
        segments = dict(self._segments(root))
        there = segments.get(name) if state is None else state
        if there is not None and there.tag == _HOLE:
            return _Blank(there)
        reader = self.storage.open(f"{root}/{name}", state)
        if name == max(segments, default=""):
            return reader
        return _WithBlank(reader, self._end_of(root, name))

    @staticmethod
    def is_there(state: protocol.FileState) -> bool:
        """Whether a segment of this state has a file."""
        return state.tag != _HOLE

    def queue_file(self, path: str) -> tuple[str, bytes | None]:
        """(path, content) of a segment's queue file; the content is None without such a file."""
        root, _, name = self._inner(path).rpartition("/")
        log, _, queue = root.removesuffix(f"/{names.COMMIT_LOG}").rpartition(
            f"/{names.COMPACTION_LOG}/"
        )
        path = f"{log}/{names.COMPACTION_QUEUE}/{queue}/{name}"
        try:
            return path, self.storage.read_bytes(path)
        except (FileNotFoundError, NotADirectoryError):
            return path, None

    def _end_of(self, root: str, name: str) -> int | None:
        """Where the records of a file end, in bytes from its start; None without a queue file."""
        _, raw = self.queue_file(f"{root}/{name}")
        if raw is None:
            return None
        whole = len(raw) // layouts.BATCH_QUEUE_ENTRY_BYTES * layouts.BATCH_QUEUE_ENTRY_BYTES
        entries = np.frombuffer(raw[:whole], layouts.BATCH_QUEUE_ENTRY)
        used = np.flatnonzero((entries["size"] > 0) & (entries["batchSize"] > 0))
        if not len(used):
            return 0
        last = entries[used[-1]]
        return int(last["physicalOffset"]) + int(last["size"]) - names.parse_segment_name(name)


class TieredLog(QueueLog):
    """A queue of a tiered store: FlatCommitLogFile, whose segments are as long as their records."""

    scheme = TIERED
    back_to_back = True

    def _store(self, folder: str) -> str:
        return ""

    def _segments(self, folder: str) -> Segments:
        found = []
        for name, state in self.storage.list(f"{folder}/{names.TIERED_LOG}"):
            start = names.tiered_start(name)
            if start is not None and state is not None and state.size:
                found.append(protocol.Listed(names.segment_name(start), state))
        return sorted(found)

    def queue_files(self, store: str) -> Files:
        """The queue's ConsumeQueue files in order."""
        folder = f"{self._inner(store)}/{names.TIERED_QUEUE}"
        try:
            there = self.storage.list(folder)
        except (FileNotFoundError, NotADirectoryError):
            return []
        starts = ((names.tiered_start(name), name, state) for name, state in there)
        found = [(start, name, state.size) for start, name, state in starts
                 if start is not None and state is not None and state.size]  # fmt: skip
        return [(f"{folder}/{name}", start, size) for start, name, size in sorted(found)]

    def open(self, path: str, state: protocol.FileState | None = None) -> protocol.Reader:
        root, _, name = path.rpartition("/")
        folder = self._inner(root).removesuffix(f"/{names.COMMIT_LOG}")
        return self.storage.open(
            f"{folder}/{names.TIERED_LOG}/{names.tiered_name(int(name))}", state
        )


def queue_log(url: str, inner: Callable[[str], protocol.Storage]) -> QueueLog | None:
    """The storage of a `compacted:` or `tiered:` path, else None. inner: for the path after it."""
    for kind in (CompactedLog, TieredLog):
        if url.startswith(f"{kind.scheme}:"):
            return kind(inner(url.removeprefix(f"{kind.scheme}:")))
    return None


class _Blank:
    """A missing segment: a BLANK, then zeros."""

    def __init__(self, state: protocol.FileState) -> None:
        self.state = state

    def read_into(self, offset: int, buffer: protocol.Bytes) -> None:
        buffer[:] = 0
        _put_blank(buffer, -offset, self.state.size)

    def close(self) -> None:
        """There is nothing to close."""


class _WithBlank(ReaderOf):
    def __init__(self, reader: protocol.Reader, end: int | None) -> None:
        super().__init__(reader)
        self._end = end
        size = reader.state.size
        if end is None or not 0 <= end <= size - layouts.BLANK_BYTES:
            self._end = None
        else:  # bytes that are there already stay, right or wrong
            head = np.zeros(layouts.BLANK_BYTES, np.uint8)
            reader.read_into(end, head)
            if head.any():
                self._end = None

    def read_into(self, offset: int, buffer: protocol.Bytes) -> None:
        self._reader.read_into(offset, buffer)
        if self._end is not None:
            _put_blank(buffer, self._end - offset, self.state.size - self._end)


def _put_blank(buffer: protocol.Bytes, at: int, size: int) -> None:
    """Put the part of a BLANK that overlaps the buffer into it. at: its start, may be negative."""
    blank = np.array([(size, layouts.MAGIC_BLANK)], layouts.BLANK).view(np.uint8)
    first, stop = max(at, 0), min(at + layouts.BLANK_BYTES, len(buffer))
    if first < stop:
        buffer[first:stop] = blank[first - at : stop - at]
