"""Messages that were popped and not acknowledged, in a new log: their check points are written
anew, with the new names and positions.

A check point (PopCheckPoint) names a topic, a queue and queueOffsets in its body, and so does what
acknowledges it. Where these change, neither is taken. What is in flight gets a new check point at
the new log's end, in the timer's topic, where a broker puts it (PopMessageProcessor.buildCkMsg).
Rows of kvStore become check points too, as a broker makes them where it uses kvStore no more
(PopConsumerService.transferToFsStore).
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from reput.jobs.converting.new_log import NewLog
from reput.jobs.converting.ordered import Source
from reput.jobs.opening.plan import Plan
from reput.jobs.outputs.report import counted
from reput.store_format.discover.config import configured_topics, has_rows
from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.faults import StoreError
from reput.store_format.log.segments import Segment
from reput.store_format.message.encode import Encoder, finish
from reput.store_format.message.ids import UniqueIds
from reput.store_format.message.message import TIMER_TOPIC, Message
from reput.store_format.names import POP_DB, REVIVE_TOPIC
from reput.store_format.notes import Notes
from reput.store_format.query.pop_leftovers import Pop, pops
from reput.store_format.query.reader import OpenedStore
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import settings_from, writer_settings_from
from reput.store_format.rewrite.changes import Changes, Fate
from reput.udfs.convert.measure import MEASURED_RECORD, RECORDS
from reput.udfs.convert.write import NewSegment, OldLog, Part, Piece, placed
from reput.udfs.staging import Staging

_MOST = 32  # messages of a check point: its bitMap is an int
_BEFORE = 1000  # milliseconds (PopAckConstants.ackTimeInterval)
_LONG_NAMES = ("topic", "consumerGroup", "queueId", "startOffset", "popTime", "brokerName")
_INHERITED = 7  # a broker's own topic: PermName.PERM_INHERIT, and to read and write
_HOST = "127.0.0.1:10911"
_RUN = "in-flight"
_Queue = tuple[str, int]


def in_flight(plan: Plan, changes: Changes, topics: Iterable[str], notes: Notes) -> list[Pop]:
    """The pops of a store whose check points are written anew. topics: that its log has."""
    of_pop = [topic for topic in topics if topic.startswith((REVIVE_TOPIC, TIMER_TOPIC))]
    named = sorted(of_pop) if changes.by_topic else []  # else check points are taken as they are
    if not (named or has_rows(plan.folder / POP_DB)):
        return []
    opened = OpenedStore(plan.folder, plan.profile.release, plan.discovered.settings, notes)
    with opened as store:
        return [
            pop for pop in pops(store, True, notes, named)
            if pop.offsets and (
                changes.selects or not pop.about or changes.renamed(pop.topic) != pop.topic
            )
        ]  # fmt: skip


class Moved(NamedTuple):
    """The messages in flight of a new store. points: check points, without a broker's name where
    none is known; left_out: messages that are not taken.
    """

    points: list[dict[str, Any]]
    messages: int
    left_out: int

    def lines(self) -> list[str]:
        """For people."""
        lines = []
        if self.messages:
            points = counted(len(self.points), "new check point")
            lines.append(f"{counted(self.messages, 'message')} of pop, by {points}")
        if self.left_out:
            lines.append(f"{counted(self.left_out, 'message')} of pop, left out with their topics")
        return lines


def moved(sources: Sequence[Source]) -> Moved:
    """The messages in flight by their new names and positions.

    One that several stores have is in flight if it is so in all of them: else it was acknowledged
    in one, or waits there before its group's position.
    """
    homes = [
        [(pop, [_home(sources, n, (pop.topic, pop.queue_id), at) for at in pop.offsets])
         for pop in source.pops]
        for n, source in enumerate(sources)
    ]  # fmt: skip
    seen = Counter(
        key for found in homes
        for key in {(home, pop.group, pop.topic, pop.queue_id, at) for pop, own in found
                    for home, at in zip(own, pop.offsets, strict=True)}
    )  # fmt: skip
    names = [_broker(source) for source in sources]
    points: list[dict[str, Any]] = []
    messages = left_out = 0
    for n, found in enumerate(homes):
        for pop, own in found:
            offsets = []
            for home, at in zip(own, pop.offsets, strict=True):
                queue = (pop.topic, pop.queue_id)
                sharing = 1 + sum(_shares(each, queue, at) for each in sources[home + 1 :])
                if home != n or seen[home, pop.group, *queue, at] < sharing:
                    continue
                new = _position(sources[home], queue, at)
                left_out += new is None
                offsets += [] if new is None else [new]
            messages += len(offsets)
            for begin in range(0, len(offsets), _MOST):
                some = sorted(offsets[begin : begin + _MOST])
                points.append(_point(sources[n], pop, some, names[0] or names[n]))
    return Moved(points, messages, left_out)


def _shares(source: Source, queue: _Queue, at: int) -> bool:
    """Whether an earlier store has the record too."""
    seen = source.measured.queues.get(queue)  # type: ignore[call-overload]
    return seen is not None and at < seen.shared_end


def _home(sources: Sequence[Source], n: int, queue: _Queue, at: int) -> int:
    """The number of the store whose record is taken."""
    while n and _shares(sources[n], queue, at):
        n -= 1
    return n


def _position(source: Source, queue: _Queue, at: int) -> int | None:
    decision = source.changes.of_queue(*queue)
    fate = decision.fate if decision.retried is None else decision.retried
    return None if fate == Fate.LEFT_OUT else source.message(*queue, at)


def _point(source: Source, pop: Pop, offsets: list[int], broker: str | None) -> dict[str, Any]:
    """A PopCheckPoint; fields that a release adds stay as they are."""
    rest = {name: value for name, value in pop.about.items() if name not in _LONG_NAMES}
    shift = source.changes.of_queue(pop.topic, pop.queue_id).queue_shift
    own = pop.about.get("bn", pop.about.get("brokerName"))
    return {
        **rest, "bm": 0, "bn": broker if own in (None, _broker(source)) else own, "c": pop.group,
        "d": [offset - offsets[0] for offset in offsets], "it": pop.until - pop.since,
        "n": len(offsets), "pt": pop.since, "q": pop.queue_id + shift, "ro": 0, "so": offsets[0],
        "t": source.changes.renamed(pop.topic),
    }  # fmt: skip


def _broker(source: Source) -> str | None:
    """The name of a store's broker: that of most check points, or of the topic that a broker makes
    for itself (TopicConfigManager.init).
    """
    names = Counter(
        pop.about.get("bn", pop.about.get("brokerName")) for pop in source.pops if pop.about
    )
    if names:
        return str(names.most_common(1)[0][0])
    topics = _topics(source)
    clusters = {name.removeprefix(REVIVE_TOPIC) for name in topics if name.startswith(REVIVE_TOPIC)}
    own = [
        name for name, about in topics.items()
        if isinstance(about, dict) and about.get("perm") == _INHERITED
        and about.get("readQueueNums") == 1 and name not in clusters
    ]  # fmt: skip
    return own[0] if len(own) == 1 else None


def _topics(source: Source) -> Mapping[str, Any]:
    plan = source.job.plan
    return configured_topics(plan.folder, Notes()) or {}


# ---
# The records of the check points, behind all others.


def with_check_points(
    log: NewLog, sources: Sequence[Source], points: Sequence[dict[str, Any]], first: int,
    to: "Target",
) -> NewLog:  # fmt: skip
    """The new log with these check points at its end. first: the next position in the timer's
    queue. Raises StoreError if a broker could not find what a check point tells of.
    """
    if not points:
        return log
    job = sources[0].job
    many = sum(point["n"] for point in points)
    popped = f"{job.plan.store}: {counted(many, 'message')} in flight (pop)"
    if not profile(to.release).timer_messages:
        raise StoreError(f"{popped}: not for RocketMQ {to.release}: there is pop from 5.0.0 on")
    topics = [
        name for source in sources
        for name in (*(pop.revive for pop in source.pops), *_topics(source))
        if name.startswith(REVIVE_TOPIC)
    ]  # fmt: skip
    if not topics or any(point["bn"] is None for point in points):
        raise StoreError(
            f"{popped}: their check points name the broker and its cluster, which no file of the "
            "store tells; run its broker with popConsumerKVServiceEnable=false once: it makes "
            "check points of them"
        )
    records = _records(points, topics[0], first, _latest(sources), to)
    staging, name = job.staging, f"{_RUN}.log"
    _write(staging, name, np.frombuffer(b"".join(records), np.uint8))
    measured = np.zeros(len(records), MEASURED_RECORD)
    measured["size"] = [len(record) for record in records]
    measured["offset"] = np.cumsum(measured["size"]) - measured["size"]
    _write(staging, _RUN + RECORDS, measured.view(np.uint8))
    state = dict(staging.storage.list(staging.folder))[name]
    assert state is not None
    longest = int(measured["size"].max())
    segment = Segment(staging.path(name), 0, state)
    piece = Piece(0, 0, _RUN, len(records), log.end, segment, longest)
    rules = scan_rules(profile(to.release), settings_from(to.settings, release=to.release), ())
    old = OldLog(staging.storage, rules, Changes(), (piece,), 0, state.size)
    places, begins, end = placed(measured, log.end, to.segment_bytes)
    number, stops = len(log.olds), [*begins.tolist(), len(records)]
    segments = list(log.segments)
    if stops[0]:
        last = segments.pop()
        segments.append(last._replace(parts=(*last.parts, Part(number, 0, 0, 0, stops[0]))))
    elif not segments[-1].parts:
        segments.pop()
    segments = [each._replace(last=False) for each in segments]
    for begin, stop in pairwise(stops):
        segments.append(NewSegment(int(places[begin]), (Part(number, 0, begin, 0, stop),), False))
    segments[-1] = segments[-1]._replace(last=True)
    return NewLog((*log.olds, old), segments, end)


class Target(NamedTuple):
    """The new store: its release, settings by RocketMQ's names, bytes of a segment, and the
    storeHost of each record; empty: any.
    """

    release: str
    settings: dict[str, str]
    segment_bytes: int
    host: bytes


def _records(
    points: Sequence[dict[str, Any]], topic: str, first: int, latest: int, to: Target
) -> list[bytes]:
    """The records that a broker would put, one behind the other from 0 on."""
    now = latest

    def clock() -> int:
        return now

    settings = replace(
        writer_settings_from(to.settings, release=to.release), timer_wheel_enable=True
    )
    encoder = Encoder(settings, profile(to.release), clock, UniqueIds(clock, _HOST, 0, 0), _HOST)
    found: list[bytes] = []
    at = 0
    for number, point in enumerate(sorted(points, key=lambda each: each["pt"] + each["it"])):
        due = point["pt"] + point["it"] - _BEFORE
        now = due - 1  # so that it waits for the timer, which gives at once what is due
        key = "@".join(str(point[name]) for name in ("t", "q", "so", "c", "pt", "bn"))
        message = Message(
            topic, json.dumps(point, separators=(",", ":")).encode(), 0, "ck",
            unique_key=f"{key}@ck", properties={"TIMER_DELIVER_MS": str(due)},
            born_timestamp=point["pt"],
        )  # fmt: skip
        draft = encoder.draft(message, store_host=to.host or None)
        found.append(finish(draft, first + number, at, latest))
        at += len(found[-1])
    return found


def _latest(sources: Sequence[Source]) -> int:
    """The storeTimestamp of the newest record."""
    return max(
        (int(row["last_timestamp"]) for source in sources for row in source.measured.rows
         if row["records"]), default=0,
    )  # fmt: skip


def _write(staging: Staging, name: str, content: Any) -> None:
    output = staging.storage.create(staging.path(name))
    output.write(content)
    output.finish(content.nbytes)


def next_timer(sources: Sequence[Source]) -> int:
    """The position after the last one in the new store's queue of the timer."""
    ends = [0]
    for source in sources:
        seen = source.measured.queues.get((TIMER_TOPIC, 0))  # type: ignore[call-overload]
        if seen is not None and seen.counted:
            ends.append(source.offset(TIMER_TOPIC, 0, seen.greatest + 1) or 0)
    return max(ends)
