"""Offsets that groups are to have: what was asked, lines of a dump or a map, bounds of queues."""

import hashlib
import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from operator import attrgetter
from typing import Any, BinaryIO, NamedTuple, TypeVar

from reput.store_format.discover.config import Offsets
from reput.store_format.faults import StoreError
from reput.store_format.message.bodies import BodyError, decompressed
from reput.store_format.names import RETRY_PREFIX, is_queue_id
from reput.store_format.notes import Notes
from reput.store_format.query.by_queue import by_offset, by_time
from reput.store_format.query.client_traces import TRACE_TOPIC, decoded
from reput.store_format.query.inventory import QueueRow, kind_of
from reput.store_format.query.reader import OpenedStore

_OFFSET_MOST = (1 << 63) - 1  # a long
_NAME_MOST = 255  # characters of a group (Validators) and of a topic
_OWN_GROUPS = "CID_RMQ_SYS_"  # MixAll.CID_RMQ_SYS_PREFIX: groups of the broker itself
_TRACE_MOST = 64 << 20  # bytes of a trace's body


class OffsetRow(NamedTuple):
    """The next position that a group consumes in a queue: a line of a dump."""

    group: str
    topic: str
    queue: int
    offset: int


class MapRow(NamedTuple):
    """A line of an offset map: the message at `old` of a queue is at `new` in another log. What
    follows it, up to the next line's `old`, follows there too, or is not there. A queue's last line
    is its end: what comes later is not of the other log.
    """

    topic: str
    queue: int
    old: int
    new: int


class Move(NamedTuple):
    """An offset that a group gets, -1 for none; asked: before the queue's bounds were kept. A queue
    that the store does not have gets none.
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
        if self.offset < 0 <= self.asked:
            return f"{text}: the store has no such queue"
        where = "ends" if self.asked > self.offset else "begins"
        return text + f", where the queue {where}, not {self.asked:,}" * (self.asked != self.offset)


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
        OffsetRow(*key, queue, at) for key, queues in sorted(offsets.items())
        for queue, at in sorted(queues.items()) if chosen.takes(*key, queue)
    ]  # fmt: skip


def digest_of(offsets: Offsets) -> str:
    """The SHA-256 of all offsets, in hex, whatever holds them."""
    return hashlib.sha256(json.dumps(sorted(_flat(offsets).items())).encode()).hexdigest()


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


def rows_mapped(rows: Iterable[OffsetRow], by: Iterable[MapRow]) -> list[OffsetRow]:
    """The rows of queues that the map has, with their positions in the other log. Raises StoreError
    where positions of the map do not ascend.
    """
    lines: dict[tuple[str, int], list[MapRow]] = defaultdict(list)
    for line in by:
        of_queue = lines[line.topic, line.queue]
        if of_queue and (line.old < of_queue[-1].old or line.new < of_queue[-1].new):
            raise StoreError(f"{of_queue[-1]}, then {line}: this is not an offset map")
        of_queue.append(line)
    return [
        row._replace(offset=_mapped(row.offset, lines[row.topic, row.queue])) for row in rows
        if (row.topic, row.queue) in lines
    ]  # fmt: skip


def _mapped(offset: int, lines: list[MapRow]) -> int:
    at = bisect_right(lines, offset, key=attrgetter("old"))
    if at in (0, len(lines)):  # before the first message that is there, or at the end
        return lines[at and -1].new
    return min(lines[at - 1].new + offset - lines[at - 1].old, lines[at].new)


class MapLines:
    """Writes the lines of an offset map, as messages get their places in another log."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._ends = file, dict[tuple[str, int], tuple[int, int]]()

    def add(self, topic: str, queue: int, old: int, new: int) -> None:
        """Add a message; a line is written where it does not follow the one before."""
        if self._ends.get((topic, queue)) != (old, new):
            self._write(MapRow(topic, queue, old, new))
        self._ends[topic, queue] = old + 1, new + 1

    def end(self) -> None:
        for key, places in self._ends.items():
            self._write(MapRow(*key, *places))

    def _write(self, row: MapRow) -> None:
        self._file.write(json.dumps(row._asdict()).encode() + b"\n")


