"""An IndexFile item by item: its header, its entries put again, and each slot's chain."""

import struct
from typing import Any

import pytest

from reput.store_format.describe.files import IndexFileView, IndexSizes, index_sizes

SLOTS, ENTRIES = 3, 6
# hashes of entries 1 to 4: slots 1, 2, 1, 1; so entry 3 follows 1, and 4 follows 3
HASHES, PREVIOUS, NEWEST = (4, 5, 7, 1), (0, 0, 1, 3), (0, 4, 2)


def view(
    previous: tuple[int, ...] = PREVIOUS, newest: tuple[int, ...] = NEWEST,
    slot_count: int = 2, count: int = 5,
) -> IndexFileView:  # fmt: skip
    raw = struct.pack(">qqqqii", 1000, 4000, 0, 300, slot_count, count)
    raw += struct.pack(">3i", *newest) + bytes(20)
    for number, (hashed, before) in enumerate(zip(HASHES, previous, strict=True)):
        raw += struct.pack(">iqii", hashed, number * 100, number, before)
    raw += bytes(20)

    def read(at: int, buffer: Any) -> None:
        buffer[:] = memoryview(raw)[at : at + len(buffer)]

    return IndexFileView(read, index_sizes(len(raw), SLOTS))


def damage(items: Any) -> list[tuple[int, str, int, str]]:
    return [
        (item["at"], item["field"], item["value"], item["reason"])
        for item in items if item["kind"] == "damage"
    ]  # fmt: skip


def test_sizes_follow_from_the_length_and_the_number_of_slots() -> None:
    assert index_sizes(420_000_040, 5_000_000) == IndexSizes(5_000_000, 20_000_000)
    assert index_sizes(40 + 4 + 40, 1) == IndexSizes(1, 2)
    for length in (40 + 4 + 20, 40 + 4 + 41, 0):
        with pytest.raises(ValueError, match="no index file of 1 slots"):
            index_sizes(length, 1)


def test_a_sound_file_has_no_damage() -> None:
    found = view()
    assert (
        damage([*found.describe_header(), *found.describe_entries(), *found.describe_slots()]) == []
    )
    entries = list(found.describe_entries(first=3))
    assert [(item["number"], item["at"], item["slot"]) for item in entries] == [
        (3, 40 + 12 + 60, 1), (4, 40 + 12 + 80, 1),
    ]  # fmt: skip
    slots = list(found.describe_slots())
    assert [(item["slot"], item["at"], item["chain"]) for item in slots] == [
        (1, 44, [4, 3, 1]), (2, 48, [2]),
    ]  # fmt: skip
    assert [item["slot"] for item in found.describe_slots(first=2)] == [2]


def test_up_to_4_7_0_the_slot_count_is_that_of_puts() -> None:
    assert damage(view(slot_count=4).describe_entries()) == []
    ((at, field, value, reason),) = damage(view(slot_count=3).describe_entries())
    assert (at, field, value) == (32, "hashSlotCount", 3)
    assert reason == "2 slots are in use, by 4 entries"


@pytest.mark.parametrize(
    ("count", "numbers", "bad"),
    [(5, [1, 2, 3, 4], 0), (0, [], 0), (7, [1, 2, 3, 4, 5], 1), (-1, [], 1)],
)
def test_a_count_beyond_the_file_is_damage_and_shows_what_is_there(
    count: int, numbers: list[int], bad: int
) -> None:
    found = view(count=count)
    assert len(damage(found.describe_header())) == bad
    shown = [item["number"] for item in found.describe_entries() if item["kind"] == "entry"]
    assert shown == numbers


def test_a_wrong_previous_is_damage_even_before_the_first_entry_shown() -> None:
    assert damage(view((0, 0, 2, 3)).describe_entries(first=5)) == [
        (40 + 12 + 60, "previous", 2, "the entry before in its slot is 1")
    ]


def test_a_slot_without_its_newest_entry_is_damage() -> None:
    found = damage(view(newest=(2, 4, 0)).describe_entries())
    assert [(at, field, value) for at, field, value, _ in found] == [
        (40, "slot", 2),
        (48, "slot", 0),
    ]


@pytest.mark.parametrize(
    ("previous", "newest", "chain", "reason"),
    [
        ((0, 0, 4, 3), (0, 4, 2), [4, 3, 4], "a cycle"),
        ((1, 0, 1, 3), (0, 1, 0), [1], "a cycle"),
        ((0, 0, 2, 3), (0, 4, 2), [4, 3], "entry 2 of another slot"),
        ((0, 0, 5, 3), (0, 4, 2), [4, 3], "entry 5, which is not in use"),
        ((0, 0, -1, 3), (0, 4, 2), [4, 3], "entry -1, which is not in use"),
        ((0, 0, 1, 3), (0, -9, 2), [], "entry -9, which is not in use"),
    ],
)
def test_a_chain_ends_at_what_no_query_should_follow(
    previous: tuple[int, ...], newest: tuple[int, ...], chain: list[int], reason: str
) -> None:
    items = list(view(previous, newest).describe_slots())
    assert items[0]["chain"][: len(chain)] == chain
    ((at, field, value, said),) = damage(items)
    assert (at, field, value) == (44, "chain", newest[1])
    assert reason in said
