"""An index file of a tiered store item by item, and what is no such file."""

import struct
from typing import Any

import pytest

from reput.store_format.describe.files import describe_tiered_index

WRITTEN, COMPACTED = 0xBCC50289, 0xBCC50285  # docs/formats/tiered.md
ITEMS = [(14, 1, 0, 200, 90, -66), (15, 1, 2, 100, 80, 0), (8, 2, 0, 300, 70, 5)]


def a_file(magic: int = COMPACTED, count: int = 3, slots: int = 7) -> bytes:
    raw = struct.pack(">Iqqii", magic, 1000, 2000, 3, count) + bytes(8 * slots)
    return raw + b"".join(struct.pack(">iiiqii", *item) for item in ITEMS)


def described(raw: bytes, first: int = 0) -> list[dict[str, Any]]:
    def read(at: int, buffer: Any) -> None:
        buffer[:] = memoryview(raw)[at : at + len(buffer)]

    return list(describe_tiered_index(read, len(raw), first))


def test_a_compacted_file_is_its_header_and_items() -> None:
    header, *entries = described(a_file())
    assert (header["beginTimestamp"], header["endTimestamp"]) == (1000, 2000)
    assert (header["hashSlotCount"], header["indexItemCount"]) == (3, 3)
    behind_slots = 28 + 7 * 8
    assert [(item["number"], item["at"], item["slot"]) for item in entries] == [
        (0, behind_slots, 0), (1, behind_slots + 28, 1), (2, behind_slots + 56, 1),
    ]  # fmt: skip
    names = ("keyHash", "topicId", "queueId", "offset", "size", "timeDiff")
    assert [tuple(item[name] for name in names) for item in entries] == ITEMS


@pytest.mark.parametrize(("first", "numbers"), [(0, [0, 1, 2]), (2, [2]), (3, []), (9, [])])
def test_items_are_shown_from_a_number_on(first: int, numbers: list[int]) -> None:
    items = described(a_file(), first)[1:]
    assert [item["number"] for item in items] == numbers
    assert [item["offset"] for item in items] == [ITEMS[number][3] for number in numbers]


def test_of_a_file_that_is_still_written_only_the_header_is_shown() -> None:
    assert [item["kind"] for item in described(a_file(WRITTEN, count=-1))] == ["header"]


@pytest.mark.parametrize(
    ("raw", "field", "value"),
    [
        (b"", "length", 0),
        (a_file()[:27], "length", 27),
        (a_file()[:28], "indexItemCount", 3),
        (a_file(0xBCC50286), "magic", 0xBCC50286 - (1 << 32)),
        (a_file(count=-1), "indexItemCount", -1),
        (a_file(count=2), "indexItemCount", 2),  # 28 bytes more are no slots of 8
        (a_file(count=5, slots=7), "indexItemCount", 5),  # no byte is left for slots
        (a_file(count=0x7FFFFFFF), "indexItemCount", 0x7FFFFFFF),
        (a_file() + b"x", "indexItemCount", 3),
    ],
)
def test_what_is_no_index_file_is_damage(raw: bytes, field: str, value: int) -> None:
    *_, found = described(raw)
    assert (found["kind"], found["field"], found["value"]) == ("damage", field, value)
    assert all(item["kind"] != "entry" for item in described(raw))


def test_an_empty_file_has_its_header_alone() -> None:
    raw = struct.pack(">Iqqii", COMPACTED, 0, 0, 0, 0) + bytes(8)
    assert [item["kind"] for item in described(raw)] == ["header"]
