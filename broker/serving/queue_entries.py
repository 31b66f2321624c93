"""Entries as a queue's files have them (AdminBrokerProcessor.queryConsumeQueue)."""

from reput.broker.serving.answer import Answer, Caller, refused
from reput.broker.serving.broker import Broker, Handlers
from reput.broker.serving.client_lists import subscription
from reput.broker.serving.fields import number, text
from reput.broker.wire.codes import RequestCode, ResponseCode, fastjson
from reput.broker.wire.remoting import Command

_MOST = 1000  # entries of one answer; a broker has no limit


def entries(broker: Broker, request: Command, caller: Caller) -> Answer:
    """Some entries from a position on (QueryConsumeQueueResponseBody)."""
    topic, queue_id = text(request, "topic"), number(request, "queueId")
    first, most = number(request, "index"), number(request, "count")
    group = request.fields.get("consumerGroup")
    queue = broker.store.queue(topic, queue_id)
    if queue is None:
        return refused(ResponseCode.SYSTEM_ERROR, f"{queue_id}@{topic} is not exist!")
    if not queue.minimum <= first < queue.maximum:
        why = f"Index {first} of {queue_id}@{topic} is not exist!"
        return Answer(ResponseCode.SUCCESS, why)
    answer: dict[str, object] = {"maxQueueIndex": queue.maximum, "minQueueIndex": queue.minimum}
    if group is not None:
        there = broker.consumers.groups.get(group)
        known = None if there is None else there.subscriptions.get(topic)
        if known is None:
            answer["filterData"] = f"{group}@{topic} is not online!"
        else:
            answer["subscriptionData"] = subscription(known)
    some = queue.some(first, min(max(most, 0), _MOST))
    answer["queueData"] = [
        {"eval": False, "physicOffset": place, "physicSize": size, "tagsCode": code}
        for place, size, code in zip(
            some.places.tolist(), some.sizes.tolist(), some.tags_codes.tolist(), strict=True
        )
    ]
    return Answer(ResponseCode.SUCCESS, None, {}, fastjson(answer))


HANDLERS: Handlers = {RequestCode.QUERY_CONSUME_QUEUE: entries}
