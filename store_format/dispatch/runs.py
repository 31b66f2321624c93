"""Runs: one queue's entries from one stretch of the log, packed as the ConsumeQueue holds them.

A scan groups its puts by queue (`group_by_queue`). A run has its entries, but not their positions
in the queue, because these depend on all earlier entries in the log. `number_run` finds the
positions, run by run in the log's order.
"""

from collections import namedtuple
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format.kernels.bytes import get_i32, get_i64, put_i32, put_i64
from reput.store_format.kernels.jit import inlined, kernel
from reput.store_format.layouts import (
    BATCH_AT,
    BATCH_QUEUE_ENTRY_BYTES,
    QUEUE_AT,
    QUEUE_ENTRY_BYTES,
)

Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]

# Values in place of a position. No position has these values, though some are negative (`begin`).
NO_POSITION = -(1 << 63)  # the entry is skipped: its queueOffset is below the next position
REPEATED = NO_POSITION + 1  # the entry is skipped: the queue has its message already

# How a queue takes an entry whose queueOffset is not its next position, by release.
PositionRules = namedtuple("PositionRules", "skip_lower_offsets skip_by_end")


@dataclass(frozen=True)
class QueueRuns:
    """All runs of one stretch, one after the other.

    entries: uint8, the runs' entries as on disk. offsets: int64, the queueOffsets of those runs
    whose queueOffsets do not go on by one. times: int64, each entry's storeTimestamp, queue by
    queue; empty unless asked for. The other arrays have an item for each queue: how
    many entries it has, where its entries start (bytes) and its queueOffsets (an index into
    `offsets`, -1 where they go on by one), and its first and greatest queueOffset.
    """

    entries: Bytes
    offsets: Int64s
    count: Int64s
    entries_at: Int64s
    offsets_at: Int64s
    first: Int64s
    greatest: Int64s
    times: Int64s


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


@kernel
def _lay_out(  # noqa: PLR0913 (a kernel takes its arrays one by one)
    puts: Any, numbers: Any, batch: npt.NDArray[np.bool_], count: Int64s, first: Int64s,
    greatest: Int64s, entries_at: Int64s, offsets_at: Int64s, last_place: Int64s,
) -> tuple[int, int]:  # fmt: skip
    """Fill arrays of QueueRuns; returns how many bytes the entries take, and how many offsets.

    All are zeros but offsets_at and last_place, -1. last_place: where each queue's last put is.
    """
    for i in range(len(puts)):
        queue = numbers[puts[i].queue]
        offset = puts[i].queueOffset
        if count[queue] == 0:
            first[queue] = greatest[queue] = offset
        elif offset != first[queue] + count[queue] or puts[i].physicalOffset == last_place[queue]:
            # If one message has two entries for this queue, the queue takes only the first, so the
            # run must keep its queueOffsets even if they go on by one.
            offsets_at[queue] = 0
        last_place[queue] = puts[i].physicalOffset
        greatest[queue] = max(greatest[queue], offset)
        count[queue] += 1
    entry_bytes = 0
    offset_count = 0
    for queue in range(len(batch)):
        entries_at[queue] = entry_bytes
        entry_bytes += count[queue] * (
            BATCH_QUEUE_ENTRY_BYTES if batch[queue] else QUEUE_ENTRY_BYTES
        )
        if batch[queue]:
            offsets_at[queue] = -1
        elif offsets_at[queue] == 0:
            offsets_at[queue] = offset_count
            offset_count += count[queue]
    return entry_bytes, offset_count


@kernel
def _fill(  # noqa: PLR0913 (a kernel takes its arrays one by one)
    puts: Any, numbers: Any, batch: npt.NDArray[np.bool_], entries: Bytes, offsets: Int64s,
    entries_at: Int64s, offsets_at: Int64s, times: Int64s, times_at: Int64s, filled: Int64s,
) -> None:  # fmt: skip
    """filled: zeros, how many entries each queue has so far."""
    for i in range(len(puts)):
        queue = numbers[puts[i].queue]
        size = BATCH_QUEUE_ENTRY_BYTES if batch[queue] else QUEUE_ENTRY_BYTES
        _pack_entry(entries, entries_at[queue] + filled[queue] * size, puts[i], batch[queue])
        if offsets_at[queue] >= 0:
            offsets[offsets_at[queue] + filled[queue]] = puts[i].queueOffset
        if len(times) > 0:
            times[times_at[queue] + filled[queue]] = puts[i].storeTimestamp
        filled[queue] += 1


