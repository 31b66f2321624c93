"""Consumer groups as their clients' heartbeats tell of them (ConsumerManager)."""

from dataclasses import dataclass, field
from typing import NamedTuple

TAG = "TAG"
EXPIRY = 120_000  # ms without a heartbeat (ConsumerManager.CHANNEL_EXPIRED_TIMEOUT)


class Subscription(NamedTuple):
    """What a group wants of a topic (SubscriptionData)."""

    topic: str
    text: str  # tags as A || B, or an SQL92 expression
    kind: str = TAG  # expressionType
    version: int = 0  # subVersion: when the client made it
    codes: frozenset[int] = frozenset()  # the tags' hash codes


class Client(NamedTuple):
    """One member of a group."""

    id: str
    version: int
    language: int
    heard: int  # milliseconds since 1970


@dataclass
class Group:
    """One group (ConsumerGroupInfo)."""

    name: str
    kind: str = ""  # consumeType
    model: str = ""  # messageModel
    start: str = ""  # consumeFromWhere
    clients: dict[int, Client] = field(default_factory=dict)  # by connection
    subscriptions: dict[str, Subscription] = field(default_factory=dict)  # by topic


class Consumers:
    """All groups that have a client."""

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}

    def disconnect(self, connection: int, now: int) -> None:
        """A connection was closed: its clients are gone."""
        for group in list(self.groups.values()):
            if group.clients.pop(connection, None) and not group.clients:
                del self.groups[group.name]

    def expire(self, now: int) -> None:
        """Forget clients that were not heard of for two minutes."""
        for group in list(self.groups.values()):
            for connection, client in list(group.clients.items()):
                if now - client.heard > EXPIRY:
                    self.disconnect(connection, now)
