"""Offsets that groups are to have: what was asked, lines of a dump or a map, bounds of queues."""

import hashlib
import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from reput.store_format.discover.config import Offsets
from reput.store_format.faults import StoreError
from reput.store_format.names import RETRY_PREFIX, is_queue_id
from reput.store_format.query.inventory import QueueRow, kind_of

_OFFSET_MOST = (1 << 63) - 1  # a long
_NAME_MOST = 255  # characters of a group (Validators) and of a topic
_OWN_GROUPS = "CID_RMQ_SYS_"  # MixAll.CID_RMQ_SYS_PREFIX: groups of the broker itself


class OffsetRow(NamedTuple):
    """The next position that a group consumes in a queue: a line of a dump."""

    group: str
    topic: str
    queue: int
    offset: int


class MapRow(NamedTuple):
    """A line of an offset map: the message at `old` of a queue is at `new` in another log. What
    follows it, up to the next line's `old`, follows there too, or is not there.
    """

    topic: str
    queue: int
    old: int
    new: int


class Move(NamedTuple):
    """An offset that a group gets; before: -1 for none; asked: what the queue's bounds allowed
    or not.
    """

    group: str
    topic: str
    queue: int
    before: int
    offset: int
    asked: int

    def __str__(self) -> str:
        was, now = (f"{at:,}" if at >= 0 else "none" for at in (self.before, self.offset))
        text = f"{self.group}  {self.topic}/{self.queue}  {was} -> {now}"
        if self.asked == self.offset:
            return text
        return (
            f"{text}, where the queue {'ends' if self.asked > self.offset else 'begins'}, "
            f"not {self.asked:,}"
        )


class Chosen(NamedTuple):
    """Which groups, topics and queue ids; none named: all but the broker's own."""

    groups: Collection[str] = ()
    topics: Collection[str] = ()
    queues: Collection[int] = ()

    def takes(self, group: str, topic: str, queue: int | None = None) -> bool:
        return (
            (group in self.groups if self.groups else not group.startswith(_OWN_GROUPS))
            and (topic in self.topics if self.topics else kind_of(topic) != "system")
            and (queue is None or not self.queues or queue in self.queues)
        )


def rows_of(offsets: Offsets, chosen: Chosen) -> list[OffsetRow]:
    """The chosen offsets, by group, topic and queue."""
    return [
        OffsetRow(group, topic, queue, offset)
        for (group, topic), queues in sorted(offsets.items())
        for queue, offset in sorted(queues.items())
        if chosen.takes(group, topic, queue)
    ]


def digest_of(offsets: Offsets) -> str:
    """The SHA-256 of all offsets, in hex, whatever holds them."""
    rows = sorted((*key, *each) for key, queues in offsets.items() for each in queues.items())
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def rows_to_set(
    offsets: Offsets, bounds: Iterable[QueueRow], chosen: Chosen,
    position: Callable[[QueueRow], int],
) -> Iterator[OffsetRow]:  # fmt: skip
    """A row for each queue of the chosen topics, of each group that has an offset in the topic, or
    that is named with it.
    """
    pairs = {(group, topic) for group, topic in offsets if chosen.takes(group, topic)}
    pairs |= {(group, topic) for group in chosen.groups for topic in chosen.topics}
    for row in bounds:
        for group, topic in sorted(pairs):
            if topic == row.topic and chosen.takes(group, topic, row.queue_id):
                yield OffsetRow(group, topic, row.queue_id, position(row))


def rows_to_clone(offsets: Offsets, chosen: Chosen, to: str) -> list[OffsetRow]:
    """The offsets of one group for another, but those in its own retry topic."""
    rows = rows_of(offsets, chosen)
    return [row._replace(group=to) for row in rows if not row.topic.startswith(RETRY_PREFIX)]


