"""Stores on local disks: listed, read without following links, and published in one step."""

import os
from pathlib import Path

import numpy as np
import pytest

from reput.store_format.faults import StoreChanged, StoreError
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.system import cached_bytes


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
