"""Requests about consumer groups: their offsets, resets, how late they are, their settings."""

from contextlib import suppress
from typing import Any

from reput.broker.serving.about import message_queue
from reput.broker.serving.broker import (
    Answer,
    Broker,
    Caller,
    answers,
    data_version,
    flag,
    found,
    number,
    refused,
    text,
    the_topic,
)
from reput.broker.serving.clients import MOST_CLIENT_ID, is_group_name
from reput.broker.serving.store import ServedQueue, bounds
from reput.broker.wire.codes import Entries, Language, Refused, RequestCode, ResponseCode, fastjson
from reput.broker.wire.remoting import ONE_WAY_BIT, Command
from reput.store_format.derived.queue_reader import Boundary
from reput.store_format.release.profiles import release_key

# ---
# Requests of consumer groups' offsets (ConsumerManageProcessor).

_COMMIT_OFFSET = 1 << 0  # PullSysFlag.FLAG_COMMIT_OFFSET


@answers(RequestCode.QUERY_CONSUMER_OFFSET)
def query(broker: Broker, request: Command, caller: Caller) -> Answer:
    """The group's offset of a queue (ConsumerManageProcessor.queryConsumerOffset)."""
    group, topic = text(request, "consumerGroup"), text(request, "topic")
    queue_id = number(request, "queueId")
    offset = broker.offsets.query(group, topic, queue_id)
    if offset >= 0:
        return found(offset=offset)
    if request.fields.get("setZeroIfNotFound", "").lower() == "false":
        return refused(
            ResponseCode.QUERY_NOT_FOUND,
            "Not found, do not set to zero, maybe this group boot first",
        )
    if begins_in_memory(broker, broker.store.queue(topic, queue_id)):
        return found(offset=0)
    return refused(
        ResponseCode.QUERY_NOT_FOUND,
        "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first",
    )


def begins_in_memory(broker: Broker, queue: ServedQueue | None) -> bool:
    """Whether a queue still has its first message, and the log from that message on would fit into
    memory: a new group then begins at it, wherever it asked to begin (checkInMemByConsumeOffset).

    True for an empty queue up to 5.0.0. From 5.1.0 on a broker asks the kernel which pages are in
    memory. Here the older rule stays, as its result does not vary from day to day.
    """
    if queue is not None and queue.minimum > 0:
        return False
    first = None if queue is None else queue.some(0, 1)
    if first is not None and len(first):
        return broker.store.limit - int(first.places[0]) <= broker.limits.memory_bytes
    return release_key(broker.store.opened.profile.release) < (5, 1, 0)


@answers(RequestCode.UPDATE_CONSUMER_OFFSET)
def commit(broker: Broker, request: Command, caller: Caller) -> Answer:
    """A client commits how far its group has come (updateConsumerOffset)."""
    group, topic = text(request, "consumerGroup"), text(request, "topic")
    queue_id, offset = number(request, "queueId"), number(request, "commitOffset")
    known = broker.groups.has(group) or not broker.store.opened.profile.commits_of_known_groups
    if not (known and is_group_name(group)):
        return refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group[:300]} not exist!")
    if not 0 <= queue_id < the_topic(broker, topic, "Topic {} not exist!").read_queues:
        return refused(ResponseCode.INVALID_PARAMETER, f"no queue {queue_id} of {topic}")
    if broker.offsets.is_reset(group, topic, queue_id):
        return found()._replace(remark="Offset has been previously reset")
    broker.offsets.commit(group, topic, queue_id, offset)
    return found()


def keep_pulled(
    broker: Broker, request: Command, group: str, topic: str, queue_id: int, upto: int
) -> None:
    """Note the offset up to which a pull gave its group messages, and commit the group's offset if
    the request has FLAG_COMMIT_OFFSET (PullMessageProcessor.tryCommitOffset).
    """
    broker.offsets.pulled(group, topic, queue_id, upto)
    if number(request, "sysFlag") & _COMMIT_OFFSET:
        with suppress(Refused):
            broker.offsets.commit(group, topic, queue_id, number(request, "commitOffset"))


@answers(RequestCode.GET_ALL_CONSUMER_OFFSET)
def all_offsets(broker: Broker, request: Command, caller: Caller) -> Answer:
    """All offsets of all groups; slaves ask for them (getAllConsumerOffset)."""
    return found(fastjson({"offsetTable": broker.offsets.table()}))


# ---
# Group offsets set back or forward by an operator (AdminBrokerProcessor.resetOffset). They are
# kept like offsets that clients commit: the store itself is not written to.

_NOWHERE = -1  # `offset` of a request that gives none


@answers(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET)
def reset(broker: Broker, request: Command, caller: Caller) -> Answer:
    """Set a group's offsets by a time, or one queue's to a given offset; answers with them."""
    if broker.store.opened.profile.server_resets_offsets:
        return _by_server(broker, request)
    return _by_clients(broker, request)


