"""The queues that a member of a group reads, if the broker and not the member allocates them
(QueryAssignmentProcessor). Clients with `clientRebalance=false` ask for their queues.
"""

import json
from collections.abc import Sequence
from typing import Any

from reput.broker.allocation import (
    CannotAllocate,
    MessageQueue,
    Queues,
    Strategy,
    averagely,
    averagely_by_circle,
    in_order,
)
from reput.broker.serving.answer import Answer, Caller, found, refused
from reput.broker.serving.broker import Broker, Handlers
from reput.broker.serving.request_modes import POP, PULL, RequestMode, TooManyModes
from reput.broker.serving.topic_facts import message_queue
from reput.broker.serving.topics import PERM_READ
from reput.broker.wire.codes import RequestCode, ResponseCode, fastjson
from reput.broker.wire.remoting import Command, is_int
from reput.store_format.names import RETRY_PREFIX

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


def query(broker: Broker, request: Command, caller: Caller) -> Answer:
    """The queues of one member, and whether it pulls or pops them (QueryAssignmentResponseBody).
    If no queue can be allocated, the answer has none, and the member keeps its queues.
    """
    try:
        asked = json.loads(request.body or b"")
        topic, group, member = (str(asked[n]) for n in ("topic", "consumerGroup", "clientId"))
        model, name = asked.get("messageModel"), asked.get("strategyName")
    except _NOT_JSON:
        return refused(ResponseCode.SYSTEM_ERROR, "the body is no QueryAssignmentRequestBody")
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


def set_mode(broker: Broker, request: Command, caller: Caller) -> Answer:
    """An operator sets whether a group pulls or pops a topic (setMessageRequestMode)."""
    try:
        asked = json.loads(request.body or b"")
        topic, group = str(asked["topic"]), str(asked["consumerGroup"])
        mode, shared = asked.get("mode", PULL), asked.get("popShareQueueNum", 0)
        if mode not in (PULL, POP) or not is_int(shared):
            raise ValueError("no MessageRequestMode")
    except _NOT_JSON:
        return refused(ResponseCode.SYSTEM_ERROR, "the body is no SetMessageRequestModeRequestBody")
    if topic.startswith(RETRY_PREFIX):
        return refused(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
    if topic not in broker.store.topics:
        return refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
    if broker.groups.find(group) is None:
        return refused(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "subscription group does not exist"
        )
    try:
        broker.modes.put(topic, group, RequestMode(mode, shared))
    except TooManyModes as error:
        return refused(ResponseCode.SYSTEM_ERROR, str(error))
    return found()


def modes(broker: Broker, request: Command, caller: Caller) -> Answer:
    """All modes that were set; slaves ask for them."""
    table: dict[str, Any] = {"messageRequestModeMap": broker.modes.table()}
    return found(fastjson(table))


_NOT_JSON = (ValueError, KeyError, TypeError, AttributeError, RecursionError)

HANDLERS: Handlers = {
    RequestCode.QUERY_ASSIGNMENT: query,
    RequestCode.SET_MESSAGE_REQUEST_MODE: set_mode,
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: modes,
}
