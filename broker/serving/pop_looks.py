"""Requests that look at what POP would give: whether there are messages (NotificationProcessor),
how many pops wait (PollingInfoProcessor), the messages themselves (PeekMessageProcessor).
"""

from reput.broker.serving.answer import Answer, Caller, found
from reput.broker.serving.broker import Broker, Handlers
from reput.broker.serving.fields import flag, number
from reput.broker.serving.pop_checks import Asked, checked, has_due, has_fresh, polling, pop_offset
from reput.broker.serving.pull import take
from reput.broker.serving.record_bytes import BodyPiece
from reput.broker.serving.subscriptions import EVERYTHING
from reput.broker.wire.codes import RequestCode, ResponseCode
from reput.broker.wire.remoting import Command

_PEEKED_MOST = 32  # messages; a broker has no limit


def notification(broker: Broker, request: Command, caller: Caller) -> Answer:
    """Whether a pop would find a message; if not, the request waits until a pop would."""
    asked = checked(broker, request, caller)
    if isinstance(asked, Answer):
        return asked
    free_at = None
    if flag(request, "order"):
        free, free_at = _free(broker, request, asked, caller.now)
        there = any(has_fresh(broker, each) for each in free)
    else:
        there = has_fresh(broker, asked) or has_due(broker, asked, caller.now)
    if there:
        return found(hasMsg="true", pollingFull="false")
    hold = polling(broker, request, caller, asked, free_at)
    if isinstance(hold, int):
        full = hold == ResponseCode.POLLING_FULL
        return found(hasMsg="false", pollingFull=str(full).lower())
    return found(hasMsg="false", pollingFull="false")._replace(hold=hold)


def _free(
    broker: Broker, request: Command, asked: Asked, now: int
) -> tuple[list[Asked], int | None]:
    """The queues that may be popped in order now, and when the next queue may be popped."""
    attempt = request.fields.get("attemptId")
    free, times = [], []
    for queue_id in asked.queues:
        until = broker.orders.blocked_until(attempt, asked.group, asked.topic.name, queue_id, now)
        if until is None:
            free.append(asked._replace(queue_id=queue_id))
        else:
            times.append(until)
    return free, min(times, default=None)


def polling_info(broker: Broker, request: Command, caller: Caller) -> Answer:
    """How many requests wait for messages of a queue."""
    asked = checked(broker, request, caller)
    if isinstance(asked, Answer):
        return asked
    return found(pollingNum=broker.waiting(asked.group, asked.topic.name, asked.queue_id))


def peek(broker: Broker, request: Command, caller: Caller) -> Answer:
    """Messages that a pop would give, without popping them. Retries are left out."""
    most = min(number(request, "maxMsgNums"), _PEEKED_MOST)
    asked = checked(broker, request, caller)
    if isinstance(asked, Answer):
        return asked
    pieces, given, rest = list[BodyPiece](), 0, 0
    for topic in asked.topics(broker):
        for queue_id in asked.queues if topic is asked.topic else range(topic.read_queues):
            queue = broker.store.queue(topic.name, queue_id)
            offset = pop_offset(broker, asked.group, topic, queue_id, True)
            rest += 0 if queue is None else max(queue.maximum - offset, 0)
            if given >= most:
                continue
            got = take(broker, topic, queue, offset, most - given, EVERYTHING)
            if got.status in ("OFFSET_TOO_SMALL", "OFFSET_OVERFLOW_BADLY"):
                got = take(broker, topic, queue, got.next, most - given, EVERYTHING)
            pieces += got.pieces
            given += got.given
    fields = {
        "popTime": "0", "invisibleTime": "0", "reviveQid": "0", "restNum": str(rest),
    }  # fmt: skip
    if not given:
        return Answer(ResponseCode.PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE", fields)
    return Answer(ResponseCode.SUCCESS, "FOUND", fields, b"", tuple(pieces))


HANDLERS: Handlers = {
    RequestCode.NOTIFICATION: notification,
    RequestCode.POLLING_INFO: polling_info,
    RequestCode.PEEK_MESSAGE: peek,
}
