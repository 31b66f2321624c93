"""How a scan says that a stretch ended: why, where, and whether anything is written after it."""

import numpy as np
import pytest

from reput.store_format.dispatch.scan import (
    FIND_FIRST,
    NONE_FOUND,
    Bytes,
    End,
    Stretch,
    scan,
    scan_rules,
)
from reput.store_format.faults import Fault
from reput.store_format.log.records import RECORD_ROW
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import Settings
from tests.logs import Message, build_log

SEGMENT = 1 << 16


def log_of(count: int) -> bytes:
    messages = [Message(queue_offset=i, body=b"x" * 50) for i in range(count)]
    return build_log(messages, SEGMENT)[0]


def end_of(segment: bytes, start: int = 0, end: int = SEGMENT, first: int = 0) -> End:
    def read(offset: int, buffer: Bytes) -> None:
        buffer[:] = np.frombuffer(segment, np.uint8, len(buffer), offset)

    rules = scan_rules(profile("5.3.3"), Settings(), ())
    *_, last = scan(read, Stretch(0, len(segment), start, end, first), rules)
    assert isinstance(last, End)
    return last


def test_a_tail_of_zeros_ends_the_log() -> None:
    end = end_of(log_of(10))
    assert (end.fault, end.rest_is_zero, end.records) == (Fault.ZEROS, True, 10)


def test_it_does_so_in_a_stretch_that_found_its_first_record() -> None:
    end = end_of(log_of(10), start=1, first=FIND_FIRST)
    assert (end.fault, end.rest_is_zero, end.records) == (Fault.ZEROS, True, 9)


@pytest.mark.parametrize("place", [SEGMENT - 1, SEGMENT // 2])
@pytest.mark.parametrize("first", [0, FIND_FIRST])
def test_a_byte_after_the_end_is_reported(place: int, first: int) -> None:
    segment = bytearray(log_of(10))
    segment[place] = 1
    end = end_of(bytes(segment), start=0 if first == 0 else 1, first=first)
    assert (end.fault, end.rest_is_zero) == (Fault.ZEROS, False)


def test_a_stretch_of_zeros_has_no_record() -> None:
    end = end_of(log_of(10), start=SEGMENT // 2, first=FIND_FIRST)
    assert (end.first, end.next, end.rest_is_zero) == (NONE_FOUND, NONE_FOUND, True)


def test_a_stretch_of_one_long_body_has_no_record_but_is_not_zero() -> None:
    segment = build_log([Message(body=b"y" * 50_000)], SEGMENT)[0]
    end = end_of(segment, start=1000, end=2000, first=FIND_FIRST)
    assert (end.first, end.rest_is_zero) == (NONE_FOUND, False)


def test_a_record_belongs_to_the_stretch_that_it_starts_in() -> None:
    size = end_of(log_of(1)).next
    left = end_of(log_of(10), end=size * 4 - 1)
    right = end_of(log_of(10), start=size * 4 - 1, first=FIND_FIRST)
    assert (left.records, left.next, left.fault) == (4, size * 4, Fault.NONE)
    assert (right.first, right.records) == (size * 4, 6)


def test_a_chain_that_fills_the_segment_without_a_blank_is_the_logs_end() -> None:
    size = end_of(log_of(1)).next
    end = end_of(log_of(10)[: size * 10], end=size * 10)
    assert (end.fault, end.next) == (Fault.SHORT_TAIL, size * 10)


def test_a_fall_of_time_is_no_more_than_a_row_can_say() -> None:
    """Found by a drawn log: the rebuild ended with Python's OverflowError."""
    rows, end = np.zeros(1, RECORD_ROW), End()
    for time in ((1 << 63) - 1, -(1 << 63)):
        rows["storeTimestamp"] = time
        end.count(rows)
    assert end.fell_by == (1 << 63) - 1
