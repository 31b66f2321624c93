"""Stores on local disks: listed, read without following links, and published in one step."""

import builtins
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reput.store_format.faults import StoreChanged, StoreError
from reput.store_format.files.by_url import storage_for
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.local import LocalStorage, VolumeStorage
from reput.store_format.files.system import cached_bytes
from tests.store_format.files import battery


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    (tmp_path / "folder" / "b").write_bytes(b"0123456789")
    (tmp_path / "folder" / "a").write_bytes(b"")
    (tmp_path / "folder" / "inner" / "c").write_bytes(b"c")
    (tmp_path / "folder" / "link").symlink_to("inner")
    (tmp_path / "linked").symlink_to("folder")
    os.mkfifo(tmp_path / "folder" / "pipe")
    return tmp_path


def test_a_folder_is_listed_sorted_and_only_a_regular_file_is_read(root: Path) -> None:
    listed = LocalStorage().list(f"{root}/folder")
    assert [(name, state and state.size) for name, state in listed] == [
        ("a", 0), ("b", 10), ("inner", None), ("link", None), ("pipe", None)]  # fmt: skip
    walked = LocalStorage().walk(f"{root}/folder")
    assert [name for name, _ in walked] == ["a", "b", "inner/", "inner/c", "link", "pipe"]
    with pytest.raises(StoreError, match="linked: is a link"):
        list(LocalStorage().walk(f"{root}/linked"))
    for name, reason in [("link", "is a link"), ("pipe", "is not a regular"),
        ("inner", "is not a regular")]:  # fmt: skip
        storage = LocalStorage()
        for read in (storage.open, storage.read_bytes):
            with pytest.raises(StoreError, match=f"{name}: .*{reason}"):
                read(f"{root}/folder/{name}")
            with pytest.raises(FileNotFoundError):
                read(f"{root}/folder/none")
        assert storage.read_bytes(f"{root}/folder/b") == b"0123456789"


def test_a_file_that_changes_while_it_is_read_is_an_error(root: Path) -> None:
    file = root / "folder" / "b"
    reader = LocalStorage().open(str(file))
    buffer = np.empty(4, np.uint8)
    reader.read_into(6, buffer)
    assert buffer.tobytes() == b"6789"
    with pytest.raises(StoreChanged, match="ends before offset 11"):
        reader.read_into(7, buffer)
    os.utime(file, ns=(1, 1))
    with pytest.raises(StoreChanged, match="changed while it was read"):
        reader.close()
    storage = LocalStorage()
    for _ in range(2):
        storage.remove_tree(f"{root}/folder")
        storage.remove(f"{root}/file")
    assert os.listdir(root) == ["linked"]


def test_a_hole_reads_as_zeros_and_is_not_cached(tmp_path: Path) -> None:
    file, mib = tmp_path / "sparse", 1 << 20
    with file.open("wb") as written:
        written.truncate(5 * mib)
        for at in (3 * mib - 1, 3 * mib + 7):  # the last byte of a read, and within one
            written.seek(at)
            written.write(b"x")
    reader, buffer = LocalStorage().open(str(file)), np.empty(mib, np.uint8)
    for at in (0, mib, 2 * mib, 3 * mib, 3 * mib + 9, 4 * mib):
        buffer[:] = 1
        reader.read_into(at, buffer)
        assert buffer.tobytes() == file.read_bytes()[at : at + mib], at
    os.posix_fadvise(reader.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    reader.read_into(0, buffer)
    assert cached_bytes(reader.fileno(), 0, mib) in (0, None)
    with pytest.raises(StoreChanged, match="ends before offset"):
        reader.read_into(4 * mib + 1, buffer)
    reader.close()


def test_a_path_or_url_is_for_a_storage_and_becomes_absolute() -> None:
    for given, path in [("/a/b/../c/", "/a/c"), ("file:/a", "/a"), ("file:///a", "/a"),
        ("FILE://localhost/a", "/a"), ("file:a", f"{os.getcwd()}/a"),
        ("a", f"{os.getcwd()}/a")]:  # fmt: skip
        assert LocalStorage().resolve(given) == path
    # As of a shell's variable that is not set, or an output that was forgotten.
    for given in ["", "file:"]:
        with pytest.raises(StoreError, match="the path is empty"):
            LocalStorage().resolve(given)
    for url, kind, path in [("/Volumes/main/a/b", VolumeStorage, "/Volumes/main/a/b"),
        ("dbfs:/Volumes/main/a/b/", VolumeStorage, "/Volumes/main/a/b"),
        ("dbfs:///Volumes/main/a", VolumeStorage, "/Volumes/main/a"),
        ("file:/Volumes/main/a", VolumeStorage, "/Volumes/main/a"),
        ("dbfs:/mnt/a", VolumeStorage, "/dbfs/mnt/a"),
        ("/dbfs/mnt/a", VolumeStorage, "/dbfs/mnt/a"), ("/volumes/a", LocalStorage, "/volumes/a"),
        ("file:///data/a", LocalStorage, "/data/a"), ("file:/data/a", LocalStorage, "/data/a"),
        ("file://localhost/data/a", LocalStorage, "/data/a"),
        ("FILE:///data/a", LocalStorage, "/data/a"),
        ("/data/a:/b", LocalStorage, "/data/a:/b")]:  # fmt: skip
        storage = storage_for(url)
        assert type(storage) is kind
        assert storage.resolve(url) == path


@pytest.mark.parametrize("there", [False, True])
def test_a_set_gets_its_name_whole_and_what_it_replaces_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    monkeypatch.setattr(DiskFiles, "sync_all", lambda *_: None)  # takes the whole disk's time
    storage, asked = LocalStorage(), []

    def may_go(folder: str) -> list[str]:
        asked.append(folder)
        return os.listdir(folder) if os.path.isdir(folder) else []

    new, to = f"{tmp_path}/new", f"{tmp_path}/above/to"
    if there:
        (tmp_path / "above/to").mkdir(parents=True)
        (tmp_path / "above/to/old").write_bytes(b"")
    folder = storage.begin_set(new, to, may_go)
    storage.publish(folder, f"{to}/", may_go, ("manifest.json", b"{}"))
    assert os.listdir(to) == ["manifest.json"]
    assert (os.listdir(new) if there else os.path.exists(new)) == (["old"] if there else False)
    assert set(asked) == ({to, new} if there else {to})


# --- Databricks volumes: a folder of this machine, with all refused that such a mount refuses.
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


def test_files_and_changes_are_seen_on_a_volume(mount: str) -> None:
    with pytest.raises(Refused):
        battery.write(LocalStorage(), f"{mount}/file", b"content")
    with pytest.raises(Refused):
        LocalStorage().move_all([(f"{mount}/file", f"{mount}/other")])
    battery.check_files(VolumeStorage(), f"{mount}/files")
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
    battery.check_overlaps(store,
        [mount, f"{store}/x", f"{mount}/y/../store/", f"file:{store}/commitlog"],
        storage=storage)  # fmt: skip
    battery.check_replaces_only_its_own(store, output, storage=storage)


def test_no_inode_tells_a_file(mount: str) -> None:
    """Each machine's mount has its own: a worker's must not differ from the driver's."""
    storage = VolumeStorage()
    battery.write(storage, f"{mount}/file", b"content")
    (listed,) = storage.list(mount)
    assert listed.state is not None
    assert listed.state.tag == 0
    with closing(storage.open(f"{mount}/file")) as reader:
        assert reader.state == listed.state
