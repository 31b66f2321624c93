"""Looks many keys up in an index file at once, in one sweep from its newest entry to its oldest.

A chain leads only to older entries, so all chains can be followed together, block of entries by
block. Each block that holds an entry of a chain is read once, and none is kept. The result is what
`IndexFileReader.chain` finds key after key.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from reput.store_format.derived.index_reader import IndexFileReader
from reput.store_format.kernels.bytes import get_i32, get_i64
from reput.store_format.kernels.jit import kernel
from reput.store_format.layouts import INDEX_AT, INDEX_ENTRY_BYTES, INDEX_SLOT, INDEX_SLOT_BYTES

Bytes = npt.NDArray[np.uint8]
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
