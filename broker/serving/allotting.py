"""Requests about who reads which queue: locks, the client's strategies, allocated queues."""

import hashlib
import json
from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

from reput.broker.serving.about import message_queue
from reput.broker.serving.broker import (
    Answer,
    Broker,
    Caller,
    answers,
    body_of,
    found,
    refused,
    the_topic,
)
from reput.broker.serving.clients import (
    MOST_CLIENT_ID,
    POP,
    PULL,
    LockedQueue,
    RequestMode,
    is_group_name,
)
from reput.broker.serving.store import PERM_READ
from reput.broker.wire.codes import Refused, RequestCode, ResponseCode, fastjson
from reput.broker.wire.remoting import Command, is_int
from reput.store_format.names import RETRY_PREFIX

# ---
# Requests of locks of queues (AdminBrokerProcessor), which orderly consumers make.


@answers(RequestCode.LOCK_BATCH_MQ)
def lock(broker: Broker, request: Command, caller: Caller) -> Answer:
    """Lock queues for one client alone (AdminBrokerProcessor.lockBatchMQ)."""
    group, queues, client = _asked(broker, request)
    taken = broker.locks.lock(group, queues, client, caller.now)
    return found(fastjson({"lockOKMQSet": [queue._asdict() for queue in taken]}))


@answers(RequestCode.UNLOCK_BATCH_MQ)
def unlock(broker: Broker, request: Command, caller: Caller) -> Answer:
    """Unlock queues (unlockBatchMQ)."""
    broker.locks.unlock(*_asked(broker, request))
    return found()


def _asked(broker: Broker, request: Command) -> tuple[str, list[LockedQueue], str]:
    """(group, those of its queues that exist, client) of a LockBatchRequestBody."""
    with body_of("LockBatchRequestBody"):
        asked = json.loads(request.body or b"")
        group, client = str(asked["consumerGroup"]), str(asked["clientId"])
        queues = [_queue(each) for each in asked["mqSet"]]
    if not is_group_name(group):
        raise Refused(f"Group {group[:300]} not exist!", ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
    topics = broker.store.topics
    there = [
        queue
        for queue in queues
        if queue.topic in topics and 0 <= queue.queueId < topics[queue.topic].read_queues
    ]
    return group, there, client[:MOST_CLIENT_ID]


def _queue(asked: Any) -> LockedQueue:
    return LockedQueue(
        str(asked["brokerName"])[:MOST_CLIENT_ID], int(asked["queueId"]), str(asked["topic"])
    )


# ---
# Which queues each consumer of a group gets: the client's AllocateMessageQueueStrategy classes.
#
# Every client computes its own share, from the queues of a topic and the ids of the group's
# clients. The shares fit together only if all clients sort queues and ids alike (`in_order`:
# RebalanceImpl).

VIRTUAL_NODES = 10  # AllocateMessageQueueConsistentHash's default


class MessageQueue(NamedTuple):
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


# ---
# The queues that a member of a group reads, if the broker and not the member allocates them
# (QueryAssignmentProcessor). Clients with `clientRebalance=false` ask for their queues.

_BROADCASTING, _CLUSTERING = "BROADCASTING", "CLUSTERING"
_ALL_QUEUES = -1  # the queue id by which a member pops all queues of a topic
# The allocation strategies that a broker knows; clients know more.
_STRATEGIES = {"AVG": averagely, "AVG_BY_CIRCLE": averagely_by_circle}


def assigned(
    mode: RequestMode, strategy: Strategy, queues: Queues, members: Sequence[str], member: str
) -> list[MessageQueue]:
    """The queues of a member (doLoadBalance; allocate4Pop for a group that pops).

    queues, members: sorted (`in_order`). Raises CannotAllocate.
    """
    if mode.mode != POP:
        return strategy(member, queues, members)
    if not 0 < mode.shared < len(members) - 1:
        return [each._replace(queue_id=_ALL_QUEUES) for each in queues[:1]]
    if member not in members:
        return []
    index = members.index(member)
    if len(members) > len(queues):
        return [queues[index % len(queues)]]
    chosen = dict[MessageQueue, None]()
    for step in range(mode.shared + 1):
        other = members[(index + step) % len(members)]
        chosen |= dict.fromkeys(strategy(other, queues, members))
    return list(chosen)


@answers(RequestCode.QUERY_ASSIGNMENT)
def query(broker: Broker, request: Command, caller: Caller) -> Answer:
    """The queues of one member, and whether it pulls or pops them (QueryAssignmentResponseBody).
    If no queue can be allocated, the answer has none, and the member keeps its queues.
    """
    with body_of("QueryAssignmentRequestBody"):
        asked = json.loads(request.body or b"")
        topic, group, member = (str(asked[n]) for n in ("topic", "consumerGroup", "clientId"))
        model, name = asked.get("messageModel"), asked.get("strategyName")
    mode = broker.modes.of(topic, group)
    chosen = _chosen(broker, topic, group, member, str(model), str(name), mode)
    if chosen is None:
        return found(fastjson({}))
    assignments = [
        {"messageQueue": message_queue(broker, topic, each.queue_id), "mode": mode.mode}
        for each in chosen
    ]
    return found(fastjson({"messageQueueAssignments": assignments}))


def _chosen(
    broker: Broker, topic: str, group: str, member: str, model: str, strategy: str,
    mode: RequestMode,
) -> list[MessageQueue] | None:  # fmt: skip
    there = broker.store.topics.get(topic)
    if there is None or not there.perm & PERM_READ:
        return None
    queues = [MessageQueue(topic, broker.name, queue_id) for queue_id in range(there.read_queues)]
    if model == _BROADCASTING:
        return queues
    members = broker.consumers.groups.get(group)
    if members is None or strategy not in _STRATEGIES or model != _CLUSTERING:
        return None
    ordered, ids = in_order(queues, [each.id for each in members.clients.values()])
    try:
        return assigned(mode, _STRATEGIES[strategy], ordered, ids, member)
    except CannotAllocate:
        return None


@answers(RequestCode.SET_MESSAGE_REQUEST_MODE)
def set_mode(broker: Broker, request: Command, caller: Caller) -> Answer:
    """An operator sets whether a group pulls or pops a topic (setMessageRequestMode)."""
    with body_of("SetMessageRequestModeRequestBody"):
        asked = json.loads(request.body or b"")
        topic, group = str(asked["topic"]), str(asked["consumerGroup"])
        mode, shared = asked.get("mode", PULL), asked.get("popShareQueueNum", 0)
        if mode not in (PULL, POP) or not is_int(shared):
            raise ValueError("no MessageRequestMode")
    if topic.startswith(RETRY_PREFIX):
        return refused(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
    the_topic(broker, topic)
    if broker.groups.find(group) is None:
        return refused(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "subscription group does not exist"
        )
    broker.modes.put(topic, group, RequestMode(mode, shared))
    return found()


@answers(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
def modes(broker: Broker, request: Command, caller: Caller) -> Answer:
    """All modes that were set; slaves ask for them."""
    return found(fastjson({"messageRequestModeMap": broker.modes.table()}))
