"""Group offsets set back or forward by an operator (AdminBrokerProcessor.resetOffset). They are
kept like offsets that clients commit: the store itself is not written to.
"""

from reput.broker.serving.answer import Answer, Caller, found, refused
from reput.broker.serving.broker import Broker, Handlers
from reput.broker.serving.fields import flag, number, text
from reput.broker.serving.group_offsets import TooManyOffsets
from reput.broker.serving.served_store import bounds
from reput.broker.serving.topic_facts import message_queue
from reput.broker.wire.codes import Entries, Language, RequestCode, ResponseCode, fastjson
from reput.broker.wire.remoting import ONE_WAY_BIT, Command
from reput.store_format.derived.queue_reader import Boundary

_NOWHERE = -1  # `offset` of a request that gives none


def reset(broker: Broker, request: Command, caller: Caller) -> Answer:
    """Set a group's offsets by a time, or one queue's to a given offset; answers with them."""
    if broker.store.opened.profile.server_resets_offsets:
        return _by_server(broker, request)
    return _by_clients(broker, request)


def _by_server(broker: Broker, request: Command) -> Answer:
    """Set offsets: the answer to each queue's next pull has the new offset (resetOffsetInner)."""
    name, group = text(request, "topic"), text(request, "group")
    queue_id, offset = number(request, "queueId", -1), number(request, "offset", _NOWHERE)
    topic = broker.store.topics.get(name)
    if topic is None:
        return refused(ResponseCode.TOPIC_NOT_EXIST, f"Topic {name} does not exist")
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
    try:
        for each, to in wanted.items():
            broker.offsets.reset(group, name, each, to)
    except TooManyOffsets as error:
        return refused(ResponseCode.SYSTEM_ERROR, str(error))
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
    body_for = _for_cpp(table) if request.language == Language.CPP else body
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


def _for_cpp(table: Entries) -> bytes:
    """The body for clients in C++ (ResetOffsetBodyForC)."""
    return fastjson({"offsetTable": [{**queue, "offset": offset} for queue, offset in table.pairs]})


HANDLERS: Handlers = {RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: reset}
