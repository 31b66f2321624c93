"""Messages that were popped and not acknowledged, those of orderly groups too; and the same as JSON
that outlives the server.
"""

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from reput.broker.wire.codes import Refused

# ---
# Messages that were popped, until they are acknowledged (PopCheckPoint, PopBufferMergeService).
#
# A broker writes check points of popped messages into its log. A message that nobody acknowledged
# in time is written again, into a retry topic from which it is popped again. Here check points are
# in memory, and a message whose invisible time is over is given again from its place in the log.

MOST_POINTS = 100_000  # check points of all groups: a pop makes one for each queue
MOST_OF_GROUP = 20_000  # check points of one group in a topic; a broker has no limit
_SPLIT = 2  # factor of these limits while only part of a check point is given again
_SPAN_MOST = 1 << 12  # positions between the first and the last of one check point
_HEAP_SLACK = 64

Key = tuple[int, int, int]  # queue id, first position, pop time: what a handle names


class CheckPoint:
    """Some messages of one queue that were popped together."""

    __slots__ = ("left", "pop_time", "positions", "queue_id", "times", "visible")

    def __init__(
        self, queue_id: int, positions: Sequence[int], pop_time: int, visible: int, times: int = 0
    ) -> None:
        """visible: milliseconds at which they may be popped again. times: count of earlier pops."""
        self.queue_id, self.pop_time, self.visible, self.times = queue_id, pop_time, visible, times
        first, many = positions[0], len(positions)
        is_run = positions[-1] - first == many - 1
        self.positions = range(first, first + many) if is_run else tuple(positions)
        self.left = (1 << many) - 1  # a bit for each message that nobody has acknowledged

    @property
    def key(self) -> Key:
        return self.queue_id, self.positions[0], self.pop_time

    def waiting(self) -> list[int]:
        """The positions that nobody has acknowledged."""
        return [each for n, each in enumerate(self.positions) if self.left >> n & 1]

    def settle(self, position: int) -> bool:
        """Take out an acknowledged position; False if it is not waiting."""
        try:
            bit = 1 << self.positions.index(position)
        except ValueError:
            return False
        if not self.left & bit:
            return False
        self.left ^= bit
        return True


class _Popped:
    """The messages of one topic that one group has in flight."""

    def __init__(self) -> None:
        self.points: dict[Key, CheckPoint] = {}
        self.heap: list[tuple[int, Key]] = []  # (visible, key), even of dropped check points
        self.last = 0  # the time of the last pop, in milliseconds
        self.due: dict[int, deque[CheckPoint]] = {}  # by queue id: check points that are due

    def look(self, now: int) -> None:
        """Move check points whose invisible time is over from the heap to `due`."""
        while self.heap and self.heap[0][0] <= now:
            visible, key = heapq.heappop(self.heap)
            point = self.points.get(key)
            if point is not None and point.visible == visible:
                self.due.setdefault(point.queue_id, deque()).append(point)

    def compact(self) -> None:
        if len(self.heap) > 2 * len(self.points) + _HEAP_SLACK:
            due = {id(point) for queue in self.due.values() for point in queue}
            self.heap = [
                (point.visible, key) for key, point in self.points.items() if id(point) not in due
            ]
            heapq.heapify(self.heap)


class Again(NamedTuple):
    """Messages of one queue that are to be given again."""

    positions: list[int]
    times: int  # how often they were given before


