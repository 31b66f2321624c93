"""Reads of a few bytes here and there cost one read of a block."""

from typing import Any

import numpy as np
import pytest

from reput.store_format.faults import StoreChanged
from reput.store_format.files import adapters
from reput.store_format.files.adapters import BlockCache
from reput.store_format.files.protocol import FileState, Reader
from tests.memory_storage import MemoryReader, MemoryStorage

BLOCK_BYTES, BLOCKS_MOST = 1000, 4
SIZE = 2 * BLOCK_BYTES + 5


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapters, "BLOCK_BYTES", BLOCK_BYTES)
    monkeypatch.setattr(adapters, "BLOCKS_MOST", BLOCKS_MOST)


class Sized(MemoryReader):
    """Bytes by their place, of a file that takes no memory; notes what is read of it."""

    def __init__(self, path: str, size: int, reads: list[tuple[int, int]]) -> None:
        self.path, self.reads = path, reads
        self.state = FileState(size, 0, 0)

    def read_into(self, offset: int, buffer: Any) -> None:
        if offset + len(buffer) > self.state.size:
            raise StoreChanged(f"{self.path}: ends before offset {offset + len(buffer)}")
        self.reads.append((offset, len(buffer)))
        buffer[:] = np.arange(offset, offset + len(buffer)) % 251


class Counted(MemoryStorage):
    """A storage of one file of `size` bytes."""

    def __init__(self, size: int = SIZE) -> None:
        super().__init__()
        self.size, self.reads = size, list[tuple[int, int]]()

    def open(self, path: str, state: FileState | None = None) -> MemoryReader:
        return Sized(path, self.size, self.reads)


def read(reader: Reader, at: int, length: int) -> list[int]:
    buffer = np.empty(length, np.uint8)
    reader.read_into(at, buffer)
    return buffer.tolist()


def test_a_block_is_read_once_for_all_of_its_bytes() -> None:
    storage = Counted()
    reader = BlockCache(storage).open("file")
    for at in (5, 0, BLOCK_BYTES - 1, 5):
        assert read(reader, at, 1) == [at % 251]
    assert read(reader, 0, 0) == []
    assert storage.reads == [(0, BLOCK_BYTES)]


def test_a_read_over_several_blocks_is_put_together() -> None:
    storage = Counted()
    at, length = BLOCK_BYTES - 3, BLOCK_BYTES + 8
    found = read(BlockCache(storage).open("file"), at, length)
    assert found == [place % 251 for place in range(at, at + length)]
    assert storage.reads == [(0, BLOCK_BYTES), (BLOCK_BYTES, BLOCK_BYTES), (2 * BLOCK_BYTES, 5)]


def test_a_read_beyond_the_end_is_the_storages_own_error() -> None:
    reader = BlockCache(Counted()).open("file")
    assert len(read(reader, SIZE - 1, 1)) == 1
    with pytest.raises(StoreChanged, match=f"ends before offset {SIZE + 1}"):
        read(reader, SIZE - 1, 2)


def test_the_block_that_was_used_longest_ago_goes_first() -> None:
    storage = Counted((BLOCKS_MOST + 1) * BLOCK_BYTES)
    cache = BlockCache(storage)
    reader = cache.open("file")
    for number in (*range(BLOCKS_MOST), 0, BLOCKS_MOST):
        read(reader, number * BLOCK_BYTES, 1)
    storage.reads.clear()
    read(reader, 0, 1)
    assert storage.reads == []
    read(reader, BLOCK_BYTES, 1)
    assert storage.reads == [(BLOCK_BYTES, BLOCK_BYTES)]


def test_another_file_or_state_has_blocks_of_its_own() -> None:
    storage = Counted()
    cache = BlockCache(storage)
    read(cache.open("file"), 0, 1)
    read(cache.open("other"), 0, 1)
    storage.size += 1
    read(cache.open("file"), 0, 1)
    assert len(storage.reads) == 3
