"""A log's first bytes come into memory while nobody can work on them yet; nothing else changes."""

import os
from pathlib import Path

import pytest

from reput.store_format.storage import early_reads
from reput.store_format.storage.early_reads import EarlyReads
from reput.store_format.storage.local import LocalStorage

MIB = 1 << 20


def in_memory(path: Path, at: int) -> bool:
    with path.open("rb") as file:
        try:
            os.preadv(file.fileno(), [bytearray(1)], at, os.RWF_NOWAIT)
        except BlockingIOError:
            return False
    return True


def written(path: Path, length: int) -> Path:
    """A file of which nothing is in memory, but for the pages that a look at its start brings."""
    path.write_bytes(os.urandom(length))
    with path.open("rb+") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if in_memory(path, 0):
        pytest.skip("this file system keeps all that it has in memory")
    return path


def read(folder: Path) -> None:
    early = EarlyReads(LocalStorage(), str(folder))
    early.start()
    early.wait()


def test_the_first_bytes_are_in_memory(tmp_path: Path) -> None:
    files = [written(tmp_path / name, 40 * MIB) for name in ("0", "1")]
    read(tmp_path)
    assert all(in_memory(path, at) for path in files for at in range(0, 40 * MIB, MIB))


def test_a_hole_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "0"
    path.write_bytes(os.urandom(2 * MIB))
    with path.open("rb+") as file:
        file.truncate(64 * MIB)
        file.seek(32 * MIB)
        file.write(os.urandom(MIB))
    ranges: list[tuple[int, int]] = []
    monkeypatch.setattr(EarlyReads, "_read_range", lambda *asked: ranges.append(asked[2:]) or True)
    read(tmp_path)
    assert ranges == [(0, 2 * MIB), (32 * MIB, 33 * MIB)]


def test_no_more_than_a_share_of_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [written(tmp_path / name, 24 * MIB) for name in ("0", "1")]
    monkeypatch.setattr(early_reads, "_MOST_BYTES", 26 * MIB)
    read(tmp_path)
    assert in_memory(files[0], 23 * MIB)
    assert in_memory(files[1], MIB)
    assert not in_memory(files[1], 20 * MIB)


def test_it_ends_once_a_session_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "0", 40 * MIB)
    monkeypatch.setattr(early_reads, "_PLANNING_SECONDS", -1.0)
    early = EarlyReads(LocalStorage(), str(tmp_path))
    early.end_soon()
    early.start()
    early.wait()
    assert not in_memory(path, 20 * MIB)


def test_what_cannot_be_read_is_left_alone(tmp_path: Path) -> None:
    read(tmp_path / "absent")
    (tmp_path / "0").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "1")
    (tmp_path / "2").mkdir()
    path = written(tmp_path / "3", 2 * MIB)
    read(tmp_path)
    assert in_memory(path, MIB)


def test_a_file_that_has_shrunk_is_no_error(tmp_path: Path) -> None:
    path = written(tmp_path / "0", 2 * MIB)
    early = EarlyReads(LocalStorage(), str(tmp_path))
    with path.open("rb+") as file:
        os.truncate(path, MIB)
        assert early._read_range(file.fileno(), 0, 2 * MIB)
