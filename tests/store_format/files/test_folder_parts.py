"""Parts of files are read in one call; a file that is not there, or is short, is told apart."""

from pathlib import Path

import pytest

from reput.store_format.faults import StoreChanged
from reput.store_format.files.folder import Folder, read_part
from reput.store_format.files.local import LocalStorage


def test_a_part_and_a_head(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    storage = LocalStorage()
    folder = Folder(storage, str(tmp_path))
    assert read_part(storage, str(path), 3, 4).tobytes() == b"3456"
    assert folder.head("file", 3) == b"012"
    assert folder.head("file", 30) == b"0123456789"
    assert folder.head("file", 0) == b""
    assert folder.head("none", 3) is None
    with pytest.raises(StoreChanged):
        read_part(storage, str(path), 8, 4)


def test_the_state_of_a_listing_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    storage = LocalStorage()
    (listed,) = storage.list(str(tmp_path))
    path.write_bytes(b"another one")
    with pytest.raises(StoreChanged, match="changed since it was listed"):
        read_part(storage, str(path), 0, 4, listed.state)
