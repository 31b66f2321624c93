"""Which queues each consumer of a group gets: the client's AllocateMessageQueueStrategy classes.

Every client computes its own share, from the queues of a topic and the ids of the group's clients.
The shares fit together only if all clients sort queues and ids alike (`in_order`: RebalanceImpl).
"""

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

VIRTUAL_NODES = 10  # AllocateMessageQueueConsistentHash's default


class MessageQueue(NamedTuple):
    """A queue as clients know it."""

    topic: str
    broker_name: str
    queue_id: int


Queues = Sequence[MessageQueue]
# (the client's id, all queues, the ids of all clients) -> the client's queues
Strategy = Callable[[str, Queues, Sequence[str]], list[MessageQueue]]


class CannotAllocate(ValueError):
    """The strategy throws IllegalArgumentException."""


def in_order(
    queues: Collection[MessageQueue], clients: Collection[str]
) -> tuple[list[MessageQueue], list[str]]:
    """Queues and clients as RebalanceImpl sorts them for a strategy: texts by UTF-16 units."""
    ordered = sorted(queues, key=lambda q: (_units(q.topic), _units(q.broker_name), q.queue_id))
    return ordered, sorted(clients, key=_units)


def _units(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def averagely(client: str, queues: Queues, clients: Sequence[str]) -> list[MessageQueue]:
    """AVG, the default: each client gets adjacent queues, the first clients one more if uneven."""
    if not _takes_part(client, queues, clients):
        return []
    index = clients.index(client)
    each, more = divmod(len(queues), len(clients))
    start = index * each + min(index, more)
    return list(queues[start : start + each + (index < more)])


def averagely_by_circle(client: str, queues: Queues, clients: Sequence[str]) -> list[MessageQueue]:
    """AVG_BY_CIRCLE: queues are dealt to the clients in turn. Raises CannotAllocate."""
    if not _takes_part(client, queues, clients):
        return []
    return list(queues[clients.index(client) :: len(clients)])


def machine_room(
    client: str, queues: Queues, clients: Sequence[str], rooms: Collection[str]
) -> list[MessageQueue]:
    """MACHINE_ROOM: only queues of brokers named `room@name`, of these rooms. If they do not divide
    evenly, the first clients get one more each, from the end of the list. Raises CannotAllocate.
    """
    if not _takes_part(client, queues, clients):
        return []
    index = clients.index(client)
    near = [queue for queue in queues if _room(queue.broker_name) in rooms]
    each, more = divmod(len(near), len(clients))
    own = near[each * index : each * (index + 1)]
    return own + ([near[index + each * len(clients)]] if index < more else [])


def _room(broker_name: str) -> str | None:
    """The part before @; None unless Java's split at @ gives two parts."""
    parts = broker_name.rstrip("@").split("@")
    return parts[0] if len(parts) == 2 else None


def consistent_hash(
    client: str, queues: Queues, clients: Sequence[str], nodes: int = VIRTUAL_NODES
) -> list[MessageQueue]:
    """CONSISTENT_HASH: each client has `nodes` places on a ring; each queue belongs to the client
    with the first place at or after the queue's (ConsistentHashRouter). Raises CannotAllocate.
    """
    if nodes < 0:
        raise CannotAllocate(f"{nodes} virtual nodes")
    if not _takes_part(client, queues, clients):
        return []
    places, owners = _ring(tuple(clients), nodes)
    if not places:
        return []
    return [queue for queue in queues if owners[_place_on(places, queue)] == client]


@lru_cache(maxsize=8)
def _ring(clients: tuple[str, ...], nodes: int) -> tuple[list[int], list[str]]:
    """The places on the ring in ascending order, and the client that owns each place."""
    ring: dict[int, str] = {}
    for number, client in enumerate(clients):
        # a client that is listed twice has twice as many places
        before = list(ring.values()).count(client) if client in clients[:number] else 0
        for replica in range(before, before + nodes):
            ring[_hash(f"{client}-{replica}")] = client
    places = sorted(ring)
    return places, [ring[place] for place in places]


def _place_on(places: list[int], queue: MessageQueue) -> int:
    text = (
        f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, "
        f"queueId={queue.queue_id}]"
    )
    return bisect_left(places, _hash(text)) % len(places)


def _hash(text: str) -> int:
    """ConsistentHashRouter.MD5Hash: the digest's first four bytes, unsigned."""
    digest = hashlib.md5(text.encode("utf-8", "replace"), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4])


def _takes_part(client: str, queues: Queues, clients: Sequence[str]) -> bool:
    """AbstractAllocateMessageQueueStrategy.check. Raises CannotAllocate."""
    if not (client and queues and clients):
        raise CannotAllocate("no client id, no queue or no client at all")
    return client in clients


def strategies(rooms: Collection[str] = (), nodes: int = VIRTUAL_NODES) -> dict[str, Strategy]:
    """The strategies by RocketMQ's names, except those that need a list for each client.

    rooms: for MACHINE_ROOM, which is left out where there are no rooms.
    """
    known: dict[str, Strategy] = {
        "AVG": averagely,
        "AVG_BY_CIRCLE": averagely_by_circle,
        "CONSISTENT_HASH": partial(consistent_hash, nodes=nodes),
    }
    if rooms:
        known["MACHINE_ROOM"] = partial(machine_room, rooms=frozenset(rooms))
    return known


def allocation(
    strategy: Strategy, queues: Collection[MessageQueue], clients: Collection[str]
) -> dict[str, list[MessageQueue]]:
    """Each client's queues, once queues and clients are in order. Raises CannotAllocate."""
    ordered, ids = in_order(queues, clients)
    return {client: strategy(client, ordered, ids) for client in ids}
