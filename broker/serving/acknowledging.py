"""Acknowledgements of popped messages, and changes of their invisible time (AckMessageProcessor,
ChangeInvisibleTimeProcessor). The handle of a message that is not in flight changes nothing, and
is answered with SUCCESS, as by a broker.
"""

import base64
import json
from typing import Any

from reput.broker.serving.broker import (
    Answer,
    Broker,
    Caller,
    answers,
    body_of,
    found,
    number,
    refused,
    text,
)
from reput.broker.serving.handles import ORDER_QUEUE, Handle, parse_handle, real_topic
from reput.broker.serving.popped import ILLEGAL
from reput.broker.serving.reading import illegal_queue, read_topic
from reput.broker.serving.store import bounds
from reput.broker.wire.codes import Refused, RequestCode, ResponseCode
from reput.broker.wire.remoting import Command

_INVISIBLE_MOST = 3 * 24 * 3_600_000 + 1000  # milliseconds: timerMaxDelaySec, ackTimeInterval
_ACKS_MOST = 1 << 12  # positions of one batch: a client acknowledges the messages of one answer
_NAMES = {
    "c": "consumerGroup", "t": "topic", "r": "retry", "so": "startOffset", "q": "queueId",
    "rq": "reviveQueueId", "pt": "popTime", "it": "invisibleTime", "b": "bitSet",
}  # fmt: skip


@answers(RequestCode.ACK_MESSAGE)
def ack(broker: Broker, request: Command, caller: Caller) -> Answer:
    """Acknowledge one message."""
    group, topic, queue_id, position, handle = _place(broker, request, caller)
    low, high = _bounds(broker, topic, queue_id)
    if not low <= position <= high:
        return refused(
            ResponseCode.NO_MESSAGE,
            f"offset is illegal, key:{topic}@{queue_id}, commit:{position}, store:{low}~{high}",
        )
    return _acknowledge(broker, group, topic, queue_id, handle, position) or found()


@answers(RequestCode.BATCH_ACK_MESSAGE)
def batch_ack(broker: Broker, request: Command, caller: Caller) -> Answer:
    """Acknowledge messages of several answers (BatchAckMessageRequestBody)."""
    with body_of("BatchAckMessageRequestBody"):
        asked = json.loads(request.body or b"{}")
        batches = [_batch(each) for each in asked.get("acks") or ()]
    if not batches:
        return refused(ResponseCode.NO_MESSAGE, "no acknowledgements")
    answer = found()
    for group, topic, queue_id, handle, bits in batches:
        there = broker.store.topics.get(topic)
        if there is None or not 0 <= queue_id < there.read_queues:
            continue
        low, high = _bounds(broker, topic, queue_id)
        for bit in bits:
            position = handle.start + bit
            if low <= position <= high:
                said = _acknowledge(broker, group, topic, queue_id, handle, position)
                answer = said or answer
    return answer


def _batch(asked: Any) -> tuple[str, str, int, Handle, list[int]]:
    """(group, topic, queue, handle, bits) of a BatchAck, by its short or long field names."""
    known = {short: asked.get(short, asked.get(long)) for short, long in _NAMES.items()}
    group = str(known["c"])
    topic = real_topic(str(known["t"]), group, str(known["r"]))
    if topic is None:
        raise ValueError("no known retry")
    handle = Handle(*(int(known[name]) for name in ("so", "pt", "it", "rq")))
    # the text of BitSetSerializerDeserializer: base 64 of toByteArray
    raw = base64.b64decode(known["b"] or "", validate=True)[: _ACKS_MOST // 8]
    bits = [at * 8 + bit for at, byte in enumerate(raw) for bit in range(8) if byte >> bit & 1]
    return group, topic, int(known["q"]), handle, bits


@answers(RequestCode.CHANGE_MESSAGE_INVISIBLETIME)
def change_time(broker: Broker, request: Command, caller: Caller) -> Answer:
    """Set how long a message stays invisible from now on (ChangeInvisibleTimeProcessor)."""
    invisible = number(request, "invisibleTime")
    group, topic, queue_id, position, handle = _place(broker, request, caller)
    low, high = _bounds(broker, topic, queue_id)
    if not low <= position < high:
        return Answer(ResponseCode.NO_MESSAGE)
    if handle.in_order:
        if position < broker.offsets.query(group, topic, queue_id):
            return found()
        until = caller.now + invisible
        broker.orders.show_at(group, topic, queue_id, position, handle.pop_time, until)
        broker.woken.add((group, topic))
        return found(
            popTime=handle.pop_time, invisibleTime=until - handle.pop_time, reviveQid=ORDER_QUEUE
        )
    if invisible > _INVISIBLE_MOST:  # a broker's timer accepts no check point for a later time
        return refused(ResponseCode.SYSTEM_ERROR, "a message can stay invisible for three days")
    key = queue_id, handle.start, handle.pop_time
    visible = caller.now + max(invisible, 1)
    pop_time = broker.in_flight.change(group, topic, key, position, caller.now, visible)
    broker.woken.add((group, topic))  # pops that wait must take note of the new time
    pop_time = caller.now if pop_time is None else pop_time
    return found(popTime=pop_time, invisibleTime=invisible, reviveQid=handle.revive_queue)


def _place(broker: Broker, request: Command, caller: Caller) -> tuple[str, str, int, int, Handle]:
    """(group, topic, queue, position, handle) that a request names. Raises Refused."""
    name, queue_id = text(request, "topic"), number(request, "queueId")
    group, position = text(request, "consumerGroup"), number(request, "offset")
    topic = read_topic(broker, name)
    if not 0 <= queue_id < topic.read_queues:
        raise illegal_queue(ResponseCode.MESSAGE_ILLEGAL, topic, queue_id, caller)
    return group, name, queue_id, position, parse_handle(text(request, "extraInfo"))


def _bounds(broker: Broker, topic: str, queue_id: int) -> tuple[int, int]:
    return bounds(broker.store.topics[topic], broker.store.queue(topic, queue_id))


def _acknowledge(
    broker: Broker, group: str, topic: str, queue_id: int, handle: Handle, position: int
) -> Answer | None:
    """Acknowledge a message. Returns the refusal, or None if nothing is refused."""
    if not handle.in_order:
        broker.in_flight.settle(group, topic, (queue_id, handle.start, handle.pop_time), position)
        return None
    before = broker.offsets.query(group, topic, queue_id)
    if position < before:
        return None
    following = broker.orders.commit(group, topic, queue_id, position, handle.pop_time)
    if following >= 0:
        if not broker.offsets.is_reset(group, topic, queue_id):
            try:
                broker.offsets.commit(group, topic, queue_id, following)
            except Refused as error:
                return refused(ResponseCode.SYSTEM_ERROR, str(error))
        broker.woken.add((group, topic))
    elif following == ILLEGAL:
        return refused(
            ResponseCode.MESSAGE_ILLEGAL,
            f"offset is illegal, key:{topic}@{group}@{queue_id}, old:{before}, commit:{position}",
        )
    return None
