"""Stores on local disks: listed, read without following links, and published in one step."""

import builtins
import errno
import hashlib
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reput.store_format.faults import StoreChanged, StoreError
from reput.store_format.files import local
from reput.store_format.files.by_url import storage_for
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.local import LocalStorage, VolumeStorage
from reput.store_format.files.system import cached_bytes, uncached_flags
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


def test_a_folder_is_listed_sorted_and_only_files_have_a_state(root: Path) -> None:
    listed = LocalStorage().list(f"{root}/folder")
    assert [(name, state and state.size) for name, state in listed] == [
        ("a", 0), ("b", 10), ("inner", None), ("link", None), ("pipe", None),
    ]  # fmt: skip


def test_a_walk_enters_folders_and_no_link(root: Path) -> None:
    walked = LocalStorage().walk(f"{root}/folder")
    assert [name for name, _ in walked] == ["a", "b", "inner/", "inner/c", "link", "pipe"]
    with pytest.raises(StoreError, match="linked: is a link"):
        list(LocalStorage().walk(f"{root}/linked"))


@pytest.mark.parametrize(
    ("name", "reason"),
    [("link", "is a link"), ("pipe", "is not a regular"), ("inner", "is not a regular")],
)
def test_only_a_regular_file_is_read(root: Path, name: str, reason: str) -> None:
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


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("/a/b/../c/", "/a/c"),
        ("file:/a", "/a"),
        ("file:///a", "/a"),
        ("FILE://localhost/a", "/a"),
        ("file:a", f"{os.getcwd()}/a"),
        ("a", f"{os.getcwd()}/a"),
    ],
)
def test_a_path_or_url_becomes_absolute(given: str, path: str) -> None:
    assert LocalStorage().resolve(given) == path


@pytest.mark.parametrize("given", ["", "file:"])
def test_an_empty_path_is_not_the_folder_in_which_a_program_runs(given: str) -> None:
    """As of a shell's variable that is not set, or an output that was forgotten."""
    with pytest.raises(StoreError, match="the path is empty"):
        LocalStorage().resolve(given)


def test_a_file_is_placed_once_with_zeros_up_to_its_length(tmp_path: Path) -> None:
    storage = LocalStorage()
    assert storage.place(str(tmp_path), "a/b/c", b"xy", 4)
    assert (tmp_path / "a/b/c").read_bytes() == b"xy\0\0"
    assert not storage.place(str(tmp_path), "a/b/c", b"other", 5)
    assert (tmp_path / "a/b/c").read_bytes() == b"xy\0\0"
    with pytest.raises(FileNotFoundError):
        storage.place(f"{tmp_path}/gone", "a/b", b"", 0)
    assert not LocalStorage(sync_files=True).place(str(tmp_path), "d", b"", 0)


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


def test_a_tree_is_removed_and_what_is_missing_is_no_error(root: Path) -> None:
    storage = LocalStorage()
    for _ in range(2):
        storage.remove_tree(f"{root}/folder")
        storage.remove(f"{root}/file")
    assert os.listdir(root) == ["linked"]


