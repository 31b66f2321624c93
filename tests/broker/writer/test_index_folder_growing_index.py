"""The index file that grows: its entries, chains and header, as IndexFile.putKey makes them."""

import pytest

from reput.broker.writer.index_folder import GrowingIndex, IndexFolder
from reput.store_format.derived.index_file import NO_MESSAGE, IndexedMessage
from reput.store_format.release.profiles import profile
from tests.broker.writer.index_files import NAMES, SLOTS, T0, holding, index_file, puts, sizes
from tests.faults.memory_files import MemoryFiles

STAGED = ".reput-index"
# slots 1, 1 and 2 of four
FIRST = puts((100, T0, 5), (100, T0, 9), (200, T0 + 1999, 6))
ENTRIES = [(5, 100, 0, 0), (9, 100, 0, 1), (6, 200, 1, 0)]
WHOLE = index_file((T0, T0 + 1999, 100, 200, 2, 4), (0, 2, 3, 0), ENTRIES)


def growing(files: MemoryFiles, release: str = "5.3.3") -> GrowingIndex:
    return GrowingIndex(IndexFolder(files, SLOTS), profile(release), sizes())


def begun(release: str = "5.3.3", *some: object) -> tuple[MemoryFiles, GrowingIndex]:
    files = MemoryFiles()
    index = growing(files, release)
    index.begin(NAMES[0])
    for each in some:
        index.append(each)
    return files, index


def finished(files: MemoryFiles, index: GrowingIndex, marked: bool = False) -> bytes:
    index.finish(marked)
    return files.tree()[f"{STAGED}/{index.name}"]


def test_a_slot_names_its_newest_entry_and_that_the_one_before() -> None:
    files, index = begun("5.3.3", FIRST)
    assert (index.room, index.ended) == (1, (T0 + 1999, 200))
    assert finished(files, index) == WHOLE
    apart, again = begun("5.3.3", FIRST[:1], FIRST[1:2], FIRST[2:])
    assert finished(apart, again) == WHOLE


def test_the_mark_is_one_more_than_the_last_messages_offset() -> None:
    files, index = begun("5.3.3", FIRST)
    assert finished(files, index, True) == index_file(
        (T0, T0 + 1999, 100, 201, 2, 4), (0, 2, 3, 0), ENTRIES
    )


@pytest.mark.parametrize(("release", "used"), [("4.7.0", 3), ("4.7.1", 2)])
def test_up_to_4_7_0_each_put_counts_as_a_slot(release: str, used: int) -> None:
    files, index = begun(release, FIRST)
    assert finished(files, index)[32:36] == used.to_bytes(4, "big")


def test_a_next_files_first_time_is_measured_from_the_end_of_the_file_before() -> None:
    files, index = begun("5.3.3", FIRST)
    index.finish(False)
    index.begin(NAMES[1])
    index.append(puts((300, T0 + 5000, 7), (400, T0 + 6999, 3)))
    assert finished(files, index) == index_file(
        (T0 + 5000, T0 + 6999, 300, 400, 1, 3), (0, 0, 0, 2),
        [(7, 300, 3, 0), (3, 400, 1, 1)],
    )  # fmt: skip


@pytest.mark.parametrize(("release", "count"), [("4.9.7", 0), ("5.0.0", 1)])
def test_a_file_without_entries_keeps_the_end_of_the_file_before(release: str, count: int) -> None:
    files, index = begun(release, FIRST)
    index.finish(False)
    index.begin(NAMES[1])
    end = (T0 + 1999, 200)
    assert (index.room, index.ended) == (4, end)
    assert finished(files, index) == index_file((end[0], end[0], end[1], end[1], 0, count))
    index.wanted = False  # it only holds the mark, which the count tells of
    assert index.header(True) == index_file((end[0], end[0], 200, 201, 0, 1 - count))[:40]


@pytest.mark.parametrize("bad", [0, 5, -5, (1 << 31) - 1])
def test_a_file_that_is_taken_up_is_copied_and_goes_on(bad: int) -> None:
    """A slot's value that is no entry's number counts as 0."""
    files = holding(index_file((T0, T0, 100, 100, 2, 3), (bad, 2, 0, 0), ENTRIES[:2]))
    index = growing(files)
    (header,) = IndexFolder(files, SLOTS).headers()
    index.take_up(header, NO_MESSAGE)
    assert not index.is_staged
    index.append(puts((200, T0 + 1999, 6), (300, T0 + 3000, 8)))
    assert finished(files, index) == index_file(
        (T0, T0 + 3000, 100, 300, 4, 5), (4, 2, 3, 0),
        [*ENTRIES[:2], (6, 200, 1, 0), (8, 300, 3, 0)],
    )  # fmt: skip
    assert index.room == 0


def test_a_full_file_is_taken_up_as_it_is() -> None:
    raw = index_file((T0, T0, 100, 100, 1, 5), (0, 4, 0, 0), [(1, 100, 0, n) for n in range(4)])
    files = holding(raw)
    index = growing(files)
    (header,) = IndexFolder(files, SLOTS).headers()
    index.take_up(header, IndexedMessage(5, 6))
    assert (index.room, index.ended, index.wanted) == (0, (T0, 100), True)
    index.close()
    assert files.tree() == {f"index/{NAMES[0]}": raw}
