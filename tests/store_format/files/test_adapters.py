"""Reads of a few bytes here and there cost one read of a block."""

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reput.store_format.faults import StoreChanged
from reput.store_format.files import adapters
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.protocol import FileState, Reader
from tests.memory_storage import MemoryReader, MemoryStorage, WatchedStorage

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


def test_reads_cost_one_block_and_the_one_used_longest_ago_goes_first() -> None:
    storage = Counted()
    reader = adapters.BlockCache(storage).open("file")
    for at in (5, 0, BLOCK_BYTES - 1, 5):
        assert read(reader, at, 1) == [at % 251]
    assert read(reader, 0, 0) == []
    assert storage.reads == [(0, BLOCK_BYTES)]
    storage = Counted()
    at, length = BLOCK_BYTES - 3, BLOCK_BYTES + 8
    found = read(adapters.BlockCache(storage).open("file"), at, length)
    assert found == [place % 251 for place in range(at, at + length)]
    assert storage.reads == [(0, BLOCK_BYTES), (BLOCK_BYTES, BLOCK_BYTES), (2 * BLOCK_BYTES, 5)]
    reader = adapters.BlockCache(Counted()).open("file")
    assert len(read(reader, SIZE - 1, 1)) == 1
    with pytest.raises(StoreChanged, match=f"ends before offset {SIZE + 1}"):
        read(reader, SIZE - 1, 2)
    storage = Counted((BLOCKS_MOST + 1) * BLOCK_BYTES)
    cache = adapters.BlockCache(storage)
    reader = cache.open("file")
    for number in (*range(BLOCKS_MOST), 0, BLOCKS_MOST):
        read(reader, number * BLOCK_BYTES, 1)
    storage.reads.clear()
    read(reader, 0, 1)
    assert storage.reads == []
    read(reader, BLOCK_BYTES, 1)
    assert storage.reads == [(BLOCK_BYTES, BLOCK_BYTES)]
    storage = Counted()
    cache = adapters.BlockCache(storage)
    read(cache.open("file"), 0, 1)
    read(cache.open("other"), 0, 1)
    storage.size += 1
    read(cache.open("file"), 0, 1)
    assert len(storage.reads) == 3


# --- Files that a broker or a copying job writes to while they are read.
@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "file"
    made.write_bytes(b"0123456789")
    return made


def rewritten(file: Path, content: bytes) -> None:
    """The same file with this content and another time."""
    file.write_bytes(content)
    os.utime(file, ns=(1, 1))


def test_a_live_file_may_be_written_to_but_not_replaced_nor_of_another_length(file: Path) -> None:
    live = adapters.LiveFiles(LocalStorage())
    (_, state), *_ = live.list(str(file.parent))
    rewritten(file, b"abcdefghij")
    with pytest.raises(StoreChanged, match="changed since it was listed"):
        LocalStorage().open(str(file), state)
    for listed in (state, None):
        reader = live.open(str(file), listed)
        rewritten(file, b"ABCDEFGHIJ")
        buffer = np.empty(3, np.uint8)
        reader.read_into(7, buffer)
        assert buffer.tobytes() == b"HIJ"
        reader.close()
        file.write_bytes(b"0123456789")
    live = adapters.LiveFiles(LocalStorage())
    (_, state), *_ = live.list(str(file.parent))
    file.write_bytes(b"longer than before")
    with pytest.raises(StoreChanged):
        live.open(str(file), state)
    file.rename(file.parent / "kept")  # so that its inode is not given out again
    file.write_bytes(b"0123456789")
    with pytest.raises(StoreChanged):
        live.open(str(file), state)
    live.open(str(file)).close()


def test_a_growing_file_may_get_longer_while_it_is_read_and_never_shorter(file: Path) -> None:
    growing = adapters.GrowingFiles(LocalStorage())
    (_, state), *_ = growing.list(str(file.parent))
    file.write_bytes(b"0123456789ab")
    reader = growing.open(str(file), state)
    assert reader.state.size == 12
    file.write_bytes(b"0123456789abcd")
    buffer = np.empty(2, np.uint8)
    reader.read_into(12, buffer)
    assert buffer.tobytes() == b"cd"
    assert os.fstat(reader.fileno()).st_size == 14  # type: ignore[attr-defined]
    reader.close()
    growing = adapters.GrowingFiles(LocalStorage())
    (_, state), *_ = growing.list(str(file.parent))
    file.write_bytes(b"012345678")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(StoreChanged, match="file: changed since it was listed"):
        growing.open(str(file), state)
    assert len(os.listdir("/proc/self/fd")) <= before
    growing.open(str(file)).close()


# --- Files that are read with some of their bytes replaced.
DATA = b"0123456789"


