"""Requests that pop messages, or look at what a pop would give, and the checks before them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from reput.broker.serving import reading
from reput.broker.serving.broker import (
    Answer,
    Broker,
    Caller,
    Hold,
    answers,
    flag,
    found,
    number,
    refused,
    text,
)
from reput.broker.serving.group_requests import begins_in_memory, check_group
from reput.broker.serving.handles import ORDER_QUEUE, REVIVE_QUEUES, Infos, retry_topics
from reput.broker.serving.popped import CheckPoint, OrderInfo
from reput.broker.serving.records import BodyPiece, given_again
from reput.broker.serving.store import Topic, bounds
from reput.broker.wire.codes import Refused, RequestCode, ResponseCode
from reput.broker.wire.remoting import Command
from reput.store_format.filter.filters import WrongTags
from reput.store_format.filter.sql import WrongExpression

# ---
# Checks that POP and related requests make before they answer (PopMessageProcessor and others).

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


def checked(broker: Broker, request: Command, caller: Caller) -> Asked:
    """The group, topic and queues that a request asks for. Raises Refused."""
    name, group = text(request, "topic"), text(request, "consumerGroup")
    queue_id = number(request, "queueId")
    topic = reading.read_topic(broker, name, to_be="peeking")
    if queue_id >= topic.read_queues:
        raise reading.illegal_queue(ResponseCode.INVALID_PARAMETER, topic, queue_id, caller)
    check_group(broker, group)
    return Asked(group, topic, queue_id)


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


# ---
# POP: messages of a topic's queues that stay invisible to the rest of the group until they are
# acknowledged, or their invisible time is over (PopMessageProcessor).
#
# A broker writes check points and retries into its log. Here both are in memory (popped.py): a
# message is read again from its place in the log, and given with its reconsumeTimes counted up.

_MOST = 32  # messages of a pop
_TOO_LATE = 500  # milliseconds (PopMessageRequestHeader.isTimeoutTooMuch)
_RETRIES_FIRST = 5  # each fifth pop looks at retries before new messages (popFromRetryProbability)
_MOVED = ("OFFSET_TOO_SMALL", "OFFSET_OVERFLOW_BADLY", "OFFSET_FOUND_NULL")
_PASSED_OVER = ("NO_MATCHED_MESSAGE", "MESSAGE_WAS_REMOVING")


@dataclass
class _Pop:
    broker: Broker
    asked: Asked
    wanted: reading.PullFilter
    now: int
    pop_time: int
    most: int
    invisible: int
    revive_queue: int
    attempt: str | None
    from_first: bool
    pieces: list[BodyPiece] = field(default_factory=list)
    given: int = 0
    rest: int = 0  # the number of messages that the group was not given yet
    infos: Infos = field(default_factory=Infos)
    seen: set[tuple[str, int]] = field(default_factory=set)  # queues with messages in the answer
    free_at: int | None = None  # when a queue that is popped in order may be popped again
    passed_over: bool = False  # whether messages were skipped that the filter does not want

    @property
    def in_order(self) -> bool:
        return self.revive_queue == ORDER_QUEUE

    def fresh(self, topic: Topic, queue_id: int) -> None:
        """Pop a queue's messages from the group's offset on (popMsgFromQueue)."""
        broker, group, name = self.broker, self.asked.group, topic.name
        queue = broker.store.queue(name, queue_id)
        if queue is None:
            return
        offset = broker.offsets.take_reset(group, name, queue_id)
        if offset is None:
            from_first = self.from_first or topic is not self.asked.topic
            offset = pop_offset(broker, group, topic, queue_id, from_first)
        else:
            broker.orders.clear(group, name, queue_id)
        if self.in_order:
            free_at = broker.orders.blocked_until(self.attempt, group, name, queue_id, self.now)
            if free_at is not None:
                self.free_at = min(free_at, self.free_at or free_at)
                return
        waits = (name, queue_id) in self.seen or self.given >= self.most
        if waits or not self._has_room(name, queue_id):
            self.rest += max(queue.maximum - offset, 0)
            return
        got = reading.take(broker, topic, queue, offset, self.most - self.given, self.wanted)
        if got.status in _MOVED:
            offset = got.next
            broker.offsets.commit(group, name, queue_id, offset)
            got = reading.take(broker, topic, queue, offset, self.most - self.given, self.wanted)
        self.rest += max(got.maximum - got.next, 0)
        if got.given:
            self._give(topic, queue_id, offset, got)
        elif got.status in _PASSED_OVER:
            broker.offsets.commit(group, name, queue_id, got.next)
            self.passed_over |= got.next < got.maximum

    def _has_room(self, topic: str, queue_id: int) -> bool:
        if self.in_order:
            return self.broker.orders.has_room(self.asked.group, topic, queue_id)
        return self.broker.in_flight.has_room(self.asked.group, topic)

    def _give(self, topic: Topic, queue_id: int, offset: int, got: reading.Got) -> None:
        broker, group, name = self.broker, self.asked.group, topic.name
        positions = np.concatenate(got.positions).tolist()
        # first, as it may raise Refused, before anything is noted of these messages
        broker.offsets.commit(group, name, queue_id, offset if self.in_order else got.next)
        if self.in_order:
            info = broker.orders.popped(
                self.attempt, group, name, queue_id, self.pop_time, self.invisible, positions
            )
            self._count(name, queue_id, info)
            self.infos.add(name, queue_id, offset, positions)
        else:
            self._keep(name, queue_id, positions, 0)
        broker.offsets.pulled(group, name, queue_id, got.next)
        self.pieces += got.pieces
        self.given += got.given
        self.seen.add((name, queue_id))

    def _count(self, topic: str, queue_id: int, info: OrderInfo) -> None:
        for position, times in info.counts.items():
            self.infos.count(topic, queue_id, position, times)
        all_again = len(info.counts) == len(info.positions)
        fewest = min(info.counts.values(), default=0) if all_again else 0
        self.infos.count(topic, queue_id, None, fewest)  # old clients look for the queue's count

    def _keep(self, topic: str, queue_id: int, positions: Sequence[int], times: int) -> None:
        visible = self.now + max(self.invisible, 1)
        point = CheckPoint(queue_id, positions, self.pop_time, visible, times)
        in_flight = self.broker.in_flight
        keep = in_flight.put if times else in_flight.add
        keep(self.asked.group, topic, point)
        # a handle names its check point by the check point's first position
        self.infos.add(topic, queue_id, positions[0], positions)

    def again(self, topic: Topic) -> None:
        """Pop a topic's messages that nobody has acknowledged in time (PopReviveService)."""
        broker, group, name = self.broker, self.asked.group, topic.name
        for queue_id in broker.in_flight.queues_due(group, name, self.now):
            room = self.most - self.given
            if room <= 0 or (name, queue_id) in self.seen:
                continue
            found = broker.in_flight.again(group, name, queue_id, self.now, room)
            if found is None:
                continue
            queue = broker.store.queue(name, queue_id)
            records = (
                []
                if queue is None
                else given_again(
                    queue, found.positions, broker.store.log, broker.store.files, found.times + 1
                )
            )
            if records:
                self._keep(name, queue_id, [position for position, _ in records], found.times + 1)
                self.pieces += [piece for _, piece in records]
                self.given += len(records)
                self.seen.add((name, queue_id))

    def retries(self) -> None:
        """Pop messages again: those in memory, and those in the retry topics that the store has."""
        for topic in self.asked.topics(self.broker):
            self.again(topic)
            if topic is not self.asked.topic:
                for queue_id in range(topic.read_queues):
                    self.fresh(topic, queue_id)


