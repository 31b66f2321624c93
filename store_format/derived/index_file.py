"""Makes IndexFiles: a header, a slot for each hash of a key, and entries chained within a slot.

Puts are numbered over the whole log: put number g (from 0) is entry 1 + g % C of file g // C, where
a file holds C = maxIndexNum - 1 entries. `chain` finds the chains of a range of slots from all puts
of the file, and `fill_entries` writes the entries with the chains of all ranges. The bytes are the
same for any number of ranges.
"""

from collections import namedtuple
from typing import Any

import numpy as np
import numpy.typing as npt

from reput.store_format.derived.index_header import IndexHeader, encode_header
from reput.store_format.derived.index_shape import capacity as capacity
from reput.store_format.derived.index_shape import file_bytes as file_bytes
from reput.store_format.kernels.bytes import put_i32, put_i64
from reput.store_format.kernels.jit import inlined, kernel
from reput.store_format.layouts import INDEX_AT, INDEX_ENTRY_BYTES

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
        number: Any = 0
        if len(lows) > 1:
            slot = np.int64(_slot(key_hash, slots))
            number = np.searchsorted(lows, slot, side="right") - 1
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
