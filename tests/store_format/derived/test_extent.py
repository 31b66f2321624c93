"""Entries of expired messages at an index file's start, as puts that make the same entries."""

import numpy as np
import pytest

from reput.store_format.derived import extent
from reput.store_format.derived.index_reader import BadIndex
from reput.store_format.files.folder import Folder
from reput.store_format.release.settings import settings_from
from tests.memory_storage import MemoryReader, MemoryStorage
from tests.store_format.derived.made_files import BATCHES, BLANK, QUEUE, batches, entries, index_of

SLOTS = 3
# keyHash, physicalOffset, timeDiff, previous; the first was timed against the file before
ROWS = [(7, 100, 500, 0), (0, 100, 0, 0), (2**31 - 1, 200, 4, 1), (5, 300, 6, 0)]


def index(rows: list[tuple[int, int, int, int]], count: int | None = None) -> MemoryReader:
    raw = index_of([0] * SLOTS, rows, 9, begin=10_250, end=16_777, count=count)
    return MemoryStorage({"f": raw}).open("f")


def puts(log_start: int, count: int | None = None) -> list[tuple[int, int, int]]:
    """(keyHash, physicalOffset, storeTimestamp) of each."""
    found = []
    for some in extent.expired_puts(index(ROWS, count), SLOTS, log_start):
        rows = some.messages[["physicalOffset", "storeTimestamp"]].tolist()
        found += [(int(~h), *row) for h, row in zip(some.hashes, rows, strict=True)]
    return found


def test_the_first_entries_before_the_logs_start() -> None:
    for log_start, count in [(0, 0), (100, 0), (101, 2), (200, 2), (201, 3), (300, 3), (301, 4)]:
        found = puts(log_start)
        assert [(key, at) for key, at, _ in found] == [(row[0], row[1]) for row in ROWS[:count]]
    # The first entry's own time is begin, whatever its timeDiff; the file's last has the end.
    assert [time for _, _, time in puts(300)] == [10_250, 10_250, 14_250]
    assert [time for _, _, time in puts(301)] == [10_250, 10_250, 14_250, 16_777]
    assert [time for _, _, time in puts(999, count=2)] == [10_250]
    for count in [0, 1, -3]:
        assert puts(999, count) == []
        assert not extent.begins_expired(index(ROWS, count), SLOTS, 999)
    assert len(puts(999, count=2**31 - 1)) == 4 + 4  # the room's unused entries are zeros, at 0
    expired = [extent.begins_expired(index(ROWS), SLOTS, start) for start in (100, 101)]
    assert expired == [False, True]
    for first, count, hashes in [(1, 2, [7, 0]), (4, 1, [5]), (1, 0, []), (8, 5, [0]), (9, 5, []),
        (99, 1, []), (1, -1, [])]:  # fmt: skip
        assert extent.entries_at(SLOTS) == 52
        assert extent.index_entries(index(ROWS), SLOTS, first, count)["keyHash"].tolist() == hashes
    raw = index_of([0] * SLOTS, ROWS, 9)[: 52 + 20 * 3 + 19]
    file = MemoryStorage({"f": raw}).open("f")
    assert extent.index_entries(file, SLOTS, 1, 9)["physicalOffset"].tolist() == [100, 100]
    found = [some.messages for some in extent.expired_puts(file, SLOTS, 999)]
    assert np.concatenate(found)["physicalOffset"].tolist() == [100, 100]


# --- Where the queues and the index of a store end, and so where a catch-up goes on.
SETTINGS = settings_from({"maxHashSlotNum": "2", "maxIndexNum": "4"})
FIRST, SECOND = f"{0:020d}", f"{100:020d}"
ROWS_TAIL = [(5, 100, 0, 0), (6, 200, 1, 0), (7, 300, 2, 1)]


def tails(files: dict[str, bytes]) -> list[extent.QueueTail]:
    return list(extent.queue_tails(Folder(MemoryStorage(files), "store")))


def test_queues_and_index_end_after_their_last_entries() -> None:
    files = {f"{QUEUE}/{FIRST}": entries(0, 5), f"{QUEUE}/{SECOND}": entries(5, 7, 100)}
    assert tails(files) == [extent.QueueTail("T", 0, False, 600, 700, 6, 7)]
    del files[f"{QUEUE}/{SECOND}"]
    assert tails(files) == [extent.QueueTail("T", 0, False, 400, 500, 4, 5, may_be_cut=True)]
    raw = batches([(0, 10, 0, 4), (100, 20, 4, 3)], 138)
    assert tails({f"{BATCHES}/{FIRST}": raw}) == [extent.QueueTail("T", 0, True, 100, 200, 7, 2)]
    for raw in [bytes(100), BLANK * 5]:
        found = tails({f"{QUEUE}/{FIRST}": raw})
        assert found == [extent.QueueTail("T", 0, False, -1, -1, may_be_cut=True)]
    names = ("consumequeue/b/0", "consumequeue/a/10", "consumequeue/a/-1", "batchconsumequeue/a/0",
             "consumequeue/a/x", "consumequeue/a/01", "consumequeue/a/2147483648")  # fmt: skip
    found = tails({f"store/{name}/{FIRST}": b"" for name in names})
    assert [(each.topic, each.queue_id, each.batch) for each in found] == [
        ("a", -1, False), ("a", 10, False), ("b", 0, False), ("a", 0, True)]  # fmt: skip

    def queue(place: int, end: int) -> extent.QueueTail:
        return extent.QueueTail("T", 0, False, place, end)

    found = extent.DerivedTail([queue(300, 350), queue(200, 900), queue(-1, -1)], None)
    assert (found.end, found.greatest_offset) == (900, 300)
    nothing = extent.DerivedTail([], None)
    assert (nothing.end, nothing.greatest_offset) == (-1, -1)
    for rows, full in [(2, False), (3, True)]:
        old, new = (f"store/index/2026010100000000{n}" for n in range(2))
        storage = MemoryStorage(
            {old: index_of([0, 0], [], 4), new: index_of([0, 3], ROWS_TAIL[:rows], 4, end=77)}
        )
        found = extent.tail(Folder(storage, "store"), SETTINGS)
        assert found.queues == []
        assert found.newest_index is not None
        header = found.newest_index.header
        assert (found.newest_index.path, found.newest_index.full) == (new, full)
        assert (header.end_timestamp, header.end_offset, header.next_entry) == (
            77, 100 * rows, rows + 1)  # fmt: skip
    assert extent.index_tail(Folder(MemoryStorage(), "store"), SETTINGS) is None
    storage = MemoryStorage({"store/index/20260101000000000": index_of([0], [], 4)})
    with pytest.raises(BadIndex, match="2 slots and 4 entries take 128 bytes"):
        extent.index_tail(Folder(storage, "store"), SETTINGS)