@answers(RequestCode.POP_MESSAGE)
def pop(broker: Broker, request: Command, caller: Caller) -> Answer:
    """Messages, or a hold until there are some."""
    most, invisible = number(request, "maxMsgNums"), number(request, "invisibleTime")
    wait, born = number(request, "pollTime"), born_time(request, caller)
    if caller.now - born - wait > _TOO_LATE:
        return refused(ResponseCode.POLLING_TIMEOUT, "the broker pop message is timeout too much")
    if most > _MOST:
        return refused(
            ResponseCode.INVALID_PARAMETER, f"the broker pop message's num is greater than {_MOST}"
        )
    asked = checked(broker, request, caller)
    try:
        own = reading.subscription_of(
            asked.topic.name, request.fields.get("exp"), request.fields.get("expType"), 0
        )
        wanted = reading.wanted_by(own, broker.store.opened.profile)
    except (WrongTags, WrongExpression):
        return refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, reading.UNPARSED)
    turn = next(broker.pops)
    names = [topic.name for topic in asked.topics(broker)]
    going = _Pop(
        broker, asked, wanted, caller.now,
        broker.in_flight.pop_time(asked.group, names, caller.now), most, invisible,
        ORDER_QUEUE if flag(request, "order") else turn % REVIVE_QUEUES,
        request.fields.get("attemptId"), number(request, "initMode") == FROM_FIRST,
    )  # fmt: skip
    try:
        _all_queues(going, turn)
    except Refused:
        if not going.given:
            raise
    return _answered(going, request, caller)


