"""Databricks volumes: a folder of this machine, with all refused that such a mount refuses."""

import builtins
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reput.store_format.files.by_url import storage_for
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.local import LocalStorage, VolumeStorage
from tests.store_format.files import battery

# Anything but reading, and writing a new file from start to end.
REFUSED = ("pwrite", "pwritev", "lseek", "ftruncate", "truncate", "rename", "replace", "link",
           "symlink", "sendfile", "copy_file_range")  # fmt: skip


class Refused(Exception):
    pass


@pytest.fixture
def mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder below which the calls are refused."""
    root = str(tmp_path / "Volumes")
    os.mkdir(root)

    def below(words: Any) -> bool:
        paths = [os.readlink(f"/proc/self/fd/{w}") if type(w) is int else str(w) for w in words[:2]]
        return any(path.startswith(root) for path in paths)

    def refusing(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*words: Any, **more: Any) -> Any:
            if below(words[: 1 if name in ("pwrite", "lseek", "ftruncate") else 2]):
                raise Refused(f"{name}{words[:2]}")
            return real(*words, **more)

        return call

    def refuse(*words: Any) -> None:
        raise Refused(str(words[1:]))

    for name in REFUSED:
        monkeypatch.setattr(os, name, refusing(name, getattr(os, name)))
    for name in ("exchange", "rename", "sync_all", "sync_folder"):
        monkeypatch.setattr(DiskFiles, name, refuse)
    real_open, real_builtin = os.open, builtins.open

    def os_open(path: Any, flags: int, *more: Any, **words: Any) -> int:
        old = os.path.lexists(path) and flags & (os.O_WRONLY | os.O_RDWR)
        if str(path).startswith(root) and (old or flags & (os.O_APPEND | os.O_RDWR)):
            raise Refused(f"open({path}, {flags})")
        return real_open(path, flags, *more, **words)

    def plain_open(path: Any, mode: str = "r", *more: Any, **words: Any) -> Any:
        if str(path).startswith(root) and ("+" in mode or "a" in mode):
            raise Refused(f"open({path}, {mode})")
        return real_builtin(path, mode, *more, **words)

    monkeypatch.setattr(os, "open", os_open)
    monkeypatch.setattr(builtins, "open", plain_open)
    return root


def test_the_mount_refuses_a_local_disk_s_ways(mount: str) -> None:
    with pytest.raises(Refused):
        battery.write(LocalStorage(), f"{mount}/file", b"content")
    with pytest.raises(Refused):
        LocalStorage().move_all([(f"{mount}/file", f"{mount}/other")])
    with pytest.raises(Refused):
        LocalStorage().publish(mount, f"{mount}-2", lambda folder: [], ("empty", b""))


def test_files(mount: str) -> None:
    battery.check_files(VolumeStorage(), f"{mount}/files")


def test_changes_are_seen(mount: str) -> None:
    battery.check_changes(VolumeStorage(), f"{mount}/changes")


def test_from_a_volume_to_a_volume(mount: str, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(battery, "storage_for", lambda _: VolumeStorage())
    storage, store, output = VolumeStorage(), f"{mount}/store", f"{mount}/out"
    battery.upload(battery.golden().input, storage, store)
    battery.rebuild(store, output, storage=storage)
    battery.check_output(output, tmp_path)
    before = set(battery.walk(storage, output))
    battery.rebuild(store, output, storage=storage, replace=True)
    assert set(battery.walk(storage, output)) == before
    assert battery.look(store, output, storage=storage, staging_folder=mount).same
    battery.check_overlaps(
        store,
        [mount, f"{store}/x", f"{mount}/y/../store/", f"file:{store}/commitlog"],
        storage=storage,
    )
    battery.check_replaces_only_its_own(store, output, storage=storage)


def test_no_inode_tells_a_file(mount: str) -> None:
    """Each machine's mount has its own: a worker's must not differ from the driver's."""
    storage = VolumeStorage()
    battery.write(storage, f"{mount}/file", b"content")
    (listed,) = storage.list(mount)
    assert listed.state is not None
    assert listed.state.tag == 0
    assert storage.open(f"{mount}/file").state == listed.state


@pytest.mark.parametrize(
    ("url", "kind", "path"),
    [
        ("/Volumes/main/a/b", VolumeStorage, "/Volumes/main/a/b"),
        ("dbfs:/Volumes/main/a/b/", VolumeStorage, "/Volumes/main/a/b"),
        ("dbfs:///Volumes/main/a", VolumeStorage, "/Volumes/main/a"),
        ("file:/Volumes/main/a", VolumeStorage, "/Volumes/main/a"),
        ("dbfs:/mnt/a", VolumeStorage, "/dbfs/mnt/a"),
        ("/dbfs/mnt/a", VolumeStorage, "/dbfs/mnt/a"),
        ("/volumes/a", LocalStorage, "/volumes/a"),
        ("file:///data/a", LocalStorage, "/data/a"),
        ("file:/data/a", LocalStorage, "/data/a"),
        ("file://localhost/data/a", LocalStorage, "/data/a"),
        ("FILE:///data/a", LocalStorage, "/data/a"),
        ("/data/a:/b", LocalStorage, "/data/a:/b"),
    ],
)
def test_what_a_path_is_for(url: str, kind: type, path: str) -> None:
    storage = storage_for(url)
    assert type(storage) is kind
    assert storage.resolve(url) == path
