"""Storages that read another storage's files in their own way: while they grow, counted, patched,
or in cached blocks; and a writer's `Files` read as a storage.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from typing import Any, NamedTuple

import numpy as np

from reput.store_format.faults import StoreChanged, StoreError
from reput.store_format.files import protocol

# ---
# Base classes of storages that read another storage's files in their own way.


class ReadBy(protocol.InputStorage):
    """Another storage, which is only listed and read. A subclass has `open`."""

    def __init__(self, storage: protocol.InputStorage) -> None:
        self.storage = storage
        self.window_bytes, self.back_to_back = storage.window_bytes, storage.back_to_back

    def list(self, folder: str) -> list[protocol.Listed]:
        return self.storage.list(folder)

    def read_bytes(self, path: str) -> bytes:
        return self.storage.read_bytes(path)

    def follow(self, path: str) -> tuple[str, protocol.FileState | None]:
        return self.storage.follow(path)


class ReaderOf:
    """Another storage's open file. A subclass changes some of the methods."""

    def __init__(self, reader: protocol.Reader) -> None:
        self._reader = reader

    @property
    def state(self) -> protocol.FileState:
        return self._reader.state

    def read_into(self, offset: int, buffer: protocol.Bytes) -> None:
        self._reader.read_into(offset, buffer)

    def close(self) -> None:
        self._reader.close()


# ---
# Storages whose files are written to while they are read, by a broker or by a copying job.


class LiveFiles(ReadBy):
    """Another storage, whose files a running broker may write to while they are read."""

    def open(self, path: str, state: protocol.FileState | None = None) -> protocol.Reader:
        if state is None:
            return _GrowingReader(self.storage.open(path))
        return self.storage.open(path, state._replace(mtime=protocol.ANY_TIME))


class GrowingFiles(ReadBy):
    """Another storage, whose files may grow while they are read but not become shorter."""

    def open(self, path: str, state: protocol.FileState | None = None) -> protocol.Reader:
        """state: from an earlier listing. Raises StoreChanged if the file is shorter now."""
        reader = self.storage.open(path)
        if state is not None and reader.state.size < state.size:
            now = reader.state
            reader.close()
            raise StoreChanged(f"{path}: changed since it was listed: {state} is now {now}")
        return _GrowingReader(reader)


class _GrowingReader(ReaderOf):
    def __init__(self, reader: protocol.Reader) -> None:
        super().__init__(reader)
        if hasattr(reader, "fileno"):
            self.fileno = reader.fileno

    def close(self) -> None:
        """Close the file. A changed file is no error here."""
        with suppress(StoreChanged):
            self._reader.close()


# ---
# A storage that counts what is read of it.


class CountedReads(ReadBy):
    """Another storage; `read` is how many bytes of its files were read so far."""

    def __init__(self, storage: protocol.Storage) -> None:
        super().__init__(storage)
        self.resolve, self.read = storage.resolve, 0

    def open(self, path: str, state: protocol.FileState | None = None) -> protocol.Reader:
        return _CountedReader(self, self.storage.open(path, state))

    read_bytes = protocol.InputStorage.read_bytes  # by `open`


class _CountedReader(ReaderOf):
    def __init__(self, counted: CountedReads, reader: protocol.Reader) -> None:
        super().__init__(reader)
        self._counted = counted

    def read_into(self, offset: int, buffer: protocol.Bytes) -> None:
        self._reader.read_into(offset, buffer)
        self._counted.read += len(buffer)


# ---
# Files of another storage with some bytes replaced as they are read; nothing is written.


class Overlay(NamedTuple):
    """The bytes `raw` replace those at `offset` of a file."""

    offset: int
    raw: bytes


class Patched:
    """Another storage whose files are read with overlays. overlays: by path."""

    def __init__(
        self, storage: protocol.InputStorage, overlays: Mapping[str, Sequence[Overlay]]
    ) -> None:
        self._storage, self._overlays = storage, dict(overlays)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # asked for by unpickling, before there is a _storage
            raise AttributeError(name)
        return getattr(self._storage, name)

    def open(self, path: str, state: protocol.FileState | None = None) -> protocol.Reader:
        reader = self._storage.open(path, state)
        return _PatchedReader(reader, self._overlays[path]) if path in self._overlays else reader


