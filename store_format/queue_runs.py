"""Runs: one queue's entries from one stretch of the log, packed as the ConsumeQueue holds them.

A scan groups what it dispatched by queue (`group_by_queue`). A run knows its entries, but not
their positions in the queue: those depend on all that came before, and `fold` finds them, run
by run in the order of the log.
"""

from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from store_format.binary import get_i32, get_i64, put_i32, put_i64
from store_format.kernels import allocating, inlined, kernel
from store_format.layouts import (
    BATCH_AT,
    BATCH_QUEUE_ENTRY_BYTES,
    QUEUE_AT,
    QUEUE_ENTRY_BYTES,
)

Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]

NO_POSITION = -1  # an entry below the queue's next position, skipped; a queue with nothing yet
REPEATED = -2  # an entry skipped because the queue holds its message already

# How a queue takes an entry whose queueOffset is not its next position, by release.
PlaceRules = namedtuple("PlaceRules", "skip_lower_offsets skip_by_end")


@dataclass(frozen=True)
class QueueRuns:
    """All runs of one stretch, one after the other.

    entries: uint8, the runs' entries as on disk; offsets: int64, the queueOffsets of the runs
    that are not consecutive. Per queue, in the queues' order: `count` entries, where its
    entries and offsets start (bytes; index into offsets or -1 for a consecutive run), the first
    and the greatest queueOffset. A queue without entries has count 0.
    """

    entries: Bytes
    offsets: Int64s
    count: Int64s
    entries_at: Int64s
    offsets_at: Int64s
    first: Int64s
    greatest: Int64s


@kernel
def _pack_entry(out: Bytes, at: int, put: Any, batch: bool) -> None:
    put_i64(out, at + QUEUE_AT.physicalOffset, put.physicalOffset)
    put_i32(out, at + QUEUE_AT.size, put.size)
    put_i64(out, at + QUEUE_AT.tagsCode, put.tagsCode)
    if batch:
        put_i64(out, at + BATCH_AT.storeTimestamp, put.storeTimestamp)
        put_i64(out, at + BATCH_AT.baseOffset, put.queueOffset)
        out[at + BATCH_AT.batchSize] = put.batchSize >> 8 & 0xFF
        out[at + BATCH_AT.batchSize + 1] = put.batchSize & 0xFF
        put_i32(out, at + BATCH_AT.compactedOffset, -1)
        put_i32(out, at + BATCH_AT.reserved, 0)


@allocating
def _group(puts: Any, numbers: Any, batch: npt.NDArray[np.bool_]) -> Any:
    queues = len(batch)
    count = np.zeros(queues, np.int64)
    first = np.zeros(queues, np.int64)
    greatest = np.zeros(queues, np.int64)
    consecutive = np.ones(queues, np.bool_)
    last_place = np.full(queues, -1, np.int64)
    for i in range(len(puts)):
        queue = numbers[puts[i].queue]
        offset = puts[i].queueOffset
        if count[queue] == 0:
            first[queue] = greatest[queue] = offset
        elif offset != first[queue] + count[queue] or puts[i].physicalOffset == last_place[queue]:
            # a message that puts one queue twice counts once, even where its offsets go on by one
            consecutive[queue] = False
        last_place[queue] = puts[i].physicalOffset
        greatest[queue] = max(greatest[queue], offset)
        count[queue] += 1
    entries_at = np.zeros(queues, np.int64)
    offsets_at = np.full(queues, -1, np.int64)
    entry_bytes = 0
    offset_count = 0
    for queue in range(queues):
        entries_at[queue] = entry_bytes
        entry_bytes += count[queue] * (
            BATCH_QUEUE_ENTRY_BYTES if batch[queue] else QUEUE_ENTRY_BYTES
        )
        if not consecutive[queue] and not batch[queue]:
            offsets_at[queue] = offset_count
            offset_count += count[queue]
    entries = np.empty(entry_bytes, np.uint8)
    offsets = np.empty(offset_count, np.int64)
    filled = np.zeros(queues, np.int64)
    for i in range(len(puts)):
        queue = numbers[puts[i].queue]
        size = BATCH_QUEUE_ENTRY_BYTES if batch[queue] else QUEUE_ENTRY_BYTES
        _pack_entry(entries, entries_at[queue] + filled[queue] * size, puts[i], batch[queue])
        if offsets_at[queue] >= 0:
            offsets[offsets_at[queue] + filled[queue]] = puts[i].queueOffset
        filled[queue] += 1
    return entries, offsets, count, entries_at, offsets_at, first, greatest


def group_by_queue(puts: Any, numbers: Int64s, batch: npt.NDArray[np.bool_]) -> QueueRuns:
    """Group QUEUE_PUT rows by queue, keeping their order within each.

    numbers: the queue that each number in the puts stands for (two spellings of one name that
    Java decodes alike are one queue); batch: bool per queue, 46-byte entries. Copies.
    """
    return QueueRuns(*_group(puts, numbers, batch))


@inlined
def _byte_offset(position: int) -> Any:
    """A position's logical byte offset in Java's wrapping arithmetic.

    Unsigned, because the compiler takes it that signed numbers never wrap around.
    """
    return np.int64(np.uint64(position) * np.uint64(QUEUE_ENTRY_BYTES))


@kernel
def fold(
    entries: Bytes,
    offsets: Int64s,
    first: int,
    count: int,
    position: int,
    rules: PlaceRules,
    positions: Int64s,
) -> int:
    """Append a run to a queue whose next position is `position`; returns the next after it.

    offsets: the queueOffsets, or empty where they are first, first + 1, ...; entries: the run's
    20-byte entries, looked at only where offsets are given. positions: int64, filled with
    each entry's position, NO_POSITION or REPEATED; may be empty where only the result is wanted.
    The rule is ConsumeQueue.putMessagePositionInfo's, in Java's wrapping 64-bit arithmetic.
    """
    greatest_end: Any = np.int64(-1)  # within the run: only one message can repeat, in one record
    for i in range(count):
        offset = first + i if len(offsets) == 0 else offsets[i]
        taken: Any = True
        skipped = NO_POSITION
        if len(offsets) > 0:
            at = i * QUEUE_ENTRY_BYTES
            end = get_i64(entries, at + QUEUE_AT.physicalOffset)
            if rules.skip_by_end:
                end += get_i32(entries, at + QUEUE_AT.size)
            taken = end > greatest_end
            if not taken:
                skipped = REPEATED
        if taken and rules.skip_lower_offsets and offset != 0:
            taken = _byte_offset(offset) >= _byte_offset(position)
        if len(positions) > 0:
            positions[i] = position if taken else skipped
        if taken:
            position += 1
            if len(offsets) > 0:
                greatest_end = end
    return position


def start_position(first_offset: int, batch: bool) -> int:
    """The position of a queue's first entry: its queueOffset; batch queues start at 0.

    Raises ValueError where a file of that position cannot be named.
    """
    if batch:
        return 0
    if not 0 <= first_offset <= (1 << 63) // QUEUE_ENTRY_BYTES - 1:
        raise ValueError(f"queueOffset {first_offset} is out of range for a queue's first entry")
    return first_offset
