"""Messages that were popped, until they are acknowledged (PopCheckPoint, PopBufferMergeService).

A broker writes check points of popped messages into its log. A message that nobody acknowledged in
time is written again, into a retry topic from which it is popped again. Here check points are in
memory, and a message whose invisible time is over is given again from its place in the log.
"""

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

MOST_POINTS = 100_000  # check points of all groups: a pop makes one for each queue
MOST_OF_GROUP = 20_000  # check points of one group in a topic; a broker has no limit
_SPLIT = 2  # factor of these limits while only part of a check point is given again
_SPAN_MOST = 1 << 12  # positions between the first and the last of one check point
_HEAP_SLACK = 64

Key = tuple[int, int, int]  # queue id, first position, pop time: what a handle names


class TooManyInFlight(ValueError):
    """More check points than are kept."""


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
    """The messages that all groups have in flight."""

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
            raise TooManyInFlight(f"{MOST_OF_GROUP} pops of a group are kept, and no more")

    def pop_time(self, group: str, topics: Iterable[str], now: int) -> int:
        """A pop time that no earlier pop of the topics has, as handles name check points by it."""
        before = (self._of.get((group, topic)) for topic in topics)
        return max([now, *(popped.last + 1 for popped in before if popped is not None)])

    def add(self, group: str, topic: str, point: CheckPoint) -> None:
        """Note that messages were popped. Raises TooManyInFlight."""
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
        """Note that a message is acknowledged; False if it is not in flight under `key`, which its
        handle names.
        """
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
        message is not in flight under this key. Raises TooManyInFlight.
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
        """The number of check points."""
        return self._count

    def _drop(self, group: str, topic: str, popped: _Popped, key: Key) -> None:
        del popped.points[key]
        self._count -= 1
        popped.compact()
        if not popped.points:
            del self._of[group, topic]
