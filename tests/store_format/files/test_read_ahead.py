"""Reading ahead where each read is a request: the same bytes, and errors where they are due."""

import errno
import os
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.store_format.files import local, read_ahead
from reput.store_format.files.local import LocalReader, LocalStorage
from reput.store_format.files.protocol import FileState, Reader
from reput.store_format.files.read_ahead import open_ahead
from reput.store_format.files.system import cached_bytes, uncached_flags

BLOCK, MANY = 1000, 4
CONTENT = np.random.default_rng(20).integers(0, 256, 10_500, np.uint8)
STATE = FileState(len(CONTENT), 0, 0)


class Slow:
    """A storage and its one reader. A read waits until so many are on their way, or briefly."""

    window_bytes, reads_ahead = 1, MANY

    def __init__(self) -> None:
        self.read: list[tuple[int, int]] = []  # place, length
        self.at_once = self.most = 0
        self.broken: range = range(0)
        self.held, self.let_go = range(0), threading.Event()  # reads that wait, and until when
        self.in_vain = False
        self._turn = threading.Condition()
        self.closed = False
        self.state = STATE

    def open(self, path: str, state: FileState) -> "Slow":
        assert (path, state) == ("file", STATE)
        return self

    def read_into(self, offset: int, buffer: np.ndarray) -> None:
        with self._turn:
            self.read.append((offset, len(buffer)))
            self.at_once += 1
            self.most = max(self.most, self.at_once)
            self._turn.notify_all()
            self._turn.wait_for(lambda: self.most >= MANY, timeout=60)
            self.at_once -= 1
        if offset in self.held:
            self.in_vain |= not self.let_go.wait(60)
        if offset in self.broken:
            raise OSError(f"broken at {offset}")
        buffer[:] = CONTENT[offset : offset + len(buffer)]

    def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_ahead, "REQUEST_BYTES", BLOCK)
    monkeypatch.setattr(read_ahead, "DISK_BYTES", BLOCK)


def read(reader: object, at: int, length: int) -> None:
    buffer = np.zeros(length, np.uint8)
    reader.read_into(at, buffer)  # type: ignore[attr-defined]
    assert np.array_equal(buffer, CONTENT[at : at + length]), (at, length)


def test_windows_that_overlap_come_out_whole_and_each_block_is_asked_for_once() -> None:
    slow = Slow()
    reader = open_ahead(slow, "file", STATE, 500, 9_700)  # type: ignore[arg-type]
    for at in range(
        500, 9_700 - BLOCK + 1, 900
    ):  # as a scan does: each from where its last record was cut
        read(reader, at, BLOCK)
    whole = [(at, BLOCK) for at in range(1_000, 9_000, BLOCK)]
    assert sorted(slow.read) == [(500, 500), *whole, (9_000, 700)]
    assert slow.most == MANY
    reader.close()
    assert slow.closed


def test_what_is_outside_or_before_is_read_as_it_is_wanted() -> None:
    slow = Slow()
    slow.most = MANY  # so that no read waits
    reader = open_ahead(slow, "file", STATE, 3_000, 99_000)  # type: ignore[arg-type]
    read(reader, 100, 50)
    read(reader, 10_200, 300)  # up to the file's end
    assert slow.read == [(100, 50), (10_000, 500)]
    reader.close()
    slow.read.clear()
    reader = open_ahead(slow, "file", STATE, 0, 1_000)  # type: ignore[arg-type]
    read(reader, 900, 200)
    assert slow.read == [(0, 1_000), (1_000, 100)]
    reader.close()
    slow = Slow()
    slow.most = MANY
    reader = open_ahead(slow, "file", STATE, 0, 10_500)  # type: ignore[arg-type]
    for at in (0, 5_000, 0, 9_999):
        read(reader, at, 400)
    reader.close()
    slow = Slow()
    slow.reads_ahead = 0  # type: ignore[misc]
    assert open_ahead(slow, "file", STATE, 0, 10) is slow  # type: ignore[arg-type, comparison-overlap]


