"""A writer's files, listed and read as a storage is."""

import os
from pathlib import Path

import numpy as np
import pytest

from reput.store_format.faults import StoreChanged
from reput.store_format.files.adapters import FilesRead
from reput.store_format.files.disk import DiskFiles


@pytest.fixture
def storage(tmp_path: Path) -> FilesRead:
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    (tmp_path / "folder" / "b").write_bytes(b"0123456789")
    (tmp_path / "folder" / "a").write_bytes(b"")
    (tmp_path / "folder" / "link").symlink_to("b")
    os.mkfifo(tmp_path / "folder" / "pipe")
    return FilesRead(DiskFiles(str(tmp_path)))


@pytest.mark.parametrize("slash", ["", "/"])
def test_only_regular_files_have_a_state(storage: FilesRead, slash: str) -> None:
    listed = [(name, state and state.size) for name, state in storage.list(f"{slash}folder")]
    assert listed == [("a", 0), ("b", 10), ("inner", None), ("link", None), ("pipe", None)]
    assert storage.list(f"{slash}none") == []


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_file_is_read_in_parts_or_whole(storage: FilesRead, slash: str) -> None:
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


def test_a_state_is_as_long_as_the_file_is_now(storage: FilesRead, tmp_path: Path) -> None:
    reader = storage.open("folder/b")
    (tmp_path / "folder" / "b").write_bytes(b"0123456789ab")
    assert reader.state.size == 12
    reader.close()