def rows_traced(
    store: OpenedStore, moment: int, rows: Iterable[OffsetRow], notes: Notes
) -> list[OffsetRow]:
    """The rows that clients' traces tell something of, each with the position after the last
    message that its group had consumed by a moment, in milliseconds.

    The messages of the rows' queues are all read: a trace names its message by UNIQ_KEY alone.
    """
    groups, ended = dict[tuple[Any, str], str | None](), dict[tuple[Any, str], str | None]()
    for trace in by_time(store, TRACE_TOPIC, None, (None, None), False, notes):
        try:
            body = decompressed(trace.body(), trace.record.sys_flag, _TRACE_MOST)
        except BodyError as error:
            notes.skip(f"trace at {trace.physical_offset}: {error}")
            continue
        for each in filter(None, decoded(body)):
            time = each.timestamp or trace.store_timestamp  # a SubAfter of before 4.7.1 has none
            if each.kind == "SubBefore":
                groups[each.request_id, each.message_id] = each.group
            elif each.kind == "SubAfter" and each.success and time <= moment:
                ended[each.request_id, each.message_id] = each.group
    consumed: dict[str | None, set[str | None]] = defaultdict(set)
    for key, group in ended.items():
        consumed[key[1]].add(group or groups.get(key))
    asked, found = {row[:3] for row in rows}, dict[tuple[Any, str, int], int]()
    for topic, queue in sorted({key[1:] for key in asked}) if consumed else ():
        for message in by_offset(store, topic, queue, 0, None, False, notes):
            for reader in consumed.get(message.unique_key, ()):
                found[reader, topic, queue] = message.queue_offset + 1
    return [OffsetRow(*key, at) for key, at in found.items() if key in asked]


def confined(
    wanted: Iterable[OffsetRow], offsets: Offsets, bounds: Iterable[QueueRow]
) -> list[Move]:
    """A move for each offset that groups are to have, also where it is there already.

    None gets past a queue's end, as a consumer would skip what comes there later, and none before
    its first position.
    """
    queues = {(row.topic, row.queue_id): row for row in bounds}
    moves, before = [], _flat(offsets)
    for row in wanted:
        queue = queues.get(row[1:3])
        offset = max(min(row.offset, queue.max_offset), queue.min_offset) if queue else -1
        moves.append(Move(*row[:3], before.get(row[:3], -1), offset, row.offset))
    return moves


def with_moves(offsets: Offsets, moves: Iterable[Move]) -> Offsets:
    made = {key: dict(queues) for key, queues in offsets.items()}
    for move in moves:
        if move.offset >= 0:
            made.setdefault((move.group, move.topic), {})[move.queue] = move.offset
    return made


def moves_between(old: Offsets, new: Offsets) -> list[Move]:
    """The moves that lead from some offsets to others; to -1 where there is none."""
    was, now = _flat(old), _flat(new)
    keys = sorted(key for key in was.keys() | now.keys() if was.get(key) != now.get(key))
    return [Move(*key, was.get(key, -1), *[now.get(key, -1)] * 2) for key in keys]


def _flat(offsets: Offsets) -> dict[tuple[str, str, int], int]:
    return {(*key, queue): at for key, queues in offsets.items() for queue, at in queues.items()}


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
    whole = type(value) is int and 0 <= value <= _OFFSET_MOST
    return whole and (name != "queue" or is_queue_id(str(value)))


def is_name(value: Any) -> bool:
    """Whether a group or a topic may have the name: the key of both is `topic@group`."""
    good = isinstance(value, str) and 0 < len(value) <= _NAME_MOST
    return good and value.isprintable() and "@" not in value
