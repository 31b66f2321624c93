"""One queue by position: its ends, its minimum in each release, and queues of batches."""

import pytest

from reput.store_format.derived.queue_files import BadQueue
from reput.store_format.derived.queue_reader import NoEntry, QueueReader
from reput.store_format.files.folder import Folder
from reput.store_format.release.profiles import profile
from tests.store_format.derived.made_files import BATCHES, BLANK, QUEUE, batches, entries, queue_of

FIRST = [(0, 10, 0, 4), (100, 20, 4, 1), (200, 30, 5, 3)]  # positions 0 to 7
SECOND = [(300, 40, 8, 2)]  # and 8, 9
SIZE = 46 * 3


def queue(*files: tuple[int, bytes]) -> QueueReader:
    return QueueReader(Folder(queue_of(*files), QUEUE))


def batch_queue() -> QueueReader:
    files = ((0, batches(FIRST)), (SIZE, batches(SECOND, SIZE)))
    return QueueReader(Folder(queue_of(*files, folder=BATCHES), BATCHES), batch=True)


@pytest.mark.parametrize(
    ("files", "end", "cut"),
    [
        ([], 0, True), ([(0, bytes(100))], 0, True), ([(0, entries(0, 5))], 5, True),
        ([(0, entries(0, 4, 100))], 4, False), ([(0, entries(0, 5)), (100, bytes(100))], 5, True),
        ([(100, entries(5, 6, 100))], 6, False), ([(0, entries(0, 5)), (100, b"")], 5, True),
    ],
)  # fmt: skip
def test_a_full_or_unused_last_file_may_have_had_others_after_it(
    files: list[tuple[int, bytes]], end: int, cut: bool
) -> None:
    found = queue(*files)
    assert (found.maximum(), found.entries_end(), found.may_be_cut()) == (end, end, cut)


@pytest.mark.parametrize(
    ("files", "first"),
    [
        ([], None), ([(0, entries(0, 5))], None), ([(100, entries(5, 10))], 5),
        ([(100, entries(5, 6, 100))], 5), ([(100, BLANK + entries(6, 7, 80))], None),
        ([(100, bytes(100))], None), ([(200, entries(10, 15)), (300, entries(15, 16, 100))], 10),
    ],
)  # fmt: skip
def test_files_may_be_missing_before_one_that_is_not_the_first_and_begins_with_an_entry(
    files: list[tuple[int, bytes]], first: int | None
) -> None:
    found = queue(*files).first_if_cut()
    assert (None if found is None else found.position) == first


def test_a_batch_queue_has_no_pre_blanks() -> None:
    files = queue_of((SIZE, batches(SECOND, SIZE)), folder=BATCHES)
    found = QueueReader(Folder(files, BATCHES), batch=True).first_if_cut()
    assert (found and found.physical_offset) == 300
    assert batch_queue().first_if_cut() is None


def test_a_queue_of_pre_blanks_alone_has_no_last_entry() -> None:
    found = queue((0, (BLANK * 2).ljust(100, b"\0")))
    assert (found.last(), found.maximum(), found.entries_end()) == (None, 0, 2)


@pytest.mark.parametrize("size", [99, 80])
def test_a_file_that_is_shorter_than_others_was_cut(size: int) -> None:
    whole = queue((0, entries(0, 4, 100)))
    whole.refuse_cut(100)
    whole.refuse_cut(0)
    with pytest.raises(BadQueue, match=f"length {size}: the file was cut: others have 100"):
        queue((0, entries(0, 4, 100)[:size])).refuse_cut(100)


@pytest.mark.parametrize(
    ("log_start", "old", "new"),
    [(0, 0, 0), (700, 7, 7), (701, 8, 8), (900, 9, 9), (1000, 0, 0), (1200, 0, 12), (1300, 0, 12)],
)
def test_the_minimum_is_in_the_first_file_or_the_queues_end(
    log_start: int, old: int, new: int
) -> None:
    """Five pre-blanks, then the entries of 500 to 1199; from 5.0.0 on all expired is the end."""
    found = queue((0, BLANK * 5 + entries(5, 10)), (200, entries(10, 12, 200)))
    assert found.minimum(log_start, profile("4.9.7")) == old
    assert found.minimum(log_start, profile("5.0.0")) == new
    assert queue().minimum(log_start, profile("5.0.0")) == 0


@pytest.mark.parametrize(
    ("log_start", "minimum"), [(0, 0), (1, 4), (100, 4), (101, 5), (200, 5), (201, 8), (999, 8)]
)
def test_the_minimum_of_a_batch_queue_is_a_batchs_first_message(
    log_start: int, minimum: int
) -> None:
    assert batch_queue().minimum(log_start, profile("5.3.3")) == minimum


def test_an_empty_batch_queue_has_no_minimum() -> None:
    for files in ((), ((0, bytes(46)),)):
        found = QueueReader(Folder(queue_of(*files, folder=BATCHES), BATCHES), batch=True)
        assert (found.minimum(0, profile("5.3.3")), found.maximum()) == (-1, 0)


def test_a_batch_has_all_of_its_positions() -> None:
    found = batch_queue()
    assert [found.entry(n).position for n in range(10)] == [0, 0, 0, 0, 4, 5, 5, 5, 8, 8]
    assert (found.maximum(), found.entries_end()) == (10, 4)
    assert [each.position for each in found.entries(2, 5)] == [0, 4]
    assert [each.position for each in found.entries(4, 8)] == [4, 5]
    for position in (-1, 10):
        with pytest.raises(NoEntry, match=r"not in the queue, \[0, 10\)"):
            found.entry(position)


def test_arrays_leave_pre_blanks_out_and_check_nothing() -> None:
    found = queue((0, BLANK * 2 + entries(2, 5)), (100, entries(5, 6, 100)))
    tags = [[int(row["tagsCode"]) for row in rows] for rows in found.arrays(0)]
    assert tags == [[2, 3, 4], [5]]
    assert [len(rows) for rows in found.arrays(4)] == [1, 1]
    assert [len(rows) for rows in batch_queue().arrays(5)] == [1, 1]
    assert list(found.arrays(6)) == []
