"""Reads index files: header, sizes, slots and chains as values, the look-up by key, and how full
they are.

A look-up reads a header, a slot and the entries of one chain, never a whole file. The rules are
those of IndexFile.selectPhyOffset and IndexService.queryOffset. An entry has only its key's hash,
so a hit may belong to another key with the same hash; only the message's record has the key.
"""

from collections.abc import Iterator
from itertools import count, takewhile
from typing import Any, NamedTuple

import numpy as np

from reput.store_format import layouts
from reput.store_format.derived.index_header import (
    IndexHeader,
    index_by_name,
    newest_first,
    read_header,
)
from reput.store_format.faults import StoreError
from reput.store_format.files.folder import Folder
from reput.store_format.files.protocol import Bytes, FileState, InputStorage, Reader
from reput.store_format.java import hash_text
from reput.store_format.names import INDEX
from reput.store_format.release.settings import Settings

# ---
# How large an index file is, and how many entries it holds.


def capacity(max_index_num: int) -> int:
    """Entries that a file holds: entry 0 is never used."""
    return max_index_num - 1


def file_bytes(max_hash_slot_num: int, max_index_num: int) -> int:
    return (
        layouts.INDEX_HEADER_BYTES
        + max_hash_slot_num * layouts.INDEX_SLOT_BYTES
        + max_index_num * layouts.INDEX_ENTRY_BYTES
    )


MOST_HITS = 64  # maxMsgsNumBatch: a broker returns no more for a query


class BadIndex(StoreError):
    """An index file holds an impossible value: has file, offset, field, value and reason."""

    def __init__(self, path: str, offset: int, field: str, value: int, reason: str) -> None:
        self.path, self.offset, self.field = path, offset, field
        self.value, self.reason = value, reason
        super().__init__(f"{path}: offset {offset}: {field} {value}: {reason}")


class IndexEntry(NamedTuple):
    """One key of one message. previous: the number of the entry before it in the same slot."""

    number: int
    key_hash: int
    physical_offset: int
    time_diff: int  # whole seconds after the file's beginTimestamp
    previous: int  # 0 for none


class Hit(NamedTuple):
    """A message whose key has the hash that was asked for."""

    physical_offset: int
    timestamp: int  # ms: its store time, rounded down to whole seconds after the file's begin
    file: str


class FoundHits(NamedTuple):
    """What a query found, newest first, as IndexService does (a broker then sorts them)."""

    hits: list[Hit]
    cut: bool  # the limit was reached; a query with a lower `end` may find older ones
    last_timestamp: int  # endTimestamp of the newest file, 0 for none
    last_offset: int  # its endPhyOffset


def key_hash(topic: str, key: str) -> int:
    """The keyHash of an entry for this key (IndexFile.indexKeyHashMethod of topic#key)."""
    hashed = hash_text(f"{topic}#{key}")
    return 0 if hashed == -(1 << 31) else abs(hashed)


def may_lie_within(number: Any, time: Any, begin: int | None, end: int | None) -> Any:
    """Whether the message of an entry may be stored in [begin, end], milliseconds.

    number, time: of the entry, or arrays for many entries. An entry's time has whole seconds: it
    counts if a part of its second lies within. A file's first entry always counts: its time is
    measured against the file before.
    """
    late_enough = begin is None or time + 999 >= begin
    early_enough = end is None or time <= end
    return (number == 1) | (late_enough & early_enough)


