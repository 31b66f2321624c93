"""timerlog written anew: each waiting message's unit, the chain of a slot, the files in steps."""

import struct

import numpy as np
import pytest

from reput.broker.services.files import (
    InWheel,
    Turned,
    check_can_replace,
    replace_timer_files,
    timer_log_files,
    units_of,
)
from reput.store_format.faults import StoreError
from reput.store_format.layouts import TIMER_UNIT
from tests.faults.memory_files import MemoryFiles

UNIT = struct.Struct(">iqiqiqiiq")  # TimerLog.UNIT_SIZE: 52 bytes
TICKS = 1_700_000_000_000  # now, at the beginning of its tick
READ = TICKS - 10_000
TURNED = Turned(READ, READ - 5000, 42, TICKS + 500, 1000)
WINDOW = 2 * 24 * 3600 * 1000  # timerRollWindowSlot of a second each
INT_MAX = (1 << 31) - 1
LAST = InWheel(9000, 200, TICKS, False, 5, None)


def waiting(out: int, written: int | None = None, recalls: bool = False) -> InWheel:
    return InWheel(100, 150, out, recalls, -7, written)


@pytest.mark.parametrize(
    ("out", "written", "write", "slot", "magic"),
    [
        (TICKS + 3000, None, TICKS, TICKS + 3000, 1),
        (TICKS + 3000, TICKS - 60_000, TICKS - 60_000, TICKS + 3000, 1),
        (READ - 1, None, READ, READ, 1),  # due before what is read: in the first slot to be read
        (TICKS + WINDOW - 1, None, TICKS, TICKS + WINDOW - 1, 1),
        (TICKS + WINDOW, None, TICKS, TICKS + WINDOW // 2, 3),
        (TICKS + WINDOW + WINDOW // 3 - 1, None, TICKS, TICKS + WINDOW // 2, 3),
        (TICKS + WINDOW + WINDOW // 3, None, TICKS, TICKS + WINDOW, 3),
        (TICKS, TICKS - INT_MAX, TICKS - INT_MAX, TICKS, 1),
        (TICKS, TICKS - INT_MAX - 1, TICKS, TICKS, 1),  # a delay is an int
        (TICKS + 3000, TICKS + 9000, TICKS, TICKS + 3000, 1),  # a later clock wrote it
    ],
)
def test_a_unit_is_in_the_slot_where_a_broker_puts_it(
    out: int, written: int | None, write: int, slot: int, magic: int
) -> None:
    """TimerMessageStore.doEnqueue: what is due after the window is to be rolled."""
    unit, _ = units_of([waiting(out, written)], LAST, TURNED)
    assert UNIT.unpack(unit.tobytes()) == (52, 0, magic, write, slot - write, 100, 150, -7, 0)
    (recalling, _) = units_of([waiting(out, written, True)], LAST, TURNED)
    assert recalling["magic"] == magic | 4


def test_the_last_unit_is_of_the_topics_last_message() -> None:
    """If that does not wait, its unit is in the slot before those that are to be read."""
    (alone,) = units_of([], LAST, TURNED)
    read = READ - 5000 - 1000
    assert UNIT.unpack(alone.tobytes()) == (52, 0, 1, read, 0, 9000, 200, 5, 0)
    both = units_of([waiting(TICKS), LAST], LAST, TURNED)
    assert both["physicalOffset"].tolist() == [100, 9000]
    (early,) = units_of([], LAST, TURNED._replace(read_time=0))
    assert early["writeTime"] == 0


def test_units_of_a_slot_name_the_one_before_and_a_full_file_ends_with_a_blank() -> None:
    units = np.zeros(5, TIMER_UNIT)
    units["writeTime"] = TICKS
    units["delay"] = [1000, 2000, 1999, 1000, 5000]  # three slots of a second
    file_bytes = 2 * 52 + 16
    files = dict(timer_log_files(units, file_bytes, 1000))
    assert list(files) == [f"{n * file_bytes:020d}" for n in range(3)]
    blank = struct.pack(">iqI", 16, 0, 0xCBD43194)  # 0xBBCCDDEE ^ (1880681586 + 8)
    assert [raw[104:] for raw in files.values()] == [blank, blank, b""]
    found = [UNIT.unpack_from(raw, at) for raw in files.values()
             for at in range(0, len(raw) - 51, 52)]  # fmt: skip
    assert [unit[1] for unit in found] == [-1, -1, 0, file_bytes, -1]
    longer = dict(timer_log_files(units[:3], file_bytes + 51, 1000))
    assert longer[f"{0:020d}"][104:] == struct.pack(">iqI", 67, 0, 0xCBD43194)
    assert list(timer_log_files(units[:0], file_bytes, 1000)) == []


def test_the_files_are_replaced_and_the_check_point_keeps_its_end() -> None:
    files = MemoryFiles()
    for folder in ("timerlog", "config", ".reput-timerlog"):
        files.make_folder(folder)
    old_check = struct.pack(">4q", 1, 2, 3, 4) + b"version".ljust(4064, b"\0")
    made = {
        "timerlog/" + "0" * 20: b"old", "timerwheel": b"w", "timerwheel.7": b"w",
        "timerwheels": b"other", "config/timercheck": old_check,
    }  # fmt: skip
    for name, raw in made.items():
        files.create(name).write_at(0, raw)
    units = units_of([waiting(TICKS + 1000)], LAST, TURNED)
    replace_timer_files(files, units, 200, TURNED)
    (content,) = (raw for _, raw in timer_log_files(units, 200, 1000))
    assert files.tree() == {
        "timerlog/" + "0" * 20: content.ljust(200, b"\0"), "timerwheels": b"other",
        "config/timercheck": struct.pack(">4q", READ, 0, 42, 42) + old_check[32:],
    }  # fmt: skip


@pytest.mark.parametrize(
    "made", ["timerlog/x", "timerlog/1", "config/timercheck/", "timerwheel/", "timerwheel.1/"]
)
def test_what_is_no_brokers_file_is_refused(made: str) -> None:
    files = MemoryFiles()
    check_can_replace(files)
    files.make_folder(made.rpartition("/")[0])
    if not made.endswith("/"):
        files.create(made)
    with pytest.raises(StoreError, match="is left as it is"):
        check_can_replace(files)
    file = MemoryFiles()
    file.create("timerlog")
    with pytest.raises(StoreError, match="timerlog: is not a folder"):
        check_can_replace(file)
