"""Requests that read: pulls, messages by key and by place, entries, offsets of queues."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from reput.broker.serving.about import MASTER_ID
from reput.broker.serving.attendance import compiled, is_tags, subscription
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
    the_topic,
)
from reput.broker.serving.clients import TAG, Subscription
from reput.broker.serving.group_requests import check_group, keep_pulled
from reput.broker.serving.records import BodyPiece, Taken, records_of
from reput.broker.serving.store import PERM_READ, LogRange, ServedQueue, Topic, bounds
from reput.broker.wire.codes import Refused, RequestCode, ResponseCode, fastjson
from reput.broker.wire.remoting import Command
from reput.store_format.derived.queue_reader import Boundary
from reput.store_format.derived.queues import Numbers
from reput.store_format.filter.filters import WrongTags, tag_filter
from reput.store_format.filter.sql import WrongExpression
from reput.store_format.log.reader import NoRecord, NotInLog
from reput.store_format.log.record import Record
from reput.store_format.message.message import parse_properties
from reput.store_format.query.by_key import UNIQUE_KEY_MOST
from reput.store_format.release.profiles import Profile

# ---
# Filters of a pull: which queue entries and records it wants (ExpressionMessageFilter).

_EVERYTHING = "*"  # SubscriptionData.SUB_ALL
_LOWEST_INT = -(1 << 31)
# A broker has no such limit; here one client's expression would keep all others waiting.
_WORK_MOST = 1 << 20  # characters that one pull evaluates; each record counts as _RECORD_WORK more
_RECORD_WORK = 200


class PullFilter(NamedTuple):
    """Which messages a pull gets; in doubt it gets a message, as the client filters too.

    codes: the hash codes of tags, as int32, of which the client compares the texts; None: of any.
    record: whether a record's message is wanted; None: that is not asked. looked_at: how many
    positions one pull goes through at most.
    """

    codes: np.ndarray | None = None
    record: Callable[[Record], bool] | None = None
    looked_at: int = 1 << 31

    def entries(self, tags_codes: Numbers) -> Any:
        """For each queue entry, whether its message may be wanted."""
        if self.codes is None:
            return np.ones(len(tags_codes), np.bool_)
        elsewhere = tags_codes < _LOWEST_INT  # the tagsCode is in a ConsumeQueueExt file
        return elsewhere | np.isin(tags_codes.astype(np.int32), self.codes)


EVERYTHING = PullFilter()


def wanted_by(subscription: Subscription, profile: Profile) -> PullFilter:
    """The filter of a subscription. Raises WrongTags, WrongExpression (ValueErrors)."""
    if not is_tags(subscription.kind):
        chosen = compiled(subscription.text, profile)

        def matches(record: Record) -> bool:
            properties = parse_properties(record.properties, profile.split_properties)
            return chosen.matches(record, properties, bytes)

        # the longer the expression, the fewer records one pull looks at
        most = max(_WORK_MOST // (_RECORD_WORK + len(subscription.text)), 1)
        return PullFilter(None, matches, most)
    if subscription.text == _EVERYTHING:
        return EVERYTHING
    return PullFilter(np.array(sorted(subscription.codes), np.int32))


def subscription_of(topic: str, text: str | None, kind: str | None, version: int) -> Subscription:
    """The subscription that a pull request carries itself (FilterAPI.build). Raises WrongTags."""
    if not is_tags(kind):
        if not text:
            raise WrongTags("an expression is empty")
        return Subscription(topic, text, str(kind), version)
    chosen = tag_filter(text or _EVERYTHING)
    codes = getattr(chosen, "codes", None)
    if codes is None:
        return Subscription(topic, _EVERYTHING, TAG, version)
    return Subscription(topic, text or _EVERYTHING, TAG, version, frozenset(codes))


# ---
# A pull: messages of one queue from a position on (PullMessageProcessor, DefaultMessageStore).
#
# Unlike a broker, this leaves out an entry that does not point to a whole record: a client that
# reads anything else drops the rest of the answer without a word.

_AT_ONCE = 1 << 10  # entries; a client may ask for any number of messages
SUSPEND, HAS_SUBSCRIPTION = 1 << 1, 1 << 2  # PullSysFlag
UNPARSED = "parse the consumer's subscription failed"


class Got(NamedTuple):
    """What was found in a queue (GetMessageResult)."""

    status: str  # of GetMessageStatus
    next: int  # nextBeginOffset
    minimum: int = 0
    maximum: int = 0
    pieces: tuple[BodyPiece, ...] = ()
    given: int = 0  # the number of messages
    positions: tuple[Numbers, ...] = ()  # of the messages, in their queue


_CODES = {
    "FOUND": ResponseCode.SUCCESS,
    "MESSAGE_WAS_REMOVING": ResponseCode.PULL_RETRY_IMMEDIATELY,
    "NO_MATCHED_MESSAGE": ResponseCode.PULL_RETRY_IMMEDIATELY,
    "OFFSET_FOUND_NULL": ResponseCode.PULL_NOT_FOUND,
    "OFFSET_OVERFLOW_ONE": ResponseCode.PULL_NOT_FOUND,
    "OFFSET_RESET": ResponseCode.PULL_OFFSET_MOVED,
    "OFFSET_OVERFLOW_BADLY": ResponseCode.PULL_OFFSET_MOVED,
    "OFFSET_TOO_SMALL": ResponseCode.PULL_OFFSET_MOVED,
}


@answers(RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
def pull(broker: Broker, request: Command, caller: Caller) -> Answer:
    """Messages of a queue, or why there are none; `hold` is set for a pull that may wait."""
    name, queue_id = text(request, "topic"), number(request, "queueId")
    group = text(request, "consumerGroup")
    position, most = number(request, "queueOffset"), number(request, "maxMsgNums")
    flags = number(request, "sysFlag")
    check_group(broker, group)
    topic = read_topic(broker, name, to_be="pulling")
    profile = broker.store.opened.profile
    if not 0 <= queue_id < topic.read_queues:
        known = profile.pull_illegal_queue
        illegal = ResponseCode.INVALID_PARAMETER if known else ResponseCode.SYSTEM_ERROR
        raise illegal_queue(illegal, topic, queue_id, caller)
    wanted = _wanted(broker, request, name, group, flags)
    queue = broker.store.queue(name, queue_id)
    reset = broker.offsets.take_reset(group, name, queue_id)
    if reset is None:
        got = take(broker, topic, queue, position, most, wanted)
        keep_pulled(broker, request, group, name, queue_id, got.next)
        broker.given.total += got.given
    else:
        got = Got("OFFSET_RESET", reset, *bounds(topic, queue))
    code = _code(got.status, position)
    fields = {
        "suggestWhichBrokerId": str(MASTER_ID),
        "nextBeginOffset": str(got.next),
        "minOffset": str(got.minimum),
        "maxOffset": str(got.maximum),
    }
    if profile.pull_sys_flags:
        fields |= {"topicSysFlag": str(topic.sys_flag), "groupSysFlag": "0"}
    hold = None
    if code == ResponseCode.PULL_NOT_FOUND and flags & SUSPEND:
        wait = number(request, "suspendTimeoutMillis", 0)
        hold = Hold(name, queue_id, position, caller.now + wait)
    return Answer(code, got.status, fields, b"", got.pieces, hold)


def _code(status: str, position: int) -> int:
    """The response code of a status (PullMessageProcessor.composeResponseHeader)."""
    if status in _CODES:
        return _CODES[status]
    return ResponseCode.PULL_OFFSET_MOVED if position else ResponseCode.PULL_NOT_FOUND


def read_topic(broker: Broker, name: str, to_be: str = "") -> Topic:
    """A topic that is served, and may be read if something is `to_be` done. Raises Refused."""
    topic = the_topic(broker, name, "topic[{}] not exist, apply first please!")
    if to_be and not topic.perm & PERM_READ:
        raise Refused(f"the topic[{name}] {to_be} message is forbidden", ResponseCode.NO_PERMISSION)
    return topic


def illegal_queue(code: int, topic: Topic, queue_id: int, caller: Caller) -> Refused:
    return Refused(
        f"queueId[{queue_id}] is illegal, topic:[{topic.name}] "
        f"topicConfig.readQueueNums:[{topic.read_queues}] consumer:[{caller.peer}]", code,
    )  # fmt: skip


def _wanted(broker: Broker, request: Command, topic: str, group: str, flags: int) -> PullFilter:
    """The filter by the subscription in the pull, or else by that in the group's heartbeats."""
    version = number(request, "subVersion", 0)
    profile = broker.store.opened.profile
    if flags & HAS_SUBSCRIPTION:
        try:
            own = subscription_of(
                topic, request.fields.get("subscription"), request.fields.get("expressionType"),
                version,
            )  # fmt: skip
            return wanted_by(own, profile)
        except WrongExpression:
            return EVERYTHING  # ConsumerFilterManager.build returns null: nothing is filtered
        except WrongTags:
            raise Refused(UNPARSED, ResponseCode.SUBSCRIPTION_PARSE_FAILED) from None
    known = broker.consumers.groups.get(group)
    subscription = None if known is None else known.subscriptions.get(topic)
    if subscription is None:
        what = "group info" if known is None else "subscription"
        raise Refused(f"the consumer's {what} not exist", ResponseCode.SUBSCRIPTION_NOT_EXIST)
    if subscription.version < version:
        raise Refused(
            "the consumer's subscription not latest", ResponseCode.SUBSCRIPTION_NOT_LATEST
        )
    try:
        return wanted_by(subscription, profile)
    except WrongExpression:
        raise Refused(
            "The broker's consumer filter data is not exist!Your expression may be wrong!",
            ResponseCode.FILTER_DATA_NOT_EXIST,
        ) from None