def _all_queues(going: _Pop, turn: int) -> None:
    """Go through the queues, starting with another queue each time."""
    retries_first = turn % _RETRIES_FIRST == 0
    if retries_first and not going.in_order:
        going.retries()
    queues = going.asked.queues
    for step in range(len(queues)):
        going.fresh(going.asked.topic, queues[(turn + step) % len(queues)])
    if not retries_first and not going.in_order and going.given < going.most:
        going.retries()


def _answered(going: _Pop, request: Command, caller: Caller) -> Answer:
    fields = {
        "popTime": str(going.pop_time),
        "invisibleTime": str(going.invisible),
        "reviveQid": str(going.revive_queue),
        "restNum": str(going.rest),
        "startOffsetInfo": ";".join(going.infos.starts),
        "msgOffsetInfo": ";".join(going.infos.positions),
    }
    if going.in_order:
        fields["orderCountInfo"] = ";".join(going.infos.counts)
    if going.given:
        going.broker.given.total += going.given
        return Answer(ResponseCode.SUCCESS, "FOUND", fields, b"", tuple(going.pieces))
    # one pop skips only a limited number of unwanted messages: the next goes on after them
    again = caller.now if going.passed_over else going.free_at
    hold = polling(going.broker, request, caller, going.asked, again)
    if isinstance(hold, int):
        return Answer(hold, "NO_MESSAGE_IN_QUEUE", fields)
    return Answer(ResponseCode.POLLING_TIMEOUT, "NO_MESSAGE_IN_QUEUE", fields, hold=hold)


# ---
# Requests that look at what POP would give: whether there are messages (NotificationProcessor),
# how many pops wait (PollingInfoProcessor), the messages themselves (PeekMessageProcessor).

_PEEKED_MOST = 32  # messages; a broker has no limit


@answers(RequestCode.NOTIFICATION)
def notification(broker: Broker, request: Command, caller: Caller) -> Answer:
    """Whether a pop would find a message; if not, the request waits until a pop would."""
    asked = checked(broker, request, caller)
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


@answers(RequestCode.POLLING_INFO)
def polling_info(broker: Broker, request: Command, caller: Caller) -> Answer:
    """How many requests wait for messages of a queue."""
    asked = checked(broker, request, caller)
    return found(pollingNum=broker.waiting(asked.group, asked.topic.name, asked.queue_id))


@answers(RequestCode.PEEK_MESSAGE)
def peek(broker: Broker, request: Command, caller: Caller) -> Answer:
    """Messages that a pop would give, without popping them. Retries are left out."""
    most = min(number(request, "maxMsgNums"), _PEEKED_MOST)
    asked = checked(broker, request, caller)
    pieces, given, rest = list[BodyPiece](), 0, 0
    for topic in asked.topics(broker):
        for queue_id in asked.queues if topic is asked.topic else range(topic.read_queues):
            queue = broker.store.queue(topic.name, queue_id)
            offset = pop_offset(broker, asked.group, topic, queue_id, True)
            rest += 0 if queue is None else max(queue.maximum - offset, 0)
            if given >= most:
                continue
            got = reading.take(broker, topic, queue, offset, most - given, reading.EVERYTHING)
            if got.status in ("OFFSET_TOO_SMALL", "OFFSET_OVERFLOW_BADLY"):
                got = reading.take(broker, topic, queue, got.next, most - given, reading.EVERYTHING)
            pieces += got.pieces
            given += got.given
    fields = {
        "popTime": "0", "invisibleTime": "0", "reviveQid": "0", "restNum": str(rest),
    }  # fmt: skip
    if not given:
        return Answer(ResponseCode.PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE", fields)
    return Answer(ResponseCode.SUCCESS, "FOUND", fields, b"", tuple(pieces))
