"""An IndexFile described for a reader: its header, its entries, and each slot's chain.

The entries are read once, in order, and put again (IndexFile.putKey). This checks each `previous`
and the whole slot table. Chains are also followed from the slot back, as by a broker's query.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format.derived.index_file import chain
from reput.store_format.describe.record import Item, fields_at
from reput.store_format.layouts import (
    INDEX_ENTRY,
    INDEX_ENTRY_BYTES,
    INDEX_HEADER,
    INDEX_HEADER_BYTES,
    INDEX_SLOT,
    INDEX_SLOT_BYTES,
)

Bytes = npt.NDArray[np.uint8]
Read = Callable[[int, Bytes], None]  # as in file_kinds

_WINDOW_ENTRIES = 1 << 16
CHAIN_SHOWN = 16  # most entries of a chain that are listed; all are counted


class IndexSizes(NamedTuple):
    """Numbers of slots, and of entries with the unused first one (maxHashSlotNum, maxIndexNum)."""

    slots: int
    entries: int

    def slot_at(self, slot: int) -> int:
        return INDEX_HEADER_BYTES + slot * INDEX_SLOT_BYTES

    def entry_at(self, number: int) -> int:
        return self.slot_at(self.slots) + number * INDEX_ENTRY_BYTES


def index_sizes(length: int, slots: int) -> IndexSizes:
    """The sizes of a file of `length` bytes with `slots` slots. Raises ValueError."""
    behind_slots = length - INDEX_HEADER_BYTES - slots * INDEX_SLOT_BYTES
    entries, rest = divmod(behind_slots, INDEX_ENTRY_BYTES)
    if entries < 2 or rest:
        raise ValueError(f"{length} bytes are no index file of {slots} slots")
    return IndexSizes(slots, entries)


class IndexFileView:
    """One file, read in ranges. Memory: 8 bytes a slot, and a window."""

    def __init__(self, read: Read, sizes: IndexSizes) -> None:
        self.read, self.sizes = read, sizes
        self.header = fields_at(self._bytes(0, INDEX_HEADER_BYTES), INDEX_HEADER, 0)
        # entries in use: numbers 1 to count - 1. A live file without entries has indexCount 0.
        self.count = min(max(self.header["indexCount"], 1), sizes.entries)

    def _bytes(self, at: int, length: int) -> Bytes:
        buffer = np.empty(length, np.uint8)
        self.read(at, buffer)
        return buffer

    def describe_header(self) -> Iterator[Item]:
        """The header's fields, and damage for impossible values."""
        yield (
            {"kind": "header", "at": 0, "maxHashSlotNum": self.sizes.slots}
            | {"maxIndexNum": self.sizes.entries}
            | self.header
        )
        for name, most in (
            ("hashSlotCount", self.sizes.entries),
            ("indexCount", self.sizes.entries),
        ):
            if not 0 <= self.header[name] <= most:
                yield _damage(_header_at(name), name, self.header[name], f"not in 0..{most}")

    def describe_entries(self, first: int = 1) -> Iterator[Item]:
        """Entries from number `first` on, with their slot, and each wrong `previous`.

        All entries are read, from the first one. At the end come the slots that do not have their
        newest entry, and a hashSlotCount that is neither the number of used slots nor that of puts.
        """
        newest = np.zeros(self.sizes.slots, np.int32)
        for base in range(1, self.count, _WINDOW_ENTRIES):
            size = min(_WINDOW_ENTRIES, self.count - base)
            raw = self._bytes(self.sizes.entry_at(base), size * INDEX_ENTRY_BYTES)
            entries = raw.view(INDEX_ENTRY)
            hashes = entries["keyHash"].astype(np.int32)
            expected = np.empty(size, np.int32)
            chain(hashes, base, self.sizes.slots, 0, newest, expected)
            wrong = entries["previous"] != expected
            if base + size <= first and not wrong.any():
                continue
            for i, (entry, bad) in enumerate(zip(entries.tolist(), wrong.tolist(), strict=True)):
                number, at = base + i, self.sizes.entry_at(base + i)
                if number >= first:
                    yield self._entry(number, at, entry)
                if bad:
                    reason = f"the entry before in its slot is {int(expected[i])}"
                    yield _damage(at, "previous", entry[-1], reason) | {"number": number}
        yield from self._slot_table(newest)

    def _entry(self, number: int, at: int, entry: tuple[int, ...]) -> Item:
        item: Item = {"kind": "entry", "at": at, "number": number}
        item |= dict(zip(INDEX_ENTRY.names or (), entry, strict=True))
        return item | {"slot": item["keyHash"] % self.sizes.slots}

    def _slot_table(self, newest: npt.NDArray[np.int32]) -> Iterator[Item]:
        there = self._slots()
        for slot in np.flatnonzero(there != newest).tolist():
            reason = f"the slot's newest entry is {int(newest[slot])}"
            at = self.sizes.slot_at(slot)
            yield _damage(at, "slot", int(there[slot]), reason) | {"slot": slot}
        used = int(np.count_nonzero(newest))
        # Up to 4.7.0 hashSlotCount grows with every put; then indexCount - 1 is the same number.
        if self.header["hashSlotCount"] not in (used, self.count - 1):
            reason = f"{used} slots are in use, by {self.count - 1} entries"
            value = self.header["hashSlotCount"]
            yield _damage(_header_at("hashSlotCount"), "hashSlotCount", value, reason)

    def _slots(self) -> Any:
        raw = self._bytes(INDEX_HEADER_BYTES, self.sizes.slots * INDEX_SLOT_BYTES)
        return raw.view(INDEX_SLOT)

    def describe_slots(self, first: int = 0) -> Iterator[Item]:
        """Each slot in use from `first` on, with its chain from the newest entry back.

        chain: the first CHAIN_SHOWN entry numbers; entries: how many the chain has. A chain that
        returns to an entry, leaves the entries in use or changes slot is damage.
        """
        slots = self._slots()[first:]
        for slot in (np.flatnonzero(slots) + first).tolist():
            newest = int(slots[slot - first])
            yield from self._chain(slot, newest)

    def _chain(self, slot: int, newest: int) -> Iterator[Item]:
        at = self.sizes.slot_at(slot)
        shown: list[int] = []
        # Brent's search for a cycle: `mark` is set anew after every power of two of steps.
        number, steps, mark, mark_at = newest, 0, 0, 1
        reason = ""
        while number != 0 and not reason:
            if not 0 < number < self.count:
                reason = f"leads to entry {number}, which is not in use"
                break
            if number == mark:
                reason = f"a cycle: comes back to entry {number} after {steps} steps"
                break
            entry = fields_at(
                self._bytes(self.sizes.entry_at(number), INDEX_ENTRY_BYTES), INDEX_ENTRY, 0
            )
            if entry["keyHash"] % self.sizes.slots != slot:
                reason = f"leads to entry {number} of another slot"
                break
            steps += 1
            if steps <= CHAIN_SHOWN:
                shown.append(number)
            if steps == mark_at:
                mark, mark_at = number, 2 * mark_at
            number = entry["previous"]
        item: Item = {"kind": "slot", "at": at, "slot": slot, "newest": newest}
        yield item | {"entries": steps, "chain": shown}
        if reason:
            yield _damage(at, "chain", newest, reason) | {"slot": slot}


def _header_at(name: str) -> int:
    assert INDEX_HEADER.fields is not None
    return int(INDEX_HEADER.fields[name][1])


def _damage(at: int, field: str, value: int, reason: str) -> Item:
    return {"kind": "damage", "at": at, "field": field, "value": value, "reason": reason}
