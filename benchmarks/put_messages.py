"""The messages that the writer's benchmark appends, by our writer and by a bare program."""

import time

import pyarrow as pa

from reput.store_format.message.message import Message

BODY_BYTES = 300
TOPICS, QUEUES, TAGS = 8, 8, 8
_REST = bytes(BODY_BYTES - 8)
_BODY = bytes(BODY_BYTES)
# as SyncPut.java's
_PROPERTIES = b"UNIQ_KEY\x017F0000010F0A18B4AAC20000000000000\x02KEYS\x01k\x02"


def clock() -> int:
    return time.time_ns() // 1_000_000


def numbered(n: int) -> Message:
    """As tests/rocketmq's Bulk: distinct bodies, one key and one tag each."""
    return Message(
        f"Bench{n % TOPICS}", b"%08d" % n + _REST, n // TOPICS % QUEUES,
        tags=f"Tag{n % TAGS}", keys=f"order-{n}",
    )  # fmt: skip


def table(messages: int) -> pa.Table:
    """Those of `numbered`, as columns."""
    return pa.table(
        {
            "topic": [f"Bench{n % TOPICS}" for n in range(messages)],
            "queue_id": [n // TOPICS % QUEUES for n in range(messages)],
            "body": [b"%08d" % n + _REST for n in range(messages)],
            "tags": [f"Tag{n % TAGS}" for n in range(messages)],
            "keys": [f"order-{n}" for n in range(messages)],
        }
    )


def made_before(thread: int) -> Message:
    """As SyncPut.java's: nothing of it is made for each message."""
    return Message("Bench", _BODY, thread % QUEUES, properties=_PROPERTIES)
