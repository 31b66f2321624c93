"""Offsets of queues: the smallest, the greatest, that of a time (AdminBrokerProcessor)."""

from reput.broker.serving.answer import Answer, Caller, found
from reput.broker.serving.broker import Broker, Handlers
from reput.broker.serving.fields import number, text
from reput.broker.serving.queue import ServedQueue
from reput.broker.wire.codes import RequestCode
from reput.broker.wire.remoting import Command
from reput.store_format.derived.queue_reader import Boundary


def max_offset(broker: Broker, request: Command, caller: Caller) -> Answer:
    """The position after a queue's last message; 0 where there is no such queue."""
    queue = _queue(broker, request)
    return found(offset=0 if queue is None else queue.maximum)


def min_offset(broker: Broker, request: Command, caller: Caller) -> Answer:
    """A queue's first position that has not expired."""
    queue = _queue(broker, request)
    if queue is not None:
        return found(offset=queue.minimum)
    topic = broker.store.topics.get(text(request, "topic"))
    return found(offset=0 if topic is None else topic.empty_minimum)


def offset_at_time(broker: Broker, request: Command, caller: Caller) -> Answer:
    """A queue's position at a time; boundaryType is ignored by releases that do not know it."""
    queue = _queue(broker, request)
    timestamp = number(request, "timestamp")
    upper = request.fields.get("boundaryType", "").lower() == Boundary.UPPER
    boundary = Boundary.UPPER if upper else Boundary.LOWER  # BoundaryType.getType
    return found(offset=0 if queue is None else queue.at_time(timestamp, boundary))


def earliest_time(broker: Broker, request: Command, caller: Caller) -> Answer:
    """The storeTimestamp of a queue's first message; -1 if the queue has no message."""
    queue = _queue(broker, request)
    return found(timestamp=-1 if queue is None else queue.earliest_time())


def _queue(broker: Broker, request: Command) -> ServedQueue | None:
    return broker.store.queue(text(request, "topic"), number(request, "queueId"))


HANDLERS: Handlers = {
    RequestCode.GET_MAX_OFFSET: max_offset,
    RequestCode.GET_MIN_OFFSET: min_offset,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: offset_at_time,
    RequestCode.GET_EARLIEST_MSG_STORETIME: earliest_time,
}
