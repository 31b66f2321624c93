"""Runs: one queue's entries from one stretch of the log, packed as the ConsumeQueue holds them.

A scan groups what it dispatched by queue (`group_by_queue`). A run knows its entries, but not
their positions in the queue: those depend on all that came before, and `number_run` finds them, run
by run in the order of the log.
"""

from collections import namedtuple
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format.kernels.ints import get_i32, get_i64, put_i32, put_i64
from reput.store_format.kernels.jit import allocating, inlined, kernel
from reput.store_format.layouts import (
    BATCH_AT,
    BATCH_QUEUE_ENTRY_BYTES,
    QUEUE_AT,
    QUEUE_ENTRY_BYTES,
)

Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]

# No queue has these positions; it may have others below zero, see `begin`.
NO_POSITION = -(1 << 63)  # an entry below the queue's next position, skipped; nothing there yet
REPEATED = NO_POSITION + 1  # an entry skipped because the queue holds its message already

# How a queue takes an entry whose queueOffset is not its next position, by release.
PositionRules = namedtuple("PositionRules", "skip_lower_offsets skip_by_end")


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


@inlined
def _offset(offsets: Int64s, first: int, i: int) -> Any:
    """The queueOffset of a run's entry; where they are not given they go on by one, and wrap."""
    if len(offsets) > 0:
        return offsets[i]
    return np.int64(np.uint64(first) + np.uint64(i))


@kernel
def number_run(
    entries: Bytes,
    offsets: Int64s,
    first: int,
    count: int,
    position: int,
    rules: PositionRules,
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
        offset = _offset(offsets, first, i)
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


@kernel
def _begin(
    offsets: Int64s, first: int, count: int, start: int, file_bytes: int, skip_lower: bool
) -> Any:
    at = np.int64(start)
    for i in range(count):
        offset = _offset(offsets, first, i)
        if offset != 0:
            expected = _byte_offset(offset)
            within = expected % file_bytes
            if expected < 0 and within > 0:
                within -= file_bytes  # as Java's %, whose sign is that of the dividend
            if at == NO_POSITION:
                at = expected - within
            if within > 0:
                return i, at, (within + QUEUE_ENTRY_BYTES - 1) // QUEUE_ENTRY_BYTES
            if not skip_lower or expected >= at:
                return i, at, 0
        else:
            if at == NO_POSITION:
                at = np.int64(0)
            return i, at, 0
    return count, at, 0


class Beginning(NamedTuple):
    """How a queue stands whose first file may still be empty, in positions.

    file: the first file's first position, below zero where RocketMQ gives it a negative name;
    position: the next one; empty: nothing has been written to the file, no pre-blank either.
    """

    file: int
    position: int
    empty: bool


def begin(
    offsets: Int64s, first: int, count: int, before: Beginning | None, file_bytes: int,
    rules: PositionRules,
) -> Beginning:  # fmt: skip
    """The queue's next position for a run, where nothing has been written to its first file yet.

    before: what this returned for the run before, None for the queue's first run; file_bytes: of
    a queue's file. As ConsumeQueue.putMessagePositionInfo, in Java's wrapping arithmetic: the
    first queueOffset chooses the file (a negative one its name, where it reaches below the file
    at 0), each further one fills it with pre-blank entries up to itself, until one is written.
    The entries before it are skipped, by `number_run` too, as their queueOffsets are below the
    position that is returned.
    """
    start = before.file * QUEUE_ENTRY_BYTES if before else NO_POSITION
    at, start, blanks = _begin(offsets, first, count, start, file_bytes, rules.skip_lower_offsets)
    file = int(start) // QUEUE_ENTRY_BYTES
    return Beginning(file, file + int(blanks), at == count)


def start_position(first_offset: int, batch: bool) -> int:
    """The position of a queue's first entry: its queueOffset; batch queues start at 0.

    Raises ValueError where a file of that position cannot be named.
    """
    if batch:
        return 0
    if not 0 <= first_offset <= (1 << 63) // QUEUE_ENTRY_BYTES - 1:
        raise ValueError(f"queueOffset {first_offset} is out of range for a queue's first entry")
    return first_offset
