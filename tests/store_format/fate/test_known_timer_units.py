"""The units of timerlog: which timers stand in the wheel, and since when."""

import struct

import numpy as np
import pytest

from reput.store_format.fate.known import timer_log_names, waiting_units, write_times
from reput.store_format.files.folder import Folder
from tests.memory_storage import MemoryStorage

UNIT = struct.Struct(">iqiqiqiiq")  # TimerLog: 52 bytes
BLANK = struct.pack(">iqI", 16, 0, 0xBBCCDDEE ^ (1880681586 + 8))
NAME = "{:020d}".format
NOW = 1_700_000_000_000


def unit(place: int, written: int = NOW, delay: int = 0) -> bytes:
    return UNIT.pack(52, -1, 1, written, delay, place, 100, 7, 0)


def store(*files: bytes) -> MemoryStorage:
    """A timerlog of these files, each of 5,200 bytes."""
    return MemoryStorage(
        {f"store/timerlog/{NAME(5200 * n)}": raw.ljust(5200, b"\0") for n, raw in enumerate(files)}
    )


def waiting(storage: MemoryStorage, read_time: int = NOW) -> list[int]:
    return [int(place) for place in waiting_units(Folder(storage, "store"), read_time)]


@pytest.mark.parametrize(
    ("written", "delay", "waits"),
    [
        (NOW, 0, True), (NOW - 1, 0, False), (NOW - 5000, 5000, True), (NOW - 5000, 4999, False),
        (NOW + 1000, -1001, False), (NOW, (1 << 31) - 1, True),
    ],
)  # fmt: skip
def test_a_slot_is_still_to_be_read_from_the_time_read_last(
    written: int, delay: int, waits: bool
) -> None:
    assert waiting(store(unit(300, written, delay))) == [300] * waits


def test_units_of_all_files_in_the_order_of_their_messages() -> None:
    first = b"".join(unit(place) for place in (900, 300, 300)) + BLANK
    assert waiting(store(first, unit(100) + unit(300))) == [100, 300, 900]


def test_what_is_no_unit_is_passed_over() -> None:
    """A blank ends the file, whatever stands behind it; the last unit of the file is torn."""
    other = UNIT.pack(53, -1, 1, NOW, 0, 400, 100, 7, 0)
    storage = store(unit(300) + other + unit(500), bytes(5200), unit(600))
    storage.files["store/timerlog/notes"] = unit(700)
    storage.files[f"store/timerlog/{NAME(20_000)}"] = unit(800) + unit(900)[:-1]
    storage.folders.add(f"store/timerlog/{NAME(30_000)}")
    assert waiting(storage) == [300, 500, 600, 800]
    assert timer_log_names(Folder(storage, "store")) == [
        (NAME(0), 5200), (NAME(5200), 5200), (NAME(10_400), 5200), (NAME(20_000), 103),
    ]  # fmt: skip
    assert waiting(MemoryStorage()) == []


def test_when_a_message_was_put_into_the_wheel_last() -> None:
    """A timer of some days is put into it again now and then."""
    storage = store(unit(300, 1) + unit(400, 2), unit(300, 3) + unit(500, 4))
    wanted = np.array([300, 500, 700])
    assert write_times(Folder(storage, "store"), wanted) == {300: 3, 500: 4}
    assert write_times(Folder(storage, "store"), wanted[:0]) == {}
