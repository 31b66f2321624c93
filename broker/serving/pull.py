"""A pull: messages of one queue from a position on (PullMessageProcessor, DefaultMessageStore).

Unlike a broker, this leaves out an entry that does not point to a whole record: a client that reads
anything else drops the rest of the answer without a word.
"""

from typing import NamedTuple

from reput.broker.serving.answer import Answer, Caller, Hold, refused
from reput.broker.serving.broker import Broker, Handlers
from reput.broker.serving.fields import number, text
from reput.broker.serving.group_configs import group_refused
from reput.broker.serving.offset_requests import keep_pulled
from reput.broker.serving.pull_limits import Taken
from reput.broker.serving.queue import ServedQueue
from reput.broker.serving.record_bytes import BodyPiece, records_of
from reput.broker.serving.routes import MASTER_ID
from reput.broker.serving.served_store import bounds
from reput.broker.serving.subscriptions import EVERYTHING, PullFilter, subscription_of, wanted_by
from reput.broker.serving.topics import PERM_READ, Topic
from reput.broker.wire.codes import RequestCode, ResponseCode
from reput.broker.wire.remoting import Command
from reput.store_format.derived.queues import Numbers
from reput.store_format.filter.filters import WrongTags
from reput.store_format.filter.sql import WrongExpression

_AT_ONCE = 1 << 10  # entries; a client may ask for any number of messages
SUSPEND, HAS_SUBSCRIPTION = 1 << 1, 1 << 2  # PullSysFlag


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


def pull(broker: Broker, request: Command, caller: Caller) -> Answer:
    """Messages of a queue, or why there are none; `hold` is set for a pull that may wait."""
    name, queue_id = text(request, "topic"), number(request, "queueId")
    group = text(request, "consumerGroup")
    position, most = number(request, "queueOffset"), number(request, "maxMsgNums")
    flags = number(request, "sysFlag")
    if (said := group_refused(broker, group)) is not None:
        return said
    topic = broker.store.topics.get(name)
    if topic is None:
        return refused(
            ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist, apply first please!"
        )
    if not topic.perm & PERM_READ:
        return refused(
            ResponseCode.NO_PERMISSION, f"the topic[{name}] pulling message is forbidden"
        )
    profile = broker.store.opened.profile
    if not 0 <= queue_id < topic.read_queues:
        known = profile.pull_illegal_queue
        illegal = ResponseCode.INVALID_PARAMETER if known else ResponseCode.SYSTEM_ERROR
        return refused(
            illegal,
            f"queueId[{queue_id}] is illegal, topic:[{name}] "
            f"topicConfig.readQueueNums:[{topic.read_queues}] consumer:[{caller.peer}]",
        )
    wanted = _wanted(broker, request, name, group, flags)
    if isinstance(wanted, Answer):
        return wanted
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


def _wanted(
    broker: Broker, request: Command, topic: str, group: str, flags: int
) -> PullFilter | Answer:
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
            return refused(
                ResponseCode.SUBSCRIPTION_PARSE_FAILED, "parse the consumer's subscription failed"
            )
    known = broker.consumers.groups.get(group)
    if known is None:
        return refused(ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's group info not exist")
    subscription = known.subscriptions.get(topic)
    if subscription is None:
        return refused(ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's subscription not exist")
    if subscription.version < version:
        return refused(
            ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest"
        )
    try:
        return wanted_by(subscription, profile)
    except WrongExpression:
        return refused(
            ResponseCode.FILTER_DATA_NOT_EXIST,
            "The broker's consumer filter data is not exist!Your expression may be wrong!",
        )


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
    keep = wanted.record if wanted.needs_record else None
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
        found = records_of(chosen, log, files, keep)
        pieces += found.pieces
        positions += found.positions
        taken = Taken(taken.messages + found.taken.messages, taken.bytes + found.taken.bytes)
        if taken.messages:
            status = "FOUND"
        elif len(chosen):
            status = "NO_MATCHED_MESSAGE" if found.unwanted else "MESSAGE_WAS_REMOVING"
    return Got(status, following, low, high, tuple(pieces), taken.messages, tuple(positions))


HANDLERS: Handlers = {RequestCode.PULL_MESSAGE: pull, RequestCode.LITE_PULL_MESSAGE: pull}
