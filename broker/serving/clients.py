"""What clients have told since the start: members and subscriptions, locks of queues, pull or pop;
and how much they were given.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from reput.broker.wire.codes import Refused

# ---
# Consumer groups and producers, as known from clients' heartbeats (ConsumerManager,
# ConsumerGroupInfo, ProducerManager).

TAG = "TAG"
EXPIRY = 120_000  # ms without a heartbeat (ConsumerManager.CHANNEL_EXPIRED_TIMEOUT)
MOST_MEMBERS = 50_000  # of all groups; a broker has no limit
MOST_SUBSCRIBED = 64 << 20  # approximate bytes of all subscriptions; a broker has no limit
_OBJECT_BYTES = 100  # a small object and its place in a table
_BROADCASTING = "BROADCASTING"


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

    def join(self, wanted: Group, connection: int, client: Client, keep: bool) -> None:
        """Note a heartbeat for one group (registerConsumer). Raises Refused: too many.

        keep: the heartbeat has no subscriptions; the group keeps its subscriptions.
        """
        group = self.groups.get(wanted.name)
        weight = 0 if group is None else group.weight
        if not keep and self._weight - weight + wanted.weight > MOST_SUBSCRIBED:
            raise Refused(f"subscriptions of {MOST_SUBSCRIBED} bytes are kept")
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
        """Note a heartbeat for one producer group (registerProducer). Raises Refused."""
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
            raise Refused(f"{MOST_MEMBERS} members of groups are known, and no more")
        self._members += 1

    def _tell_members(self, group: Group) -> None:
        if group.shares_queues:
            for connection in group.clients:
                self._tell(connection, group.name)


# ---
# The orderly consumer of a group that has locked a queue for itself (RebalanceLockManager).

LIVE_MILLISECONDS = 60_000  # rocketmq.broker.rebalance.lockMaxLiveTime
MOST_LOCKS = 100_000


class LockedQueue(NamedTuple):
    """A queue as clients name it (MessageQueue)."""

    brokerName: str  # noqa: N815 (the names of the JSON's members)
    queueId: int  # noqa: N815
    topic: str


class _Lock(NamedTuple):
    client: str
    time: int  # when the client last asked for the lock, in milliseconds


class QueueLocks:
    """The locks of all groups; a lock is free once nobody has asked for it for a minute."""

    def __init__(self) -> None:
        self._locks: dict[tuple[str, LockedQueue], _Lock] = {}

    def lock(
        self, group: str, queues: Iterable[LockedQueue], client: str, now: int
    ) -> list[LockedQueue]:
        """Lock and return the queues that are free or locked by this client (tryLockBatch)."""
        taken = []
        for queue in queues:
            held = self._locks.get((group, queue))
            if held is not None and held.client != client and not _expired(held, now):
                continue
            if held is None and not self._room(now):
                continue
            self._locks[group, queue] = _Lock(client, now)
            taken.append(queue)
        return taken

    def unlock(self, group: str, queues: Iterable[LockedQueue], client: str) -> None:
        """Unlock those of the queues that the client has locked (unlockBatch)."""
        for queue in queues:
            held = self._locks.get((group, queue))
            if held is not None and held.client == client:
                del self._locks[group, queue]

    def _room(self, now: int) -> bool:
        if len(self._locks) >= MOST_LOCKS:
            self._locks = {
                key: held for key, held in self._locks.items() if not _expired(held, now)
            }
        return len(self._locks) < MOST_LOCKS


def _expired(lock: _Lock, now: int) -> bool:
    return now - lock.time > LIVE_MILLISECONDS


# ---
# Whether a group pulls or pops a topic, as operators have set (MessageRequestModeManager).

PULL, POP = "PULL", "POP"  # MessageRequestMode
_MOST = 20_000  # a broker has no limit


class RequestMode(NamedTuple):
    """A SetMessageRequestModeRequestBody without topic and group."""

    mode: str = PULL
    shared: int = 0  # popShareQueueNum: number of other members whose queues a member pops too


class RequestModes:
    """The modes that were set, kept in memory: the store is not written to."""

    def __init__(self) -> None:
        self._modes: dict[tuple[str, str], RequestMode] = {}

    def put(self, topic: str, group: str, mode: RequestMode) -> None:
        """Raises Refused where too many are kept."""
        if (topic, group) not in self._modes and len(self._modes) >= _MOST:
            raise Refused(f"{_MOST} request modes are kept, and no more")
        self._modes[topic, group] = mode

    def of(self, topic: str, group: str) -> RequestMode:
        """The mode that was set, or defaultMessageRequestMode, as always for %RETRY% topics."""
        return self._modes.get((topic, group), RequestMode())

    def table(self) -> dict[str, dict[str, dict[str, object]]]:
        """All modes, by topic and group (MessageRequestModeSerializeWrapper)."""
        found: dict[str, dict[str, dict[str, object]]] = {}
        for (topic, group), each in self._modes.items():
            found.setdefault(topic, {})[group] = {
                "consumerGroup": group, "mode": each.mode, "popShareQueueNum": each.shared,
                "topic": topic,
            }  # fmt: skip
        return found


# ---
# Names that clients make up: groups and topics, before anything is kept under them.

_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]{1,255}")  # TopicValidator; Validators.CHARACTER_MAX_LENGTH

MOST_CLIENT_ID = 255  # characters kept of a client's id


def is_group_name(name: str) -> bool:
    """Whether a broker would make a subscription group of this name when a client first uses it
    (SubscriptionGroupManager.findSubscriptionGroupConfig).
    """
    return _LEGAL.fullmatch(name) is not None


# ---
# The number of messages given to clients, in total and per second (StoreStatsService).

_SPANS = (10, 60, 600)  # seconds
_TICK_MILLISECONDS = 1000


class Given:
    """A count of messages, with its values of the last ten minutes."""

    def __init__(self, now: int) -> None:
        self.total = 0
        self._past: deque[tuple[int, int]] = deque([(now, 0)], _SPANS[-1] + 1)

    def tick(self, now: int) -> None:
        """Note the count for `rates`, at most once a second."""
        if now - self._past[-1][0] >= _TICK_MILLISECONDS:
            self._past.append((now, self.total))

    def rates(self, now: int) -> list[float]:
        """Messages a second over the last ten seconds, minute and ten minutes."""
        return [self._rate(now, now - span * 1000) for span in _SPANS]

    def _rate(self, now: int, since: int) -> float:
        begin, count = next((each for each in self._past if each[0] >= since), self._past[-1])
        return (self.total - count) * 1000 / (now - begin) if now > begin else 0.0