def take(
    broker: Broker, topic: Topic, queue: ServedQueue | None, position: int, most: int,
    wanted: PullFilter,
) -> Got:  # fmt: skip
    """What DefaultMessageStore.getMessage finds from a position on."""
    if queue is None:  # a broker would make this queue
        return Got("NO_MESSAGE_IN_QUEUE", 0, topic.empty_minimum)
    low, high = queue.minimum, queue.maximum
    if high == 0:
        return Got("NO_MESSAGE_IN_QUEUE", 0, low, high)
    if position < low:
        return Got("OFFSET_TOO_SMALL", low, low, high)
    if position == high:
        return Got("OFFSET_OVERFLOW_ONE", position, low, high)
    if position > high:
        return Got("OFFSET_OVERFLOW_BADLY", high, low, high)
    limits, log, files = broker.limits, broker.store.log, broker.store.files
    stop = position + min(limits.looked_at(most, queue.batch), wanted.looked_at)
    stop = min(stop, high, queue.entries.file_end(position))
    status, following = "NO_MATCHED_MESSAGE", position
    pieces, taken = list[BodyPiece](), Taken(0, 0)
    positions = list[Numbers]()
    while following < stop and not limits.has_enough(taken, most):
        many = min(max(most - taken.messages, 1), stop - following, _AT_ONCE)
        some = queue.some(following, many)
        if queue.batch:
            some = some.part(some.positions < stop)
        if not len(some):
            break
        passes = wanted.entries(some.tags_codes)
        passed = limits.passed(some, passes, taken, most, log.end)
        if not passed:
            break
        following = int(some.positions[passed - 1] + some.messages[passed - 1])
        chosen = some if passed == len(some) else some.part(slice(passed))
        if not passes.all():
            chosen = chosen.part(passes[:passed])
        found = records_of(chosen, log, files, wanted.record)
        pieces += found.pieces
        positions += found.positions
        taken = Taken(taken.messages + found.taken.messages, taken.bytes + found.taken.bytes)
        if taken.messages:
            status = "FOUND"
        elif len(chosen):
            status = "NO_MATCHED_MESSAGE" if found.unwanted else "MESSAGE_WAS_REMOVING"
    return Got(status, following, low, high, tuple(pieces), taken.messages, tuple(positions))


