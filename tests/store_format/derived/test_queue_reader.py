"""One queue by position: its ends, its minimum in each release, and queues of batches."""

import pytest

from reput.store_format.derived.queue_files import BadQueue, QueueFiles
from reput.store_format.derived.queue_reader import Boundary, NoEntry, QueueReader, position_at
from reput.store_format.files.folder import Folder
from reput.store_format.files.protocol import FileState
from reput.store_format.release.profiles import profile
from tests.logs import Message, build_log
from tests.logs.damage import record_places
from tests.memory_storage import MemoryStorage
from tests.store_format.derived.made_files import (
    BATCHES,
    BLANK,
    ENTRY,
    QUEUE,
    batches,
    entries,
    queue_of,
)
from tests.store_format.log.windows import reader_of

FIRST = [(0, 10, 0, 4), (100, 20, 4, 1), (200, 30, 5, 3)]  # positions 0 to 7
SECOND = [(300, 40, 8, 2)]  # and 8, 9
SIZE = 46 * 3


def queue(*files: tuple[int, bytes]) -> QueueReader:
    return QueueReader(Folder(queue_of(*files), QUEUE))


def batch_queue() -> QueueReader:
    files = ((0, batches(FIRST)), (SIZE, batches(SECOND, SIZE)))
    return QueueReader(Folder(queue_of(*files, folder=BATCHES), BATCHES), batch=True)


def test_files_may_be_missing_at_either_end() -> None:
    for files, end, cut in [([], 0, True), ([(0, bytes(100))], 0, True),
        ([(0, entries(0, 5))], 5, True), ([(0, entries(0, 4, 100))], 4, False),
        ([(0, entries(0, 5)), (100, bytes(100))], 5, True), ([(100, entries(5, 6, 100))], 6, False),
        ([(0, entries(0, 5)), (100, b"")], 5, True)]:  # fmt: skip
        found = queue(*files)
        assert (found.maximum(), found.entries_end(), found.may_be_cut()) == (end, end, cut)
    found = queue((0, (BLANK * 2).ljust(100, b"\0")))
    assert (found.last(), found.maximum(), found.entries_end()) == (None, 0, 2)
    for size in [99, 80]:
        whole = queue((0, entries(0, 4, 100)))
        whole.refuse_cut(100)
        whole.refuse_cut(0)
        with pytest.raises(BadQueue, match=f"length {size}: was cut: others have 100"):
            queue((0, entries(0, 4, 100)[:size])).refuse_cut(100)
    for files, first in [([], None), ([(0, entries(0, 5))], None), ([(100, entries(5, 10))], 5),
        ([(100, entries(5, 6, 100))], 5), ([(100, BLANK + entries(6, 7, 80))], None),
        ([(100, bytes(100))], None),
        ([(200, entries(10, 15)), (300, entries(15, 16, 100))], 10)]:  # fmt: skip
        found = queue(*files).first_if_cut()
        assert (None if found is None else found.position) == first
    files = queue_of((SIZE, batches(SECOND, SIZE)), folder=BATCHES)
    found = QueueReader(Folder(files, BATCHES), batch=True).first_if_cut()
    assert (found and found.physical_offset) == 300
    assert batch_queue().first_if_cut() is None
    found = queue((0, BLANK * 2 + entries(2, 5)), (100, entries(5, 6, 100)))
    tags = [[int(row["tagsCode"]) for row in rows] for rows in found.arrays(0)]
    assert tags == [[2, 3, 4], [5]]
    assert [len(rows) for rows in found.arrays(4)] == [1, 1]
    assert [len(rows) for rows in batch_queue().arrays(5)] == [1, 1]
    assert list(found.arrays(6)) == []


@pytest.mark.parametrize(
    ("log_start", "old", "new"),
    [(0, 0, 0), (700, 7, 7), (701, 8, 8), (900, 9, 9), (1000, 0, 0), (1200, 0, 12), (1300, 0, 12)],
)
def test_the_minimum_is_in_the_first_file_or_the_queues_end(log_start, old, new) -> None:
    """Five pre-blanks, then the entries of 500 to 1199; from 5.0.0 on all expired is the end."""
    found = queue((0, BLANK * 5 + entries(5, 10)), (200, entries(10, 12, 200)))
    assert found.minimum(log_start, profile("4.9.7")) == old
    assert found.minimum(log_start, profile("5.0.0")) == new
    assert queue().minimum(log_start, profile("5.0.0")) == 0


def test_the_minimum_of_a_batch_queue_is_a_batchs_first_message() -> None:
    for log_start, minimum in [(0, 0), (1, 4), (100, 4), (101, 5), (200, 5), (201, 8), (999, 8)]:
        assert batch_queue().minimum(log_start, profile("5.3.3")) == minimum
    for files in ((), ((0, bytes(46)),)):
        found = QueueReader(Folder(queue_of(*files, folder=BATCHES), BATCHES), batch=True)
        assert (found.minimum(0, profile("5.3.3")), found.maximum()) == (-1, 0)
    found = batch_queue()
    assert [found.entry(n).position for n in range(10)] == [0, 0, 0, 0, 4, 5, 5, 5, 8, 8]
    assert (found.maximum(), found.entries_end()) == (10, 4)
    assert [each.position for each in found.entries(2, 5)] == [0, 4]
    assert [each.position for each in found.entries(4, 8)] == [4, 5]
    for position in (-1, 10):
        with pytest.raises(NoEntry, match=r"not in the queue, \[0, 10\)"):
            found.entry(position)


