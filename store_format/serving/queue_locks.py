"""Which consumer of a group has a queue to itself (RebalanceLockManager): what orderly consumers
ask for before they read.
"""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from reput.store_format.remoting.bodies import fastjson
from reput.store_format.remoting.codes import RequestCode, ResponseCode
from reput.store_format.remoting.command import Command
from reput.store_format.serving.answer import Answer, Caller, found, refused
from reput.store_format.serving.broker import Broker
from reput.store_format.serving.names import MOST_CLIENT_ID, is_group_name

LIVE_MILLISECONDS = 60_000  # rocketmq.broker.rebalance.lockMaxLiveTime
MOST_LOCKS = 100_000


class QueueKey(NamedTuple):
    """A queue as clients name it (MessageQueue)."""

    brokerName: str  # noqa: N815 (the names of the JSON's members)
    queueId: int  # noqa: N815
    topic: str


class _Lock(NamedTuple):
    client: str
    time: int  # when it was asked for last, in milliseconds


class QueueLocks:
    """The locks of all groups; a lock that is not asked for again for a minute is free."""

    def __init__(self) -> None:
        self._locks: dict[tuple[str, QueueKey], _Lock] = {}

    def lock(
        self, group: str, queues: Iterable[QueueKey], client: str, now: int
    ) -> list[QueueKey]:
        """Take what is free, or the client's already; returns those (tryLockBatch)."""
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

    def unlock(self, group: str, queues: Iterable[QueueKey], client: str) -> None:
        """Give back what the client has of them (unlockBatch)."""
        for queue in queues:
            held = self._locks.get((group, queue))
            if held is not None and held.client == client:
                del self._locks[group, queue]

    def _room(self, now: int) -> bool:
        if len(self._locks) >= MOST_LOCKS:
            self._locks = {key: held for key, held in self._locks.items() if not _expired(held, now)}
        return len(self._locks) < MOST_LOCKS


def _expired(lock: _Lock, now: int) -> bool:
    return now - lock.time > LIVE_MILLISECONDS


def lock(broker: Broker, request: Command, caller: Caller) -> Answer:
    """Queues for one client alone (AdminBrokerProcessor.lockBatchMQ)."""
    asked = _asked(broker, request)
    if isinstance(asked, Answer):
        return asked
    group, queues, client = asked
    taken = broker.locks.lock(group, queues, client, caller.now)
    return found(fastjson({"lockOKMQSet": [queue._asdict() for queue in taken]}))


def unlock(broker: Broker, request: Command, caller: Caller) -> Answer:
    """Queues given back (unlockBatchMQ)."""
    asked = _asked(broker, request)
    if isinstance(asked, Answer):
        return asked
    broker.locks.unlock(*asked)
    return found()


def _asked(broker: Broker, request: Command) -> tuple[str, list[QueueKey], str] | Answer:
    """(group, queues that there are, client) of a LockBatchRequestBody."""
    try:
        told = json.loads(request.body or b"")
        group, client = str(told["consumerGroup"]), str(told["clientId"])
        queues = [_queue(each) for each in told["mqSet"]]
    except (ValueError, KeyError, TypeError, RecursionError):
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


def _queue(told: Any) -> QueueKey:
    return QueueKey(str(told["brokerName"])[:MOST_CLIENT_ID], int(told["queueId"]), str(told["topic"]))


HANDLERS = {RequestCode.LOCK_BATCH_MQ: lock, RequestCode.UNLOCK_BATCH_MQ: unlock}
