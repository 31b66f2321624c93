"""Consumer groups and producers, as known from clients' heartbeats (ConsumerManager,
ConsumerGroupInfo, ProducerManager).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

TAG = "TAG"
EXPIRY = 120_000  # ms without a heartbeat (ConsumerManager.CHANNEL_EXPIRED_TIMEOUT)
MOST_MEMBERS = 50_000  # of all groups; a broker has no limit
MOST_SUBSCRIBED = 64 << 20  # approximate bytes of all subscriptions; a broker has no limit
_OBJECT_BYTES = 100  # a small object and its place in a table
_BROADCASTING = "BROADCASTING"


class TooManyClients(ValueError):
    """More clients, or longer subscriptions, than are kept."""


class Subscription(NamedTuple):
    """What a group wants of a topic (SubscriptionData)."""

    topic: str
    text: str  # tags as A || B, or an SQL92 expression
    kind: str = TAG  # expressionType
    version: int = 0  # subVersion: when the client made it
    codes: frozenset[int] = frozenset()  # the tags' hash codes
    tags: tuple[str, ...] = ()

    @property
    def weight(self) -> int:
        """The approximate size of the subscription in memory, in bytes."""
        texts = len(self.topic) + len(self.text) + sum(map(len, self.tags))
        return _OBJECT_BYTES * (4 + len(self.codes) + len(self.tags)) + texts


class Client(NamedTuple):
    """One member of a group (ClientChannelInfo)."""

    id: str
    version: int
    language: int
    heard: int  # the time of its last heartbeat, milliseconds since 1970
    address: str = ""  # host:port


@dataclass
class Group:
    """One group (ConsumerGroupInfo)."""

    name: str
    kind: str = ""  # consumeType
    model: str = ""  # messageModel
    start: str = ""  # consumeFromWhere
    clients: dict[int, Client] = field(default_factory=dict)  # by connection
    subscriptions: dict[str, Subscription] = field(default_factory=dict)  # by topic
    fingerprint: int = 0  # of the last heartbeat that had subscriptions

    @property
    def shares_queues(self) -> bool:
        """Whether members divide the queues among them, and so must know the other members."""
        return self.model != _BROADCASTING

    @property
    def weight(self) -> int:
        """The approximate size of the group's subscriptions in memory, in bytes."""
        return sum(each.weight for each in self.subscriptions.values())

    def subscribe(self, wanted: Iterable[Subscription]) -> bool:
        """Take a heartbeat's subscriptions; True if the topics changed (updateSubscription)."""
        before = self.subscriptions
        self.subscriptions = {}
        for each in wanted:
            old = before.get(each.topic)
            newer = old is None or each.version > old.version
            self.subscriptions[each.topic] = each if newer or old is None else old
        return before.keys() != self.subscriptions.keys()


class Consumers:
    """All groups that have a client, and all producers."""

    def __init__(self, tell: Callable[[int, str], None] = lambda connection, group: None) -> None:
        """tell: called with (connection, group) for each client of a group that has changed."""
        self.groups: dict[str, Group] = {}
        self.producers: dict[str, dict[int, Client]] = {}
        self._tell = tell
        self._members = self._weight = 0

    def join(
        self, wanted: Group, connection: int, client: Client, keep: bool
    ) -> None:  # fmt: skip
        """Note a heartbeat for one group (registerConsumer). Raises TooManyClients.

        keep: the heartbeat has no subscriptions; the group keeps its subscriptions.
        """
        group = self.groups.get(wanted.name)
        weight = 0 if group is None else group.weight
        if not keep and self._weight - weight + wanted.weight > MOST_SUBSCRIBED:
            raise TooManyClients(f"subscriptions of {MOST_SUBSCRIBED} bytes are kept")
        changed = group is None or connection not in group.clients
        if changed:
            self._enter()
        group = self.groups.setdefault(wanted.name, Group(wanted.name))
        group.kind, group.model, group.start = wanted.kind, wanted.model, wanted.start
        group.clients[connection] = client
        if not keep:
            changed |= group.subscribe(wanted.subscriptions.values())
            group.fingerprint = wanted.fingerprint
            self._weight += group.weight - weight
        if changed:
            self._tell_members(group)

    def produce(self, group: str, connection: int, client: Client) -> None:
        """Note a heartbeat for one producer group (registerProducer). Raises TooManyClients."""
        if connection not in self.producers.get(group, {}):
            self._enter()
        self.producers.setdefault(group, {})[connection] = client

    def leave(self, name: str, connection: int) -> None:
        """Remove a consumer from a group (unregisterConsumer)."""
        group = self.groups.get(name)
        if group is None or group.clients.pop(connection, None) is None:
            return
        self._members -= 1
        if not group.clients:
            self._weight -= group.weight
            del self.groups[name]
        self._tell_members(group)

    def stop_producing(self, group: str, connection: int) -> None:
        """Remove a producer from a group (unregisterProducer)."""
        members = self.producers.get(group, {})
        if members.pop(connection, None) is not None:
            self._members -= 1
        if not members:
            self.producers.pop(group, None)

    def disconnect(self, connection: int, now: int) -> None:
        """Remove all clients of a closed connection (doChannelCloseEvent)."""
        for name in [each.name for each in self.groups.values() if connection in each.clients]:
            self.leave(name, connection)
        for name in [name for name, each in self.producers.items() if connection in each]:
            self.stop_producing(name, connection)

    def expire(self, now: int) -> None:
        """Forget clients without a heartbeat for two minutes (scanNotActiveChannel)."""
        tables = [*(group.clients for group in self.groups.values()), *self.producers.values()]
        silent = {
            connection
            for table in tables
            for connection, client in table.items()
            if now - client.heard > EXPIRY
        }
        for connection in silent:
            self.disconnect(connection, now)

    def elsewhere(self, group: str, topic: str) -> bool:
        """Whether a group subscribes to other topics, but not to this one."""
        there = self.groups.get(group)
        return there is not None and bool(there.subscriptions) and topic not in there.subscriptions

    def _enter(self) -> None:
        if self._members >= MOST_MEMBERS:
            raise TooManyClients(f"{MOST_MEMBERS} members of groups are known, and no more")
        self._members += 1

    def _tell_members(self, group: Group) -> None:
        if group.shares_queues:
            for connection in group.clients:
                self._tell(connection, group.name)
