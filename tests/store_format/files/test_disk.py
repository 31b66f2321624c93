"""A folder gets its final name in one step, and what was there is given back whole."""

import errno
import os
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reput.store_format.faults import StoreChanged, StoreError
from reput.store_format.files.disk import DiskFiles, FixedFiles, NotDurable, put_in_place
from reput.store_format.files.protocol import StoreInUse
from tests.faults.killing import killed_at


class Recording(DiskFiles):
    """Notes what makes something durable; syncs nothing, as that takes the whole disk's time."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.synced: list[str] = []
        self.refuses = False

    def sync_all(self, path: str) -> None:
        self.synced.append(f"all {path}")

    def sync_folder(self, path: str) -> None:
        if self.refuses:
            raise OSError(5, "Input/output error")
        self.synced.append(f"names {path}: {','.join(self.names(path))}")


class Racing(Recording):
    """Another folder takes the name just before the exchange."""

    def exchange(self, path: str, to: str) -> None:
        if not self.exists("above/meanwhile"):
            self.rename(to, "above/meanwhile")
            self.add_folder(to)
            self.create(f"{to}/theirs").close()
        super().exchange(path, to)


def recording(root: Path) -> Recording:
    root.mkdir()
    made = Recording(str(root))
    for folder in ("above/new", "above/to"):
        made.make_folder(folder)
        made.create(f"{folder}/{folder[-3:].strip('/')}").close()
    made.synced.clear()
    return made


def tree(files: DiskFiles) -> dict[str, list[str]]:
    return {name: files.names(f"above/{name}") for name in files.names("above")}


OLD = {"new": ["new"], "to": ["to"]}
SWAPPED = {"new": ["to"], "to": ["new"]}


def test_without_replace_only_what_is_empty_goes_and_bytes_are_durable_before_names(
    tmp_path,
) -> None:
    files = recording(tmp_path / "1")
    put_in_place(files, "above/new", "above/at", replace=False)
    assert tree(files) == {"at": ["new"], "to": ["to"]}
    assert files.synced == ["all above/new", "names above: at,to"]
    files = recording(tmp_path / "2")
    with pytest.raises(OSError, match="not empty"):
        put_in_place(files, "above/new", "above/to", replace=False)
    assert tree(files) == OLD
    files.remove("above/to/to")
    put_in_place(files, "above/new", "above/to", replace=False)
    assert tree(files) == {"to": ["new"]}


def test_with_replace_the_two_change_names_where_both_looks_approve(tmp_path: Path) -> None:
    files, seen = recording(tmp_path / "1"), []
    for refused in ("above/to", "above/new", ""):

        def approve(path: str, refused: str = refused) -> None:
            seen.append((path, files.names(path)))
            if path == refused:
                raise KeyError(path)

        if refused:
            with pytest.raises(KeyError):
                put_in_place(files, "above/new", "above/to", True, approve)
            assert tree(files) == OLD
    seen.clear()
    put_in_place(files, "above/new", "above/to", True, approve)
    assert tree(files) == SWAPPED
    assert seen == [("above/to", ["to"]), ("above/new", ["to"])]
    files = recording(tmp_path / "2")
    with pytest.raises(StoreChanged, match="above/to: another folder came there meanwhile"):
        put_in_place(Racing(files.root), "above/new", "above/to", True)
    assert tree(files) == {"meanwhile": ["to"], "new": ["new"], "to": ["theirs"]}
    files = recording(tmp_path / "3")
    files.refuses = True
    with pytest.raises(NotDurable, match="may not outlast a power cut") as caught:
        put_in_place(files, "above/new", "above/to", True)
    assert (caught.value.errno, caught.value.filename) == (5, "above/to")
    assert tree(files) == SWAPPED


# --- Files of this machine's disk: no link is followed, and what is too short is told.
@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A file, a folder, and a link to each and to nothing."""
    (tmp_path / "file").write_bytes(b"0123456789")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inner").write_bytes(b"inner")
    for name, to in (("link", "file"), ("linked", "folder"), ("dangling", "nothing")):
        (tmp_path / name).symlink_to(to)
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


@pytest.fixture
def local_files(root: Path) -> DiskFiles:
    return DiskFiles(str(root))


def test_what_is_written_is_read_and_a_name_is_a_folder_or_file(local_files, root) -> None:
    file = local_files.open("file")
    file.write_at(12, memoryview(b"ab"))
    assert file.length() == 14
    file.set_length(15)
    buffer = np.empty(7, np.uint8)
    file.read_at(8, buffer)
    assert buffer.tobytes() == b"89\0\0ab\0"
    with pytest.raises(StoreChanged, match="file: ends before offset 16"):
        file.read_at(9, buffer)
    file.read_at(99, buffer[:0])
    file.close()
    assert local_files.is_folder("folder")
    assert local_files.is_folder("")
    assert not local_files.is_folder("file")
    for name, kind in (("linked", "a link"), ("pipe", "neither a file nor a folder")):
        with pytest.raises(StoreError, match=f"{name}: is {kind}"):
            local_files.is_folder(name)
    assert local_files.exists("dangling")
    assert not local_files.exists("nothing")
    assert local_files.names("folder") == ["inner"]
    assert local_files.names("nothing") == local_files.names("file") == []
    assert [local_files.is_ours(name) for name in ("file", "folder", "link", "pipe")] == [
        True, True, False, False]  # fmt: skip
    (root / "file").chmod(0o666)
    assert not local_files.is_ours("file")
    share = local_files.used_share()
    assert 0 < share <= 1
    assert round(share * 100) == pytest.approx(share * 100)
    assert DiskFiles(str(root / "nothing")).used_share() == 0


