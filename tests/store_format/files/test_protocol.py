"""When a file is still the same, and how folders are walked that can only be listed."""

import stat
from pathlib import Path

import pytest

from reput.store_format.faults import StoreError
from reput.store_format.files import protocol
from reput.store_format.files.disk import DiskFiles
from tests.memory_storage import MemoryStorage

STATE = protocol.FileState(10, 5, "tag")


def test_a_walk_gives_folders_first_and_a_file_is_the_same_by_size_time_and_tag() -> None:
    storage = MemoryStorage({"s/a": b"", "s/b/c/d": b"", "s/b/e": b"", "other": b""})
    storage.make_folders("s/empty")
    assert names(list(protocol.walk_lists(storage, "s"))) == [("a", True), ("b/", False),
        ("b/c/", False), ("b/c/d", True), ("b/e", True), ("empty/", False)]  # fmt: skip
    assert list(protocol.walk_lists(storage, "s/empty")) == []

    class WithLink(MemoryStorage):
        def list(self, folder: str) -> list[protocol.Listed]:
            return [
                *super().list(folder),
                *([protocol.Listed("link", None)] if folder == "s" else []),
            ]

    assert names(list(protocol.walk_lists(WithLink({"s/a": b""}), "s"))) == [
        ("a", True),
        ("link", False),
    ]
    for folder, error in [("none", FileNotFoundError), ("s/a", NotADirectoryError)]:
        with pytest.raises(error):
            list(protocol.walk_lists(MemoryStorage({"s/a": b""}), folder))
    for now, at_a_time, at_any_time in [(STATE, True, True), (STATE._replace(mtime=6), False, True),
        (STATE._replace(size=11), False, False),
        (STATE._replace(tag="other"), False, False)]:  # fmt: skip
        assert STATE.admits(now) == at_a_time
        assert STATE._replace(mtime=protocol.ANY_TIME).admits(now) == at_any_time


def names(listed: list[protocol.Listed]) -> list[tuple[str, bool]]:
    return [(name, state is not None) for name, state in listed]


# --- Small files read, made and replaced as a whole.
@pytest.fixture
def files(tmp_path: Path) -> DiskFiles:
    return DiskFiles(str(tmp_path))


def test_small_files_are_read_up_to_a_limit_and_filled_up_with_zeros(files: DiskFiles) -> None:
    protocol.write_small(files, "file", b"")
    with pytest.raises(FileExistsError):
        protocol.write_small(files, "file", b"x")
    assert protocol.read_small(files, "file", 9) == b""
    with pytest.raises(FileNotFoundError):
        protocol.read_small(files, "none", 9)
    for length, found in [(None, b"ab"), (2, b"ab"), (5, b"ab\0\0\0")]:
        protocol.replace_small(files, "file", b"ab", length=length)
        for most in (0, 1, len(found), 99):
            assert protocol.read_small(files, "file", most) == found[:most]


def test_missing_folders_are_made_and_only_a_file_may_be_replaced(files, tmp_path) -> None:
    protocol.add_folders(files, "", "a/b")
    protocol.add_folders(files, "a", "b/c/d")
    protocol.add_folders(files, "a", "")
    assert [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*"))] == [
        "a", "a/b", "a/b/c", "a/b/c/d"]  # fmt: skip
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "file").write_bytes(b"")
    protocol.check_small(files, "file")
    protocol.check_small(files, "none")
    for name, reason in (("folder", "is a folder"), ("link", "is a link")):
        with pytest.raises(StoreError, match=f"{name}: {reason}"):
            protocol.check_small(files, name)
    for own, mode in ((True, 0), (False, 0o044)):
        protocol.replace_small(files, "file", b"", own=own)
        others = stat.S_IMODE((tmp_path / "file").stat().st_mode) & 0o077
        assert others & ~mode == 0
    assert others

    class Crashing(DiskFiles):
        def rename(self, path: str, to: str) -> None:
            raise OSError("power cut")

    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(OSError, match="power cut"):
        protocol.replace_small(Crashing(str(tmp_path)), "file", b"new", beside=".x")
    assert (tmp_path / "file").read_bytes() == b"old"
    assert (tmp_path / "file.x").read_bytes() == b"new"