def read_patches(overlays: list[adapters.Overlay], at: int, length: int) -> bytes:
    patched = adapters.Patched(MemoryStorage({"s/a": DATA}), {"s/a": overlays})
    buffer = np.empty(length, np.uint8)
    patched.open("s/a").read_into(at, buffer)
    return buffer.tobytes()


def test_of_overlays_a_read_sees_what_it_covers_and_the_last_counts() -> None:
    for at, length, found in [(0, 10, b"012abc6789"), (0, 3, b"012"), (0, 4, b"012a"), (4, 1, b"b"),
        (5, 5, b"c6789"), (6, 4, b"6789"), (4, 0, b"")]:  # fmt: skip
        assert read_patches([adapters.Overlay(3, b"abc")], at, length) == found
    assert (read_patches([adapters.Overlay(2, b"abcd"), adapters.Overlay(4, b"XY"),
                         adapters.Overlay(9, b"")], 0, 10) == b"01abXY6789")  # fmt: skip
    assert read_patches([adapters.Overlay(8, b"abcdef")], 0, 10) == b"01234567ab"
    with pytest.raises(StoreChanged):
        read_patches([adapters.Overlay(8, b"abcdef")], 0, 11)
    storage = MemoryStorage({"s/a": DATA, "s/b": DATA})
    patched = adapters.Patched(storage, {"s/a": [adapters.Overlay(0, b"x")]})
    buffer = np.empty(2, np.uint8)
    patched.open("s/b").read_into(0, buffer)
    assert buffer.tobytes() == b"01"
    assert patched.list("s") == storage.list("s")
    assert patched.read_bytes("s/a") == DATA  # read whole: only `open` has the overlays
    assert storage.files["s/a"] == DATA
    patched = adapters.Patched(MemoryStorage({"s/a": DATA}), {"s/a": [adapters.Overlay(0, b"x")]})
    buffer = np.empty(2, np.uint8)
    pickle.loads(pickle.dumps(patched)).open("s/a").read_into(0, buffer)
    assert buffer.tobytes() == b"x1"


# --- A storage that reads another's files in its own way: what it changes, and what it passes on.
class Inverted(adapters.ReaderOf):
    def read_into(self, offset: int, buffer: np.ndarray) -> None:
        super().read_into(offset, buffer)
        np.invert(buffer, buffer)


class Inverting(adapters.ReadBy):
    def open(self, path: str, state: FileState | None = None) -> Reader:
        return Inverted(self.storage.open(path, state))


def test_a_subclass_changes_what_it_reads_and_segments_of_any_size_stay_so() -> None:
    storage = Inverting(WatchedStorage({"store/a": b"\x00\x01\x02\xff"}))
    reader, buffer = storage.open("store/a"), np.zeros(2, np.uint8)
    reader.read_into(1, buffer)
    assert buffer.tolist() == [0xFE, 0xFD]
    assert reader.state.size == 4
    assert storage.read_bytes("store/a") == b"\x00\x01\x02\xff"
    assert storage.list("store") == storage.storage.list("store")
    below = WatchedStorage({"store/a": b"x"})
    reader = Inverting(below).open("store/a")
    assert below.open_now == 1
    reader.close()
    assert below.closed == ["store/a"]
    below = MemoryStorage()
    below.window_bytes, below.reads_ahead = 12345, 8
    storage = Inverting(below)
    assert (storage.window_bytes, storage.reads_ahead) == (12345, 0)
    for back_to_back in (False, True):
        below.back_to_back = back_to_back  # type: ignore[attr-defined]
        assert Inverting(Inverting(below)).back_to_back == back_to_back


# --- A writer's files, listed and read as a storage is.
@pytest.fixture
def storage(tmp_path: Path) -> adapters.FilesRead:
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    (tmp_path / "folder" / "b").write_bytes(b"0123456789")
    (tmp_path / "folder" / "a").write_bytes(b"")
    (tmp_path / "folder" / "link").symlink_to("b")
    os.mkfifo(tmp_path / "folder" / "pipe")
    return adapters.FilesRead(DiskFiles(str(tmp_path)))


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_writers_files_are_listed_and_read_in_parts_or_whole(storage, slash) -> None:
    listed = [(name, state and state.size) for name, state in storage.list(f"{slash}folder")]
    assert listed == [("a", 0), ("b", 10), ("inner", None), ("link", None), ("pipe", None)]
    assert storage.list(f"{slash}none") == []
    assert storage.read_bytes(f"{slash}folder/b") == b"0123456789"
    assert storage.read_bytes(f"{slash}folder/a") == b""
    reader = storage.open(f"{slash}folder/b")
    buffer = np.empty(3, np.uint8)
    reader.read_into(7, buffer)
    assert buffer.tobytes() == b"789"
    with pytest.raises(StoreChanged):
        reader.read_into(8, buffer)
    reader.close()
    with pytest.raises(FileNotFoundError):
        storage.read_bytes("folder/none")