class IndexFileReader:
    """One index file of `slots` slots and room for `most` entries; the first is never used."""

    def __init__(
        self,
        storage: InputStorage,
        path: str,
        slots: int,
        most: int,
        state: FileState | None = None,
    ) -> None:
        """Open the file. Raises BadIndex where it has another length than these sizes make."""
        self.path, self.slots, self.most = path, slots, most
        self._reader: Reader = storage.open(path, state)
        length, wanted = self._reader.state.size, file_bytes(slots, most)
        if length != wanted:
            self._reader.close()
            raise BadIndex(
                path, 0, "length", length, f"{slots} slots and {most} entries take {wanted} bytes"
            )
        self.read_header()

    def __enter__(self) -> "IndexFileReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Raises StoreChanged where it was changed meanwhile."""
        self._reader.close()

    def read_header(self) -> None:
        """Read the header again: a broker may have put more entries meanwhile."""
        self.header = read_header(self._reader)

    def slot(self, number: int) -> int:
        """The newest entry's number in a slot, 0 for none."""
        return int.from_bytes(
            self._bytes(self._slot_at(number), layouts.INDEX_SLOT_BYTES), signed=True
        )

    def entry(self, number: int) -> IndexEntry:
        """Entry `number`, from 1 on. Raises BadIndex where no entry can be."""
        if not 0 < number < self.most:
            at = self._entry_at(max(min(number, self.most - 1), 0))
            raise BadIndex(self.path, at, "entry", number, f"not in 1..{self.most - 1}")
        raw = self._bytes(self._entry_at(number), layouts.INDEX_ENTRY_BYTES)
        return IndexEntry(number, *np.frombuffer(raw, layouts.INDEX_ENTRY)[0].item())

    def entries_at(self, number: int, count: int) -> Any:
        """Entries [number, number + count), as an array of INDEX_ENTRY."""
        raw = np.empty(count * layouts.INDEX_ENTRY_BYTES, np.uint8)
        self.read_entries(number, raw)
        return raw.view(layouts.INDEX_ENTRY)

    def read_slots(self, number: int, buffer: Bytes) -> None:
        """Fill the buffer with the slots from `number` on (INDEX_SLOT)."""
        self._reader.read_into(self._slot_at(number), buffer)

    def read_entries(self, number: int, buffer: Bytes) -> None:
        """Fill the buffer with the entries from `number` on (INDEX_ENTRY)."""
        self._reader.read_into(self._entry_at(number), buffer)

    def chain(self, hashed: int) -> Iterator[IndexEntry]:
        """The entries in the slot of a keyHash, newest to oldest, with those of other keys.

        Raises BadIndex where the chain does not lead back to an entry in use of this slot: older
        entries cannot be reached then.
        """
        slot = hashed % self.slots
        number, at, field = self.slot(slot), self._slot_at(slot), "slot"
        if number >= self.header.next_entry:
            self.read_header()
        before = max(min(self.header.next_entry, self.most), 1)
        while number:
            if not 0 < number < before:
                reason = f"not in 0..{before - 1}: the chain does not lead back"
                raise BadIndex(self.path, at, field, number, reason)
            entry, at = self.entry(number), self._entry_at(number)
            if entry.key_hash % self.slots != slot:
                reason = f"belongs to another slot than {slot}, whose chain leads there"
                raise BadIndex(self.path, at, "keyHash", entry.key_hash, reason)
            yield entry
            before, number, field = number, entry.previous, "previous"

    def chain_as_broker(self, hashed: int) -> Iterator[IndexEntry]:
        """The chain as IndexFile.selectPhyOffset follows it: an entry number below 0, above
        indexCount or of the entry itself ends the chain without a word.

        Raises BadIndex where the chain leads forward: a broker's look-up may never end there.
        """
        slot = hashed % self.slots
        number, at, field = self.slot(slot), self._slot_at(slot), "slot"
        before = self.most
        while 0 < number <= self.header.next_entry and self.header.next_entry > 1:
            if number >= before:
                reason = f"not below {before}: the chain does not lead back"
                raise BadIndex(self.path, at, field, number, reason)
            entry, at = self.entry(number), self._entry_at(number)
            yield entry
            if entry.previous == number:
                return
            before, number, field = number, entry.previous, "previous"

    def timestamp(self, entry: IndexEntry) -> int:
        """An entry's store time in milliseconds, rounded down to whole seconds after begin."""
        return self.header.begin_timestamp + entry.time_diff * 1000

    def select(self, hashed: int, begin: int, end: int) -> Iterator[Hit]:
        """The entries of a keyHash with a time in [begin, end], newest to oldest.

        As IndexFile.selectPhyOffset: the first entry that is older than `begin` ends the search.
        """
        for entry in self.chain_as_broker(hashed):
            if entry.time_diff < 0:
                return
            time = self.timestamp(entry)
            if entry.key_hash == hashed and begin <= time <= end:
                yield Hit(entry.physical_offset, time, self.path)
            if time < begin:
                return

    def _slot_at(self, number: int) -> int:
        return layouts.INDEX_HEADER_BYTES + number * layouts.INDEX_SLOT_BYTES

    def _entry_at(self, number: int) -> int:
        return self._slot_at(self.slots) + number * layouts.INDEX_ENTRY_BYTES

    def _bytes(self, at: int, length: int) -> bytes:
        buffer = np.empty(length, np.uint8)
        self._reader.read_into(at, buffer)
        return buffer.tobytes()


