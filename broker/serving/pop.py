"""POP: messages of a topic's queues that stay invisible to the rest of the group until they are
acknowledged, or their invisible time is over (PopMessageProcessor).

A broker writes check points and retries into its log. Here both are in memory (broker/pop): a
message is read again from its place in the log, and given with its reconsumeTimes counted up.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from reput.broker.pop.handles import ORDER_QUEUE, REVIVE_QUEUES, Infos
from reput.broker.pop.in_flight import CheckPoint
from reput.broker.pop.order import OrderInfo
from reput.broker.serving.answer import Answer, Caller, refused
from reput.broker.serving.broker import Broker, Handlers
from reput.broker.serving.fields import flag, number
from reput.broker.serving.group_offsets import TooManyOffsets
from reput.broker.serving.pop_checks import (
    FROM_FIRST,
    Asked,
    born_time,
    checked,
    polling,
    pop_offset,
)
from reput.broker.serving.pull import Got, take
from reput.broker.serving.record_bytes import BodyPiece, given_again
from reput.broker.serving.subscriptions import PullFilter, subscription_of, wanted_by
from reput.broker.serving.topics import Topic
from reput.broker.wire.codes import RequestCode, ResponseCode
from reput.broker.wire.remoting import Command
from reput.store_format.filter.filters import WrongTags
from reput.store_format.filter.sql import WrongExpression

_MOST = 32  # messages of a pop
_TOO_LATE = 500  # milliseconds (PopMessageRequestHeader.isTimeoutTooMuch)
_RETRIES_FIRST = 5  # each fifth pop looks at retries before new messages (popFromRetryProbability)
_MOVED = ("OFFSET_TOO_SMALL", "OFFSET_OVERFLOW_BADLY", "OFFSET_FOUND_NULL")
_PASSED_OVER = ("NO_MATCHED_MESSAGE", "MESSAGE_WAS_REMOVING")


@dataclass
class _Pop:
    """One pop, while it goes from queue to queue."""

    broker: Broker
    asked: Asked
    wanted: PullFilter
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
        got = take(broker, topic, queue, offset, self.most - self.given, self.wanted)
        if got.status in _MOVED:
            offset = got.next
            broker.offsets.commit(group, name, queue_id, offset)
            got = take(broker, topic, queue, offset, self.most - self.given, self.wanted)
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

    def _give(self, topic: Topic, queue_id: int, offset: int, got: Got) -> None:
        broker, group, name = self.broker, self.asked.group, topic.name
        positions = np.concatenate(got.positions).tolist()
        # first, as it may raise TooManyOffsets, before anything is noted of these messages
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
    if isinstance(asked, Answer):
        return asked
    try:
        own = subscription_of(
            asked.topic.name, request.fields.get("exp"), request.fields.get("expType"), 0
        )
        wanted = wanted_by(own, broker.store.opened.profile)
    except (WrongTags, WrongExpression):
        return refused(
            ResponseCode.SUBSCRIPTION_PARSE_FAILED, "parse the consumer's subscription failed"
        )
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
    except TooManyOffsets as error:
        if not going.given:
            return refused(ResponseCode.SYSTEM_ERROR, str(error))
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
        "startOffsetInfo": going.infos.starts,
        "msgOffsetInfo": going.infos.positions,
    }
    if going.in_order:
        fields["orderCountInfo"] = going.infos.counts
    if going.given:
        going.broker.given.total += going.given
        return Answer(ResponseCode.SUCCESS, "FOUND", fields, b"", tuple(going.pieces))
    # one pop skips only a limited number of unwanted messages: the next goes on after them
    again = caller.now if going.passed_over else going.free_at
    hold = polling(going.broker, request, caller, going.asked, again)
    if isinstance(hold, int):
        return Answer(hold, "NO_MESSAGE_IN_QUEUE", fields)
    return Answer(ResponseCode.POLLING_TIMEOUT, "NO_MESSAGE_IN_QUEUE", fields, hold=hold)


HANDLERS: Handlers = {RequestCode.POP_MESSAGE: pop}
