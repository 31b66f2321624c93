"""The kernels for ordinary damage: one damaged record between sound ones, again and again."""

import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from reput.store_format.damage.queue_ends import QueueEnds
from reput.store_format.damage.tolerant import dispatch_fresh, stride
from reput.store_format.dispatch.scan import Buffers, End, Outputs, scan_rules
from reput.store_format.faults import Fault
from reput.store_format.log.records import RECORD_ROW
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import Settings
from tests.logs.encoder import Message
from tests.store_format.damage.walked import RULES, walked

SEGMENT, BASE, COUNT = 1 << 14, 1 << 20, 6
START = 1_700_000_000_000
SIZE = 92
NONE, MAGIC, PLACE = Fault.NONE, Fault.BAD_MAGIC, Fault.PLACE
Change = tuple[int, int, bytes]  # (record, its byte, what is put there)
BAD_MAGIC, BAD_PLACE = (4, struct.pack(">i", 7)), (28, struct.pack(">q", -5))


def log_of() -> list[Message]:
    return [Message(queue_offset=n, store_timestamp=START + n) for n in range(COUNT)]


def strode(*changes: Change, most: int = 20, length: int = SEGMENT) -> list[tuple[int, int, int]]:
    """(record, fault of the range before it, value) of each row, behind six records zeros."""
    raw, sound = walked(*log_of(), segment=SEGMENT, base=BASE)
    assert set(sound["size"]) == {SIZE}
    for record, byte, content in changes:
        at = record * SIZE + byte
        raw[at : at + len(content)] = np.frombuffer(content, np.uint8)
    rows, faults = np.zeros(most, RECORD_ROW), np.zeros(most, np.uint8)
    values = np.zeros(most, np.int64)
    count = stride(raw, length, SEGMENT, BASE, RULES, rows, faults, values)
    return [
        (
            int(rows[i]["physicalOffset"] - BASE) // SIZE,
            int(faults[i]),
            int(faults[i] and values[i]),
        )
        for i in range(count)
    ]


def of_records(*numbers: int) -> list[tuple[int, int, int]]:
    return [(number, 0, 0) for number in numbers]


@pytest.mark.parametrize(
    ("changes", "rows"),
    [
        ([], of_records(0, 1, 2, 3, 4, 5)),
        ([(2, *BAD_MAGIC)], [*of_records(0, 1), (3, MAGIC, 7), *of_records(4, 5)]),
        ([(2, *BAD_PLACE)], [*of_records(0, 1), (3, PLACE, -5), *of_records(4, 5)]),
        ([(2, *BAD_PLACE), (2, *BAD_MAGIC)], [*of_records(0, 1), (3, MAGIC, 7), *of_records(4, 5)]),
        ([(1, *BAD_MAGIC), (3, *BAD_PLACE)],
         [(0, 0, 0), (2, MAGIC, 7), (4, PLACE, -5), (5, 0, 0)]),
    ],
)  # fmt: skip
def test_one_wrong_record_between_sound_ones_is_stepped_over(
    changes: list[Change], rows: list[Any]
) -> None:
    assert strode(*changes) == rows


@pytest.mark.parametrize(
    ("changes", "count"),
    [
        ([(2, *BAD_MAGIC), (3, *BAD_PLACE)], 2),  # two in a row
        ([(0, *BAD_MAGIC)], 0),  # it has to begin with a sound one
        ([(5, *BAD_MAGIC)], 5),  # nothing follows
        ([(2, 0, struct.pack(">i", SIZE + 1))], 2),
        ([(2, 0, struct.pack(">i", 90)), (2, *BAD_MAGIC)], 2),  # shorter than any record
        ([(2, 0, struct.pack(">i", -SIZE)), (2, *BAD_MAGIC)], 2),
        ([(2, 4, struct.pack(">I", 0xCBD43194))], 2),  # a BLANK
        ([(2, *BAD_MAGIC), (2, SIZE - 1, b"\1")], 2),  # lengths that do not add up either
    ],
)
def test_what_is_not_ordinary_ends_the_stride(changes: list[Change], count: int) -> None:
    assert [row[0] for row in strode(*changes)] == list(range(count))


def test_a_stride_ends_with_its_rows_and_with_its_window() -> None:
    assert strode(most=3) == of_records(0, 1, 2)
    assert strode(length=3 * SIZE - 1) == of_records(0, 1)
    assert strode((1, *BAD_MAGIC), length=3 * SIZE - 1) == of_records(0)


def dispatched(
    changed: Message, faults: dict[int, Fault], suspect: bool = False, last: int = START
) -> int:
    """How many of six rows are dispatched, of which number 3 is changed; two were before."""
    log = log_of()
    log[3] = changed
    first = Message(queue_offset=-2, store_timestamp=START)
    raw, rows = walked(first, replace(first, queue_offset=-1), *log, segment=SEGMENT)
    buffers = Buffers(SEGMENT)
    outputs = Outputs(scan_rules(profile("5.3.3"), Settings(), ()), buffers, End())
    ends = QueueEnds(buffers)
    assert list(outputs.dispatch(raw, rows[:2])) == []
    before = np.zeros(COUNT, np.uint8)
    for number, fault in faults.items():
        before[number] = fault
    done, why = dispatch_fresh(
        raw, rows[2:], before, suspect, last, ends.look(), outputs.dispatching
    )  # fmt: skip
    assert why == NONE
    assert buffers.puts.used[0] == 2 + done - (changed.sys_flag == 4 and done > 3)
    return int(done)


THIRD = log_of()[3]


@pytest.mark.parametrize(
    ("changed", "behind_a_range", "done"),
    [
        (THIRD, True, 6),
        (replace(THIRD, store_timestamp=START + 1), True, 3),  # older
        (replace(THIRD, store_timestamp=START + 2), True, 6),  # as old
        (replace(THIRD, store_timestamp=START + 1), False, 6),  # nothing was lost: a clock
        (replace(THIRD, queue_offset=2), True, 3),  # its queue has that one
        (replace(THIRD, queue_offset=2), False, 6),
        (replace(THIRD, queue_id=1), True, 3),  # nobody knows its queue
        (replace(THIRD, topic="U"), True, 3),
        (replace(THIRD, queue_id=1, sys_flag=4), True, 6),  # it goes to no queue
        (replace(THIRD, queue_id=1, sys_flag=8), True, 3),
    ],
)
def test_a_row_behind_a_range_that_may_be_stale_is_left_to_others(
    changed: Message, behind_a_range: bool, done: int
) -> None:
    assert dispatched(changed, {3: MAGIC} if behind_a_range else {}) == done


def test_the_first_row_may_be_stale_too() -> None:
    assert dispatched(THIRD, {}, suspect=True, last=START) == 6
    assert dispatched(THIRD, {}, suspect=True, last=START + 1) == 0
    assert dispatched(THIRD, {}, suspect=False, last=START + 1) == 6
