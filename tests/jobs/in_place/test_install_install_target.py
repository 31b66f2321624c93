"""The store in which a set is installed: a folder that can be exchanged, which nobody has open."""

import os
from pathlib import Path

import pytest

from reput.jobs.in_place.install import (
    Target,
    finish_first,
    finish_killed,
    foreign_installs,
    local_path,
    locked,
)
from reput.store_format.faults import StoreError
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.protocol import StoreInUse
from reput.store_format.files.system import lock_holder
from tests.jobs.opening.writing import Writing


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "store").mkdir()
    return tmp_path / "store"


def test_a_set_is_installed_into_a_local_folder_only(store: Path) -> None:
    assert local_path(f"file://{store}/") == str(store)
    for url in ("s3://bucket/store", "dbfs:/store", "compacted:/store"):
        with pytest.raises(StoreError, match="from a local folder into a local store"):
            local_path(url)


def test_a_link_a_file_and_a_mount_are_no_targets(store: Path) -> None:
    (store.parent / "link").symlink_to(store)
    (store.parent / "file").touch()
    for path, why in ((store.parent / "link", "is a link"), (store.parent / "file", "not a folder"),
                      (Path("/proc"), "a file system is mounted")):  # fmt: skip
        with pytest.raises(StoreError, match=why):
            Target(str(path))
    with pytest.raises(FileNotFoundError):
        Target(f"{store}/none")
    target = Target(str(store))
    assert (target.path, target.name) == (str(store), "store")


def test_the_lock_is_held_meanwhile_and_a_dry_run_makes_none(store: Path) -> None:
    target = Target(str(store))
    with locked(target, dry_run=True):
        assert list(store.iterdir()) == []
    with locked(target, dry_run=False):
        assert lock_holder(f"{store}/lock") == os.getpid()
    assert lock_holder(f"{store}/lock") is None


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_store_that_a_broker_has_is_refused(dry_run: bool, writing: Writing) -> None:
    writing.append(1)
    with (
        pytest.raises(StoreInUse, match=r"is in use: .* holds its lock; stop the broker"),
        locked(Target(str(writing.store)), dry_run),
    ):
        pytest.fail("it is in use")


@pytest.mark.parametrize(
    "folder", ["consumequeue", "consumequeue_rocksdb", "rocksdbstore", "config/topics"]
)
def test_a_store_is_refused_while_one_of_its_databases_is_open(folder: str, store: Path) -> None:
    (store / folder).mkdir(parents=True)
    release = DiskFiles(str(store)).lock(f"{folder}/LOCK")
    try:
        with (
            pytest.raises(StoreInUse, match="has the RocksDB open; end it first"),
            locked(Target(str(store)), True),
        ):
            pytest.fail("it is in use")
    finally:
        release()
    with locked(Target(str(store)), True):
        pass


def test_a_store_that_was_not_stopped_is_warned_of(store: Path) -> None:
    target = Target(str(store))
    assert finish_first(target, dry_run=False) == ([], [])
    (store / "abort").touch()
    done, (warning,) = finish_first(target, dry_run=True)
    assert done == []
    assert warning.startswith(f"{store}/abort is there: the store was not stopped cleanly")


def test_where_no_installation_was_killed_nothing_is_touched(store: Path) -> None:
    assert finish_killed(str(store)) == []
    assert finish_killed(f"{store}/none") == []
    assert foreign_installs(str(store)) == []
    assert list(store.iterdir()) == []