class InFlight:
    def __init__(self) -> None:
        self._of: dict[tuple[str, str], _Popped] = {}  # by group and topic
        self._count = 0
        self.changes = 0  # how often something was popped or acknowledged

    def has_room(self, group: str, topic: str, times: int = 1) -> bool:
        """Whether one more check point keeps within the limits, multiplied by `times`."""
        popped = self._of.get((group, topic))
        own = 0 if popped is None else len(popped.points)
        return own < times * MOST_OF_GROUP and self._count < times * MOST_POINTS

    def _check_room(self, group: str, topic: str) -> None:
        if not self.has_room(group, topic):
            raise Refused(f"{MOST_OF_GROUP} pops of a group are kept, and no more")

    def pop_time(self, group: str, topics: Iterable[str], now: int) -> int:
        """A pop time that no earlier pop of the topics has, as handles name check points by it."""
        before = (self._of.get((group, topic)) for topic in topics)
        return max([now, *(popped.last + 1 for popped in before if popped is not None)])

    def add(self, group: str, topic: str, point: CheckPoint) -> None:
        """Note that messages were popped. Raises Refused: too many are in flight."""
        self._check_room(group, topic)
        self.put(group, topic, point)

    def put(self, group: str, topic: str, point: CheckPoint) -> None:
        """Note that messages taken by `again` were popped, even beyond the limits."""
        popped = self._of.setdefault((group, topic), _Popped())
        if point.key not in popped.points:
            self._count += 1
        popped.points[point.key] = point
        popped.last = max(popped.last, point.pop_time)
        heapq.heappush(popped.heap, (point.visible, point.key))
        self.changes += 1

    def settle(self, group: str, topic: str, key: Key, position: int) -> bool:
        """Note that a message is acknowledged; False if it is not in flight under this key."""
        popped = self._of.get((group, topic))
        point = None if popped is None else popped.points.get(key)
        if popped is None or point is None or not point.settle(position):
            return False
        self.changes += 1
        if not point.left:
            self._drop(group, topic, popped, key)
        return True

    def change(
        self, group: str, topic: str, key: Key, position: int, now: int, visible: int
    ) -> int | None:
        """Change when a message may be popped again: it gets a check point of its own, as in a
        broker (appendCheckPointThenAckOrigin). Returns the new check point's pop time; None if the
        message is not in flight under this key. Raises Refused.
        """
        popped = self._of.get((group, topic))
        point = None if popped is None else popped.points.get(key)
        if point is None or position not in point.waiting():
            return None
        if len(point.waiting()) > 1:
            self._check_room(group, topic)
        pop_time = self.pop_time(group, [topic], now)
        self.settle(group, topic, key, position)
        self.add(group, topic, CheckPoint(key[0], [position], pop_time, visible, point.times))
        return pop_time

    def again(self, group: str, topic: str, queue_id: int, now: int, most: int) -> Again | None:
        """Take up to `most` messages of a queue whose invisible time is over, to give them again.

        Takes them even if there is no room for more check points: the messages of a client that has
        ended are never acknowledged, and would otherwise fill the room for ever.
        """
        popped = self._of.get((group, topic))
        queue = None if popped is None else popped.due.get(queue_id)
        if popped is None or queue is None:
            return None
        taken, times = list[int](), 0
        while queue and len(taken) < most:
            point = queue[0]
            waiting = point.waiting()
            if taken and waiting:
                span = max(*taken, *waiting) - min(*taken, *waiting)
                if point.times != times or span > _SPAN_MOST:
                    break
            times = point.times if waiting else times
            some = waiting[: most - len(taken)]
            if len(some) < len(waiting) and not self.has_room(group, topic, _SPLIT):
                break
            taken += some
            if len(some) < len(waiting):
                for position in some:
                    point.settle(position)
                break
            queue.popleft()
            if popped.points.get(point.key) is point:
                self._drop(group, topic, popped, point.key)
        if not queue:
            popped.due.pop(queue_id, None)
        self.changes += 1
        return Again(sorted(taken), times) if taken else None

    def queues_due(self, group: str, topic: str, now: int) -> list[int]:
        """The ids of queues with messages whose invisible time is over."""
        popped = self._of.get((group, topic))
        if popped is None:
            return []
        popped.look(now)
        return sorted(popped.due)

    def next_due(self, group: str, topic: str) -> int | None:
        """When the next message is due, in milliseconds (0: by now); None if none is in flight."""
        popped = self._of.get((group, topic))
        if popped is None:
            return None
        if any(point.left for queue in popped.due.values() for point in queue):
            return 0
        while popped.heap and popped.heap[0][1] not in popped.points:
            heapq.heappop(popped.heap)
        return popped.heap[0][0] if popped.heap else None

    def due(self, now: int) -> Iterator[tuple[str, str]]:
        """The (group, topic) pairs with messages whose invisible time is over."""
        for key in self._of:
            at = self.next_due(*key)
            if at is not None and at <= now:
                yield key

    def all(self) -> Iterator[tuple[str, str, CheckPoint]]:
        """(group, topic, check point) of all check points."""
        for (group, topic), popped in self._of.items():
            for point in popped.points.values():
                yield group, topic, point

    def __len__(self) -> int:
        return self._count

    def _drop(self, group: str, topic: str, popped: _Popped, key: Key) -> None:
        del popped.points[key]
        self._count -= 1
        popped.compact()
        if not popped.points:
            del self._of[group, topic]


