"""Messages that were popped and not acknowledged when the broker ended. They are found by:

- check points and acknowledgements of the revive topic (PopCheckPoint, AckMsg, BatchAckMsg), which
  wait among the timer messages until their time is up;
- config/consumerOrderInfo.json, for queues that are popped in order (OrderInfo);
- the RocksDB kvStore/, if the broker keeps them there (PopConsumerRecord,
  popConsumerKVServiceEnable).

None of these has what a killed broker had in memory alone. Its group's offset was not committed
past that (PopBufferMergeService.scanCommitOffset), so it counts as lag.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain
from typing import Any, NamedTuple

from reput.store_format.discover.config import config_table, consumer_offsets, has_rows
from reput.store_format.files.folder import Folder
from reput.store_format.filter.filters import tag_filter
from reput.store_format.message.message import TIMER_TOPIC
from reput.store_format.names import LMQ_PREFIX, ORDER_INFO, POP_DB, REVIVE_TOPIC
from reput.store_format.notes import Notes
from reput.store_format.query.by_key import ALL_TIMES
from reput.store_format.query.by_queue import by_time, in_log
from reput.store_format.query.reader import OpenedStore, StoredMessage
from reput.store_format.rocksdb.database import RocksDBError, open_database

_REVIVE_GROUP = "CID_RMQ_SYS_REVIVE_GROUP"  # PopAckConstants.REVIVE_GROUP
_CHECK_POINT, _ACK, _ACKS = "ck", "ack", "bAck"  # PopAckConstants' tags
POP_STATE = "popState"  # PopConsumerRocksdbStore
_LITE = LMQ_PREFIX + "$"  # LiteUtil.LITE_TOPIC_PREFIX, from 5.5.0 on: then parent, $, lite topic
_WRONG = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)
_MOST_BITS = 1 << 10  # messages of a check point; a pop gives 32


class InFlightRow(NamedTuple):
    """One message that was popped and not acknowledged; times in milliseconds."""

    group: str
    topic: str
    queue_id: int
    offset: int
    since: int  # when it was popped
    until: int  # when it was to be delivered again
    parent: str | None  # for a lite topic: the topic that it belongs to


class Pop(NamedTuple):
    """Messages that a group popped at once and has not acknowledged; times in milliseconds.

    about: the check point as it is in JSON; empty for one of kvStore, which has no check point.
    revive: the topic that it is for; '' for one of kvStore.
    """

    group: str
    topic: str
    queue_id: int
    since: int
    until: int
    offsets: tuple[int, ...]
    about: dict[str, Any]
    revive: str


class _Point(NamedTuple):
    """The key of a check point (the mergeKey of PopReviveService)."""

    topic: str
    group: str
    queue_id: int
    start: int
    pop_time: int
    broker: str


def in_flight(store: OpenedStore, from_log: bool, notes: Notes) -> list[InFlightRow]:
    """All messages in flight, by group, topic, queue and offset."""
    popped = (
        _row(each.group, each.topic, each.queue_id, offset, each.since, each.until)
        for each in pops(store, from_log, notes) for offset in each.offsets
    )  # fmt: skip
    return sorted(dict.fromkeys((*popped, *ordered_rows(store.folder, notes))))


def pops(
    store: OpenedStore, from_log: bool, notes: Notes, topics: Sequence[str] | None = None
) -> Iterator[Pop]:
    """The pops that have messages in flight, but for those in order. topics: that the log has, if
    they are known; by default those that have queues.
    """
    yield from _of_check_points(store, from_log, notes, topics)
    yield from kept_pops(store.folder, notes)


def _row(group: str, topic: str, queue_id: int, offset: int, since: int, until: int) -> InFlightRow:
    return InFlightRow(group, topic, queue_id, offset, since, until, parent_of(topic))


def parent_of(topic: str) -> str | None:
    """The topic that a lite topic belongs to (LiteUtil.getParentTopic); None for other topics."""
    if not topic.startswith(_LITE):
        return None
    parent, separator, _ = topic.removeprefix(_LITE).partition("$")
    return parent if separator else None


def _of_check_points(
    store: OpenedStore, from_log: bool, notes: Notes, topics: Sequence[str] | None
) -> Iterator[Pop]:
    """From the revive topics: the messages that PopReviveService would find (mergeAndRevive)."""
    points: dict[tuple[_Point, Any], dict[str, Any]] = {}
    done: set[tuple[_Point, Any]] = set()  # the broker has already written their messages again
    acknowledged: dict[_Point, set[int]] = {}
    offsets = consumer_offsets(store.folder, notes)
    revive: dict[tuple[_Point, Any], str] = {}
    for message, delivered in _revive_messages(store, from_log, notes, topics):
        try:
            about = json.loads(message.body())
            point = _named(about)
            if message.tags == _CHECK_POINT:
                key = point, about.get("rp")
                points[key] = about
                revive[key] = message.properties["REAL_TOPIC"] if not delivered else message.topic
                # this group's offset is that of the last message it processed
                at = offsets.get((_REVIVE_GROUP, message.topic), {}).get(message.queue_id, -1)
                if delivered and message.queue_offset <= at:
                    done.add(key)
            else:
                known = acknowledged.setdefault(point, set())
                known |= {int(n) for n in about.get("aol", about.get("ackOffsetList")) or ()}
                if message.tags == _ACK:
                    known.add(int(about.get("ao", about.get("ackOffset"))))
        except _WRONG:
            notes.lacks(f"physical offset {message.physical_offset}: is no check point of pop")
    for key, about in points.items():
        if key not in done:
            try:
                yield _left(key[0], about, acknowledged.get(key[0], set()), revive[key])
            except _WRONG:
                notes.lacks("a check point of pop has no messages")


def _revive_messages(
    store: OpenedStore, from_log: bool, notes: Notes, topics: Sequence[str] | None
) -> Iterator[tuple[StoredMessage, bool]]:
    """(message, whether the revive topic has it already) of check points and acknowledgements."""
    chosen = tag_filter(f"{_CHECK_POINT} || {_ACK} || {_ACKS}")
    found: Iterator[StoredMessage]
    if from_log and topics is None:  # in one walk, which finds topics without a queue, too
        found = in_log(store, None, None, notes, chosen)
    else:
        there = store.queues.topics() if topics is None else topics
        found = chain.from_iterable(
            by_time(store, topic, None, ALL_TIMES, from_log, notes, chosen)
            for topic in there if topic.startswith(REVIVE_TOPIC) or topic == TIMER_TOPIC
        )  # fmt: skip
    for message in found:
        delivered = message.topic != TIMER_TOPIC
        real = message.topic if delivered else message.properties.get("REAL_TOPIC", "")
        if real.startswith(REVIVE_TOPIC):
            yield message, delivered


def _named(about: dict[str, Any]) -> _Point:
    """The key in a check point's JSON, which has long names up to 5.1 (alternateNames)."""

    def value(short: str, long: str) -> Any:
        return about[short] if short in about else about[long]

    return _Point(
        str(value("t", "topic")), str(value("c", "consumerGroup")), int(value("q", "queueId")),
        int(value("so", "startOffset")), int(value("pt", "popTime")),
        str(about.get("bn", about.get("brokerName"))),
    )  # fmt: skip


