"""`Broker`, from which handlers answer: the store, and what clients have sent since the start; with
what a handler gets and gives, and the refusal of all writing.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from reput.broker.serving.clients import Consumers, Given, QueueLocks, RequestModes, is_group_name
from reput.broker.serving.groups import GroupOffsets, SubscriptionGroups
from reput.broker.serving.popped import InFlight, Orders
from reput.broker.serving.records import BodyPiece, PullLimits
from reput.broker.serving.store import ServedStore, Topic, topic
from reput.broker.wire.codes import Refused, RequestCode, ResponseCode
from reput.broker.wire.remoting import ONE_WAY_BIT, Command

# ---
# What a handler knows of the caller, and what it answers.


class Caller(NamedTuple):
    connection: int  # its number, which no other connection gets
    peer: str  # the client's address, host:port
    local: str  # the address by which the client reached us, host:port
    now: int  # milliseconds since 1970


class Hold(NamedTuple):
    """A pull or pop that waits (PullRequestHoldService, PopLongPollingService)."""

    topic: str
    queue_id: int
    position: int  # the request is handled again once the queue has this position
    until: int  # milliseconds since 1970; then the Answer that has this Hold is sent
    group: str | None = None  # a pop's group; a pop waits for any queue of the topic
    again: int | None = None  # the request is handled again at this time, before `until`
    ready: "Callable[[], bool] | None" = None  # whether a pop would give a message by now


class Question(NamedTuple):
    """A question to another client, which alone knows the answer (Broker2Client)."""

    connection: int  # of the client that is asked
    command: Command  # gets its opaque when it is sent
    pieces: tuple[BodyPiece, ...]  # follow the command's body
    wait: int  # milliseconds
    # turns the client's response into our answer; None: no response in time, or client gone
    then: "Callable[[Command | None], Answer]"


class Answer(NamedTuple):
    """An answer to a request. Its body is bytes, or pieces of the log that follow one another."""

    code: int
    remark: str | None = None
    fields: dict[str, str] = {}
    body: bytes = b""
    pieces: tuple[BodyPiece, ...] = ()  # follow the body
    hold: Hold | None = None
    question: Question | None = None  # its `then` makes the real answer


def found(body: bytes = b"", **fields: object) -> Answer:
    """SUCCESS, with these fields; fields that are None are left out."""
    texts = {name: str(value) for name, value in fields.items() if value is not None}
    return Answer(ResponseCode.SUCCESS, None, texts, body)


def refused(code: int, remark: str) -> Answer:
    return Answer(code, remark)


# Answers a request, or raises Refused.
Handler = Callable[["Broker", Command, Caller], Answer]
Guard = Callable[["Broker", Command, Caller], Answer | None]
HANDLERS: dict[int, Handler] = {}  # by request code


def answers(*codes: RequestCode) -> Callable[[Handler], Handler]:
    """The function that follows answers requests of these codes."""

    def known(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(codes, handler))
        return handler

    return known


@dataclass
class Broker:
    """A name server and a broker that serve one store, and only read it."""

    store: ServedStore
    name: str  # brokerName
    cluster: str  # brokerClusterName
    version: int  # the broker's release, as a number of MQVersion
    started: int  # when it began, in milliseconds since 1970
    offsets: GroupOffsets
    groups: SubscriptionGroups
    address: str | None = None  # the address in routes; None: the one by which a client reached us
    # where slaves get the log (--ha-listen), host and port; None: no slaves are served
    slaves_at: tuple[str, int] | None = None
    limits: PullLimits = field(default_factory=PullLimits)
    consumers: Consumers = field(init=False)
    modes: RequestModes = field(default_factory=RequestModes)
    locks: QueueLocks = field(default_factory=QueueLocks)
    given: Given = field(init=False)
    in_flight: InFlight = field(default_factory=InFlight)  # messages popped, not acknowledged
    orders: Orders = field(default_factory=Orders)  # messages last popped in order, by queue
    pops: Iterator[int] = field(default_factory=count)  # numbers pops
    # (group, topic) pairs whose waiting pops are handled again, as they may find messages now
    woken: set[tuple[str, str]] = field(default_factory=set)
    # (group, topic, queue id) -> the number of waiting pops
    waiting: Callable[[str, str, int], int] = lambda group, topic, queue_id: 0
    # Called in turn before a request is handled. If a guard returns an Answer, that is sent.
    guards: list[Guard] = field(default_factory=list)
    # Called with a connection's number and the time, when the connection is closed.
    closed: list[Callable[[int, int], None]] = field(default_factory=list)
    # Called with the time, every few seconds.
    ticked: list[Callable[[int], None]] = field(default_factory=list)
    # Requests of our own to clients, by connection: sent after the answer.
    outbox: list[tuple[int, Command]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.consumers = Consumers(self._tell_of_change)
        self.given = Given(self.started)
        self.closed.append(self.consumers.disconnect)
        self.ticked += [self.consumers.expire, self.given.tick, self.orders.clean, self._wake_due]

    def _tell_of_change(self, connection: int, group: str) -> None:
        """Tell a client that its group's members changed (DefaultConsumerIdsChangeListener)."""
        fields = {"consumerGroup": group}
        note = Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, 0, ONE_WAY_BIT, fields)
        self.outbox.append((connection, note._replace(version=self.version)))

    def _wake_due(self, now: int) -> None:
        """Wake pops for messages whose invisible time is over."""
        self.woken.update(self.in_flight.due(now))

    def address_for(self, caller: Caller) -> str:
        return self.address or caller.local


