"""Reading ahead of a scan where each read is a request: the same bytes, several requests at once,
errors where they are due.
"""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.store_format.files import read_ahead
from reput.store_format.files.protocol import FileState
from reput.store_format.files.read_ahead import open_ahead

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


def test_what_is_outside_is_read_as_it_is_wanted() -> None:
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


def test_going_back_reads_again() -> None:
    slow = Slow()
    slow.most = MANY
    reader = open_ahead(slow, "file", STATE, 0, 10_500)  # type: ignore[arg-type]
    for at in (0, 5_000, 0, 9_999):
        read(reader, at, 400)
    reader.close()


def test_going_forward_waits_for_no_block_that_is_left_out() -> None:
    slow = Slow()
    slow.most = MANY
    slow.held = range(BLOCK, 4 * BLOCK)
    reader = open_ahead(slow, "file", STATE, 0, 10_500)  # type: ignore[arg-type]
    read(reader, 0, 10)
    read(reader, 4_000, 400)
    slow.let_go.set()
    reader.close()
    assert not slow.in_vain


@given(places=st.lists(st.integers(0, 10_499), max_size=30), length=st.integers(1, 3 * BLOCK))
def test_wherever_it_is_read_the_bytes_are_the_file_s(places: list[int], length: int) -> None:
    slow = Slow()
    slow.most = MANY
    reader = open_ahead(slow, "file", STATE, 0, 10_500)  # type: ignore[arg-type]
    for at in places:
        read(reader, at, min(length, 10_500 - at))
    reader.close()


def test_an_error_is_raised_by_the_read_that_wants_those_bytes() -> None:
    slow = Slow()
    slow.most, slow.broken = MANY, range(2_000, 2_001)
    reader = open_ahead(slow, "file", STATE, 0, 10_500)  # type: ignore[arg-type]
    read(reader, 0, 2_000)
    with pytest.raises(OSError, match="broken at 2000"):
        read(reader, 1_900, 200)
    reader.close()


def test_a_storage_without_use_for_it_is_read_as_it_is() -> None:
    slow = Slow()
    slow.reads_ahead = 0  # type: ignore[misc]
    assert open_ahead(slow, "file", STATE, 0, 10) is slow  # type: ignore[arg-type, comparison-overlap]
