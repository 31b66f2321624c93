"""Offsets of groups, compared with the ends of their queues (AdminBrokerProcessor)."""

from typing import Any

from reput.broker.serving.answer import Answer, Caller, found, refused
from reput.broker.serving.broker import Broker, Handlers
from reput.broker.serving.fields import flag, text
from reput.broker.serving.topic_facts import message_queue
from reput.broker.wire.codes import Entries, RequestCode, ResponseCode, fastjson
from reput.broker.wire.remoting import Command

_LIST_SEPARATOR = ";"  # GetConsumeStatsRequestHeader.TOPIC_NAME_SEPARATOR


def of_group(broker: Broker, request: Command, caller: Caller) -> Answer:
    """A group's progress in its topics, or in those that the request names (ConsumeStats)."""
    group, topic = text(request, "consumerGroup"), request.fields.get("topic", "")
    wanted = [each for each in request.fields.get("topicList", "").split(_LIST_SEPARATOR) if each]
    if not wanted:
        topics = [topic] if topic.strip() else broker.offsets.topics_of(group)
        wanted = [each for each in topics if not broker.consumers.elsewhere(group, each)]
    pairs: list[tuple[Any, Any]] = []
    for name in dict.fromkeys(wanted):
        if name in broker.store.topics:
            pairs += _progress(broker, group, name, broker.store.topics[name].read_queues)
    return found(fastjson({"consumeTps": 0.0, "offsetTable": Entries(pairs)}))


def of_broker(broker: Broker, request: Command, caller: Caller) -> Answer:
    """All groups' progress (ConsumeStatsList); isOrder: only in ordered topics.

    fetchAllConsumeStatsInBroker sets no pullOffset, so that it is 0 and totalInflightDiff below 0.
    """
    ordered, tells_pulled = flag(request, "isOrder"), broker.store.opened.profile.tells_pulled
    rows, behind, in_flight = [], 0, 0
    for group in broker.groups.names():
        stats = []
        for name in broker.offsets.topics_of(group):
            topic = broker.store.topics.get(name)
            if topic is None or (ordered and not topic.order):
                continue
            if broker.consumers.elsewhere(group, name):
                continue
            pairs = _progress(broker, group, name, topic.write_queues, pulled=False)
            behind += sum(at["brokerOffset"] - at["consumerOffset"] for _, at in pairs)
            in_flight -= sum(at["consumerOffset"] for _, at in pairs)
            stats.append({"consumeTps": 0.0, "offsetTable": Entries(pairs)})
        rows.append({group: stats})
    body = {
        "brokerAddr": broker.address_for(caller),
        "consumeStatsList": rows,
        "totalDiff": behind,
    }
    return found(fastjson(body | {"totalInflightDiff": in_flight} if tells_pulled else body))


def _progress(
    broker: Broker, group: str, topic: str, queues: int, pulled: bool = True
) -> list[tuple[dict[str, object], dict[str, int]]]:
    """Each queue of a topic, and where the group stands in it (OffsetWrapper).

    pulled: whether pullOffset is that of the group; otherwise it is 0.
    """
    rows = []
    for queue_id in range(queues):
        queue = broker.store.queue(topic, queue_id)
        offset = max(broker.offsets.query(group, topic, queue_id), 0)
        last = broker.store.time_at(topic, queue_id, offset - 1) if offset > 0 else 0
        progress = {
            "brokerOffset": 0 if queue is None else queue.maximum,
            "consumerOffset": offset,
            "lastTimestamp": max(last, 0),
        }
        if broker.store.opened.profile.tells_pulled:
            progress["pullOffset"] = 0
            if pulled:
                asked = broker.offsets.query_pulled(group, topic, queue_id)
                progress["pullOffset"] = max(asked, offset)
        rows.append((message_queue(broker, topic, queue_id), progress))
    return rows


def time_spans(broker: Broker, request: Command, caller: Caller) -> Answer:
    """Times of each queue's first, last, last consumed message (QueryConsumeTimeSpanBody)."""
    name, group = text(request, "topic"), text(request, "group")
    topic = broker.store.topics.get(name)
    if topic is None:
        return refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist")
    spans = []
    for queue_id in range(topic.write_queues):
        queue = broker.store.queue(name, queue_id)
        first = -1 if queue is None else queue.earliest_time()
        end = 0 if queue is None else queue.maximum
        offset = broker.offsets.query(group, name, queue_id)
        reached = broker.store.time_at(name, queue_id, offset - 1) if offset > 0 else first
        late = caller.now - broker.store.time_at(name, queue_id, offset) if offset < end else 0
        spans.append(
            {
                "consumeTimeStamp": reached,
                "delayTime": late,
                "maxTimeStamp": broker.store.time_at(name, queue_id, end - 1),
                "messageQueue": message_queue(broker, name, queue_id),
                "minTimeStamp": first,
            }
        )
    return found(fastjson({"consumeTimeSpanSet": spans}))


HANDLERS: Handlers = {
    RequestCode.GET_CONSUME_STATS: of_group,
    RequestCode.GET_BROKER_CONSUME_STATS: of_broker,
    RequestCode.QUERY_CONSUME_TIME_SPAN: time_spans,
}
