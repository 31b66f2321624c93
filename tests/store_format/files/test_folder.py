"""A folder that may not be listed is named: it is not one without files, which means something."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reput.jobs.console.store_there import check_store
from reput.jobs.sockets.opened import has_queues
from reput.store_format.discover.config import found_conf
from reput.store_format.discover.purpose import LOOK
from reput.store_format.discover.store import StoreAt, discover
from reput.store_format.faults import StoreChanged, StoreError
from reput.store_format.files.folder import Folder, read_part
from reput.store_format.files.local import LocalStorage
from tests import golden_stores

NOBODY = 65534
PARTS = ("consumequeue", "index", "commitlog", "config")


@contextmanager
def as_another_user() -> Iterator[None]:
    """Whom a folder's mode keeps out: root may list them all."""
    mine = os.geteuid()
    if mine == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(mine)


@pytest.fixture
def store() -> Iterator[Path]:
    """A store that every user may read, below folders that every user may enter."""
    folder = Path(tempfile.mkdtemp())
    try:
        store, _ = golden_stores.whole("tiny_5.3.3", folder)
        (store / "config").mkdir(exist_ok=True)
        for path in (folder, store, *store.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        yield store
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("part", PARTS)
def test_what_a_store_tells_is_not_reported_without_a_folder_of_it(store: Path, part: str) -> None:
    discover(StoreAt(LocalStorage(), str(store), "5.3.3", {}), LOOK)
    (store / part).chmod(0)
    with as_another_user(), pytest.raises(PermissionError, match=f"'{store}/{part}'"):
        discover(StoreAt(LocalStorage(), str(store), "5.3.3", {}), LOOK)


def test_unreadable_queues_and_stores_are_named(store: Path) -> None:
    assert has_queues(str(store))
    (store / "consumequeue").chmod(0)
    with as_another_user(), pytest.raises(PermissionError, match=f"'{store}/consumequeue'"):
        has_queues(str(store))
    store.chmod(0)
    with as_another_user(), pytest.raises(PermissionError, match=f"'{store}'"):
        check_store(str(store), {})


def test_what_lies_beside_a_store_keeps_nobody_from_it(store: Path) -> None:
    """The folder above may be entered, not listed, as others' homes mostly are."""
    (store.parent / "storm").mkdir(mode=0o700)
    with as_another_user(), pytest.raises(StoreError, match="no such folder; did you mean"):
        check_store(str(store.parent / "stor"), {})
    store.parent.chmod(0o711)
    with as_another_user():
        assert found_conf(Folder(LocalStorage(), str(store))) is None


# --- Parts of files are read in one call; a file that is not there, or is short, is told apart.
def test_a_part_a_head_and_the_state_of_a_listing(tmp_path: Path) -> None:
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
    (listed,) = storage.list(str(tmp_path))
    path.write_bytes(b"another one")
    with pytest.raises(StoreChanged, match="changed since it was listed"):
        read_part(storage, str(path), 0, 4, listed.state)
