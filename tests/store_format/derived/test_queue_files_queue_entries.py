"""Entries of both kinds of queues: their fields, and which are used, a message's, or pre-blank."""

import pytest

from reput.store_format.derived.queue_files import (
    QueueEntry,
    decode_entries,
    entry_of,
    is_batch,
    is_message,
    is_pre_blank,
    is_used,
    layout_of,
)
from tests.store_format.derived.made_files import BLANK, ENTRY, batches


def test_an_entry_of_a_queue_has_its_position_from_its_place() -> None:
    raw = bytes.fromhex("00000000000005f8 00000110 ffffffff8027a808")
    (fields,) = decode_entries(raw)
    assert entry_of(fields, 7, batch=False) == QueueEntry(7, 1528, 272, -(0x7FD857F8))


def test_an_entry_of_a_batch_queue_has_its_own_position() -> None:
    (fields,) = decode_entries(batches([(1528, -9, 1 << 40, 32767)]), batch=True)
    assert entry_of(fields, 7, batch=True) == QueueEntry(1 << 40, 1528, 100, 7, 32767, -9)


@pytest.mark.parametrize(("batch", "size"), [(False, 20), (True, 46)])
def test_what_is_left_of_an_incomplete_entry_is_none(batch: bool, size: int) -> None:
    assert layout_of(batch).itemsize == size
    lengths = [len(decode_entries(bytes(n), batch)) for n in (0, size - 1, size, 2 * size - 1)]
    assert lengths == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("place", "size", "used", "message", "blank"),
    [
        (0, 0, False, False, False), (0, 1, True, True, False), (-1, 91, False, True, False),
        (5, -1, False, False, False), (0, 0x7FFFFFFF, True, True, True),
        (1, 0x7FFFFFFF, True, True, False), (1 << 62, 91, True, True, False),
    ],
)  # fmt: skip
def test_which_entries_count(place: int, size: int, used: bool, message: bool, blank: bool) -> None:
    rows = decode_entries(ENTRY.pack(place, size, 0))
    assert (*is_used(rows), *is_message(rows), *is_pre_blank(rows)) == (used, message, blank)


def test_a_pre_blank_is_known_without_its_tags_code() -> None:
    rows = decode_entries(BLANK[:-1] + b"\1" + BLANK)
    assert is_pre_blank(rows).tolist() == [True, True]


def test_the_folder_tells_the_kind_of_a_queue() -> None:
    assert is_batch("batchconsumequeue/T/0")
    assert not is_batch("consumequeue/batchconsumequeue/0")
