"""Files that are read with some of their bytes replaced."""

import pickle

import numpy as np
import pytest

from reput.store_format.faults import StoreChanged
from reput.store_format.files.adapters import Overlay, Patched
from tests.memory_storage import MemoryStorage

DATA = b"0123456789"


def read(overlays: list[Overlay], at: int, length: int) -> bytes:
    patched = Patched(MemoryStorage({"s/a": DATA}), {"s/a": overlays})
    buffer = np.empty(length, np.uint8)
    patched.open("s/a").read_into(at, buffer)
    return buffer.tobytes()


@pytest.mark.parametrize(
    ("at", "length", "found"),
    [
        (0, 10, b"012abc6789"),
        (0, 3, b"012"),
        (0, 4, b"012a"),
        (4, 1, b"b"),
        (5, 5, b"c6789"),
        (6, 4, b"6789"),
        (4, 0, b""),
    ],
)
def test_a_read_sees_as_much_of_an_overlay_as_it_covers(at: int, length: int, found: bytes) -> None:
    assert read([Overlay(3, b"abc")], at, length) == found


def test_of_overlays_that_overlap_the_last_counts() -> None:
    assert read([Overlay(2, b"abcd"), Overlay(4, b"XY"), Overlay(9, b"")], 0, 10) == b"01abXY6789"


def test_no_overlay_makes_a_file_longer() -> None:
    assert read([Overlay(8, b"abcdef")], 0, 10) == b"01234567ab"
    with pytest.raises(StoreChanged):
        read([Overlay(8, b"abcdef")], 0, 11)


def test_other_files_and_the_storage_itself_are_as_they_were() -> None:
    storage = MemoryStorage({"s/a": DATA, "s/b": DATA})
    patched = Patched(storage, {"s/a": [Overlay(0, b"x")]})
    buffer = np.empty(2, np.uint8)
    patched.open("s/b").read_into(0, buffer)
    assert buffer.tobytes() == b"01"
    assert patched.list("s") == storage.list("s")
    assert patched.read_bytes("s/a") == DATA  # read whole: only `open` has the overlays
    assert storage.files["s/a"] == DATA


def test_it_goes_to_tasks_of_other_processes() -> None:
    patched = Patched(MemoryStorage({"s/a": DATA}), {"s/a": [Overlay(0, b"x")]})
    buffer = np.empty(2, np.uint8)
    pickle.loads(pickle.dumps(patched)).open("s/a").read_into(0, buffer)
    assert buffer.tobytes() == b"x1"