# ---
# The fields of a request's header, in the types that handlers need (CommandCustomHeader).

_LONG, _DIGITS = 1 << 63, 19


def text(request: Command, name: str) -> str:
    """A field that must be there. Raises Refused."""
    value = request.fields.get(name)
    if value is None:
        raise Refused(f"the custom field <{name}> is null")
    return value


def number(request: Command, name: str, default: int | None = None) -> int:
    """A field that is a Java long or int. Raises Refused where it is not, or is missing."""
    value = request.fields.get(name)
    if value is None and default is not None:
        return default
    value = text(request, name)
    digits = value[1:] if value.startswith(("-", "+")) else value  # as Long.parseLong
    if not (digits.isascii() and digits.isdigit()) or len(digits) > _DIGITS:
        raise Refused(f"the custom field <{name}> is not a number")
    found = int(value)
    if not -_LONG <= found < _LONG:
        raise Refused(f"the custom field <{name}> is not a long")
    return found


def flag(request: Command, name: str) -> bool:
    """A field that Boolean.parseBoolean reads; False where it is missing."""
    return request.fields.get(name, "").lower() == "true"


def the_topic(broker: Broker, name: str, said: str = "topic[{}] not exist") -> Topic:
    """A topic that is served. Raises Refused, which says `said` of its name."""
    topic = broker.store.topics.get(name)
    if topic is None:
        raise Refused(said.format(name), ResponseCode.TOPIC_NOT_EXIST)
    return topic


@contextmanager
def body_of(kind: str) -> Iterator[None]:
    """Refuse a body that the block cannot read: it is not JSON of RocketMQ's class `kind`."""
    try:
        yield
    except (ValueError, OverflowError, KeyError, TypeError, AttributeError, RecursionError):
        raise Refused(f"the body is not a {kind}") from None


# ---
# DataVersion, by which brokers tell each other that a table has changed.


def data_version(broker: Broker) -> dict[str, int]:
    """The DataVersion of tables that do not change while a store is served."""
    return {"counter": 0, "stateVersion": 0, "timestamp": broker.started}


# ---
# Refuses all requests that write, in the words of a broker that may only be read.

_OF_PROXIES = "HeartBeatSyncerTopic"  # the end of ProxyConfig.heartbeatSyncerTopicName by default
_MOST_MADE = 100
READ_ONLY = "reput serves this store to be read only"
_SENDING = (
    RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2,
    RequestCode.CONSUMER_SEND_MSG_BACK,
)  # fmt: skip
_WRITING = (
    RequestCode.END_TRANSACTION,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC,
    RequestCode.DELETE_TOPIC_IN_BROKER, RequestCode.DELETE_TOPIC_IN_NAMESRV,
    RequestCode.REGISTER_TOPIC_IN_NAMESRV, RequestCode.UPDATE_BROKER_CONFIG,
    RequestCode.UPDATE_NAMESRV_CONFIG, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, RequestCode.DELETE_SUBSCRIPTIONGROUP,
    RequestCode.PUT_KV_CONFIG, RequestCode.DELETE_KV_CONFIG, RequestCode.WIPE_WRITE_PERM_OF_BROKER,
    RequestCode.ADD_WRITE_PERM_OF_BROKER, RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
    RequestCode.CLEAN_UNUSED_TOPIC, RequestCode.DELETE_EXPIRED_COMMITLOG,
    RequestCode.TRIGGER_DELETE_FILES, RequestCode.RESUME_CHECK_HALF_MESSAGE,
    RequestCode.RECALL_MESSAGE,
    RequestCode.SET_COMMITLOG_READ_MODE,
    RequestCode.CLONE_GROUP_OFFSET, RequestCode.RESET_CONSUMER_OFFSET_IN_BROKER,
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN,
    RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG,
    RequestCode.RESET_MASTER_FLUSH_OFFSET, RequestCode.AUTH_CREATE_USER,
    RequestCode.AUTH_UPDATE_USER, RequestCode.AUTH_DELETE_USER, RequestCode.AUTH_CREATE_ACL,
    RequestCode.AUTH_UPDATE_ACL, RequestCode.AUTH_DELETE_ACL,
)  # fmt: skip


@answers(*_SENDING)
def sending(broker: Broker, request: Command, caller: Caller) -> Answer:
    """Refuse a message (SendMessageProcessor with the brokerPermission to read only)."""
    return refused(
        ResponseCode.NO_PERMISSION,
        f"the broker[{broker.address_for(caller)}] sending message is forbidden: {READ_ONLY}",
    )


@answers(*_WRITING)
def writing(broker: Broker, request: Command, caller: Caller) -> Answer:
    """Refuse to write or change anything else."""
    return refused(
        ResponseCode.NO_PERMISSION,
        f"{RequestCode(request.code).name} would change the store: {READ_ONLY}",
    )


@answers(RequestCode.UPDATE_AND_CREATE_TOPIC)
def create_topic(broker: Broker, request: Command, caller: Caller) -> Answer:
    """Refuse to make a topic, except the topic that RocketMQ's Proxy needs before it starts
    (HeartbeatSyncer), which is kept in memory: it has no messages.
    """
    name = text(request, "topic")
    if not name.endswith(_OF_PROXIES) or not is_group_name(name):
        return writing(broker, request, caller)
    made = sum(each.endswith(_OF_PROXIES) for each in broker.store.topics)
    if name not in broker.store.topics and made >= _MOST_MADE:
        return writing(broker, request, caller)
    broker.store.make_topic(topic(name))
    return found()