def _left(point: _Point, about: dict[str, Any], acknowledged: set[int], revive: str) -> Pop:
    """The messages of a check point that nobody acknowledged (indexOfAck)."""
    steps = about.get("d") or range(min(int(about["n"]), _MOST_BITS))
    bits, until = int(about.get("bm", 0)), point.pop_time + int(about["it"])
    offsets = ((n, point.start + int(step)) for n, step in enumerate(steps))
    left = tuple(
        offset for n, offset in offsets if not bits >> n & 1 and offset not in acknowledged
    )
    return Pop(point.group, point.topic, point.queue_id, point.pop_time, until, left, about, revive)


def ordered_rows(store: Folder, notes: Notes) -> Iterator[InFlightRow]:
    """From queues that are popped in order (ConsumerOrderInfoManager)."""
    table = config_table(store, ORDER_INFO, notes)
    for name, queues in (table or {}).items():
        topic, _, group = name.partition("@")
        try:
            for queue_id, info in queues.items():
                first, *steps = info["o"]
                usual = int(info["popTime"]) + int(info.get("i") or 0)
                changed = info.get("ot") or {}
                for n, offset in enumerate([first, *(first + step for step in steps)]):
                    if not int(info.get("cm", 0)) >> n & 1:
                        until = int(changed.get(str(offset), usual))
                        since = int(info["popTime"])
                        yield _row(group, topic, int(queue_id), offset, since, until)
        except _WRONG:
            notes.lacks(f"config/consumerOrderInfo.json: what it says of {name} is no order info")


def kept_pops(store: Folder, notes: Notes) -> Iterator[Pop]:
    """From a broker's RocksDB, in which acknowledged messages are deleted."""
    return (pop for _, pop in kept_rows(store, notes))


def end_of_popped(
    queue: tuple[str, int], ends: Mapping[tuple[str, int], int], log_start: int
) -> int | None:  # fmt: skip
    """Where a queue of kept pops ends, if that is known. ends: of all queues that the log has.

    A queue that a whole log lacks ends at 0: its messages are lost with the log's end. Light queues
    may be missing because the settings do not have them.
    """
    whole = not log_start and not queue[0].startswith(LMQ_PREFIX)
    return ends.get(queue, 0 if whole else None)


def kept_rows(store: Folder, notes: Notes) -> Iterator[tuple[bytes, Pop]]:
    """The same with the key of each row in POP_STATE."""
    folder = store / POP_DB
    if not has_rows(folder):
        return
    try:
        with closing(open_database(folder)) as database:
            for key, value in database.rows(POP_STATE):
                try:
                    about = json.loads(value)
                    since = int(about["popTime"])
                    pop = Pop(
                        str(about["groupId"]), str(about["topicId"]), int(about["queueId"]),
                        since, since + int(about["invisibleTime"]), (int(about["offset"]),), {}, "",
                    )  # fmt: skip
                except _WRONG:
                    notes.lacks(f"{folder}: a row is none of a popped message")
                    continue
                yield key, pop
    except RocksDBError as error:
        notes.lacks(f"{error}; what it has in flight is not shown")