def _by_server(broker: Broker, request: Command) -> Answer:
    """Set offsets: the answer to each queue's next pull has the new offset (resetOffsetInner)."""
    name, group = text(request, "topic"), text(request, "group")
    queue_id, offset = number(request, "queueId", -1), number(request, "offset", _NOWHERE)
    topic = the_topic(broker, name, "Topic {} does not exist")
    if not broker.groups.has(group):
        return refused(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group[:300]} does not exist"
        )
    if queue_id >= topic.read_queues:  # a broker would make such a queue
        return refused(ResponseCode.SYSTEM_ERROR, f"no queue {queue_id} of {name}")
    if queue_id < 0:
        time = number(request, "timestamp")
        wanted = {n: _at_time(broker, name, n, time) for n in range(topic.read_queues)}
    elif offset != _NOWHERE:
        low, high = bounds(topic, broker.store.queue(name, queue_id))
        if 0 <= low > offset or offset > high + 1:
            return refused(
                ResponseCode.SYSTEM_ERROR,
                f"Target offset {offset} not in consume queue range [{low}-{high}]",
            )
        wanted = {queue_id: offset}
    else:
        wanted = {queue_id: _at_time(broker, name, queue_id, number(request, "timestamp"))}
    if not wanted:
        return refused(ResponseCode.SYSTEM_ERROR, "No queues to reset.")
    for each, to in wanted.items():
        broker.offsets.reset(group, name, each, to)
    return found(fastjson({"offsetTable": _table(broker, name, wanted)}))


def _by_clients(broker: Broker, request: Command) -> Answer:
    """Notify the group's clients, which commit the new offsets (Broker2Client.resetOffset)."""
    name, group = text(request, "topic"), text(request, "group")
    time, forced = number(request, "timestamp"), flag(request, "isForce")
    topic = broker.store.topics.get(name)
    if topic is None:
        has_code = broker.store.opened.profile.topic_not_exist
        return refused(
            ResponseCode.TOPIC_NOT_EXIST if has_code else ResponseCode.SYSTEM_ERROR,
            f"[reset-offset] reset offset failed, no topic in this broker. topic={name}",
        )
    wanted: dict[int, int] = {}
    for queue_id in range(topic.write_queues):
        before = broker.offsets.query(group, name, queue_id)
        if before < 0:
            return refused(ResponseCode.SYSTEM_ERROR, f"THe consumer group <{group}> not exist")
        to = _at_time(broker, name, queue_id, time)
        wanted[queue_id] = to if forced or to < before else before
    there = broker.consumers.groups.get(group)
    if there is None:
        return refused(
            ResponseCode.CONSUMER_NOT_ONLINE,
            f"Consumer not online, so can not reset offset, Group: {group} Topic: {name} "
            f"Timestamp: {time}",
        )
    table = _table(broker, name, wanted)
    body = fastjson({"offsetTable": table})
    fields = {"topic": name, "group": group, "timestamp": str(time)}
    body_for = body
    if request.language == Language.CPP:  # ResetOffsetBodyForC
        rows = [{**queue, "offset": offset} for queue, offset in table.pairs]
        body_for = fastjson({"offsetTable": rows})
    note = Command(
        RequestCode.RESET_CONSUMER_CLIENT_OFFSET, 0, ONE_WAY_BIT, fields, body_for,
        version=broker.version,
    )  # fmt: skip
    broker.outbox += [(connection, note) for connection in there.clients]
    return found(body)


def _at_time(broker: Broker, topic: str, queue_id: int, time: int) -> int:
    """A queue's position at a time. time: milliseconds; below 0: the queue's end."""
    queue = broker.store.queue(topic, queue_id)
    if queue is None:
        return 0
    return queue.maximum if time < 0 else max(queue.at_time(time, Boundary.LOWER), 0)


def _table(broker: Broker, topic: str, offsets: dict[int, int]) -> Entries:
    return Entries(
        (message_queue(broker, topic, queue_id), offset) for queue_id, offset in offsets.items()
    )


# ---
# Offsets of groups, compared with the ends of their queues (AdminBrokerProcessor).

_LIST_SEPARATOR = ";"  # GetConsumeStatsRequestHeader.TOPIC_NAME_SEPARATOR


@answers(RequestCode.GET_CONSUME_STATS)
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


@answers(RequestCode.GET_BROKER_CONSUME_STATS)
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
    body = {"brokerAddr": broker.address_for(caller), "consumeStatsList": rows, "totalDiff": behind}
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


@answers(RequestCode.QUERY_CONSUME_TIME_SPAN)
def time_spans(broker: Broker, request: Command, caller: Caller) -> Answer:
    """Times of each queue's first, last, last consumed message (QueryConsumeTimeSpanBody)."""
    name, group = text(request, "topic"), text(request, "group")
    topic = the_topic(broker, name)
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


# ---
# Requests of subscription groups' configuration (AdminBrokerProcessor).


@answers(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG)
def one(broker: Broker, request: Command, caller: Caller) -> Answer:
    """One group's configuration."""
    config = broker.groups.find(text(request, "group"))
    if config is None:
        return refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "No group in this broker")
    return found(fastjson(config))


@answers(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
def all_configs(broker: Broker, request: Command, caller: Caller) -> Answer:
    """All groups' configurations (SubscriptionGroupWrapper)."""
    table = broker.groups.table()
    answer = {"dataVersion": data_version(broker), "subscriptionGroupTable": table}
    return found(fastjson({**answer, "forbiddenTable": {}}))


def check_group(broker: Broker, name: str) -> None:
    """Raises Refused for a group that may get no messages (PullMessageProcessor)."""
    config = broker.groups.find(name)
    if config is None:
        raise Refused(
            f"subscription group [{name[:MOST_CLIENT_ID]}] does not exist",
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
        )
    if config.get("consumeEnable") is False:
        raise Refused(f"subscription group no permission, {name}", ResponseCode.NO_PERMISSION)
