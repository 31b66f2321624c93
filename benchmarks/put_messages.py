"""The messages that the writer's benchmark appends, by our writer and by a bare program."""

import threading
import time
from collections.abc import Callable

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
    rows = [numbered(n) for n in range(messages)]
    names = ("topic", "queue_id", "body", "tags", "keys")
    return pa.table({name: [getattr(row, name) for row in rows] for name in names})


def made_before(thread: int) -> Message:
    """As SyncPut.java's: nothing of it is made for each message."""
    return Message("Bench", _BODY, thread % QUEUES, properties=_PROPERTIES)


def by_many_threads(append: Callable[[Message], object], threads: int, seconds: float) -> int:
    """How many of `made_before` so many threads append in that time."""
    counts = [0] * threads
    until = time.perf_counter() + seconds

    def work(number: int) -> None:
        while time.perf_counter() < until:
            append(made_before(number))
            counts[number] += 1

    running = [threading.Thread(target=work, args=(n,)) for n in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return sum(counts)
