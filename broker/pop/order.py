"""Queues that a group pops in order: it gets the next messages only once the messages before are
acknowledged, or their invisible time is over (ConsumerOrderInfoManager).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

MOST_QUEUES = 100_000  # of all groups; a broker has no limit
ILLEGAL, UNCHANGED = -1, -2  # what `commit` returns where no offset is to be committed
_FORGOTTEN_AFTER = 24 * 3600 * 1000  # CLEAN_SPAN_FROM_LAST


@dataclass
class OrderInfo:
    """The messages of a queue that were popped last (OrderInfo)."""

    attempt: str | None  # attemptId: the same when a client repeats its request
    pop_time: int
    invisible: int
    positions: Sequence[int]
    left: int  # a bit for each message that nobody has acknowledged
    visible: dict[int, int] = field(default_factory=dict)  # by position: when due, if changed
    counts: dict[int, int] = field(default_factory=dict)  # by position: how often given before

    def blocks_until(self) -> int:
        """Until when the queue is blocked; 0 if all messages are acknowledged."""
        usual = self.pop_time + self.invisible
        left = (each for n, each in enumerate(self.positions) if self.left >> n & 1)
        return max((self.visible.get(each, usual) for each in left), default=0)

    def next(self) -> int:
        """The position at which the group goes on (getNextOffset)."""
        for n, each in enumerate(self.positions):
            if self.left >> n & 1:
                return each
        return self.positions[-1] + 1


class Orders:
    """All queues that are popped in order."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, str, int], OrderInfo] = {}
        self.changes = 0  # how often something was popped or acknowledged

    def blocked_until(
        self, attempt: str | None, group: str, topic: str, queue_id: int, now: int
    ) -> int | None:
        """Until when a queue may not be popped; None: it may be popped now (checkBlock)."""
        info = self._of.get((group, topic, queue_id))
        if info is None or (info.attempt is not None and info.attempt == attempt):
            return None
        until = info.blocks_until()
        return until if now < until else None

    def has_room(self, group: str, topic: str, queue_id: int) -> bool:
        return (group, topic, queue_id) in self._of or len(self._of) < MOST_QUEUES

    def popped(
        self, attempt: str | None, group: str, topic: str, queue_id: int, pop_time: int,
        invisible: int, positions: Sequence[int],
    ) -> OrderInfo:  # fmt: skip
        """Note that messages were popped, and count how often each was popped before (update)."""
        before = self._of.get((group, topic, queue_id))
        new = OrderInfo(attempt, pop_time, invisible, positions, (1 << len(positions)) - 1)
        if before is not None:
            if before.attempt is not None and before.attempt == attempt:
                new.counts = before.counts
            else:
                known = set(before.positions) & set(positions)
                new.counts = {each: before.counts.get(each, 0) + 1 for each in sorted(known)}
        self.put(group, topic, queue_id, new)
        return new

    def commit(self, group: str, topic: str, queue_id: int, position: int, pop_time: int) -> int:
        """Note that a message is acknowledged. Returns the group's new offset, ILLEGAL or UNCHANGED
        (commitAndNext).
        """
        info = self._of.get((group, topic, queue_id))
        if info is None:
            return position + 1
        if info.pop_time != pop_time:
            return UNCHANGED
        if position not in info.positions:
            return ILLEGAL
        self.changes += 1
        info.left &= ~(1 << info.positions.index(position))
        return info.next()

    def show_at(
        self, group: str, topic: str, queue_id: int, position: int, pop_time: int, visible: int
    ) -> None:
        """Set when a message may be popped again (updateNextVisibleTime)."""
        info = self._of.get((group, topic, queue_id))
        if info is not None and info.pop_time == pop_time and position in info.positions:
            info.visible[position] = visible
            self.changes += 1

    def put(self, group: str, topic: str, queue_id: int, info: OrderInfo) -> None:
        self._of[group, topic, queue_id] = info
        self.changes += 1

    def all(self) -> Iterable[tuple[tuple[str, str, int], OrderInfo]]:
        """((group, topic, queue id), the messages of the queue that were popped last)."""
        return self._of.items()

    def clear(self, group: str, topic: str, queue_id: int) -> None:
        """Unblock a queue of which the group goes on at another offset (clearBlock)."""
        self._of.pop((group, topic, queue_id), None)

    def clean(self, now: int) -> None:
        """Forget queues from which nothing was popped for a day (autoClean)."""
        for key in [k for k, each in self._of.items() if now - each.pop_time > _FORGOTTEN_AFTER]:
            del self._of[key]