class _PatchedReader(ReaderOf):
    def __init__(self, reader: protocol.Reader, overlays: Sequence[Overlay]) -> None:
        super().__init__(reader)
        self._overlays = overlays

    def read_into(self, offset: int, buffer: protocol.Bytes) -> None:
        self._reader.read_into(offset, buffer)
        end = offset + len(buffer)
        for at, raw in self._overlays:
            low, high = max(at, offset), min(at + len(raw), end)
            if low < high:
                buffer[low - offset : high - offset] = np.frombuffer(
                    raw[low - at : high - at], "u1"
                )


# ---
# A storage that is read in blocks, of which the last used ones are kept in memory.
#
# For reads of a few bytes here and there in remote files, where each request takes many
# milliseconds.

BLOCK_BYTES = 1 << 20
BLOCKS_MOST = 64

_Key = tuple[str, protocol.FileState, int]


class BlockCache(ReadBy):
    """Files of another storage, read a block at a time. Not thread-safe."""

    def __init__(self, storage: protocol.InputStorage) -> None:
        super().__init__(storage)
        self._blocks: OrderedDict[_Key, protocol.Bytes] = OrderedDict()

    def open(self, path: str, state: protocol.FileState | None = None) -> protocol.Reader:
        return _BlockReader(self, path, self.storage.open(path, state))

    def block(self, reader: protocol.Reader, path: str, number: int) -> protocol.Bytes:
        """A block of a file. Raises as the storage does."""
        key = path, reader.state, number
        found = self._blocks.get(key)
        if found is None:
            at = number * BLOCK_BYTES
            found = np.empty(min(BLOCK_BYTES, reader.state.size - at), np.uint8)
            reader.read_into(at, found)
            self._blocks[key] = found
            if len(self._blocks) > BLOCKS_MOST:
                self._blocks.popitem(last=False)
        self._blocks.move_to_end(key)
        return found


class _BlockReader(ReaderOf):
    def __init__(self, cache: BlockCache, path: str, reader: protocol.Reader) -> None:
        super().__init__(reader)
        self._cache, self._path = cache, path

    def read_into(self, offset: int, buffer: protocol.Bytes) -> None:
        view, done = memoryview(buffer).cast("B"), 0
        if offset + len(view) > self.state.size:
            self._reader.read_into(offset, buffer)  # raises the right error
            return
        while done < len(view):
            number, within = divmod(offset + done, BLOCK_BYTES)
            block = self._cache.block(self._reader, self._path, number)
            some = min(len(view) - done, len(block) - within)
            view[done : done + some] = block[within : within + some].data
            done += some


# ---
# A writer's `Files`, listed and read as a storage is.


class FilesRead(protocol.InputStorage):
    """Lists and reads a `Files`. Paths are below its root, with or without a leading slash."""

    def __init__(self, files: protocol.Files) -> None:
        self._files = files

    window_bytes = 1 << 20

    def list(self, folder: str) -> list[protocol.Listed]:
        names = self._files.names(folder.lstrip("/"))
        return [protocol.Listed(name, self._state(f"{folder}/{name}")) for name in names]

    def _state(self, path: str) -> protocol.FileState | None:
        try:
            if self._files.is_folder(path.lstrip("/")):
                return None
        except StoreError:
            return None  # a link, or a device
        with closing(self.open(path)) as reader:
            return reader.state

    def open(self, path: str, state: protocol.FileState | None = None) -> protocol.Reader:
        return _Reader(self._files.open_read(path.lstrip("/")))


class _Reader:
    def __init__(self, file: protocol.OpenFile) -> None:
        self._file = file

    @property
    def state(self) -> protocol.FileState:
        return protocol.FileState(self._file.length(), 0, 0)

    def read_into(self, offset: int, buffer: protocol.Bytes) -> None:
        self._file.read_at(offset, buffer)

    def close(self) -> None:
        self._file.close()
