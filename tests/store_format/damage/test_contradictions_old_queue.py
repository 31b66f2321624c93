"""The store's own ConsumeQueue as a witness: what it says of each position."""

from typing import Any

import numpy as np
import pytest

from reput.store_format.damage.contradictions import OldQueues, contradictions
from reput.store_format.derived.queue_files import decode_entries
from reput.store_format.files.folder import Folder
from reput.store_format.layouts import QUEUE_ENTRY
from tests.damaged import ENTRY
from tests.memory_storage import MemoryStorage

FOLDER = "store/consumequeue/T/3"
Fields = tuple[int, int, int]


def raw(*entries: Fields) -> bytes:
    return b"".join(ENTRY.pack(*each) for each in entries)


def numbered(first: int, count: int) -> bytes:
    """A message of 100 bytes at each position, at 100 times the position."""
    return raw(*[(100 * n, 100, n) for n in range(first, first + count)])


def old(**files: bytes) -> Any:
    storage = MemoryStorage({f"{FOLDER}/{name}": content for name, content in files.items()})
    return OldQueues(Folder(storage, "store")).of("T", 3)


def sizes(found: Any) -> list[int]:
    return [int(each) for each in found["size"]]


TWO = {f"{100:020d}": numbered(5, 5), f"{200:020d}": numbered(10, 2) + bytes(60)}


@pytest.mark.parametrize(
    ("first", "wanted"),
    [
        (0, [0, 0, 0]),
        (3, [0, 0, 100]),
        (8, [100, 100, 100]),  # over a file's end
        (10, [100, 100, 0]),  # a preallocated tail
        (15, [0, 0, 0]),
        (-2, [0, 0, 0]),
        ((1 << 63) // 20 - 5, [0, 0, 0]),
    ],
)
def test_each_position_has_its_entry_or_none(first: int, wanted: list[int]) -> None:
    found = old(**TWO).at(first, 3)
    assert sizes(found) == wanted
    assert [int(e["physicalOffset"]) for e in found] == [
        100 * (first + n) if size else 0 for n, size in enumerate(wanted)
    ]


def test_what_is_no_message_counts_as_none() -> None:
    content = raw((0, 0x7FFFFFFF, 0), (300, 0, 1), (300, -5, 1), (0, 100, 0)) + b"torn"
    queue = old(**{f"{0:020d}": content, "notes": b"x" * 60, f"{100:020d}": b""})
    assert sizes(queue.at(0, 6)) == [0, 0, 0, 100, 0, 0]


@pytest.mark.parametrize("topic", ["U", "V"])
def test_a_queue_without_a_folder_is_no_witness(topic: str) -> None:
    storage = MemoryStorage({f"{FOLDER}/{0:020d}": numbered(0, 5), "store/consumequeue/U": b""})
    queue = OldQueues(Folder(storage, "store")).of(topic, 3)
    assert not queue.any
    assert sizes(queue.at(0, 2)) == [0, 0]


@pytest.mark.parametrize(
    ("mine", "offset", "numbers"),
    [
        ((700, 100, 7), 7, []),
        ((701, 100, 7), 7, [0]),
        ((700, 101, 7), 7, [0]),
        ((700, 100, -7), 7, [0]),
        ((700, 100, 7), 12, []),  # nothing is said of it
        ((700, 100, 7), -1, []),
        ((700, 100, 7), 1 << 58, []),
        ((700, 100, 7), (1 << 63) - 1, []),
    ],
)
def test_it_contradicts_where_it_has_another_entry(
    mine: Fields, offset: int, numbers: list[int]
) -> None:
    queue = old(**TWO)
    found, said = contradictions(queue, np.array([offset]), decode_entries(raw(mine)))
    assert found.tolist() == numbers
    assert [int(each["physicalOffset"]) for each in said] == [700 for _ in numbers]


def test_scattered_positions_are_each_asked_about() -> None:
    offsets = np.array([11, 1 << 60, 5, -9, 9, 5])
    mine = np.zeros(len(offsets), QUEUE_ENTRY)
    mine["size"] = 100
    found, said = contradictions(old(**TWO), offsets, mine)
    assert found.tolist() == [0, 2, 4, 5]
    assert [int(each["tagsCode"]) for each in said] == [11, 5, 9, 5]
    assert len(contradictions(old(**TWO), offsets[:0], mine[:0])[0]) == 0


@pytest.mark.parametrize("topic", ["", ".", "../consumequeue/T", "a\\b", "T\0", "x" * 256])
def test_a_topic_that_can_be_no_folders_name_has_none(topic: str) -> None:
    storage = MemoryStorage({f"{FOLDER}/{0:020d}": numbered(0, 5)})
    assert not OldQueues(Folder(storage, "store")).of(topic, 3).any
