"""The orderly consumer of a group that has locked a queue for itself (RebalanceLockManager)."""

from collections.abc import Iterable
from typing import NamedTuple

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
