"""Finds the numbers of slots and entries of a store's index files from the files' own content.

A file's length alone is not enough: many pairs of the two give the same length. A full file's
header has the number of entries; any other file is searched for its first entry.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from reput.store_format.derived.index_reader import decode_header
from reput.store_format.files.protocol import Bytes
from reput.store_format.layouts import (
    INDEX_ENTRY,
    INDEX_ENTRY_BYTES,
    INDEX_HEADER_BYTES,
    INDEX_SLOT_BYTES,
)
from reput.store_format.release.settings import SettingError

SLOTS, ENTRIES = "maxHashSlotNum", "maxIndexNum"

Read = Callable[[int, Bytes], None]  # fill a buffer from a place in a file
_WINDOW_ENTRIES = 1 << 20


class SizeDisagrees(SettingError):
    """A file of the store has another size than a setting says; nothing was changed."""


class SeenFile(NamedTuple):
    """A file: its path below the store, its length in bytes, and how it is read."""

    path: str
    length: int
    read: Read


class SeenIndex(NamedTuple):
    """An index file, with fields of its header."""

    file: SeenFile
    begin: int  # beginPhyOffset
    end: int  # endPhyOffset
    next_entry: int  # indexCount


def seen_index(file: SeenFile) -> SeenIndex:
    raw = np.empty(INDEX_HEADER_BYTES, np.uint8)
    file.read(0, raw)
    head = decode_header(raw)
    return SeenIndex(file, head.begin_offset, head.end_offset, head.next_entry)


def _has_entries(seen: SeenIndex) -> bool:
    return seen.next_entry > 1


def pair_of(
    seen: Sequence[SeenIndex], given: Mapping[str, int], otherwise: Mapping[str, int]
) -> tuple[int, int] | None:
    """(slots, entries) that a file's content shows, None where none does."""
    wanted = given.get(ENTRIES, otherwise[ENTRIES])
    usual_slots = given.get(SLOTS, otherwise[SLOTS])
    with_entries = [each for each in seen if _has_entries(each)]
    for each in with_entries:  # try the default or given numbers, and a full file's
        for entries in (wanted, each.next_entry, _entries(each.file.length, usual_slots)):
            slots = _slots(each.file.length, entries)
            if slots is not None and _fits(each, slots):
                return slots, entries
    for each in with_entries:
        for entries in _places(each):
            slots = _slots(each.file.length, entries)
            if slots is not None and _fits(each, slots):
                return slots, entries
    return None


def _slots(length: int, entries: int) -> int | None:
    """How many slots leave room for `entries` entries; None where no number does."""
    rest = length - INDEX_HEADER_BYTES - entries * INDEX_ENTRY_BYTES
    return (
        rest // INDEX_SLOT_BYTES
        if entries > 0 and rest > 0 and rest % INDEX_SLOT_BYTES == 0
        else None
    )


def _entries(length: int, slots: int) -> int:
    """How many whole entries follow `slots` slots."""
    return (length - INDEX_HEADER_BYTES - slots * INDEX_SLOT_BYTES) // INDEX_ENTRY_BYTES


def _places(seen: SeenIndex) -> Iterator[int]:
    """Possible numbers of entries, one for each row in the file that may be the first entry.

    The entries go up to the file's end, so each starts a multiple of its size before the end.
    """
    length = seen.file.length
    whole = (length - INDEX_HEADER_BYTES) // INDEX_ENTRY_BYTES
    for left in range(whole, 0, -_WINDOW_ENTRIES):
        many = min(left, _WINDOW_ENTRIES)
        buffer = np.empty(many * INDEX_ENTRY_BYTES, np.uint8)
        seen.file.read(length - left * INDEX_ENTRY_BYTES, buffer)
        rows = np.frombuffer(buffer, INDEX_ENTRY)
        starts = (rows["physicalOffset"] == seen.begin) & (rows["previous"] == 0)
        for row in np.flatnonzero(starts & (rows["keyHash"] > 0)):
            yield left - int(row) + 1  # entry 0 is before it, and never used


def _fits(seen: SeenIndex, slots: int) -> bool:
    """Whether the first and last entry are in their places if the file has `slots` slots, and a
    slot has the last entry's number.

    The last entry's physicalOffset may be one less than the header's endPhyOffset, where reput's
    writer has left its mark (writer/index_folder).
    """
    at = INDEX_HEADER_BYTES + slots * INDEX_SLOT_BYTES
    last = at + (seen.next_entry - 1) * INDEX_ENTRY_BYTES
    if last + INDEX_ENTRY_BYTES > seen.file.length:
        return False
    rows = [_entry(seen.file, at + INDEX_ENTRY_BYTES), _entry(seen.file, last)]
    slot = np.empty(INDEX_SLOT_BYTES, np.uint8)
    if min(int(row["keyHash"]) for row in rows) < 0:
        return False
    seen.file.read(INDEX_HEADER_BYTES + int(rows[1]["keyHash"]) % slots * INDEX_SLOT_BYTES, slot)
    return (
        int(rows[0]["physicalOffset"]) == seen.begin
        and int(rows[1]["physicalOffset"]) in (seen.end, seen.end - 1)
        and int.from_bytes(slot.tobytes(), "big") == seen.next_entry - 1
    )


def _entry(file: SeenFile, at: int) -> np.void:
    raw = np.empty(INDEX_ENTRY_BYTES, np.uint8)
    file.read(at, raw)
    entry: np.void = np.frombuffer(raw, INDEX_ENTRY, 1)[0]
    return entry
