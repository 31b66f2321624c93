"""Finds records that others contradict in fields without a checksum: their neighbours in the log,
the store's old queue files, and its old index files.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from reput.store_format.derived.index_file import time_diff
from reput.store_format.derived.queue_files import Entries, decode_entries, is_message, is_pre_blank
from reput.store_format.faults import Fault, StoreError
from reput.store_format.files.folder import Folder
from reput.store_format.files.protocol import InputStorage
from reput.store_format.kernels.bytes import get_i64
from reput.store_format.kernels.jit import kernel
from reput.store_format.layouts import (
    CRC_PROPERTY_BYTES,
    PROPERTY_END,
    QUEUE_ENTRY,
    QUEUE_ENTRY_BYTES,
    RECORD_AT,
    TIMESTAMP_BYTES,
)
from reput.store_format.log.records import Bytes, RecordRules, Rows, store_timestamp_at
from reput.store_format.names import (
    BATCH_CONSUME_QUEUE,
    CONSUME_QUEUE,
    QueuePath,
    UnsafeName,
    check_queue_topic,
    segment_start,
)

# ---
# Finds records in which two witnesses contradict a field that no checksum covers.
#
# The neighbours (the records right before and after) mostly have a similar storeTimestamp, the same
# storeHost, and a `__CRC32#` if the record has one. But sound logs also have times that go back,
# messages of several hosts, and records written under another setting. So the neighbours are one
# witness only, and a second one must agree:
#
# - storeTimestamp is not between the neighbours', though one flipped bit would put it there; and
# the   record's bornTimestamp is near the neighbours' times, or damage is right beside the record;
# - storeHost is one bit away from that of the two records before and the two after; and the
# storeTimestamp is doubted too, or damage is right beside the record; - both neighbours have a
# `__CRC32#`, and the record has none; and the bytes there are one bit away   from that name, or
# damage is right beside the record.
#
# Only damaged segments are checked for this (damage/tolerant).

Noted = npt.NDArray[np.int64]  # one row per record, with the columns below
SURE_MS = 1000  # a clock that is corrected by less is no contradiction
_TIME, _HOST, _UNSEALED = int(Fault.TIME), int(Fault.HOST), int(Fault.UNSEALED)
_STORED, _BORN, _STORED_BY, _SEALED, _START, _END, _COLUMNS = range(7)
_HAS_SEAL, _NEARLY, _NO_SEAL = 2, 1, 0
_SEAL = np.frombuffer(b"__CRC32#\x01", np.uint8)


@kernel
def _bits(value: np.int64) -> int:
    found = 0
    while value:
        found += 1
        value &= value - 1
    return found


@kernel
def _sealed(buf: Bytes, start: int, end: int) -> int:
    """Whether properties [start, end) end with a `__CRC32#` (_HAS_SEAL), or are one bit off."""
    at = end - CRC_PROPERTY_BYTES
    if at < start:
        return _NO_SEAL
    bits = _bits(np.int64(buf[at - 1] ^ PROPERTY_END)) if at > start else 0
    for j in range(len(_SEAL)):
        bits += _bits(np.int64(buf[at + j] ^ _SEAL[j]))
    return _HAS_SEAL if bits == 0 else _NEARLY if bits == 1 else _NO_SEAL


@kernel
def _note(buf: Bytes, rows: Rows, rules: RecordRules, noted: Noted) -> None:
    for i in range(len(rows)):
        row = rows[i]
        noted[i, _STORED] = row.storeTimestamp
        noted[i, _BORN] = get_i64(buf, row.at + RECORD_AT.bornTimestamp)
        # the first eight bytes of storeHost: all of an IPv4 one
        host = row.at + store_timestamp_at(row.sysFlag, rules) + TIMESTAMP_BYTES
        noted[i, _STORED_BY] = get_i64(buf, host)
        end = row.propertiesAt + row.propertiesLength
        noted[i, _SEALED] = _sealed(buf, row.propertiesAt, end)
        noted[i, _START] = row.physicalOffset
        noted[i, _END] = row.physicalOffset + row.size


@kernel
def _is_odd_time(low: int, time: int, high: int) -> bool:
    if low > high or low - SURE_MS <= time <= high + SURE_MS:
        return False
    fitting = 0
    for bit in range(63):
        fitting += low <= time ^ (1 << bit) <= high
    return bool(fitting > 0)


@kernel
def _is_odd_host(noted: Noted, i: int) -> bool:
    """Whether two records before and two after have one storeHost, and this record another."""
    if i < 2 or i + 2 >= len(noted):
        return False
    host, around = noted[i, _STORED_BY], noted[i - 1, _STORED_BY]
    if host == 0 or around == 0:
        return False  # a filler of `repair`, which has no host
    same = around == noted[i - 2, _STORED_BY] == noted[i + 1, _STORED_BY]
    return bool(same and noted[i + 2, _STORED_BY] == around and _bits(host ^ around) == 1)


@kernel
def _doubted(noted: Noted, i: int) -> int:
    """The Fault that two witnesses see in a row, or 0."""
    before, row, after = noted[i - 1], noted[i], noted[i + 1]
    beside = before[_END] != row[_START] or row[_END] != after[_START]
    odd_time = _is_odd_time(before[_STORED], row[_STORED], after[_STORED])
    born = row[_BORN]
    wide = after[_STORED] - before[_STORED]
    near = max(abs(born - before[_STORED]), wide)
    if odd_time and (beside or 2 * near < abs(row[_STORED] - before[_STORED])):
        return _TIME
    if (odd_time or beside) and _is_odd_host(noted, i):
        return _HOST
    if before[_SEALED] == _HAS_SEAL == after[_SEALED]:
        seal = row[_SEALED]
        if seal == _NEARLY or (seal == _NO_SEAL and beside):
            return _UNSEALED
    return 0


@kernel
def _mark(noted: Noted, first: int, marks: npt.NDArray[np.uint8]) -> int:
    """Put into marks the Fault of each row from `first` on; returns how many rows have one."""
    found = 0
    for i in range(max(first, 1), len(noted) - 1):
        fault = _doubted(noted, i)
        if fault:
            marks[i - first] = fault
            found += 1
    return found


class Neighbours:
    """Compares the records of a walk with those around them, a window at a time.

    It keeps what it noted of the window before, so that a window's first records have neighbours.
    A window's last two records have none after them, unless they come again in the next window.
    """

    def __init__(self, rules: RecordRules) -> None:
        self._rules = rules
        self._noted = np.empty((0, _COLUMNS), np.int64)

    def contradictions(self, buf: Bytes, rows: Rows) -> npt.NDArray[np.uint8] | None:
        """The Fault of each row that two witnesses contradict, or 0; None where there is none."""
        if not len(rows):
            return None
        known = int(np.searchsorted(self._noted[:, _START], rows["physicalOffset"][0]))
        before = self._noted[max(known - 2, 0) : known]
        noted = np.empty((len(before) + len(rows), _COLUMNS), np.int64)
        noted[: len(before)] = before
        _note(buf, rows, self._rules, noted[len(before) :])
        self._noted = noted[len(before) :]
        marks = np.zeros(len(rows), np.uint8)
        return marks if _mark(noted, len(before), marks) else None


# ---
# The store's own ConsumeQueue files as witnesses: they were written from the sound records.
#
# An entry holds a record's physicalOffset, size and tagsCode; the place of the entry itself tells
# the topic, queueId and queueOffset. So the entry shows what the record held before it was damaged.

_AT_A_TIME = 1 << 16  # entries
_READS = 1000
_MOST_POSITION = 1 << 58  # times 20 bytes, it still fits a long


@dataclass(frozen=True)
class OldQueues:
    """The queue files of a store."""

    store: Folder

    def of(self, topic: str, queue_id: int, batch: bool = False) -> "OldQueue":
        """One queue; without files where there are none, or its topic can be no folder's name."""
        kind = BATCH_CONSUME_QUEUE if batch else CONSUME_QUEUE
        try:
            folder = self.store / QueuePath(kind, check_queue_topic(topic), queue_id)
            listed = folder.listed()
        except (StoreError, UnsafeName):
            return OldQueue(self.store.storage, [])
        files = [
            (start, f"{folder}/{name}", state) for name, state in listed
            if state is not None and (start := segment_start(name)) is not None
        ]  # fmt: skip
        return OldQueue(self.store.storage, sorted(files))


