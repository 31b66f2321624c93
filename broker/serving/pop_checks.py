"""Checks that POP and related requests make before they answer (PopMessageProcessor and others)."""

from typing import NamedTuple

from reput.broker.pop.handles import retry_topics
from reput.broker.serving.answer import Answer, Caller, Hold, refused
from reput.broker.serving.broker import Broker
from reput.broker.serving.fields import number, text
from reput.broker.serving.group_configs import group_refused
from reput.broker.serving.offset_requests import begins_in_memory
from reput.broker.serving.served_store import bounds
from reput.broker.serving.topics import PERM_READ, Topic
from reput.broker.wire.codes import ResponseCode
from reput.broker.wire.remoting import Command

ALL_QUEUES = -1  # a queue id below 0 asks for all queues of a topic
FROM_FIRST = 0  # ConsumeInitMode.MIN
_POLLING_MOST = 1024  # BrokerConfig.popPollingSize
_WAIT_MOST = 300_000  # milliseconds
_LOOK_AGAIN = 200  # milliseconds
_BORN = "bornTime"


class Asked(NamedTuple):
    """The group that asks for messages, and the topic and queue (below 0: all queues)."""

    group: str
    topic: Topic
    queue_id: int

    @property
    def queues(self) -> range:
        if self.queue_id < 0:
            return range(self.topic.read_queues)
        return range(self.queue_id, self.queue_id + 1)

    def topics(self, broker: Broker) -> list[Topic]:
        """The topic, and those of its retry topics that the store has from an earlier broker."""
        names = retry_topics(self.topic.name, self.group)
        there = (broker.store.topics.get(name) for name in names)
        return [self.topic, *(topic for topic in there if topic is not None)]


def checked(broker: Broker, request: Command, caller: Caller) -> Asked | Answer:
    """The group, topic and queues that a request asks for, or its refusal."""
    name, group = text(request, "topic"), text(request, "consumerGroup")
    queue_id = number(request, "queueId")
    topic = broker.store.topics.get(name)
    if topic is None:
        return no_topic(name)
    if not topic.perm & PERM_READ:
        return refused(
            ResponseCode.NO_PERMISSION, f"the topic[{name}] peeking message is forbidden"
        )
    if queue_id >= topic.read_queues:
        return illegal_queue(ResponseCode.INVALID_PARAMETER, topic, queue_id, caller)
    if (said := group_refused(broker, group)) is not None:
        return said
    return Asked(group, topic, queue_id)


def no_topic(name: str) -> Answer:
    return refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist, apply first please!")


def illegal_queue(code: int, topic: Topic, queue_id: int, caller: Caller) -> Answer:
    return refused(
        code,
        f"queueId[{queue_id}] is illegal, topic:[{topic.name}] "
        f"topicConfig.readQueueNums:[{topic.read_queues}] consumer:[{caller.peer}]",
    )


def pop_offset(broker: Broker, group: str, topic: Topic, queue_id: int, first: bool) -> int:
    """The position at which a group goes on in a queue (getInitOffset). A group without an offset
    begins at the first message if `first` or `begins_in_memory`, and else at the last message.
    """
    offset = broker.offsets.query(group, topic.name, queue_id)
    if offset >= 0:
        return offset
    queue = broker.store.queue(topic.name, queue_id)
    low, high = bounds(topic, queue)
    if first or begins_in_memory(broker, queue):
        return max(low, 0)
    return max(high - 1, 0)


def has_fresh(broker: Broker, asked: Asked) -> bool:
    """Whether a queue has a message that the group was not given (hasMsgFromTopic)."""
    for topic in asked.topics(broker):
        for queue_id in asked.queues if topic is asked.topic else range(topic.read_queues):
            queue = broker.store.queue(topic.name, queue_id)
            if queue is not None and queue.maximum > pop_offset(
                broker, asked.group, topic, queue_id, True
            ):
                return True
    return False


def has_due(broker: Broker, asked: Asked, now: int) -> bool:
    """Whether a message is to be given again, as its invisible time is over."""
    return any(
        (at := broker.in_flight.next_due(asked.group, topic.name)) is not None and at <= now
        for topic in asked.topics(broker)
    )


def born_time(request: Command, caller: Caller) -> int:
    """When the client asked, in milliseconds; now if it does not say. The request keeps that, as it
    is handled again when it is woken (addExtFieldIfNotExist, addExtField).
    """
    if request.fields.get(_BORN, "0") == "0":
        request.fields[_BORN] = str(caller.now)
    return number(request, _BORN)


def polling(
    broker: Broker, request: Command, caller: Caller, asked: Asked, again: int | None
) -> Hold | int:
    """The hold of a request that found nothing, or why the request may not wait: POLLING_FULL,
    POLLING_TIMEOUT (PopLongPollingService.polling).

    again: time in milliseconds at which there may be a message though nothing new was stored.
    """
    wait, born = number(request, "pollTime"), born_time(request, caller)
    until = min(born + wait, caller.now + _WAIT_MOST)
    if wait <= 0 or until <= caller.now:
        return ResponseCode.POLLING_TIMEOUT
    key = asked.group, asked.topic.name
    if broker.waiting(*key, asked.queue_id) > _POLLING_MOST:
        return ResponseCode.POLLING_FULL
    # in the past if the group has too many messages in flight to get more: it looks again later
    due = [
        max(at, caller.now + _LOOK_AGAIN)
        for topic in asked.topics(broker)
        if (at := broker.in_flight.next_due(asked.group, topic.name)) is not None
    ]
    times = [*due, *([] if again is None else [again])]
    return Hold(
        asked.topic.name, asked.queue_id, 0, until, group=asked.group,
        again=min(times, default=None), ready=lambda: has_fresh(broker, asked),
    )  # fmt: skip