# --- A queue by time: the entry before or after, or the nearest, as the releases search for it.
TIMES = [10, 20, 20, 20, 30, 50, 50, 60]  # five in the first file, three in the second
SEGMENT = 400  # four records of 92 bytes
LOG = build_log([Message(store_timestamp=time) for time in TIMES], SEGMENT)
LOWER, UPPER = Boundary.LOWER, Boundary.UPPER


class Changed(MemoryStorage):
    """Queue files that were changed at 35 ms and at 65 ms."""

    def _state(self, path: str) -> FileState | None:
        state = super()._state(path)
        return state and state._replace(mtime=35_000_000 if path.endswith("0" * 20) else 65_000_000)


def queue_times() -> QueueFiles:
    raw = [ENTRY.pack(place, 92, 0) for place in record_places(LOG)]
    files = ((0, b"".join(raw[:5])), (100, b"".join(raw[5:]).ljust(100, b"\0")))
    return QueueFiles(Folder(Changed(queue_of(*files).files), QUEUE))


def found(time: int, boundary: Boundary, release: str, minimum: int = 0, log_start: int = 0) -> int:
    log, _ = reader_of({start: raw for start, raw in LOG.items() if start >= log_start})
    with log:
        return position_at(queue_times(), time, boundary, log, profile(release), minimum)


def test_a_time_is_found_by_store_times_and_before_5_1_1_by_the_files() -> None:
    # In a gap LOWER is the entry after, UPPER the one before; past the end max + 1.
    for time, lower, upper in [(5, 0, 0), (10, 0, 0), (15, 1, 0), (20, 1, 3), (25, 4, 3),
        (30, 4, 4), (40, 5, 4), (50, 5, 6), (55, 7, 6), (60, 7, 7), (61, 8, 7)]:  # fmt: skip
        assert found(time, LOWER, "5.1.1") == lower
        assert found(time, UPPER, "5.1.1") == upper
    # A tie goes to the left; of equal times it is where the bisection ends.
    for time, nearest in [(5, 0), (14, 0), (15, 0), (16, 1), (20, 2), (25, 3), (26, 4), (34, 4),
        (36, 5), (54, 6), (56, 7), (70, 7)]:  # fmt: skip
        for boundary in (LOWER, UPPER):
            assert found(time, boundary, "5.1.0") == nearest
    # The log begins with the fifth record.
    assert found(15, LOWER, "5.3.3", log_start=SEGMENT) == 4
    assert found(31, UPPER, "5.3.3", log_start=SEGMENT) == 4
    assert found(15, LOWER, "5.1.0", log_start=SEGMENT) == 4
    assert found(20, LOWER, "5.3.3", minimum=3) == 3
    assert found(15, LOWER, "5.3.3", minimum=3) == 0  # the file's start: minLogicOffset is not
    assert found(15, LOWER, "5.1.0", minimum=3) == 3
    log, _ = reader_of(LOG)
    for release in ("5.1.0", "5.3.3"):
        empty = QueueFiles(Folder(queue_of(), QUEUE))
        assert position_at(empty, 20, LOWER, log, profile(release), 0) == 0


@pytest.mark.parametrize("release", ["4.9.7", "5.1.0"])
def test_a_file_whose_entries_have_all_expired_has_the_one_before_it_or_0(release: str) -> None:
    """There rightOffset stays -1, and that counts bytes: (0 - 1) / 20 is 0 in Java, (100 - 1) / 20
    is 4.
    """
    log, _ = reader_of({4 * SEGMENT: LOG[0]})
    with log:
        for start, wanted in ((0, 0), (100, 4)):
            raw = b"".join(ENTRY.pack(100 * n, 92, 0) for n in range(3)).ljust(100, b"\0")
            expired = QueueFiles(Folder(Changed(queue_of((start, raw)).files), QUEUE))
            assert position_at(expired, 20, LOWER, log, profile(release), 0) == wanted


@pytest.mark.parametrize(("time", "old", "upper"), [
    (9, -1, -1), (10, 0, 0), (15, 3, -1), (20, 3, 6), (25, 9, 9), (30, 9, 9), (40, 9, 9),
    (50, 12, 12)])  # fmt: skip
def test_a_batch_queue_has_the_base_of_a_batch(time: int, old: int, upper: int) -> None:
    """UPPER counts from 5.1.4 on; -1 before all batches, and for UPPER in a gap that
    binarySearchRight leaves to the left.
    """
    rows = [(0, 10, 0, 3), (100, 20, 3, 3), (200, 20, 6, 3), (300, 30, 9, 3)]
    files = ((0, batches(rows)), (184, batches([(400, 50, 12, 1)], 184)))
    storage = queue_of(*files, folder=BATCHES)
    log, _ = reader_of(LOG)

    def at(boundary: Boundary, release: str) -> int:
        made = QueueFiles(Folder(storage, BATCHES), batch=True)
        return position_at(made, time, boundary, log, profile(release), 0)

    assert at(LOWER, "5.1.3") == at(UPPER, "5.1.3") == at(LOWER, "5.3.3") == old
    assert at(UPPER, "5.3.3") == upper
