"""A storage that reads another's files in its own way: what it changes, and what it passes on."""

import numpy as np
import pytest

from reput.store_format.files.adapters import ReadBy, ReaderOf
from reput.store_format.files.protocol import FileState, InputStorage, Reader
from tests.memory_storage import MemoryStorage, WatchedStorage


class Inverted(ReaderOf):
    def read_into(self, offset: int, buffer: np.ndarray) -> None:
        super().read_into(offset, buffer)
        np.invert(buffer, buffer)


class Inverting(ReadBy):
    def open(self, path: str, state: FileState | None = None) -> Reader:
        return Inverted(self.storage.open(path, state))


def test_a_subclass_changes_what_it_reads_and_no_more() -> None:
    storage = Inverting(WatchedStorage({"store/a": b"\x00\x01\x02\xff"}))
    reader, buffer = storage.open("store/a"), np.zeros(2, np.uint8)
    reader.read_into(1, buffer)
    assert buffer.tolist() == [0xFE, 0xFD]
    assert reader.state.size == 4
    assert storage.read_bytes("store/a") == b"\x00\x01\x02\xff"
    assert storage.list("store") == storage.storage.list("store")


def test_closing_it_closes_the_file_below() -> None:
    below = WatchedStorage({"store/a": b"x"})
    reader = Inverting(below).open("store/a")
    assert below.open_now == 1
    reader.close()
    assert below.closed == ["store/a"]


def test_windows_are_as_large_as_below_and_nothing_is_read_ahead() -> None:
    below = MemoryStorage()
    below.window_bytes, below.reads_ahead = 12345, 8
    storage = Inverting(below)
    assert (storage.window_bytes, storage.reads_ahead) == (12345, 0)


@pytest.mark.parametrize("back_to_back", [False, True])
def test_segments_of_any_size_stay_so(back_to_back: bool) -> None:
    below: InputStorage = MemoryStorage()
    if back_to_back:
        below.back_to_back = True  # type: ignore[attr-defined]
    storage: InputStorage = Inverting(Inverting(below))
    assert storage.back_to_back == back_to_back


def test_a_missing_file_or_folder_is_the_other_storages_error() -> None:
    storage = Inverting(MemoryStorage({"store/a": b""}))
    with pytest.raises(FileNotFoundError):
        storage.open("store/b")
    with pytest.raises(FileNotFoundError):
        storage.list("other")
    with pytest.raises(NotADirectoryError):
        storage.list("store/a")
