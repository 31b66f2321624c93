"""Makes IndexFiles: a header, a slot for each hash of a key, and entries chained within a slot.
`sweep` looks many keys up in one file at once.

Puts are numbered over the whole log: put number g (from 0) is entry 1 + g % C of file g // C, where
a file holds C = maxIndexNum - 1 entries. `chain` finds the chains of a range of slots from all puts
of the file, and `fill_entries` writes the entries with the chains of all ranges. The bytes are the
same for any number of ranges.
"""

from collections import namedtuple
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from reput.store_format.derived.index_header import IndexHeader, encode_header
from reput.store_format.derived.index_reader import IndexFileReader
from reput.store_format.derived.index_reader import capacity as capacity
from reput.store_format.derived.index_reader import file_bytes as file_bytes
from reput.store_format.kernels.bytes import get_i32, get_i64, put_i32, put_i64
from reput.store_format.kernels.jit import inlined, kernel
from reput.store_format.layouts import INDEX_AT, INDEX_ENTRY_BYTES, INDEX_SLOT, INDEX_SLOT_BYTES

Bytes = npt.NDArray[np.uint8]
Int32s = npt.NDArray[np.int32]

# What an index file keeps of a message in its header: the storeTimestamp and the physicalOffset.
IndexedMessage = namedtuple("IndexedMessage", "timestamp physical_offset")
NO_MESSAGE = IndexedMessage(0, 0)


def slot_range(number: int, ranges: int, slots: int) -> tuple[int, int]:
    """The slots [low, high) of range `number` of `ranges`."""
    return number * slots // ranges, (number + 1) * slots // ranges


@inlined
def _slot(key_hash: int, slots: int) -> Any:
    """The slot of a keyHash, uint64; divided in 32 bits, as in 64 it takes three times as long."""
    if key_hash < 0:  # only in a damaged file
        return np.uint64(np.int64(key_hash) % np.int64(slots))
    return np.uint64(np.uint32(key_hash) % np.uint32(slots))


@kernel
def chain(
    hashes: Int32s, first_entry: int, slots: int, low: int, newest: Int32s, out: Int32s
) -> int:
    """Link each put whose slot is in [low, low + len(newest)) to the entry before in its slot.

    hashes: keyHash of puts that become entries first_entry, first_entry + 1, ...; newest: int32,
    each slot's newest entry so far, updated; out: int32, filled with the previous entry of each
    put in range, in order. Returns the number of puts in range. (IndexFile.putKey)
    """
    # Unsigned indices: numba tests whether a signed index is negative, which takes twice the time.
    count, room, first = np.uint64(0), np.uint64(len(newest)), np.uint64(low)
    for i in range(len(hashes)):
        place = _slot(hashes[i], slots) - first  # wraps below the range, to more than its room
        if place < room:
            out[count] = newest[place]
            newest[place] = first_entry + i
            count += np.uint64(1)
    return np.int64(count)  # type: ignore[return-value]


@kernel
def fill_entries(
    puts: Any,
    slots: int,
    lows: npt.NDArray[np.int64],
    previous: Int32s,
    cursors: npt.NDArray[np.int64],
    begin_timestamp: int,
    out: Bytes,
) -> None:
    """Write the entries of `puts` to out, as on disk, with the chains of all ranges merged.

    lows: the first slot of each range; previous: int32, the ranges' chains one after the other;
    cursors: int64, where each range stands in `previous`, advanced. out: len(puts) * 20 bytes.
    """
    for i in range(len(puts)):
        key_hash = puts[i].keyHash
        slot, number, after = np.int64(_slot(key_hash, slots)), 0, len(lows)
        while after - number > 1:  # np.searchsorted would load more of numba in each process
            middle = (number + after) // 2
            if lows[middle] <= slot:
                number = middle
            else:
                after = middle
        at = i * INDEX_ENTRY_BYTES
        put_i32(out, at + INDEX_AT.keyHash, key_hash)
        put_i64(out, at + INDEX_AT.physicalOffset, puts[i].physicalOffset)
        put_i32(out, at + INDEX_AT.timeDiff, time_diff(puts[i].storeTimestamp, begin_timestamp))
        put_i32(out, at + INDEX_AT.previous, previous[cursors[number]])
        cursors[number] += 1


@kernel
def time_diff(store_timestamp: int, begin_timestamp: int) -> int:
    """Whole seconds from begin to store time, within 0..2^31-1; 0 if begin is not positive."""
    if begin_timestamp <= 0:
        return 0
    seconds: Any = (np.int64(store_timestamp) - np.int64(begin_timestamp)) // 1000
    return int(min(max(seconds, 0), 0x7FFFFFFF))


def header(
    first: IndexedMessage | None, last: IndexedMessage | None, before: IndexedMessage,
    slots_used: int, count: int,
) -> bytes:  # fmt: skip
    """The 40 bytes of a file's header after a clean stop.

    first, last: the messages of the file's first and last entry, None in a file without entries.
    Such a file's header keeps the values with which it was opened: those of `before`, the last
    message of the file before it, if positive (IndexFile's constructor). count: indexCount.
    """
    opened = IndexedMessage(max(before.timestamp, 0), max(before.physical_offset, 0))
    begin, end = first or opened, last or opened
    return encode_header(
        IndexHeader(
            begin.timestamp, end.timestamp, begin.physical_offset, end.physical_offset,
            slots_used, count,
        )
    )  # fmt: skip


