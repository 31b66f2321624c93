"""Files of a store described for `dump`: what a file is, and the content of queue, index, tiered
index and small files as items.
"""

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format import names
from reput.store_format.derived.index_file import chain
from reput.store_format.derived.queue_files import entry_bytes, layout_of
from reput.store_format.describe.log import Item, fields_at
from reput.store_format.layouts import (
    CHECKPOINT,
    CHECKPOINT_FILE_BYTES,
    INDEX_ENTRY,
    INDEX_ENTRY_BYTES,
    INDEX_HEADER,
    INDEX_HEADER_BYTES,
    INDEX_SLOT,
    INDEX_SLOT_BYTES,
    MAGIC_BLANK,
    MAGIC_TIERED_INDEX,
    MAGIC_TIERED_INDEX_END,
    MAGIC_V1,
    MAGIC_V2,
    PRE_BLANK,
    RECORD_HEAD,
    TIERED_INDEX_HEADER,
    TIERED_INDEX_ITEM,
    TIERED_INDEX_SLOT,
)
from reput.store_format.log.segments import is_dledger
from reput.store_format.names import (
    is_queue_folder,
    parse_index_name,
    parse_segment_name,
    tiered_start,
)

# ---
# A store's files described for a reader: a file's kind, and its content as items.
#
# An item is a dictionary with its place in the file as `at`. The CommitLog and the IndexFile have
# modules of their own, `log` and `index`.

Bytes = npt.NDArray[np.uint8]
# read(offset in the file, buffer): fills the buffer; raises if the file is too short.
Read = Callable[[int, Bytes], None]

_WINDOW_ENTRIES = 1 << 16
_SMALL_FILE_SHOWN = 4096
_PRE_BLANK = PRE_BLANK.item()
# The entry that ends a compacted topic's queue file that is not full (SparseConsumeQueue).
_END_OF_COMPACTED = (-1, 0, 0, 0, 0, 0, -1, 0)


class FileKind(StrEnum):
    """The kinds of files, by the name of their folder or of the file itself."""

    COMMIT_LOG = names.COMMIT_LOG
    CONSUME_QUEUE = names.CONSUME_QUEUE
    BATCH_CONSUME_QUEUE = names.BATCH_CONSUME_QUEUE
    INDEX = names.INDEX
    TIERED_INDEX = "tieredindex"
    CHECKPOINT = names.CHECKPOINT
    ABORT = names.ABORT
    LOCK = names.LOCK


_TIERED = {
    names.TIERED_LOG: FileKind.COMMIT_LOG,
    names.TIERED_QUEUE: FileKind.CONSUME_QUEUE,
    names.TIERED_INDEX: FileKind.TIERED_INDEX,
}
_QUEUES = {
    names.CONSUME_QUEUE: FileKind.CONSUME_QUEUE,
    names.BATCH_CONSUME_QUEUE: FileKind.BATCH_CONSUME_QUEUE,
    names.COMPACTION_QUEUE: FileKind.BATCH_CONSUME_QUEUE,
    names.COMPACTION_LOG: FileKind.COMMIT_LOG,
}


def kind_of(parts: Sequence[str], head: bytes) -> FileKind | None:
    """The kind of a file by its path's parts and its first bytes; None if neither tells.

    A segment in a folder of another name (several commitlog folders may be configured) is known by
    its magic number. Files of a compacted topic's queue and of a tiered store have the kind of the
    files that they resemble.
    """
    name, folders = parts[-1], list(parts[-4:-1])
    if tiered_start(name) is not None and folders[-1:]:
        return _TIERED.get(folders[-1])
    if name == names.CHECKPOINT and any(each.startswith(names.DLEDGER) for each in folders[-1:]):
        return None  # a text file of the group's member
    if name in (names.CHECKPOINT, names.ABORT, names.LOCK):
        return FileKind(name)
    if _is(parse_index_name, name) and folders[-1:] == [names.INDEX]:
        return FileKind.INDEX
    if not _is(parse_segment_name, name):
        return None
    if len(folders) == 3 and is_queue_folder(folders[2]) and folders[0] in _QUEUES:
        return _QUEUES[folders[0]]
    if folders[-1:] == [names.COMMIT_LOG] or is_dledger(list(parts)):
        return FileKind.COMMIT_LOG
    if len(head) >= RECORD_HEAD.itemsize:
        magic = fields_at(np.frombuffer(head, np.uint8), RECORD_HEAD, 0)["magic"]
        if magic in (MAGIC_V1, MAGIC_V2, MAGIC_BLANK):
            return FileKind.COMMIT_LOG
    return None


