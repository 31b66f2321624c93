"""Which timers wait by the log, and the timerlog, timercheck and delay offsets that say so."""

import struct

import numpy as np
import pytest

from reput.store_format.fate.delays import Read
from reput.store_format.fate.gather import MARK, OTHER, SCHEDULE, WHEEL, Gathered
from reput.store_format.layouts import TIMER_UNIT
from reput.store_format.state.timers import (
    Turned,
    derived_levels,
    derived_timers,
    timer_log_files,
    units_of,
)

UNIT = struct.Struct(">iqiqiqiiq")  # TimerLog.UNIT_SIZE: 52 bytes
TICKS = 1_700_000_000_000  # now, at the beginning of its tick
READ = TICKS - 10_000
TURNED = Turned(READ, READ - 5000, 42, TICKS + 500, 1000)
WINDOW = 2 * 24 * 3600 * 1000  # timerRollWindowSlot of a second each
INT_MAX = (1 << 31) - 1


def mark(place: int, size: int, out: int, topic_hash: int, recalls: bool = False) -> np.ndarray:
    made = np.zeros(1, MARK)
    made["kind"], made["physicalOffset"], made["size"], made["out"] = WHEEL, place, size, out
    made["topicHash"], made["deletes"] = topic_hash, recalls
    return made


LAST = mark(9000, 200, TICKS, 5)


def waiting(out: int, recalls: bool = False) -> np.ndarray:
    return mark(100, 150, out, -7, recalls)


@pytest.mark.parametrize(("out", "written", "write", "slot", "magic"), [
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
])  # fmt: skip
def test_a_unit_is_in_the_slot_where_a_broker_puts_it(out, written, write, slot, magic) -> None:
    """TimerMessageStore.doEnqueue: what is due after the window is to be rolled."""
    times = {} if written is None else {100: written}
    unit, _ = units_of(waiting(out), LAST, times, TURNED)
    assert UNIT.unpack(unit.tobytes()) == (52, 0, magic, write, slot - write, 100, 150, -7, 0)
    (recalling, _) = units_of(waiting(out, True), LAST, times, TURNED)
    assert recalling["magic"] == magic | 4


def test_the_last_unit_is_of_the_topics_last_message_and_a_full_file_ends_with_a_blank() -> None:
    """If that does not wait, its unit is in the slot before those that are to be read."""
    (alone,) = units_of(LAST[:0], LAST, {}, TURNED)
    read = READ - 5000 - 1000
    assert UNIT.unpack(alone.tobytes()) == (52, 0, 1, read, 0, 9000, 200, 5, 0)
    both = units_of(np.concatenate([waiting(TICKS), LAST]), LAST, {}, TURNED)
    assert both["physicalOffset"].tolist() == [100, 9000]
    (early,) = units_of(LAST[:0], LAST, {}, TURNED._replace(read_time=0))
    assert early["writeTime"] == 0
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


def of_log(marks: np.ndarray, last: int = TICKS) -> Gathered:
    return Gathered(marks, marks[:0], [], 0, last, [], 0)


def log_of(*each: tuple[int, int, int, int]) -> np.ndarray:
    """(kind, home, TIMER_OUT_MS, whether it recalls) of marks at places 100, 200, ..."""
    marks = np.zeros(len(each), MARK)
    for number, (kind, home, out, recalls) in enumerate(each):
        marks[number]["physicalOffset"], marks[number]["queueOffset"] = 100 * number + 100, number
        marks[number]["kind"], marks[number]["home"], marks[number]["out"] = kind, home, out
        marks[number]["sentOn"], marks[number]["key"] = 1, home
        marks[number]["deletes"] = home if recalls else 0
    return marks


def test_what_waits_is_what_the_log_does_not_show_as_delivered_and_a_level_goes_on_behind_it() -> (
    None
):
    """Without a timercheck the wheel was read up to the last record; a delivery may be lost."""
    log = log_of(
        (WHEEL, 1, TICKS - 5000, 0), (WHEEL, 2, TICKS - 5000, 0), (WHEEL, 3, TICKS + 9000, 0),
        (WHEEL, 4, TICKS + 9000, 0), (WHEEL, 4, TICKS + 9000, 1), (OTHER, 1, 0, 0),
    )  # fmt: skip
    log["home"][4] = 9
    never = Read(None, None, 0, True)
    found = derived_timers(of_log(log), never, lambda _: {}, TICKS + 500, 1000)
    assert found is not None
    assert found.units["physicalOffset"].tolist() == [200, 300, 400, 500]
    assert (found.units["writeTime"] + found.units["delay"]).tolist() == [
        TICKS, TICKS + 9000, TICKS + 9000, TICKS + 9000,
    ]  # fmt: skip
    assert found.check == {
        "lastReadTimeMs": TICKS, "lastTimerLogFlushPos": 0, "lastTimerQueueOffset": 5,
        "masterTimerQueueOffset": 5,
    }  # fmt: skip
    passed = Read(None, 5, TICKS + 4000, True)  # an older log: the first two are gone past
    late = derived_timers(of_log(log, TICKS + 60_000), passed, lambda _: {}, TICKS + 500, 1000)
    assert late is not None
    assert late.units["physicalOffset"].tolist() == [300, 400, 500]
    assert derived_timers(of_log(log[5:]), never, lambda _: {}, TICKS, 1000) is None
    log = log_of(*((SCHEDULE, home, 0, 0) for home in (1, 2, 3)), (OTHER, 2, 0, 0))
    log["queueId"] = [1, 1, 4, 0]
    assert derived_levels(of_log(log)) == {2: 2, 5: 2}
    assert derived_levels(of_log(log[3:])) == {}
