"""Requests of consumer groups' offsets (ConsumerManageProcessor)."""

from contextlib import suppress
from typing import Any

from reput.broker.serving.answer import Answer, Caller, found, refused
from reput.broker.serving.broker import Broker, Handlers
from reput.broker.serving.client_names import is_group_name
from reput.broker.serving.fields import number, text
from reput.broker.serving.group_offsets import TooManyOffsets
from reput.broker.serving.queue import ServedQueue
from reput.broker.wire.codes import RequestCode, ResponseCode, fastjson
from reput.broker.wire.remoting import Command
from reput.store_format.release.profiles import release_key

_COMMIT_OFFSET = 1 << 0  # PullSysFlag.FLAG_COMMIT_OFFSET


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


def commit(broker: Broker, request: Command, caller: Caller) -> Answer:
    """A client commits how far its group has come (updateConsumerOffset)."""
    group, topic = text(request, "consumerGroup"), text(request, "topic")
    queue_id, offset = number(request, "queueId"), number(request, "commitOffset")
    known = broker.groups.has(group) or not broker.store.opened.profile.commits_of_known_groups
    if not (known and is_group_name(group)):
        return refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group[:300]} not exist!")
    if topic not in broker.store.topics:
        return refused(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} not exist!")
    if not 0 <= queue_id < broker.store.topics[topic].read_queues:
        return refused(ResponseCode.INVALID_PARAMETER, f"no queue {queue_id} of {topic}")
    if broker.offsets.is_reset(group, topic, queue_id):
        return found()._replace(remark="Offset has been previously reset")
    try:
        broker.offsets.commit(group, topic, queue_id, offset)
    except TooManyOffsets as error:
        return refused(ResponseCode.SYSTEM_ERROR, str(error))
    return found()


def keep_pulled(
    broker: Broker, request: Command, group: str, topic: str, queue_id: int, upto: int
) -> None:
    """Note the offset up to which a pull gave its group messages, and commit the group's offset if
    the request has FLAG_COMMIT_OFFSET (PullMessageProcessor.tryCommitOffset).
    """
    broker.offsets.pulled(group, topic, queue_id, upto)
    if number(request, "sysFlag") & _COMMIT_OFFSET:
        with suppress(TooManyOffsets):
            broker.offsets.commit(group, topic, queue_id, number(request, "commitOffset"))


def everything(broker: Broker, request: Command, caller: Caller) -> Answer:
    """All offsets of all groups; slaves ask for them (getAllConsumerOffset)."""
    answer: dict[str, Any] = {"offsetTable": broker.offsets.table()}
    return found(fastjson(answer))


HANDLERS: Handlers = {
    RequestCode.QUERY_CONSUMER_OFFSET: query,
    RequestCode.UPDATE_CONSUMER_OFFSET: commit,
    RequestCode.GET_ALL_CONSUMER_OFFSET: everything,
}
