"""A hash table, for kernels, of the queues that a scan meets; it numbers them as they are met.

A queue is a name (its bytes in the log) and a queue id. The table is a tuple of arrays, so that
kernels can fill it. It never grows: the scan empties it before it is full.
"""

from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format import names
from reput.store_format.kernels.bytes import same_bytes
from reput.store_format.kernels.jit import inlined, kernel

Bytes = npt.NDArray[np.uint8]

# Bits for what the dispatch rules need to know about a topic.
SCHEDULE_TOPIC = 1
RETRY_TOPIC = 2
SYSTEM_TOPIC = 4
BATCH_TOPIC = 8
TIMER_TOPIC = 16

SCHEDULE_NAME = np.frombuffer(b"SCHEDULE_TOPIC_XXXX", np.uint8)  # TopicValidator
TIMER_NAME = np.frombuffer(b"rmq_sys_wheel_timer", np.uint8)  # TimerMessageStore.TIMER_TOPIC
RETRY_PREFIX = np.frombuffer(names.RETRY_PREFIX.encode(), np.uint8)
SYSTEM_PREFIX = np.frombuffer(b"rmq_sys_", np.uint8)  # TopicValidator.SYSTEM_TOPIC_PREFIX
LMQ_PREFIX = np.frombuffer(names.LMQ_PREFIX.encode(), np.uint8)

# slots: int32, a power of two of them; each holds its queue's number + 1, or 0.
# rows: QUEUE_ROW, one for each queue; names: uint8, the queues' names one after the other.
# used: int64 (queues, bytes of names).
# Kernels are given the arrays one by one: at each call with a tuple numba would count references to
# all its arrays, which costs several times as much as the look-up itself.
QueueTable = namedtuple("QueueTable", "slots rows names used")
QUEUE_ROW = np.dtype(
    [
        ("nameAt", "<i8"),
        ("nameEnd", "<i8"),
        ("slot", "<i8"),  # the slot that holds the queue's number
        ("queueId", "<i4"),
        ("flags", "<i4"),
    ]
)
# Names of batch topics, one after the other, with their ends.
BatchTopics = namedtuple("BatchTopics", "names ends")


class TableQueue(NamedTuple):
    """A queue in the table: its name as the log spells it, its id, and its topic's flags."""

    raw_name: bytes
    queue_id: int
    flags: int


def new_table(queues: int, name_bytes: int) -> QueueTable:
    """An empty table for at most `queues` queues and `name_bytes` bytes of names."""
    return QueueTable(
        slots=np.zeros(1 << (2 * queues - 1).bit_length(), np.int32),
        rows=np.zeros(queues, QUEUE_ROW),
        names=np.empty(name_bytes, np.uint8),
        used=np.zeros(2, np.int64),
    )


def clear(table: QueueTable) -> None:
    """Forget all queues. The cost depends on how many there are, not on the table's size."""
    table.slots[table.rows["slot"][: int(table.used[0])]] = 0
    table.used[:] = 0


def queues(table: QueueTable) -> list[TableQueue]:
    """The queues in the order of their numbers. Copies."""
    names = table.names[: int(table.used[1])].tobytes()
    rows = table.rows[: int(table.used[0])].tolist()
    return [TableQueue(names[at:end], queue_id, flags) for at, end, _, queue_id, flags in rows]


def batch_topics(names: list[str]) -> BatchTopics:
    """The topics whose queue.type is BatchCQ, for `find_queue`."""
    raw = [name.encode() for name in names]
    return BatchTopics(
        np.frombuffer(b"".join(raw), np.uint8) if raw else np.empty(0, np.uint8),
        np.cumsum([len(name) for name in raw], dtype=np.int64),
    )


@kernel
def starts_with(buf: Bytes, at: int, end: int, prefix: Bytes) -> bool:
    return end - at >= len(prefix) and same_bytes(buf, at, prefix, 0, len(prefix))


@kernel
def _flags(buf: Bytes, at: int, end: int, batch_names: Bytes, batch_ends: Any) -> int:
    flags = 0
    if end - at == len(SCHEDULE_NAME) and starts_with(buf, at, end, SCHEDULE_NAME):
        flags |= SCHEDULE_TOPIC
    if starts_with(buf, at, end, RETRY_PREFIX):
        flags |= RETRY_TOPIC
    if starts_with(buf, at, end, SYSTEM_PREFIX):
        flags |= SYSTEM_TOPIC
        if end - at == len(TIMER_NAME) and starts_with(buf, at, end, TIMER_NAME):
            flags |= TIMER_TOPIC
    start = 0
    for i in range(len(batch_ends)):
        stop = batch_ends[i]
        if stop - start == end - at and same_bytes(buf, at, batch_names, start, end - at):
            flags |= BATCH_TOPIC
        start = stop
    return flags


@inlined
def find_queue(  # noqa: PLR0913 (a kernel takes its arrays one by one)
    slots: Any,
    rows: Any,
    names: Bytes,
    used: Any,
    buf: Bytes,
    at: int,
    end: int,
    name_hash: Any,
    queue_id: int,
    batch_names: Bytes,
    batch_ends: Any,
) -> int:
    """The number of the queue named buf[at:end] with `queue_id`; adds the queue if it is new.

    slots, rows, names, used: those of a QueueTable; name_hash: any int32 that depends on the name
    alone; batch_names, batch_ends: those of a BatchTopics.
    """
    h = np.uint64(np.uint32(name_hash)) << np.uint64(32) | np.uint64(np.uint32(queue_id))
    h *= np.uint64(0x9E3779B97F4A7C15)  # 2 ** 64 / the golden ratio: spreads values close together
    mask = len(slots) - 1
    slot = np.int64((h ^ (h >> np.uint64(32))) & np.uint64(mask))
    number = slots[slot] - 1
    while number >= 0 and not (
        rows[number].queueId == queue_id
        and rows[number].nameEnd - rows[number].nameAt == end - at
        and same_bytes(buf, at, names, rows[number].nameAt, end - at)
    ):
        slot = (slot + 1) & mask
        number = slots[slot] - 1
    if number < 0:
        number = used[0]
        slots[slot] = number + 1
        rows[number].slot = slot
        _enter(rows, names, used, buf, at, end, queue_id, batch_names, batch_ends)
    return int(number)


@kernel
def _enter(  # noqa: PLR0913 (a kernel takes its arrays one by one)
    rows: Any,
    names: Bytes,
    used: Any,
    buf: Bytes,
    at: int,
    end: int,
    queue_id: int,
    batch_names: Bytes,
    batch_ends: Any,
) -> None:
    """Add a queue's row. This is not part of find_queue, so that numba can inline the look-up."""
    row = rows[used[0]]
    row.nameAt = used[1]
    for i in range(at, end):
        names[used[1]] = buf[i]
        used[1] += 1
    row.nameEnd = used[1]
    row.queueId = queue_id
    row.flags = _flags(buf, at, end, batch_names, batch_ends)
    used[0] += 1
