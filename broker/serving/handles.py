"""A popped message's handle, and the fields of an answer (ExtraInfoUtil) from which the client
makes each message's handle; to acknowledge the message, the client sends the handle back.
"""

from collections.abc import Iterable
from typing import NamedTuple

from reput.broker.wire.codes import Refused
from reput.store_format.java import parse_integer
from reput.store_format.names import RETRY_PREFIX

ORDER_QUEUE = 999  # KeyBuilder.POP_ORDER_REVIVE_QUEUE: marks messages that are popped in order
REVIVE_QUEUES = 8  # BrokerConfig.reviveQueueNum
_SEPARATOR = " "  # MessageConst.KEY_SEPARATOR
_NORMAL, _RETRY, _RETRY_V2 = "0", "1", "2"


class Handle(NamedTuple):
    """The parts of a handle that a broker reads."""

    start: int  # the queue's first position in the answer that gave the message
    pop_time: int  # milliseconds
    invisible: int  # milliseconds
    revive_queue: int

    @property
    def in_order(self) -> bool:
        return self.revive_queue == ORDER_QUEUE


def parse_handle(text: str) -> Handle:
    """A handle as a client sends it back. Raises Refused."""
    parts = text.split(_SEPARATOR)
    try:
        start, pop_time, invisible = (parse_integer(part, 64) for part in parts[:3])
        revive_queue = parse_integer(parts[3], 32)
    except (ValueError, IndexError):
        raise Refused("the handle is none that a broker gives") from None
    return Handle(start, pop_time, invisible, revive_queue)


def retry_topics(topic: str, group: str) -> tuple[str, str]:
    """The topics for messages not acknowledged in time (KeyBuilder.buildPopRetryTopicV1, V2)."""
    return f"{RETRY_PREFIX}{group}_{topic}", f"{RETRY_PREFIX}{group}+{topic}"


def real_topic(topic: str, group: str, retry: str) -> str | None:
    """The topic from which a batch's messages were popped; None if `retry` is unknown."""
    if retry == _NORMAL:
        return topic
    known = {_RETRY: 0, _RETRY_V2: 1}.get(retry)
    return None if known is None else retry_topics(topic, group)[known]


def _kind(topic: str) -> str:
    """The code of a topic's kind in a handle (getRetry)."""
    if not topic.startswith(RETRY_PREFIX):
        return _NORMAL
    return _RETRY_V2 if "+" in topic else _RETRY


class Infos:
    """Header fields of an answer, joined by `;`, from which the client makes its handles."""

    def __init__(self) -> None:
        self.starts: list[str] = []  # StartOffsetInfo
        self.positions: list[str] = []  # MsgOffsetInfo
        self.counts: list[str] = []  # OrderCountInfo

    def add(self, topic: str, queue_id: int, start: int, positions: Iterable[int]) -> None:
        """Add the messages of one queue. Called once for each queue (parseStartOffsetInfo)."""
        kind = _kind(topic)
        self.starts.append(f"{kind} {queue_id} {start}")
        self.positions.append(f"{kind} {queue_id} {','.join(map(str, positions))}")

    def count(self, topic: str, queue_id: int, position: int | None, times: int) -> None:
        """Add how often a message was given before. position: None for the least of the queue."""
        key = str(queue_id) if position is None else f"qo{queue_id}%{position}"
        self.counts.append(f"{_kind(topic)} {key} {times}")
