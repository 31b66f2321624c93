"""Requests of locks of queues (AdminBrokerProcessor), which orderly consumers make."""

import json
from typing import Any

from reput.broker.serving.answer import Answer, Caller, found, refused
from reput.broker.serving.broker import Broker, Handlers
from reput.broker.serving.client_names import MOST_CLIENT_ID, is_group_name
from reput.broker.serving.queue_locks import LockedQueue
from reput.broker.wire.codes import RequestCode, ResponseCode, fastjson
from reput.broker.wire.remoting import Command


def lock(broker: Broker, request: Command, caller: Caller) -> Answer:
    """Lock queues for one client alone (AdminBrokerProcessor.lockBatchMQ)."""
    asked = _asked(broker, request)
    if isinstance(asked, Answer):
        return asked
    group, queues, client = asked
    taken = broker.locks.lock(group, queues, client, caller.now)
    return found(fastjson({"lockOKMQSet": [queue._asdict() for queue in taken]}))


def unlock(broker: Broker, request: Command, caller: Caller) -> Answer:
    """Unlock queues (unlockBatchMQ)."""
    asked = _asked(broker, request)
    if isinstance(asked, Answer):
        return asked
    broker.locks.unlock(*asked)
    return found()


def _asked(broker: Broker, request: Command) -> tuple[str, list[LockedQueue], str] | Answer:
    """(group, those of its queues that exist, client) of a LockBatchRequestBody."""
    try:
        asked = json.loads(request.body or b"")
        group, client = str(asked["consumerGroup"]), str(asked["clientId"])
        queues = [_queue(each) for each in asked["mqSet"]]
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return refused(ResponseCode.SYSTEM_ERROR, "the body is no LockBatchRequestBody")
    if not is_group_name(group):
        return refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group[:300]} not exist!")
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


HANDLERS: Handlers = {RequestCode.LOCK_BATCH_MQ: lock, RequestCode.UNLOCK_BATCH_MQ: unlock}
