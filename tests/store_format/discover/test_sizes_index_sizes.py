"""Slots and entries of index files, of which a file's length alone tells only the sum."""

from typing import Any

import numpy as np
import pytest

from reput.store_format.discover.sizes import ENTRIES, SLOTS, SeenFile, pair_of, seen_index
from tests.store_format.discover.index_files import IndexFile

USUAL = {SLOTS: 5_000_000, ENTRIES: 20_000_000}


def put(slots: int, most: int, count: int) -> IndexFile:
    file = IndexFile(slots, most)
    for n in range(count):
        file.put(f"T#key{n}", 500 + 100 * n)
    return file


def pair(*raws: bytes, **given: int) -> tuple[int, int] | None:
    seen = []
    for raw in raws:

        def read(at: int, buffer: Any, raw: bytes = raw) -> None:
            assert 0 <= at <= at + len(buffer) <= len(raw)
            buffer[:] = np.frombuffer(raw, np.uint8)[at : at + len(buffer)]

        seen.append(seen_index(SeenFile("index/x", len(raw), read)))
    return pair_of(seen, given, USUAL)


@pytest.mark.parametrize(("slots", "most"), [(7, 50), (12, 49), (2, 51), (107, 30)])
@pytest.mark.parametrize("count", [1, 3, 28])
def test_a_files_entries_show_its_slots(slots: int, most: int, count: int) -> None:
    """Of these files the first three are as long as each other."""
    assert pair(put(slots, most, count).raw()) == (slots, most)


def test_a_full_files_header_has_its_number_of_entries() -> None:
    full = put(7, 20, 19)
    assert full.is_full()
    assert pair(full.raw()) == (7, 20)


def test_a_file_without_entries_shows_nothing_and_another_one_does() -> None:
    empty = put(7, 50, 0).raw()
    assert pair(empty) is None
    assert pair() is None
    assert pair(empty, put(7, 50, 2).raw()) == (7, 50)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({SLOTS: 7}, (7, 50)),
        ({ENTRIES: 50}, (7, 50)),
        ({SLOTS: 12, ENTRIES: 49}, (7, 50)),  # what does not fit the content is not taken
        ({SLOTS: 1 << 31, ENTRIES: 1 << 31}, (7, 50)),
        ({ENTRIES: 0}, (7, 50)),
        ({ENTRIES: -1}, (7, 50)),
    ],
)
def test_what_is_given_has_to_fit_the_content(
    given: dict[str, int], found: tuple[int, int]
) -> None:
    assert pair(put(7, 50, 3).raw(), **given) == found


@pytest.mark.parametrize(
    "header",
    [
        {"index_count": 0}, {"index_count": -5}, {"index_count": (1 << 31) - 1}, {"index_count": 5},
        {"begin_physical_offset": 501}, {"end_physical_offset": 699}, {"end_physical_offset": 702},
        {"begin_physical_offset": -1, "end_physical_offset": -1},
    ],
)  # fmt: skip
def test_a_header_that_is_wrong_shows_nothing(header: dict[str, int]) -> None:
    assert pair(put(7, 50, 3).raw(**header)) is None


def test_the_mark_of_reputs_writer_is_one_more_than_the_last_offset() -> None:
    assert pair(put(7, 50, 3).raw(end_physical_offset=701)) == (7, 50)


def test_the_last_entrys_slot_has_to_name_it() -> None:
    raw = bytearray(put(7, 50, 1).raw())
    raw[40 : 40 + 7 * 4] = bytes(7 * 4)
    assert pair(bytes(raw)) is None