@pytest.mark.parametrize(("name", "reason"), [
    ("link", "is a link"), ("dangling", "is a link"), ("folder", "is not a regular file"),
    ("pipe", "is not a regular file")])  # fmt: skip
def test_only_a_regular_file_is_opened(local_files: DiskFiles, name: str, reason: str) -> None:
    for opened in (local_files.open, local_files.open_read):
        with pytest.raises(StoreError, match=f"{name}: {reason}"):
            opened(name)
    with pytest.raises(FileExistsError):
        local_files.create(name)


def test_new_names_and_a_stores_new_files_get_their_modes(local_files, root) -> None:
    old = os.umask(0)
    try:
        local_files.create("plain").close()
        local_files.create("own", own=True).close()
        local_files.make_folder("a/b")
        (root / "folder").chmod(0o2750)
        local_files.add_folder("like", like="folder")
        local_files.add_folder("own_folder", own=True)
    finally:
        os.umask(old)
    modes = {"plain": 0o644, "own": 0o600, "a/b": 0o755, "like": 0o2750, "own_folder": 0o700}
    assert {name: stat.S_IMODE((root / name).stat().st_mode) for name in modes} == modes
    local_files.make_folder("a/b")
    with pytest.raises(FileExistsError):
        local_files.add_folder("a")
    (root / "folder").chmod(0o770)
    made = DiskFiles.as_owned_by((root / "folder").stat(), str(root))
    assert (made.file_mode, made.folder_mode) == (0o660, 0o770)


def test_a_file_of_zeros_has_its_length_as_soon_as_it_has_its_name(local_files, root: Path) -> None:
    """RocketMQ before 5.1.3 refuses a store with an empty segment, which a kill left before."""

    def made() -> None:
        local_files.create("folder/zeros", 9)

    steps, _ = killed_at(1 << 30, made)
    (root / "folder/zeros").unlink()
    for step in range(steps):
        assert killed_at(step, made)[1] == -9
        assert local_files.names("folder") == ["inner"], step
    local_files.file_mode = 0o600
    with closing(local_files.create("folder/zeros", 9)) as file:
        file.write_at(8, b"x")
        assert file.path == f"{root}/folder/zeros"
    assert (root / "folder/zeros").read_bytes() == bytes(8) + b"x"
    assert stat.S_IMODE((root / "folder/zeros").stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        local_files.create("folder/zeros", 9)


@pytest.mark.parametrize("lacks", ["O_TMPFILE", "/proc"])
def test_where_each_file_has_a_name_it_is_made_with_it(
    lacks: str, local_files: DiskFiles, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def without(path: str, flags: int, *more: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "not supported", path)
        return opened(path, flags, *more)

    def no_proc(source: str, to: str, **how: Any) -> None:
        raise FileNotFoundError(errno.ENOENT, "no such file", source)

    if lacks == "/proc":
        monkeypatch.setattr(os, "link", no_proc)
    else:
        monkeypatch.setattr(os, "open", without)
    before = os.listdir("/proc/self/fd")
    local_files.create("zeros", 9).close()
    assert len(os.listdir("/proc/self/fd")) <= len(before)
    assert (root / "zeros").read_bytes() == bytes(9)
    with pytest.raises(FileExistsError):
        local_files.create("zeros", 9)


def test_names_are_swapped_and_no_link_is_followed_on_the_way(local_files, root) -> None:
    local_files.open_read("linked/inner").close()
    fixed = FixedFiles(local_files.root)
    fixed.open_read("folder/inner").close()
    for path in ("linked/inner", "link", "folder/../linked/inner"):
        with pytest.raises(StoreError, match="a link is on the way to it"):
            fixed.open_read(path)
    with pytest.raises(StoreError, match="is not a regular file"):
        fixed.open_read("pipe")
    with pytest.raises(FileNotFoundError):
        fixed.open_read("folder/none")
    local_files.remove("linked")
    assert local_files.names("folder") == ["inner"]
    local_files.exchange("file", "folder")
    assert (root / "folder").read_bytes() == b"0123456789"
    assert local_files.names("file") == ["inner"]
    with pytest.raises(OSError, match="not empty"):
        local_files.remove("file")
    local_files.remove("folder")
    assert local_files.names("") == ["dangling", "file", "link", "pipe"]
    with pytest.raises(FileNotFoundError) as caught:
        local_files.exchange("file", "nothing")
    assert caught.value.filename2 == f"{root}/nothing"


def test_a_lock_file_is_kept_and_gets_its_word_only_where_it_is_new(local_files, root) -> None:
    release = local_files.lock("lock")
    with pytest.raises(StoreInUse, match="this process"):
        local_files.lock("lock")
    release()
    local_files.lock("lock")()
    assert (root / "lock").read_bytes() == b"lock"
    (root / "empty").write_bytes(b"")
    (root / "second").hardlink_to(root / "empty")  # may be somebody's own file
    for name, content in (("file", b"0123456789"), ("empty", b"")):
        local_files.lock(name)()
        assert (root / name).read_bytes() == content
    for name in ("link", "dangling", "folder"):
        with pytest.raises(StoreError, match=f"{name}: is not a regular file"):
            local_files.lock(name)