# ---
# Messages by key, and one message by its place in the log (QueryMessageProcessor).

_UNIQUE = "_UNIQUE_KEY_QUERY"  # MixAll.UNIQUE_MSG_QUERY_FLAG


@answers(RequestCode.QUERY_MESSAGE)
def by_key(broker: Broker, request: Command, caller: Caller) -> Answer:
    """The newest messages with a key whose hash is that of the wanted key, in the log's order."""
    topic, key = text(request, "topic"), text(request, "key")
    most = UNIQUE_KEY_MOST if flag(request, _UNIQUE) else number(request, "maxNum")
    begin, end = number(request, "beginTimestamp"), number(request, "endTimestamp")
    hits, last_time, last_offset = broker.store.by_key(topic, key, most, begin, end)
    ranges = [found for place in hits if (found := whole_record(broker, place)) is not None]
    fields = {
        "indexLastUpdateTimestamp": str(last_time),
        "indexLastUpdatePhyoffset": str(last_offset),
    }
    if ranges:
        return Answer(ResponseCode.SUCCESS, None, fields, b"", tuple(ranges))
    return Answer(
        ResponseCode.QUERY_NOT_FOUND, "can not find message, maybe time range not correct", fields
    )


@answers(RequestCode.VIEW_MESSAGE_BY_ID)
def by_place(broker: Broker, request: Command, caller: Caller) -> Answer:
    """The message at a physical offset, whatever broker its message id names."""
    place = number(request, "offset")
    found = whole_record(broker, place)
    if found is None:
        return refused(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {place}")
    return Answer(ResponseCode.SUCCESS, None, {}, b"", (found,))


def whole_record(broker: Broker, place: int) -> LogRange | None:
    """The record at a physical offset; None if no record is there, or it is not served."""
    store = broker.store
    try:
        record = store.log.record_at(place)
    except (NoRecord, NotInLog):
        return None
    return store.files.range(place, record.size) if place < store.limit else None


# ---
# Entries as a queue's files have them (AdminBrokerProcessor.queryConsumeQueue).

_MOST = 1000  # entries of one answer; a broker has no limit


@answers(RequestCode.QUERY_CONSUME_QUEUE)
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


# ---
# Offsets of queues: the smallest, the greatest, that of a time (AdminBrokerProcessor).


@answers(RequestCode.GET_MAX_OFFSET)
def max_offset(broker: Broker, request: Command, caller: Caller) -> Answer:
    """The position after a queue's last message; 0 where there is no such queue."""
    queue = _queue(broker, request)
    return found(offset=0 if queue is None else queue.maximum)


@answers(RequestCode.GET_MIN_OFFSET)
def min_offset(broker: Broker, request: Command, caller: Caller) -> Answer:
    """A queue's first position that has not expired."""
    queue = _queue(broker, request)
    if queue is not None:
        return found(offset=queue.minimum)
    topic = broker.store.topics.get(text(request, "topic"))
    return found(offset=0 if topic is None else topic.empty_minimum)


@answers(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP)
def offset_at_time(broker: Broker, request: Command, caller: Caller) -> Answer:
    """A queue's position at a time; boundaryType is ignored by releases that do not know it."""
    queue = _queue(broker, request)
    timestamp = number(request, "timestamp")
    upper = request.fields.get("boundaryType", "").lower() == Boundary.UPPER
    boundary = Boundary.UPPER if upper else Boundary.LOWER  # BoundaryType.getType
    return found(offset=0 if queue is None else queue.at_time(timestamp, boundary))


@answers(RequestCode.GET_EARLIEST_MSG_STORETIME)
def earliest_time(broker: Broker, request: Command, caller: Caller) -> Answer:
    """The storeTimestamp of a queue's first message; -1 if the queue has no message."""
    queue = _queue(broker, request)
    return found(timestamp=-1 if queue is None else queue.earliest_time())


def _queue(broker: Broker, request: Command) -> ServedQueue | None:
    return broker.store.queue(text(request, "topic"), number(request, "queueId"))
