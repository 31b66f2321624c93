"""`Folder`: a folder of any file system as one value; and the queues of a store."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from reput.store_format.files import protocol
from reput.store_format.names import (
    CONSUME_QUEUE,
    LMQ_PREFIX,
    QueuePath,
    queue_paths,
    queues_of_topic,
)


@dataclass(frozen=True)
class Folder:
    """A folder, such as a store. `folder / "config"` is one in it; as text it is its path."""

    storage: protocol.InputStorage
    path: str

    def __truediv__(self, name: str | QueuePath) -> "Folder":
        return Folder(self.storage, f"{self.path}/{name}")

    def __str__(self) -> str:
        return self.path

    def listed(self, name: str = "") -> list[protocol.Listed]:
        """What is in it, or in a folder in it; nothing if there is no folder. Raises OSError if it
        cannot be listed: an empty list would tell the caller that it is empty.
        """
        try:
            return self.storage.list(f"{self.path}/{name}" if name else self.path)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def open(self, name: str, state: protocol.FileState | None = None) -> protocol.Reader:
        return self.storage.open(f"{self.path}/{name}", state)

    def read(self, name: str) -> bytes:
        """A small file, whole, also while it is written to. Raises as `open` does."""
        return self.storage.read_bytes(f"{self.path}/{name}")

    def head(self, name: str, most: int) -> bytes | None:
        """A file's first bytes, at most `most`; None if there is no file."""
        try:
            with closing(self.open(name)) as reader:
                raw = np.empty(min(reader.state.size, most), np.uint8)
                if len(raw):
                    reader.read_into(0, raw)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return raw.tobytes()


@dataclass(frozen=True)
class Place(Folder):
    """A folder, or a file, of a whole file system: one in which files can be made."""

    storage: protocol.Storage


_LMQS_MOST = 1000  # a store may have hundreds of thousands


def queue_folders(
    store: Folder, kind: str, topics: int | None = None, prefix: str = ""
) -> Iterator[QueuePath]:
    """The queues of a kind in a store, as names.queue_paths has them.

    topics: only of so many; prefix: only of topics that begin so.
    """
    known = _Folders(store)

    def names(path: str) -> list[str]:
        found = known.names(path)
        some = [name for name in found if name.startswith(prefix)][:topics]
        return some if path == kind else found

    return queue_paths(kind, names, known.is_folder)


def slash_queue(store: Folder) -> QueuePath | None:
    """A queue of an LMQ whose name has a slash, of the first ones; None if there is none."""
    found = queue_folders(store, CONSUME_QUEUE, _LMQS_MOST, LMQ_PREFIX)
    return next((path for path in found if "/" in path.topic), None)


def topic_folders(store: Folder, kind: str, topic: str) -> list[QueuePath]:
    known = _Folders(store)
    found = queues_of_topic(kind, topic, known.names, known.is_folder)
    return [path for path in found if path.topic == topic]


class _Folders:
    def __init__(self, store: Folder) -> None:
        self._store = store
        self._known: dict[str, set[str]] = {}

    def names(self, path: str) -> list[str]:
        found = self._store.listed(path)
        self._known[path] = {name for name, state in found if state is None}
        return [name for name, _ in found]

    def is_folder(self, path: str) -> bool:
        above, _, name = path.rpartition("/")
        return name in self._known[above]


def read_part(
    storage: protocol.InputStorage,
    path: str,
    at: int,
    length: int,
    state: protocol.FileState | None = None,
) -> protocol.Bytes:
    """`length` bytes of a file, from byte `at` on.

    state: from an earlier listing. Raises as `open`, `read_into` and `close` do.
    """
    raw = np.empty(length, np.uint8)
    with closing(storage.open(path, state)) as reader:
        reader.read_into(at, raw)
    return raw