def test_going_forward_waits_for_no_block_and_an_error_is_raised_where_it_is_wanted() -> None:
    slow = Slow()
    slow.most = MANY
    slow.held = range(BLOCK, 4 * BLOCK)
    reader = open_ahead(slow, "file", STATE, 0, 10_500)  # type: ignore[arg-type]
    read(reader, 0, 10)
    read(reader, 4_000, 400)
    slow.let_go.set()
    reader.close()
    assert not slow.in_vain
    slow = Slow()
    slow.most, slow.broken = MANY, range(2_000, 2_001)
    reader = open_ahead(slow, "file", STATE, 0, 10_500)  # type: ignore[arg-type]
    read(reader, 0, 2_000)
    with pytest.raises(OSError, match="broken at 2000"):
        read(reader, 1_900, 200)
    reader.close()


@given(places=st.lists(st.integers(0, 10_499), max_size=30), length=st.integers(1, 3 * BLOCK))
def test_wherever_it_is_read_the_bytes_are_the_file_s(places: list[int], length: int) -> None:
    slow = Slow()
    slow.most = MANY
    reader = open_ahead(slow, "file", STATE, 0, 10_500)  # type: ignore[arg-type]
    for at in places:
        read(reader, at, min(length, 10_500 - at))
    reader.close()


# --- A log that would fill the memory is read past the page cache, where that does not hold it.
BLOCK_CACHE = 1 << 16
CONTENT_CACHE = np.random.default_rng(9).integers(0, 256, 20 * BLOCK_CACHE + 77, np.uint8)
HUGE = 1 << 60  # more than any machine's memory


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(read_ahead, "DISK_BYTES", BLOCK_CACHE)
    path = tmp_path / "file"
    path.write_bytes(CONTENT_CACHE.tobytes())
    descriptor = os.open(path, os.O_RDWR)
    os.fsync(descriptor)
    os.close(descriptor)
    return str(path)


def cached(path: str) -> int:
    descriptor = os.open(path, os.O_RDONLY)
    found = cached_bytes(descriptor, 0, len(CONTENT_CACHE))
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
    return open_ahead(LocalStorage(), path, state, 1000, len(CONTENT_CACHE) - 5, whole)


def read_all(reader: Reader) -> None:
    for at in range(1000, len(CONTENT_CACHE) - 5, 50_000):
        buffer = np.zeros(min(60_000, len(CONTENT_CACHE) - at), np.uint8)
        reader.read_into(at, buffer)
        assert np.array_equal(buffer, CONTENT_CACHE[at : at + len(buffer)]), at
    reader.close()


def test_what_is_read_from_the_disk_does_not_stay_in_memory(path: str) -> None:
    forget(path)
    if not uncached_flags(os.uname().release):
        pytest.skip(f"Linux {os.uname().release} cannot read past its page cache (6.16 can)")
    reader = opened(path)
    assert not isinstance(reader, LocalReader)
    read_all(reader)
    assert cached(path) < len(CONTENT_CACHE) // 2  # what the kernel itself read ahead may be there


def test_what_is_in_memory_is_read_from_there_and_stays(path: str) -> None:
    with open(path, "rb") as file:
        file.read()
    before = cached(path)
    assert before >= len(CONTENT_CACHE)
    reader = opened(path)
    assert isinstance(reader, LocalReader)
    read_all(reader)
    assert cached(path) == before


def test_a_log_that_leaves_room_comes_into_memory(path: str) -> None:
    forget(path)
    reader = opened(path, whole=len(CONTENT_CACHE))
    assert isinstance(reader, LocalReader)
    read_all(reader)
    assert cached(path) >= len(CONTENT_CACHE) - 2 * BLOCK_CACHE


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
def test_kernels_that_do_not_say_or_cannot_are_asked_for_nothing(path, says, monkeypatch) -> None:
    monkeypatch.setattr(local, "cached_bytes", lambda *_: says)
    monkeypatch.setattr(local, "uncached_flags", lambda _: 0x80 if says is None else 0)
    reader = opened(path)
    assert isinstance(reader, LocalReader)
    read_all(reader)
