"""Records of batch queues: inner batches, as a broker makes them."""

import struct
from collections.abc import Iterable
from typing import Any

from tests.logs.encoder import Message, properties
from tests.logs.fields import BATCH_TOPIC

_FLAGS = 0xC0  # MessageSysFlag: INNER_BATCH_FLAG, NEED_UNWRAP_FLAG
BATCH_QUEUE = {BATCH_TOPIC: {"queue.type": "BatchCQ"}}  # the topic's attributes


def batch(base: int, count: int, body: int = 0, **over: Any) -> Message:
    """A record with the queueOffsets from `base` on. body: bytes of each message's body."""
    inner = struct.pack(">5i", 22 + body, 0, 0, 0, body) + bytes(body) + struct.pack(">h", 0)
    return Message(**{"topic": BATCH_TOPIC, "queue_offset": base, "sys_flag": _FLAGS,
        "body": inner * count,
        "properties": properties(("INNER_BASE", str(base)), ("INNER_NUM", str(count))),
        **over})  # fmt: skip


def batches(counts: Iterable[int], start: int, body: int = 0) -> list[Message]:
    """Records that follow each other in one queue; start: storeTimestamp of the first."""
    made: list[Message] = []
    base = 0
    for n, count in enumerate(counts):
        made.append(batch(base, count, body, store_timestamp=start + n))
        base += count
    return made