# ---
# Queues that a group pops in order: it gets the next messages only once the messages before are
# acknowledged, or their invisible time is over (ConsumerOrderInfoManager).

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
        """Note an acknowledgement; the group's new offset, ILLEGAL or UNCHANGED (commitAndNext)."""
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


# ---
# Popped messages as JSON, for a file that outlives the server.

IN_FLIGHT, IN_ORDER = "popInFlight", "popOrder"
_WRONG = (ValueError, TypeError, IndexError, OverflowError)  # the last of int(1e999)
_POSITIONS_MOST = 1 << 10  # positions of one row; a pop gives 32 at most


def popped_rows(in_flight: InFlight, orders: Orders) -> dict[str, list[list[Any]]]:
    """Rows of all check points, and of all queues that are popped in order."""
    return {
        IN_FLIGHT: [
            [group, topic, each.queue_id, list(each.positions), each.left, each.pop_time,
             each.visible, each.times]
            for group, topic, each in in_flight.all()
        ],
        IN_ORDER: [
            [*key, each.attempt, each.pop_time, each.invisible, list(each.positions), each.left,
             list(each.visible.items()), list(each.counts.items())]
            for key, each in orders.all()
        ],
    }  # fmt: skip


def restore(table: Mapping[str, Any], in_flight: InFlight, orders: Orders) -> int:
    """Restore the rows of `popped_rows`. Returns the number of wrong rows, which are left out."""
    wrong = 0
    for row in _rows(table, IN_FLIGHT):
        try:
            group, topic, *numbers = row
            queue_id, positions, left, pop_time, visible, times = numbers
            point = CheckPoint(
                int(queue_id), _positions(positions), int(pop_time), int(visible), int(times)
            )
            point.left &= int(left)
            if point.left:
                in_flight.add(str(group), str(topic), point)
        except _WRONG:  # or Refused: there are too many
            wrong += 1
    for row in _rows(table, IN_ORDER):
        try:
            group, topic, queue_id, attempt, pop_time, invisible, positions, left, *pairs = row
            visible, counts = ({int(k): int(v) for k, v in each} for each in pairs)
            info = OrderInfo(
                None if attempt is None else str(attempt), int(pop_time), int(invisible),
                _positions(positions), int(left), visible, counts,
            )  # fmt: skip
            orders.put(str(group), str(topic), int(queue_id), info)
        except _WRONG:
            wrong += 1
    return wrong


def _rows(table: Mapping[str, Any], name: str) -> list[Any]:
    rows = table.get(name)
    return rows if isinstance(rows, list) else []


def _positions(given: Any) -> list[int]:
    positions = [int(each) for each in given]
    if not 0 < len(positions) <= _POSITIONS_MOST or positions != sorted(set(positions)):
        raise ValueError("no positions of a pop")
    return positions