class OldQueue:
    """Reads a queue's entries at given positions; each call opens the files anew."""

    def __init__(self, storage: InputStorage, files: list[tuple[int, str, Any]]) -> None:
        self._storage, self._files = storage, files

    @property
    def any(self) -> bool:
        return bool(self._files)

    def first_place(self) -> int | None:
        """The physical offset of the message at position 0; None if the queue does not have it.

        An entry of a batch queue begins with the same fields.
        """
        if not self._files or self._files[0][0]:
            return None
        first = self.at(0, 1)[0]
        return int(first["physicalOffset"]) if first["size"] > 0 else None

    def at(self, first: int, count: int) -> Entries:
        """QUEUE_ENTRY rows of positions [first, first + count); size 0 where there is no entry."""
        found = np.zeros(count, QUEUE_ENTRY)
        low, high = first * QUEUE_ENTRY_BYTES, (first + count) * QUEUE_ENTRY_BYTES
        for start, path, state in self._files:
            at, end = max(low, start), min(high, start + state.size)
            length = (end - at) // QUEUE_ENTRY_BYTES * QUEUE_ENTRY_BYTES
            if length <= 0:
                continue
            raw = np.empty(length, np.uint8)
            reader = self._storage.open(path, state)
            reader.read_into(at - start, raw)
            reader.close()
            n = (at - low) // QUEUE_ENTRY_BYTES
            found[n : n + length // QUEUE_ENTRY_BYTES] = decode_entries(raw)
        found["size"][~is_message(found) | is_pre_blank(found)] = 0
        return found


def contradictions(old: OldQueue, offsets: np.ndarray, mine: Entries) -> tuple[np.ndarray, Entries]:
    """(numbers of the entries that the old queue contradicts, the old queue's entries there).

    offsets: the queueOffsets of `mine`, which are entries of the log. Where the old queue has no
    entry it contradicts nothing.
    """
    numbers, said = [], []
    for start in range(0, len(offsets), _AT_A_TIME):
        part = slice(start, start + _AT_A_TIME)
        theirs = _at_each(old, offsets[part])
        differs = theirs["size"] > 0
        same = np.ones(len(theirs), np.bool_)
        for name in ("physicalOffset", "size", "tagsCode"):
            same &= theirs[name] == mine[part][name]
        differs &= ~same
        numbers.append(start + np.flatnonzero(differs))
        said.append(theirs[differs])
    if not numbers:
        return np.empty(0, np.int64), np.zeros(0, QUEUE_ENTRY)
    return np.concatenate(numbers), np.concatenate(said)


def _at_each(old: OldQueue, offsets: np.ndarray) -> Entries:
    """The entries at these positions. Scattered positions are read in at most _READS pieces; for
    the rest the old queue counts as having no entry.
    """
    found = np.zeros(len(offsets), QUEUE_ENTRY)
    pieces = [(0, len(offsets))]
    for _ in range(_READS):
        if not pieces:
            break
        start, stop = pieces.pop()
        some = offsets[start:stop]
        low, high = int(some.min()), int(some.max())
        if low < 0 or high >= _MOST_POSITION or high - low > 2 * len(some):
            if len(some) > 1:
                middle = (start + stop) // 2
                pieces += [(middle, stop), (start, middle)]
        else:
            found[start:stop] = old.at(low, high - low + 1)[some - low]
    return found


# ---
# Compares the entries of an old IndexFile with the log's records: their keys and times.

_KEYS_FAULT, _STORED_FAULT = int(Fault.KEYS), int(Fault.STORED)
Faults = npt.NDArray[np.uint8]


@kernel
def mark_contradictions(puts: Any, entries: Any, numbers: Any, begin: int, faults: Faults) -> int:
    """Compare IndexFile entries with puts, both by physicalOffset; fill in each entry's Fault.

    puts: INDEX_PUT. entries: INDEX_ENTRY in native byte order. begin: the file's beginTimestamp.
    numbers: the entries' numbers in the file. Number 1 was stored at `begin`: its timeDiff is
    measured from the file before. Returns how many entries point to a record that has puts.
    """
    looked, first = 0, 0
    for i in range(len(entries)):
        entry = entries[i]
        if entry.keyHash == 0 and entry.physicalOffset == 0:
            continue  # not written, whatever a header counts
        while first < len(puts) and puts[first].physicalOffset < entry.physicalOffset:
            first += 1
        if first == len(puts):
            break
        if puts[first].physicalOffset != entry.physicalOffset:
            continue
        looked += 1
        stored, at = puts[first].storeTimestamp, first
        known = False
        while at < len(puts) and puts[at].physicalOffset == entry.physicalOffset and not known:
            known = puts[at].keyHash == entry.keyHash
            at += 1
        if not known:
            faults[i] = _KEYS_FAULT
        elif stored != begin if numbers[i] == 1 else time_diff(stored, begin) != entry.timeDiff:
            faults[i] = _STORED_FAULT
    return looked
