"""`Broker`, from which handlers answer: the store, and what clients have sent since the start."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

from reput.broker.pop.in_flight import InFlight
from reput.broker.pop.order import Orders
from reput.broker.serving.answer import Answer, Caller
from reput.broker.serving.consumers import Consumers
from reput.broker.serving.group_offsets import GroupOffsets
from reput.broker.serving.pull_limits import PullLimits
from reput.broker.serving.queue_locks import QueueLocks
from reput.broker.serving.read_rates import Given
from reput.broker.serving.request_modes import RequestModes
from reput.broker.serving.served_store import ServedStore
from reput.broker.serving.subscription_groups import SubscriptionGroups
from reput.broker.wire.codes import RequestCode
from reput.broker.wire.remoting import ONE_WAY_BIT, Command

Handler = Callable[["Broker", Command, Caller], Answer]
Handlers = dict[int, Handler]  # by request code
Guard = Callable[["Broker", Command, Caller], Answer | None]


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
        """The address at which a client finds the broker."""
        return self.address or caller.local
