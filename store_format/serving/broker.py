"""`Broker`: what handlers answer from: the store, and what clients have told since we began."""

from collections.abc import Callable
from dataclasses import dataclass, field

from reput.store_format.remoting.command import Command
from reput.store_format.serving.answer import Answer, Caller
from reput.store_format.serving.consumers import Consumers
from reput.store_format.serving.pull_limits import PullLimits
from reput.store_format.serving.store import ServedStore

Handler = Callable[["Broker", Command, Caller], Answer]
Handlers = dict[int, Handler]  # by request code
Guard = Callable[["Broker", Command, Caller], Answer | None]


@dataclass
class Broker:
    """A name server and a broker on one store, which only reads it."""

    store: ServedStore
    name: str  # brokerName
    cluster: str  # brokerClusterName
    version: int  # of its release, as MQVersion numbers them
    address: str | None = None  # what routes say; None: the address that the client reached us by
    limits: PullLimits = field(default_factory=PullLimits)
    consumers: Consumers = field(default_factory=Consumers)
    # Asked before each request, in this order: what one answers is the answer.
    guards: list[Guard] = field(default_factory=list)
    # Called with a connection's number and the time when it is closed.
    closed: list[Callable[[int, int], None]] = field(default_factory=list)
    # Called with the time, every few seconds.
    ticked: list[Callable[[int], None]] = field(default_factory=list)
    # Requests of our own to clients, by connection: sent once the answer is.
    outbox: list[tuple[int, Command]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.closed.append(self.consumers.disconnect)
        self.ticked.append(self.consumers.expire)

    def address_for(self, caller: Caller) -> str:
        """Where a client is told to find the broker."""
        return self.address or caller.local