class OffsetMap:
    """Where the positions of queues are in another log."""

    def __init__(self, rows: Iterable[MapRow]) -> None:
        """Raises StoreError where positions do not ascend."""
        self._rows: dict[tuple[str, int], list[MapRow]] = defaultdict(list)
        for row in rows:
            before = self._rows[row.topic, row.queue]
            if before and (row.old <= before[-1].old or row.new < before[-1].new):
                raise StoreError(
                    f"topic {row.topic!r}, queue {row.queue}: {row.old} to {row.new} comes after "
                    f"{before[-1].old} to {before[-1].new}: this is not an offset map"
                )
            before.append(row)

    def mapped(self, row: OffsetRow) -> OffsetRow | None:
        """The row with its position in the other log; None where the map lacks its queue."""
        rows = self._rows.get((row.topic, row.queue))
        if not rows:
            return None
        at = bisect_right(rows, row.offset, key=attrgetter("old"))
        if not at:  # before the first message that is there
            return row._replace(offset=rows[0].new)
        new = rows[at - 1].new + row.offset - rows[at - 1].old
        return row._replace(offset=min(new, rows[at].new) if at < len(rows) else new)


def confined(
    wanted: Iterable[OffsetRow], offsets: Offsets, bounds: Iterable[QueueRow]
) -> tuple[list[Move], list[OffsetRow]]:
    """A move for each offset that groups are to have, also where it is there already; and the rows
    of queues that the store does not have.

    None gets past a queue's end, as a consumer would skip what comes there later, and none before
    its first position.
    """
    queues = {(row.topic, row.queue_id): row for row in bounds}
    moves, absent = list[Move](), list[OffsetRow]()
    for row in wanted:
        queue = queues.get((row.topic, row.queue))
        if queue is None:
            absent.append(row)
            continue
        offset = max(min(row.offset, queue.max_offset), queue.min_offset)
        before = offsets.get((row.group, row.topic), {}).get(row.queue, -1)
        moves.append(Move(*row[:3], before, offset, row.offset))
    return moves, absent


def with_moves(offsets: Offsets, moves: Iterable[Move]) -> Offsets:
    """The offsets after the moves."""
    made = {key: dict(queues) for key, queues in offsets.items()}
    for move in moves:
        made.setdefault((move.group, move.topic), {})[move.queue] = move.offset
    return made


def moves_between(old: Offsets, new: Offsets) -> list[Move]:
    """The moves that lead from some offsets to others; to -1 where there is none."""
    return [
        Move(*key, queue, before, after, after)
        for key in sorted(old.keys() | new.keys())
        for queue in sorted(old.get(key, {}).keys() | new.get(key, {}).keys())
        for before, after in ((old.get(key, {}).get(queue, -1), new.get(key, {}).get(queue, -1)),)
        if before != after
    ]


# ---
# Lines of a dump or a map, which somebody may have edited.

Row = TypeVar("Row", OffsetRow, MapRow)


def rows_in(path: str, raw: bytes, kind: type[Row]) -> list[Row]:
    """The rows of a file of JSON lines. Raises StoreError, with the line, also without any."""
    found, names = list[Row](), kind._fields
    for number, line in enumerate(raw.splitlines() or [b""], 1):
        try:
            whole = json.loads(line)
            row = kind(**{name: whole[name] for name in names})
        except (ValueError, KeyError, TypeError, RecursionError):
            row = None
        if row is None or not all(map(_is_good, names, row)):
            said = f"{', '.join(names[:-1])} and {names[-1]}"
            raise StoreError(f"{path}: line {number}: expected a JSON object with {said}")
        found.append(row)
    return found


def _is_good(name: str, value: Any) -> bool:
    if name in ("group", "topic"):
        return is_name(value)
    if type(value) is not int or not 0 <= value <= _OFFSET_MOST:
        return False
    return name != "queue" or is_queue_id(str(value))


def is_name(value: Any) -> bool:
    """Whether a group or a topic may have the name: the key of both is `topic@group`."""
    good = isinstance(value, str) and 0 < len(value) <= _NAME_MOST
    return good and value.isprintable() and "@" not in value
