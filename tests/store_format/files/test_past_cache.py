"""A log that would fill the memory is read past the page cache, where that does not hold it."""

import errno
import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reput.store_format.files import local, read_ahead
from reput.store_format.files.local import LocalReader, LocalStorage
from reput.store_format.files.protocol import Reader
from reput.store_format.files.read_ahead import open_ahead
from reput.store_format.files.system import available_memory, cached_bytes, uncached_flags

BLOCK = 1 << 16
CONTENT = np.random.default_rng(9).integers(0, 256, 20 * BLOCK + 77, np.uint8)
HUGE = 1 << 60  # more than any machine's memory


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(read_ahead, "DISK_BYTES", BLOCK)
    path = tmp_path / "file"
    path.write_bytes(CONTENT.tobytes())
    descriptor = os.open(path, os.O_RDWR)
    os.fsync(descriptor)
    os.close(descriptor)
    return str(path)


def cached(path: str) -> int:
    descriptor = os.open(path, os.O_RDONLY)
    found = cached_bytes(descriptor, 0, len(CONTENT))
    os.close(descriptor)
    if found is None:
        pytest.skip(f"Linux {os.uname().release} does not say what its page cache holds (6.5 does)")
    return found


def forget(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)
    if cached(path):
        pytest.skip("the temporary folder is in memory: its file system holds nothing else")


def opened(path: str, whole: int = HUGE) -> Reader:
    with closing(LocalStorage().open(path)) as reader:
        state = reader.state
    return open_ahead(LocalStorage(), path, state, 1000, len(CONTENT) - 5, whole)


def read_all(reader: Reader) -> None:
    for at in range(1000, len(CONTENT) - 5, 50_000):
        buffer = np.zeros(min(60_000, len(CONTENT) - at), np.uint8)
        reader.read_into(at, buffer)
        assert np.array_equal(buffer, CONTENT[at : at + len(buffer)]), at
    reader.close()


def test_what_is_read_from_the_disk_does_not_stay_in_memory(path: str) -> None:
    forget(path)
    if not uncached_flags(os.uname().release):
        pytest.skip(f"Linux {os.uname().release} cannot read past its page cache (6.16 can)")
    reader = opened(path)
    assert not isinstance(reader, LocalReader)
    read_all(reader)
    assert cached(path) < len(CONTENT) // 2  # what the kernel itself read ahead may be there


def test_what_is_in_memory_is_read_from_there_and_stays(path: str) -> None:
    with open(path, "rb") as file:
        file.read()
    before = cached(path)
    assert before >= len(CONTENT)
    reader = opened(path)
    assert isinstance(reader, LocalReader)
    read_all(reader)
    assert cached(path) == before


def test_a_log_that_leaves_room_comes_into_memory(path: str) -> None:
    forget(path)
    reader = opened(path, whole=len(CONTENT))
    assert isinstance(reader, LocalReader)
    read_all(reader)
    assert cached(path) >= len(CONTENT) - 2 * BLOCK


@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.EIO])
def test_a_file_system_that_cannot_is_read_as_ever(path: str, code: int, monkeypatch) -> None:
    real, flags_seen = os.preadv, set()

    def refused(descriptor: int, buffers: Sequence[Any], at: int, flags: int = 0) -> int:
        flags_seen.add(flags)
        if flags:
            raise OSError(code, os.strerror(code))
        return real(descriptor, buffers, at)

    monkeypatch.setattr(os, "preadv", refused)
    monkeypatch.setattr(local, "uncached_flags", lambda _: 0x80)
    monkeypatch.setattr(local, "cached_bytes", lambda *_: 0)
    reader = opened(path)
    if code == errno.EIO:
        with pytest.raises(OSError, match="Input/output"):
            read_all(reader)
        reader.close()
        return
    read_all(reader)
    assert flags_seen == {0, 0x80}


@pytest.mark.parametrize("says", [None, 0])
def test_kernels_that_do_not_say_or_cannot_are_asked_for_nothing(
    path: str, says: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "cached_bytes", lambda *_: says)
    monkeypatch.setattr(local, "uncached_flags", lambda _: 0x80 if says is None else 0)
    reader = opened(path)
    assert isinstance(reader, LocalReader)
    read_all(reader)


def test_the_memory_that_could_be_had_is_some_of_it() -> None:
    available = available_memory()
    assert available is not None
    assert 0 < available <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")
