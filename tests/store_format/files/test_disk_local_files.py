"""Files of this machine's disk: no link is followed, and what is too short is told."""

import errno
import os
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reput.store_format.faults import StoreChanged, StoreError
from reput.store_format.files.disk import DiskFiles, FixedFiles
from reput.store_format.files.protocol import StoreInUse
from tests.faults.killing import killed_at


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
def files(root: Path) -> DiskFiles:
    return DiskFiles(str(root))


def test_what_is_written_is_read_at_its_place_and_no_further(files: DiskFiles) -> None:
    file = files.open("file")
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


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("link", "is a link"),
        ("dangling", "is a link"),
        ("folder", "is not a regular file"),
        ("pipe", "is not a regular file"),
    ],
)
def test_only_a_regular_file_is_opened(files: DiskFiles, name: str, reason: str) -> None:
    for opened in (files.open, files.open_read):
        with pytest.raises(StoreError, match=f"{name}: {reason}"):
            opened(name)
    with pytest.raises(FileExistsError):
        files.create(name)


def test_a_name_is_a_folder_a_file_or_neither(files: DiskFiles, root: Path) -> None:
    assert files.is_folder("folder")
    assert files.is_folder("")
    assert not files.is_folder("file")
    for name, kind in (("linked", "a link"), ("pipe", "neither a file nor a folder")):
        with pytest.raises(StoreError, match=f"{name}: is {kind}"):
            files.is_folder(name)
    assert files.exists("dangling")
    assert not files.exists("nothing")
    assert files.names("folder") == ["inner"]
    assert files.names("nothing") == files.names("file") == []
    assert [files.is_ours(name) for name in ("file", "folder", "link", "pipe")] == [
        True, True, False, False,
    ]  # fmt: skip
    (root / "file").chmod(0o666)
    assert not files.is_ours("file")


def test_new_names_get_their_modes(files: DiskFiles, root: Path) -> None:
    old = os.umask(0)
    try:
        files.create("plain").close()
        files.create("own", own=True).close()
        files.make_folder("a/b")
        (root / "folder").chmod(0o2750)
        files.add_folder("like", like="folder")
        files.add_folder("own_folder", own=True)
    finally:
        os.umask(old)
    modes = {"plain": 0o644, "own": 0o600, "a/b": 0o755, "like": 0o2750, "own_folder": 0o700}
    assert {name: stat.S_IMODE((root / name).stat().st_mode) for name in modes} == modes
    files.make_folder("a/b")
    with pytest.raises(FileExistsError):
        files.add_folder("a")


def test_a_stores_new_files_are_as_its_folder_without_the_right_to_run(root: Path) -> None:
    (root / "folder").chmod(0o770)
    made = DiskFiles.as_owned_by((root / "folder").stat(), str(root))
    assert (made.file_mode, made.folder_mode) == (0o660, 0o770)


def test_a_file_of_zeros_has_its_length_as_soon_as_it_has_its_name(
    files: DiskFiles, root: Path
) -> None:
    """RocketMQ before 5.1.3 refuses a store with an empty segment, which a kill left before."""

    def made() -> None:
        files.create("folder/zeros", 9)

    steps, _ = killed_at(1 << 30, made)
    (root / "folder/zeros").unlink()
    for step in range(steps):
        assert killed_at(step, made)[1] == -9
        assert files.names("folder") == ["inner"], step
    files.file_mode = 0o600
    with closing(files.create("folder/zeros", 9)) as file:
        file.write_at(8, b"x")
        assert file.path == f"{root}/folder/zeros"
    assert (root / "folder/zeros").read_bytes() == bytes(8) + b"x"
    assert stat.S_IMODE((root / "folder/zeros").stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        files.create("folder/zeros", 9)


@pytest.mark.parametrize("lacks", ["O_TMPFILE", "/proc"])
def test_where_each_file_has_a_name_it_is_made_with_it(
    lacks: str, files: DiskFiles, root: Path, monkeypatch: pytest.MonkeyPatch
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
    files.create("zeros", 9).close()
    assert len(os.listdir("/proc/self/fd")) <= len(before)
    assert (root / "zeros").read_bytes() == bytes(9)
    with pytest.raises(FileExistsError):
        files.create("zeros", 9)


def test_names_are_swapped_and_links_removed_but_not_followed(files: DiskFiles, root: Path) -> None:
    files.remove("linked")
    assert files.names("folder") == ["inner"]
    files.exchange("file", "folder")
    assert (root / "folder").read_bytes() == b"0123456789"
    assert files.names("file") == ["inner"]
    with pytest.raises(OSError, match="not empty"):
        files.remove("file")
    files.remove("folder")
    assert files.names("") == ["dangling", "file", "link", "pipe"]
    with pytest.raises(FileNotFoundError) as caught:
        files.exchange("file", "nothing")
    assert caught.value.filename2 == f"{root}/nothing"


def test_below_a_foreign_folder_no_link_is_followed_on_the_way(files: DiskFiles) -> None:
    files.open_read("linked/inner").close()
    fixed = FixedFiles(files.root)
    fixed.open_read("folder/inner").close()
    for path in ("linked/inner", "link", "folder/../linked/inner"):
        with pytest.raises(StoreError, match="a link is on the way to it"):
            fixed.open_read(path)
    with pytest.raises(StoreError, match="is not a regular file"):
        fixed.open_read("pipe")
    with pytest.raises(FileNotFoundError):
        fixed.open_read("folder/none")


def test_a_lock_file_is_kept_and_gets_its_word_only_where_it_is_new(
    files: DiskFiles, root: Path
) -> None:
    release = files.lock("lock")
    with pytest.raises(StoreInUse, match="this process"):
        files.lock("lock")
    release()
    files.lock("lock")()
    assert (root / "lock").read_bytes() == b"lock"
    (root / "empty").write_bytes(b"")
    (root / "second").hardlink_to(root / "empty")  # may be somebody's own file
    for name, content in (("file", b"0123456789"), ("empty", b"")):
        files.lock(name)()
        assert (root / name).read_bytes() == content
    for name in ("link", "dangling", "folder"):
        with pytest.raises(StoreError, match=f"{name}: is not a regular file"):
            files.lock(name)


def test_the_used_share_is_whole_percents_or_unknown(files: DiskFiles, root: Path) -> None:
    share = files.used_share()
    assert 0 < share <= 1
    assert round(share * 100) == pytest.approx(share * 100)
    assert DiskFiles(str(root / "nothing")).used_share() == 0