# --- Files written on a local disk: their bytes, digest and holes; how the kernel is asked to.
PAGE = 4096
PIECES = st.lists(
    st.one_of(
        st.binary(max_size=40),
        st.integers(1, 300_000).map(bytes),
        st.integers(1, 300_000).map(lambda n: b"ab\0" * (n // 3)),
    ),
    max_size=12,
)


def write_pieces(path: Path, pieces: list[bytes], length: int, digest: bool = True) -> str:
    output = LocalStorage().create(str(path), digest)
    for piece in pieces:
        output.write(piece)
    written = output.finish(length)
    assert (written.length, written.used) == (length, sum(map(len, pieces)))
    return written.sha256


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(PIECES, st.integers(0, 200_000), st.booleans(), st.sampled_from([PAGE, 1 << 16, 1 << 20]))
def test_what_is_written_is_there(
    tmp_path: Path, pieces: list[bytes], more: int, digest: bool, piece_bytes: int
) -> None:
    content = b"".join(pieces)
    wanted = content + bytes(more)
    path = tmp_path / "file"
    path.unlink(missing_ok=True)
    before, local._PIECE_BYTES = local._PIECE_BYTES, piece_bytes
    try:
        said = write_pieces(path, pieces, len(wanted), digest)
    finally:
        local._PIECE_BYTES = before
    assert path.read_bytes() == wanted
    assert said == (hashlib.sha256(content).hexdigest() if digest else "")


def calls_of(monkeypatch: pytest.MonkeyPatch, refuses: bool) -> list[tuple[int, int, int]]:
    """(offset, bytes, flags) of each write; a disk that `refuses` knows no flags."""
    calls = []
    real = os.pwritev

    def noted(descriptor: int, buffers: list[Any], at: int, flags: int = 0) -> int:
        calls.append((at, len(buffers[0]), flags))
        if flags and refuses:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return real(descriptor, buffers, at)

    monkeypatch.setattr(os, "pwritev", noted)
    monkeypatch.setattr(local, "uncached_flags", lambda _: 0x80)
    return calls


@pytest.mark.parametrize(
    ("release", "flags"),
    [("6.16.0", 0x80), ("6.18.44-x", 0x80), ("7.0-rc1", 0x80), ("6.15.9", 0), ("6.8.0-90-x", 0),
     ("5.10.0-21-amd64", 0), ("4.19", 0), ("own", 0)],
)  # fmt: skip
def test_only_kernels_that_lose_nothing_are_asked(release: str, flags: int) -> None:
    assert uncached_flags(release) == flags


def test_published_pages_are_written_whole_and_not_cached(tmp_path, monkeypatch) -> None:
    calls = calls_of(monkeypatch, refuses=False)
    content = os.urandom(3 << 20) + b"end"
    write_pieces(tmp_path / "file", [content[:41], content[41:99_999], content[99_999:]],
                 len(content))  # fmt: skip
    assert (tmp_path / "file").read_bytes() == content
    *whole, last = calls
    assert all(at % PAGE == size % PAGE == 0 and flags == 0x80 for at, size, flags in whole)
    assert last == (3 << 20, 3, 0)


def test_a_small_file_is_left_to_the_sync_of_its_set(tmp_path, monkeypatch) -> None:
    calls = calls_of(monkeypatch, refuses=False)
    write_pieces(tmp_path / "file", [b"ab", b"cd"], 4096)
    assert calls == [(0, 4, 0)]


def test_what_is_staged_stays_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = calls_of(monkeypatch, refuses=False)
    write_pieces(tmp_path / "file", [b"a" * 5000, b"b" * 5000], 10_000, digest=False)
    assert calls == [(0, 5000, 0), (5000, 5000, 0)]


def test_a_long_write_is_done_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = calls_of(monkeypatch, refuses=False)
    content = os.urandom((2 << 20) + 5)
    write_pieces(tmp_path / "file", [content], len(content), digest=False)
    assert (tmp_path / "file").read_bytes() == content
    assert [(at, size) for at, size, _ in calls] == [(0, 1 << 20), (1 << 20, 1 << 20), (2 << 20, 5)]


def test_a_file_system_that_does_not_know_how_is_written_to_as_ever(tmp_path, monkeypatch) -> None:
    calls = calls_of(monkeypatch, refuses=True)
    content = os.urandom(2 << 20)
    digest = write_pieces(tmp_path / "file", [content], len(content))
    assert (tmp_path / "file").read_bytes() == content
    assert digest == hashlib.sha256(content).hexdigest()
    assert [flags for _, _, flags in calls] == [0x80, 0, 0]  # it is asked once


def test_another_error_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwritev", full)
    with pytest.raises(OSError, match="No space"):
        write_pieces(tmp_path / "file", [b"abc"], 3)


def test_a_shared_file_is_synced_when_it_has_its_length(tmp_path, monkeypatch) -> None:
    lengths = []
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: lengths.append(os.fstat(descriptor).st_size)
    )
    output = LocalStorage(sync_files=True).create(str(tmp_path / "file"), digest=True)
    output.write(b"abc")
    output.finish(PAGE)
    assert lengths == [PAGE]


def test_a_placed_file_is_there_once_and_as_others_are(tmp_path: Path) -> None:
    storage = LocalStorage()
    assert storage.place(str(tmp_path), "placed/a/b/file", b"abc", 10)
    assert not storage.place(str(tmp_path), "placed/a/b/file", b"xyz", 10)
    path = tmp_path / "placed" / "a" / "b" / "file"
    assert path.read_bytes() == b"abc" + bytes(7)
    assert path.stat().st_mode & 0o777 == 0o600
    assert {folder.stat().st_mode & 0o777 for folder in path.parents[:3]} == {0o700}
    assert storage.place(str(tmp_path), "placed/a/c/file", b"", 0)


def test_a_late_task_places_nothing(tmp_path: Path) -> None:
    gone = tmp_path / "staging"
    with pytest.raises(FileNotFoundError):
        LocalStorage().place(str(gone), "placed/a/file", b"abc", 3)
    assert not gone.exists()
    assert not LocalStorage(sync_files=True).place(str(tmp_path), "placed/a/file", b"abc", 3)
    assert not (tmp_path / "placed").exists()


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


def test_the_mount_refuses_a_local_disk_s_ways(mount: str) -> None:
    with pytest.raises(Refused):
        battery.write(LocalStorage(), f"{mount}/file", b"content")
    with pytest.raises(Refused):
        LocalStorage().move_all([(f"{mount}/file", f"{mount}/other")])


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
    with closing(storage.open(f"{mount}/file")) as reader:
        assert reader.state == listed.state


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
