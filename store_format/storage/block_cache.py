"""A storage that is read in blocks, of which the last used ones are kept in memory.

For reads of a few bytes here and there in remote files, where each request takes many milliseconds.
"""

from collections import OrderedDict

import numpy as np

from reput.store_format.storage.protocol import Bytes, FileState, InputStorage, Reader
from reput.store_format.storage.read_by import ReadBy, ReaderOf

BLOCK_BYTES = 1 << 20
BLOCKS_MOST = 64

_Key = tuple[str, FileState, int]


class BlockCache(ReadBy):
    """Files of another storage, read a block at a time. Not thread-safe."""

    def __init__(self, storage: InputStorage) -> None:
        super().__init__(storage)
        self._blocks: OrderedDict[_Key, Bytes] = OrderedDict()

    def open(self, path: str, state: FileState | None = None) -> Reader:
        return _BlockReader(self, path, self.storage.open(path, state))

    def block(self, reader: Reader, path: str, number: int) -> Bytes:
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
    def __init__(self, cache: BlockCache, path: str, reader: Reader) -> None:
        super().__init__(reader)
        self._cache, self._path = cache, path

    def read_into(self, offset: int, buffer: Bytes) -> None:
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