# ---
# Looks many keys up in an index file at once, in one sweep from its newest entry to its oldest.
#
# A chain leads only to older entries, so all chains can be followed together, block of entries by
# block. Each block that holds an entry of a chain is read once, and none is kept. The result is
# what `IndexFileReader.chain` finds key after key.

Numbers = npt.NDArray[np.int64]

_HITS = 1 << 14  # handed over at a time
_DONE, _FULL, _BAD = range(3)

# One entry with one of the hashes: its number in the file, and two of its fields.
FOUND = np.dtype([("number", "<i8"), ("physicalOffset", "<i8"), ("timeDiff", "<i8")])


def sweep(
    file: IndexFileReader, hashes: npt.NDArray[np.int32], block_bytes: int
) -> Iterator[npt.NDArray[Any]]:
    """All entries (FOUND) with one of these keyHashes, each once, in no order; an array is valid
    until the next one.

    hashes: each once; block_bytes: how much is read at a time. Raises BadIndex where a chain does
    not lead back, as `IndexFileReader.chain` does.
    """
    if not len(hashes):
        return
    slots = np.int32(file.slots)
    heads = _heads(file, hashes % slots, block_bytes)
    if (heads >= file.header.next_entry).any():
        file.read_header()
    last = max(min(file.header.next_entry, file.most) - 1, 0)
    beyond = (heads < 0) | (heads > last)
    if beyond.any():
        _raise_bad(file, int(hashes[int(np.argmax(beyond))]))
    size = max(block_bytes // INDEX_ENTRY_BYTES, 1)  # entries in a block
    waiting = np.full(last // size + 1, -1, np.int64)  # block -> the first chain that is in it
    others = np.full(len(hashes), -1, np.int64)  # chain -> the next chain in the same block
    _wait(heads, size, waiting, others)
    buffer = np.empty(size * INDEX_ENTRY_BYTES, np.uint8)
    found = np.empty(_HITS, FOUND)
    for number in range(len(waiting) - 1, -1, -1):
        if waiting[number] < 0:
            continue
        first = number * size
        block = buffer[: (min(first + size, last + 1) - first) * INDEX_ENTRY_BYTES]
        file.read_entries(first, block)
        state = _FULL
        while state == _FULL:
            state, count = _follow(block, first, size, slots, hashes, heads, waiting, others, found)
            if state == _BAD:
                _raise_bad(file, int(hashes[count]))
            yield found[:count]


def _heads(file: IndexFileReader, slots: npt.NDArray[np.int32], block_bytes: int) -> Numbers:
    """The newest entry's number in each of these slots."""
    size = max(block_bytes // INDEX_SLOT_BYTES, 1)
    heads = np.empty(len(slots), np.int64)
    order = np.argsort(slots, kind="stable")
    blocks = slots[order] // size
    starts = np.flatnonzero(np.diff(blocks, prepend=-1)).tolist()
    for start, stop in zip(starts, [*starts[1:], len(order)], strict=True):
        chosen, first = order[start:stop], int(blocks[start]) * size
        raw = np.empty((min(first + size, file.slots) - first) * INDEX_SLOT_BYTES, np.uint8)
        file.read_slots(first, raw)
        heads[chosen] = raw.view(INDEX_SLOT)[slots[chosen] - first]
    return heads


def _raise_bad(file: IndexFileReader, hashed: int) -> None:
    """Raise the BadIndex that a look-up of this one keyHash raises."""
    for _ in file.chain(hashed):
        pass
    raise AssertionError("the chain is sound")


@kernel
def _wait(heads: Numbers, size: int, waiting: Numbers, others: Numbers) -> None:
    """Have each chain wait at the block that its first entry is in."""
    for chain in range(len(heads)):
        if heads[chain] > 0:
            block = heads[chain] // size
            others[chain] = waiting[block]
            waiting[block] = chain


@kernel
def _follow(  # noqa: PLR0913 (a kernel takes its arrays one by one)
    block: Bytes,
    first: int,
    size: int,
    slots: np.int32,
    hashes: npt.NDArray[np.int32],
    heads: Numbers,
    waiting: Numbers,
    others: Numbers,
    found: npt.NDArray[Any],
) -> tuple[int, int]:
    """Follow the chains that wait at a block, which begins with entry `first`, until they leave it.

    Returns (_DONE or _FULL, entries found), or (_BAD, a chain that does not lead back). After _FULL
    the caller must empty `found` and call again.
    """
    here, count = first // size, 0
    while waiting[here] >= 0:
        chain = waiting[here]
        number = heads[chain]
        while number >= first and number > 0:
            at = (number - first) * INDEX_ENTRY_BYTES
            hashed = get_i32(block, at + INDEX_AT.keyHash)
            if hashed % slots != hashes[chain] % slots:
                return _BAD, chain
            if hashed == hashes[chain]:
                if count == len(found):
                    heads[chain] = number
                    return _FULL, count
                row = found[count]
                row.number = number
                row.physicalOffset = get_i64(block, at + INDEX_AT.physicalOffset)
                row.timeDiff = get_i32(block, at + INDEX_AT.timeDiff)
                count += 1
            previous = get_i32(block, at + INDEX_AT.previous)
            if not 0 <= previous < number:
                return _BAD, chain
            number = previous
        waiting[here] = others[chain]
        heads[chain] = number
        if number > 0:
            others[chain] = waiting[number // size]
            waiting[number // size] = chain
    return _DONE, count