def _is(parse: Callable[[str], int], name: str) -> bool:
    try:
        parse(name)
    except ValueError:
        return False
    return True


def first_offset(name: str, head: bytes) -> int:
    """A segment's first physical offset: by its name, or (for a copy) by its first record."""
    if _is(parse_segment_name, name):
        return parse_segment_name(name)
    start = tiered_start(name)
    if start is not None:
        return start
    if len(head) < RECORD_HEAD.itemsize:
        return 0
    first = fields_at(np.frombuffer(head, np.uint8), RECORD_HEAD, 0)
    known = first["magic"] in (MAGIC_V1, MAGIC_V2) and first["physicalOffset"] >= 0
    return int(first["physicalOffset"]) if known else 0


def describe_queue(
    read: Read, length: int, start: int, batch: bool, first: int = 0
) -> Iterator[Item]:
    """The items of a ConsumeQueue segment, from queue position `first` on.

    start: the logical byte offset in its name (its first position is start divided by the entry's
    size). Items, by "kind": entry; end, of a compacted topic's file; preBlank and unused, one for
    each run of such entries, with their number; damage with field, value and reason; rest: bytes
    after the last whole entry. Memory does not depend on the file's length.
    """
    size = entry_bytes(batch)
    layout = layout_of(batch)
    position = start // size
    items = _queue_items(read, length // size, position, layout)
    for item in items:
        if item["position"] + item.get("entries", 1) > first:
            yield item
    rest = length % size
    if rest:
        at = length - rest
        yield {"kind": "rest", "at": at, "position": position + length // size, "bytes": rest}
        if not batch:  # a batch queue's configured size is not rounded to whole entries
            yield _damage(at, "length", length, f"is no multiple of {size}")


def _queue_items(read: Read, count: int, position: int, layout: np.dtype[Any]) -> Iterator[Item]:
    size = layout.itemsize
    fields = layout.names or ()
    buffer = np.empty(_WINDOW_ENTRIES * size, np.uint8)
    run: Item = {}  # unused or pre-blank entries, not yielded yet
    last = -1  # physicalOffset of the last entry
    unused_before = False
    for base in range(0, count, _WINDOW_ENTRIES):
        entries = min(_WINDOW_ENTRIES, count - base)
        window = buffer[: entries * size]
        read(base * size, window)
        if run.get("kind") == "unused" and not window.any():  # as most of a queue's newest file is
            run["entries"] += entries
            continue
        written: list[bool] = (window.reshape(-1, size) != 0).any(axis=1).tolist()
        for i, value in enumerate(window.view(layout).tolist()):
            kind = "entry"
            if not written[i]:
                kind = "unused"
            elif value == _PRE_BLANK and run.get("kind") != "unused" and last < 0:
                kind = "preBlank"
            if run and run["kind"] == kind:
                run["entries"] += 1
                continue
            if run:
                yield run
                unused_before |= run["kind"] == "unused"
                run = {}
            place: Item = {"at": (base + i) * size, "position": position + base + i}
            if value == _END_OF_COMPACTED:
                yield {"kind": "end"} | place
                continue
            if kind != "entry":
                run = {"kind": kind} | place | {"entries": 1}
                continue
            entry = dict(zip(fields, value, strict=True))
            yield {"kind": "entry"} | place | entry
            yield from _queue_damage(place, value, entry, last, unused_before)
            last = max(last, entry["physicalOffset"])
    if run:
        yield run


def _queue_damage(
    place: Item, value: Any, entry: Item, last: int, unused_before: bool
) -> Iterator[Item]:
    """The damage of one entry, if any (ConsumeQueue.recover, getMessage)."""
    field = "physicalOffset"
    if value == _PRE_BLANK:
        field = "size"
        reason = "pre-blank after the first entry: the broker skips what stands behind it"
    elif entry["physicalOffset"] < 0:
        reason = "is negative"
    elif entry["size"] <= 0:
        field, reason = "size", "is not positive"
    elif unused_before:
        reason = "an entry after unused ones"
    elif entry["physicalOffset"] <= last:
        reason = f"is not above the entry's before, {last}: stale, or damaged"
    else:
        return
    yield _damage(place["at"], field, entry[field], reason) | {"position": place["position"]}


def _damage(at: int, field: str, value: int | str, reason: str) -> Item:
    return {"kind": "damage", "at": at, "field": field, "value": value, "reason": reason}


def describe_checkpoint(raw: bytes) -> Iterator[Item]:
    """An item for each field of a checkpoint file, and one for unknown bytes after them."""
    if len(raw) < CHECKPOINT.itemsize:
        yield _damage(0, "length", len(raw), f"a checkpoint has {CHECKPOINT_FILE_BYTES} bytes")
        return
    values = fields_at(np.frombuffer(raw, np.uint8), CHECKPOINT, 0)
    assert CHECKPOINT.fields is not None
    for name, value in values.items():
        yield {"kind": "field", "at": CHECKPOINT.fields[name][1], "name": name, "value": value}
    if len(raw) != CHECKPOINT_FILE_BYTES:
        yield _damage(0, "length", len(raw), f"a checkpoint has {CHECKPOINT_FILE_BYTES} bytes")
    if any(raw[CHECKPOINT.itemsize :]):
        rest = len(raw) - CHECKPOINT.itemsize
        yield {"kind": "unknown", "at": CHECKPOINT.itemsize, "bytes": rest}


def describe_small(kind: FileKind, raw: bytes) -> Iterator[Item]:
    """The files abort (the broker's process id, or empty up to 4.9) and lock (the word `lock`)."""
    text = raw[:_SMALL_FILE_SHOWN].decode("utf-8", "replace")
    yield {"kind": str(kind), "at": 0, "bytes": len(raw), "text": text}
    number = text.isascii() and text.isdigit()
    sound = text in ("", "lock") if kind == FileKind.LOCK else text == "" or number
    if not sound:
        wanted = "`lock`" if kind == FileKind.LOCK else "a process id"
        yield _damage(0, "text", text[:40], f"is neither empty nor {wanted}")


# ---
# An IndexFile described for a reader: its header, its entries, and each slot's chain.
#
# The entries are read once, in order, and put again (IndexFile.putKey). This checks each `previous`
# and the whole slot table. Chains are also followed from the slot back, as by a broker's query.

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
        slots, entries = self.sizes
        yield {"kind": "header", "at": 0, "maxHashSlotNum": slots, "maxIndexNum": entries,
               **self.header}  # fmt: skip
        for name in ("hashSlotCount", "indexCount"):
            if not 0 <= self.header[name] <= entries:
                yield _damage(_header_at(name), name, self.header[name], f"not in 0..{entries}")

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
        slots = self._slots()
        for slot in (np.flatnonzero(slots[first:]) + first).tolist():
            yield from self._chain(slot, int(slots[slot]))

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


# ---
# An index file of a tiered store described for a reader (tieredstore's IndexStoreFile).
#
# A compacted file is shown as its header and items, slot by slot, newest first. Of a file that is
# still written, which is on the broker's own disk, only the header is shown.

_HEADER_BYTES, _ITEM_BYTES = TIERED_INDEX_HEADER.itemsize, TIERED_INDEX_ITEM.itemsize
_ITEMS_AT_ONCE = 1 << 14


def describe_tiered_index(read: Read, length: int, first: int = 0) -> Iterator[Item]:
    """The items of an index file, by "kind": header, entry (from number `first` on), damage.

    read: fills a buffer from an offset in the file. Memory does not depend on the file's length.
    """
    if length < _HEADER_BYTES:
        yield _damage(0, "length", length, f"an index file has {_HEADER_BYTES} bytes or more")
        return
    raw = np.empty(_HEADER_BYTES, np.uint8)
    read(0, raw)
    header = fields_at(raw, TIERED_INDEX_HEADER, 0)
    yield {"kind": "header", "at": 0} | header
    if header["magic"] == MAGIC_TIERED_INDEX:
        return
    if header["magic"] != MAGIC_TIERED_INDEX_END:
        yield _damage(0, "magic", header["magic"], "is not that of an index file")
        return
    count = header["indexItemCount"]
    start = length - count * _ITEM_BYTES
    slots, rest = divmod(start - _HEADER_BYTES, TIERED_INDEX_SLOT.itemsize)
    if count < 0 or slots <= 0 or rest:
        reason = "does not fit the file's length"
        yield _damage(0, "indexItemCount", count, reason)
        return
    yield from _items(read, start, count, slots, first)


def _items(read: Read, start: int, count: int, slots: int, first: int) -> Iterator[Item]:
    names = TIERED_INDEX_ITEM.names or ()
    for number in range(first, count, _ITEMS_AT_ONCE):
        many = min(_ITEMS_AT_ONCE, count - number)
        raw = np.empty(many * _ITEM_BYTES, np.uint8)
        read(start + number * _ITEM_BYTES, raw)
        for i, values in enumerate(raw.view(TIERED_INDEX_ITEM).tolist()):
            fields: dict[str, Any] = dict(zip(names, values, strict=True))
            at = start + (number + i) * _ITEM_BYTES
            place: Item = {"kind": "entry", "number": number + i, "at": at}
            yield place | {"slot": fields["keyHash"] % slots} | fields
