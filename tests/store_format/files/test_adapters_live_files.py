"""Files that a broker or a copying job writes to while they are read."""

import os
from pathlib import Path

import numpy as np
import pytest

from reput.store_format.faults import StoreChanged
from reput.store_format.files.adapters import GrowingFiles, LiveFiles
from reput.store_format.files.local import LocalStorage


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "file"
    made.write_bytes(b"0123456789")
    return made


def rewritten(file: Path, content: bytes) -> None:
    """The same file with this content and another time."""
    file.write_bytes(content)
    os.utime(file, ns=(1, 1))


def test_a_live_file_may_be_written_to_at_any_time(file: Path) -> None:
    live = LiveFiles(LocalStorage())
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


def test_a_live_file_is_neither_replaced_nor_of_another_length(file: Path) -> None:
    live = LiveFiles(LocalStorage())
    (_, state), *_ = live.list(str(file.parent))
    file.write_bytes(b"longer than before")
    with pytest.raises(StoreChanged):
        live.open(str(file), state)
    file.rename(file.parent / "kept")  # so that its inode is not given out again
    file.write_bytes(b"0123456789")
    with pytest.raises(StoreChanged):
        live.open(str(file), state)
    live.open(str(file)).close()


def test_a_growing_file_may_get_longer_before_and_while_it_is_read(file: Path) -> None:
    growing = GrowingFiles(LocalStorage())
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


def test_a_growing_file_never_gets_shorter(file: Path) -> None:
    growing = GrowingFiles(LocalStorage())
    (_, state), *_ = growing.list(str(file.parent))
    file.write_bytes(b"012345678")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(StoreChanged, match="file: changed since it was listed"):
        growing.open(str(file), state)
    assert len(os.listdir("/proc/self/fd")) <= before
    growing.open(str(file)).close()
