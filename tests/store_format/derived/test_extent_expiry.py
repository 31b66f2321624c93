"""Entries of expired messages at an index file's start, as puts that make the same entries."""

import numpy as np
import pytest

from reput.store_format.derived.extent import (
    begins_expired,
    entries_at,
    expired_puts,
    index_entries,
)
from tests.memory_storage import MemoryReader, MemoryStorage
from tests.store_format.derived.made_files import index_of

SLOTS = 3
# keyHash, physicalOffset, timeDiff, previous; the first was timed against the file before
ROWS = [(7, 100, 500, 0), (0, 100, 0, 0), (2**31 - 1, 200, 4, 1), (5, 300, 6, 0)]


def index(rows: list[tuple[int, int, int, int]], count: int | None = None) -> MemoryReader:
    raw = index_of([0] * SLOTS, rows, 9, begin=10_250, end=16_777, count=count)
    return MemoryStorage({"f": raw}).open("f")


def puts(log_start: int, count: int | None = None) -> list[tuple[int, int, int]]:
    """(keyHash, physicalOffset, storeTimestamp) of each."""
    found = []
    for some in expired_puts(index(ROWS, count), SLOTS, log_start):
        rows = some.messages[["physicalOffset", "storeTimestamp"]].tolist()
        found += [(int(~h), *row) for h, row in zip(some.hashes, rows, strict=True)]
    return found


@pytest.mark.parametrize(
    ("log_start", "count"), [(0, 0), (100, 0), (101, 2), (200, 2), (201, 3), (300, 3), (301, 4)]
)
def test_the_first_entries_before_the_logs_start(log_start: int, count: int) -> None:
    found = puts(log_start)
    assert [(key, at) for key, at, _ in found] == [(row[0], row[1]) for row in ROWS[:count]]


def test_times_are_begin_and_whole_seconds_after_it_and_the_last_is_exact() -> None:
    """The first entry's own time is begin, whatever its timeDiff; the file's last has the end."""
    assert [time for _, _, time in puts(300)] == [10_250, 10_250, 14_250]
    assert [time for _, _, time in puts(301)] == [10_250, 10_250, 14_250, 16_777]


def test_an_only_entry_has_the_time_of_begin() -> None:
    assert [time for _, _, time in puts(999, count=2)] == [10_250]


@pytest.mark.parametrize("count", [0, 1, -3])
def test_a_file_without_entries_has_no_put(count: int) -> None:
    assert puts(999, count) == []
    assert not begins_expired(index(ROWS, count), SLOTS, 999)


def test_a_count_of_more_entries_than_there_is_room_for_ends_with_the_file() -> None:
    assert len(puts(999, count=2**31 - 1)) == 4 + 4  # the room's unused entries are zeros, at 0


def test_a_file_begins_expired_by_its_first_entry() -> None:
    assert [begins_expired(index(ROWS), SLOTS, start) for start in (100, 101)] == [False, True]


@pytest.mark.parametrize(
    ("first", "count", "hashes"),
    [(1, 2, [7, 0]), (4, 1, [5]), (1, 0, []), (8, 5, [0]), (9, 5, []), (99, 1, []), (1, -1, [])],
)
def test_entries_are_read_as_far_as_the_file_has_room(
    first: int, count: int, hashes: list[int]
) -> None:
    assert entries_at(SLOTS) == 52
    assert index_entries(index(ROWS), SLOTS, first, count)["keyHash"].tolist() == hashes


def test_a_file_that_is_cut_has_the_entries_that_are_left() -> None:
    raw = index_of([0] * SLOTS, ROWS, 9)[: 52 + 20 * 3 + 19]
    file = MemoryStorage({"f": raw}).open("f")
    assert index_entries(file, SLOTS, 1, 9)["physicalOffset"].tolist() == [100, 100]
    found = [some.messages for some in expired_puts(file, SLOTS, 999)]
    assert np.concatenate(found)["physicalOffset"].tolist() == [100, 100]
