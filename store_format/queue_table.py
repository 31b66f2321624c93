"""The queues that a scan meets, numbered in the order met: a hash table for kernels.

A queue is a name (as bytes in the log) and a queue id. The table is a tuple of arrays, so that
kernels can fill it; it never grows: the scan empties it before it could be full.
"""

from collections import namedtuple
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

Bytes = npt.NDArray[np.uint8]

# What the dispatch rules ask about a topic, as bits.
SCHEDULE_TOPIC = 1
RETRY_TOPIC = 2
SYSTEM_TOPIC = 4
BATCH_TOPIC = 8

SCHEDULE_NAME = np.frombuffer(b"SCHEDULE_TOPIC_XXXX", np.uint8)  # TopicValidator
RETRY_PREFIX = np.frombuffer(b"%RETRY%", np.uint8)  # MixAll.RETRY_GROUP_TOPIC_PREFIX
SYSTEM_PREFIX = np.frombuffer(b"rmq_sys_", np.uint8)  # TopicValidator.SYSTEM_TOPIC_PREFIX
LMQ_PREFIX = np.frombuffer(b"%LMQ%", np.uint8)  # MixAll.LMQ_PREFIX

# slots: int32, a power of two of them; number + 1 of the queue that hashed there, 0: free.
# names: uint8, all queues' names one after the other; the other arrays have a row a queue.
# used: int64 (queues, bytes of names).
QueueTable = namedtuple("QueueTable", "slots names name_at name_end queue_id flags used")
# Names of batch topics, one after the other, with their ends.
BatchTopics = namedtuple("BatchTopics", "names ends")


class Queue(NamedTuple):
    """One queue met: its name as the log spells it, its id, and its topic's bits."""

    raw_name: bytes
    queue_id: int
    flags: int


def new_table(queues: int, name_bytes: int) -> QueueTable:
    """An empty table for at most `queues` queues and `name_bytes` bytes of names."""
    return QueueTable(
        slots=np.zeros(1 << (2 * queues - 1).bit_length(), np.int32),
        names=np.empty(name_bytes, np.uint8),
        name_at=np.empty(queues, np.int64),
        name_end=np.empty(queues, np.int64),
        queue_id=np.empty(queues, np.int32),
        flags=np.empty(queues, np.int32),
        used=np.zeros(2, np.int64),
    )


def clear(table: QueueTable) -> None:
    """Forget all queues."""
    table.slots[:] = 0
    table.used[:] = 0


def queues(table: QueueTable) -> list[Queue]:
    """The queues in the order of their numbers. Copies."""
    names = table.names[: int(table.used[1])].tobytes()
    count = int(table.used[0])
    return [
        Queue(names[at:end], queue_id, flags)
        for at, end, queue_id, flags in zip(
            table.name_at[:count].tolist(),
            table.name_end[:count].tolist(),
            table.queue_id[:count].tolist(),
            table.flags[:count].tolist(),
            strict=True,
        )
    ]


def batch_topics(names: list[str]) -> BatchTopics:
    """The topics whose queue.type is BatchCQ, for `find_queue`."""
    raw = [name.encode() for name in names]
    return BatchTopics(
        np.frombuffer(b"".join(raw), np.uint8) if raw else np.empty(0, np.uint8),
        np.cumsum([len(name) for name in raw], dtype=np.int64),
    )


@njit(cache=True)
def starts_with(buf: Bytes, at: int, end: int, prefix: Bytes) -> bool:
    if end - at < len(prefix):
        return False
    for i in range(len(prefix)):  # noqa: SIM110 (numba has no all())
        if buf[at + i] != prefix[i]:
            return False
    return True


@njit(cache=True)
def _flags(buf: Bytes, at: int, end: int, batches: BatchTopics) -> int:
    flags = 0
    if end - at == len(SCHEDULE_NAME) and starts_with(buf, at, end, SCHEDULE_NAME):
        flags |= SCHEDULE_TOPIC
    if starts_with(buf, at, end, RETRY_PREFIX):
        flags |= RETRY_TOPIC
    if starts_with(buf, at, end, SYSTEM_PREFIX):
        flags |= SYSTEM_TOPIC
    start = 0
    for i in range(len(batches.ends)):
        stop = batches.ends[i]
        if end - at == stop - start and starts_with(buf, at, end, batches.names[start:stop]):
            flags |= BATCH_TOPIC
        start = stop
    return flags


@njit(cache=True)
def find_queue(
    table: QueueTable, buf: Bytes, at: int, end: int, queue_id: int, batches: BatchTopics
) -> int:
    """The number of the queue named buf[at:end] with `queue_id`; a new one is entered."""
    h = np.uint64(14695981039346656037) ^ np.uint64(queue_id)
    for i in range(at, end):
        h = (h ^ np.uint64(buf[i])) * np.uint64(1099511628211)  # FNV-1a
    mask = len(table.slots) - 1
    slot = np.int64((h ^ (h >> np.uint64(32))) & np.uint64(mask))
    while table.slots[slot] != 0:
        number = table.slots[slot] - 1
        start, stop = table.name_at[number], table.name_end[number]
        if (
            table.queue_id[number] == queue_id
            and stop - start == end - at
            and starts_with(buf, at, end, table.names[start:stop])
        ):
            return int(number)
        slot = (slot + 1) & mask
    number = table.used[0]
    start = table.used[1]
    for i in range(end - at):
        table.names[start + i] = buf[at + i]
    table.name_at[number] = start
    table.name_end[number] = start + end - at
    table.queue_id[number] = queue_id
    table.flags[number] = _flags(buf, at, end, batches)
    table.slots[slot] = number + 1
    table.used[0] += 1
    table.used[1] += end - at
    return int(number)