class Room:
    """Memory for the entries of one `group_by_queue` after the other.

    New memory costs a page fault each 4 KiB, and a scan groups its puts many times.
    """

    def __init__(self) -> None:
        self._bytes = np.empty(0, np.uint8)

    def of(self, length: int) -> Bytes:
        """`length` bytes of any content; bytes that were returned before are no longer valid."""
        if len(self._bytes) < length:
            self._bytes = np.empty(length, np.uint8)
        return self._bytes[:length]


def group_by_queue(
    puts: Any, numbers: Int64s, batch: npt.NDArray[np.bool_], room: Room | None = None,
    with_times: bool = False,
) -> QueueRuns:  # fmt: skip
    """Group QUEUE_PUT rows by queue, keeping their order within each.

    numbers: for each number in the puts its queue (two spellings of a name that Java decodes alike
    are one queue). batch: for each queue, whether its entries have 46 bytes. room: memory for the
    entries, which are valid until it is used again. with_times: also return each entry's
    storeTimestamp. Copies.
    """
    count, first, greatest, entries_at, filled = np.zeros((5, len(batch)), np.int64)
    offsets_at, last_place = np.full((2, len(batch)), -1, np.int64)
    entry_bytes, offset_count = _lay_out(
        puts, numbers, batch, count, first, greatest, entries_at, offsets_at, last_place
    )
    entries = (room or Room()).of(entry_bytes)
    offsets = np.empty(offset_count, np.int64)
    times = np.empty(len(puts) if with_times else 0, np.int64)
    times_at = np.cumsum(count) - count
    _fill(puts, numbers, batch, entries, offsets, entries_at, offsets_at, times, times_at, filled)
    return QueueRuns(entries, offsets, count, entries_at, offsets_at, first, greatest, times)


@inlined
def _byte_offset(position: int) -> Any:
    """A position's logical byte offset in Java's wrapping arithmetic.

    The value is unsigned, because the compiler assumes that signed numbers never wrap around.
    """
    return np.int64(np.uint64(position) * np.uint64(QUEUE_ENTRY_BYTES))


@inlined
def _offset(offsets: Int64s, first: int, i: int) -> Any:
    """The queueOffset of entry `i` of a run; without `offsets` it is first + i, which wraps."""
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
    """Give the entries of a run their positions in a queue whose next position is `position`.

    Returns the queue's next position after the run. offsets: the queueOffsets, or empty where they
    are first, first + 1, ...; entries: the run's 20-byte entries, read only where offsets are
    given. positions: int64, filled with each entry's position, NO_POSITION or REPEATED; may be
    empty where only the result is wanted. The rule is that of
    ConsumeQueue.putMessagePositionInfo, in Java's wrapping 64-bit arithmetic.
    """
    # The run's own greatest end suffices: a queue has a message already only where one record is
    # put there twice, and both its entries are then in one run.
    greatest_end: Any = np.int64(-1)
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
                within -= file_bytes  # Java's % has the sign of the dividend
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
    """The state of a queue whose first file may still be empty.

    file: the first position of that file, below zero where RocketMQ gives the file a negative name.
    position: the queue's next position; beyond the file where pre-blanks fill it. rest: how many
    entries the run has from the one on that put something into the file; 0: none has, it is empty.
    """

    file: int
    position: int
    rest: int


def begin(
    offsets: Int64s, first: int, count: int, before: Beginning | None, file_bytes: int,
    rules: PositionRules,
) -> Beginning:  # fmt: skip
    """The queue's next position for a run, where nothing has been written to its first file yet.

    before: the result for the run before, None for the queue's first run; file_bytes: the length of
    a queue's file. The rule is that of ConsumeQueue.putMessagePositionInfo, in Java's wrapping
    arithmetic. The first queueOffset chooses the file, which gets a negative name if its byte
    offset is below 0. Each further queueOffset fills the file with pre-blank entries up to its own
    position, until one entry is written. All entries before that entry are skipped, by `number_run`
    too, as their queueOffsets are below the position that is returned.
    """
    start = before.file * QUEUE_ENTRY_BYTES if before else NO_POSITION
    at, start, blanks = _begin(offsets, first, count, start, file_bytes, rules.skip_lower_offsets)
    file = int(start) // QUEUE_ENTRY_BYTES
    return Beginning(file, file + int(blanks), count - int(at))


def start_position(first_offset: int, batch: bool) -> int:
    """The position of a queue's first entry: its queueOffset; batch queues start at 0.

    Raises ValueError where a file of that position cannot be named.
    """
    if batch:
        return 0
    if not 0 <= first_offset <= (1 << 63) // QUEUE_ENTRY_BYTES - 1:
        raise ValueError(f"queueOffset {first_offset} is out of range for a queue's first entry")
    return first_offset