class IndexReader:
    """All index files of a store, newest first by the log, listed once when the reader is made.

    A header is only read of files whose names leave open which is the newer one: a query that the
    newest file answers asks for no other, except for those made within hours of it.
    """

    def __init__(self, store: Folder, settings: Settings) -> None:
        """settings: for maxHashSlotNum and maxIndexNum. A store need not have index files."""
        self.storage = store.storage
        self.slots, self.most = settings.max_hash_slot_num, settings.max_index_num
        self._folder, self._states = f"{store}/{INDEX}", dict[str, FileState]()
        for name, state in index_by_name(store):
            if state is None:
                raise BadIndex(f"{self._folder}/{name}", 0, "file", 0, "is not a regular file")
            self._states[name] = state
        self._newest_first = newest_first(store, list(self._states))
        self._known: list[tuple[str, FileState]] = []  # the first of them

    @property
    def files(self) -> list[tuple[str, FileState]]:
        """The path and the state of every file, newest first."""
        self._has(len(self._states))
        return self._known

    def _has(self, number: int) -> bool:
        while number >= len(self._known) and (name := next(self._newest_first, None)) is not None:
            self._known.append((f"{self._folder}/{name}", self._states[name]))
        return number < len(self._known)

    def _numbers(self) -> Iterator[int]:
        return takewhile(self._has, count())

    def open(self, number: int) -> IndexFileReader:
        """File `number`, 0 being the newest."""
        self._has(number)
        path, state = self._known[number]
        return IndexFileReader(self.storage, path, self.slots, self.most, state)

    def query(
        self, topic: str, key: str, limit: int, begin: int, end: int, most: int = MOST_HITS,
        until: int | None = None,
    ) -> FoundHits:  # fmt: skip
        """At most min(limit, most) hits with a time in [begin, end] (IndexService.queryOffset).

        Only a hit's record shows whether the hit is of this key or of one with the same hash. most:
        maxMsgsNumBatch. until: the index has no entries from this physical offset on.
        """
        limit = min(limit, most)
        hits: list[Hit] = []
        last_timestamp = last_offset = 0
        for number in self._numbers():
            with self.open(number) as file:
                header = file.header
                if number == 0:
                    last_timestamp, last_offset = header.end_timestamp, header.end_offset
                if header.matches(begin, end) and len(hits) < limit:
                    for hit in file.select(key_hash(topic, key), begin, end):
                        if until is not None and hit.physical_offset >= until:
                            continue
                        hits.append(hit)
                        if len(hits) >= limit:
                            break
            if header.begin_timestamp < begin or len(hits) >= limit:
                break
        return FoundHits(hits, len(hits) >= limit, last_timestamp, last_offset)

    def last_before(self, until: int) -> int:
        """The last physical offset before `until` that has an entry; -1 where there is none."""
        for number in self._numbers():
            with self.open(number) as file:
                low, high = 0, file.header.entries  # entries up to `low` are before `until`
                while low < high:
                    middle = (low + high + 1) // 2
                    if file.entry(middle).physical_offset < until:
                        low = middle
                    else:
                        high = middle - 1
                if low:
                    return file.entry(low).physical_offset
        return -1

    def all_hits(
        self, topic: str, key: str, begin: int | None = None, end: int | None = None
    ) -> Iterator[Hit]:
        """Every hit, newest to oldest, without limits. begin, end: ms; see `may_lie_within`."""
        hashed = key_hash(topic, key)
        for number in self._numbers():
            with self.open(number) as file:
                for entry in file.chain(hashed):
                    if entry.key_hash != hashed:
                        continue
                    time = file.timestamp(entry)
                    if may_lie_within(entry.number, time, begin, end):
                        yield Hit(entry.physical_offset, time, file.path)


# ---
# How full an index file is, and how long the chains of its slots are.
#
# A look-up reads a slot and then the entries of its chain one by one, each somewhere else in the
# file (IndexFile.selectPhyOffset): long chains are what makes queries by key slow.

_WINDOW = 1 << 16  # entries
_SLOTS_MOST = 1 << 26  # with more slots chains are not counted: a store may be hostile


class IndexFileStats(NamedTuple):
    """One index file. Lengths are numbers of entries."""

    path: str
    header: IndexHeader
    slots: int
    room: int  # entries that the file can hold
    chains: dict[int, int]  # power of two -> slots whose chain has that many entries up to the next
    longest: int  # 0: not counted


def index_stats(file: IndexFileReader) -> IndexFileStats:
    """Read a file's entries once; holds 4 bytes a slot. Raises BadIndex, OSError."""
    room = file.most - 1
    entries = min(file.header.entries, room)
    if not entries or file.slots > _SLOTS_MOST:
        return IndexFileStats(file.path, file.header, file.slots, room, {}, 0)
    lengths = np.zeros(file.slots, np.int32)
    buffer = np.empty(_WINDOW * layouts.INDEX_ENTRY_BYTES, np.uint8)
    for first in range(1, entries + 1, _WINDOW):
        part = buffer[: min(_WINDOW, entries + 1 - first) * layouts.INDEX_ENTRY_BYTES]
        file.read_entries(first, part)
        hashes = part.view(layouts.INDEX_ENTRY)["keyHash"].astype(np.int32)
        np.add.at(lengths, hashes % np.int32(file.slots), np.int32(1))
    # a length has as many bits as the power of two that is not above it, and one bit more
    bits = np.bincount(np.frexp(lengths.astype(np.float64))[1])
    chains = {1 << n >> 1: many for n, many in enumerate(bits.tolist()) if many and n}
    return IndexFileStats(file.path, file.header, file.slots, room, chains, int(lengths.max()))
