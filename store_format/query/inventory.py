"""What is in a store: its queues, its topics, and its consumer groups' progress."""

import re
from collections import defaultdict
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from reput.store_format.derived.queue_files import BadQueue
from reput.store_format.derived.queues import Queue
from reput.store_format.discover.config import batch_topics, configured_topics, consumer_offsets
from reput.store_format.faults import StoreError
from reput.store_format.files.folder import Folder
from reput.store_format.layouts import SYS_INNER_BATCH
from reput.store_format.log.reader import LogReader
from reput.store_format.names import (
    DLQ_PREFIX,
    LMQ_PREFIX,
    RETRY_PREFIX,
    SYSTEM_PREFIX,
    SYSTEM_TOPICS,
)
from reput.store_format.notes import Notes
from reput.store_format.query.by_queue import position_from, refuse_cut
from reput.store_format.query.log_scan import Gap, Lacking, in_queue, log_gaps
from reput.store_format.query.reader import OpenedStore, StoredMessage
from reput.store_format.release.profiles import RELEASES, profile

_NEWEST = profile(RELEASES[-1])  # its search for a queue's first message is by bisection
_KINDS = (
    (RETRY_PREFIX, "retry"), (DLQ_PREFIX, "dlq"), (LMQ_PREFIX, "lmq"), (SYSTEM_PREFIX, "system"),
)  # fmt: skip


class QueueRow(NamedTuple):
    """One queue, of messages that the log still has; times in milliseconds, -1 for none."""

    topic: str
    queue_id: int
    batch: bool
    min_offset: int  # the first position
    max_offset: int  # the position after the last
    messages: int
    bytes: int  # of their records
    min_timestamp: int
    max_timestamp: int


class TopicRow(NamedTuple):
    """One topic, over all of its queues."""

    topic: str
    queues: int
    messages: int
    min_timestamp: int
    max_timestamp: int
    bytes: int
    kind: str  # normal, retry, dlq, lmq or system
    configured: bool | None  # whether config/topics.json has it; None without that file


# What a broker does with an offset past a queue's end (GetMessageStatus.OFFSET_OVERFLOW_BADLY)
PAST_QUEUE = (
    "a consumer that pulls now is set back to the end, one that comes once the queue has grown "
    "past its offset skips what lies between"
)


class GroupRow(NamedTuple):
    """One group's progress in one queue (config/consumerOffset.json)."""

    group: str
    topic: str
    queue_id: int
    consumer_offset: int  # the next position to consume
    max_offset: int  # the position after the queue's last
    lag: int  # messages still to consume; below 0 where the offset lies past the queue's end
    lag_seconds: float | None = None  # newest message less the next to consume (`unread_since`)


class RateRow(NamedTuple):
    """How many messages of a topic were stored in spans of `width` milliseconds from `begin` on."""

    topic: str
    begin: int
    width: int
    messages: tuple[int, ...]


def kind_of(topic: str) -> str:
    """What a topic is for, by its name."""
    if topic in SYSTEM_TOPICS:
        return "system"
    return next((kind for prefix, kind in _KINDS if topic.startswith(prefix)), "normal")


class _Sums:
    def __init__(self) -> None:
        self.first, self.end = -1, 0
        self.messages = self.bytes = 0
        self.oldest = self.newest = -1

    def add(self, position: int, messages: int, size: int, time: int) -> None:
        self.first = position if self.first < 0 else min(self.first, position)
        self.end = max(self.end, position + messages)
        self.messages += messages
        self.bytes += size
        self.oldest = time if self.oldest < 0 else min(self.oldest, time)
        self.newest = max(self.newest, time)

    def row(self, topic: str, queue_id: int, batch: bool) -> QueueRow:
        return QueueRow(
            topic, queue_id, batch, max(self.first, 0), self.end, self.messages, self.bytes,
            self.oldest, self.newest,
        )  # fmt: skip


def queues(store: OpenedStore, from_log: bool, notes: Notes) -> list[QueueRow]:
    """All queues, by topic and id. Messages that queue files lack are counted in the log."""
    if from_log:
        return _with_log(store, _whole_log(store), {}, notes)
    found, lacking = _of_queues(store, notes)
    return _with_log(store, lacking, found, notes)


def _of_queues(
    store: OpenedStore, notes: Notes
) -> tuple[dict[tuple[str, int, bool], _Sums], Lacking]:
    """What queue files have, and the part of the log that they lack: all of it if one is cut."""
    found: dict[tuple[str, int, bool], _Sums] = {}
    holes = _holes(store.log)
    for topic in store.queues.topics():
        for queue_id, batch in store.queues.of(topic):
            try:
                queue = store.queue(topic, queue_id, batch)
                refuse_cut(store, queue)
                found[topic, queue_id, batch] = _sums_of(store, queue, holes)
            except BadQueue as error:
                notes.note(f"{error}; the log is read instead")
                return {}, _whole_log(store)
    if not found:
        notes.note("there are no queues: the log is read instead")
        return {}, _whole_log(store)
    lacking = log_gaps(store, [store.queue(*key) for key in found], notes)
    lacking.note(notes)
    return found, lacking


def _whole_log(store: OpenedStore) -> Lacking:
    return Lacking([(store.log.start, store.log.end)], in_queue)


def _with_log(
    store: OpenedStore, lacking: Lacking, found: dict[tuple[str, int, bool], _Sums], notes: Notes
) -> list[QueueRow]:
    batches = {*batch_topics(store.folder, notes), *(key[0] for key in found if key[2])}
    for message in lacking.messages(store, notes):
        record = message.record
        batch = record.topic in batches
        sums = found.setdefault((record.topic, record.queue_id, batch), _Sums())
        count = _positions(message, batch)
        sums.add(record.queue_offset, count, record.size, record.store_timestamp)
    return [sums.row(*key) for key, sums in sorted(found.items())]


def _positions(message: StoredMessage, batch: bool) -> int:
    """How many positions a message takes in its queue (CommitLog.getMessageNum)."""
    inner = batch or message.record.sys_flag & SYS_INNER_BATCH
    number = message.properties.get("INNER_NUM", "1") if inner else "1"
    return max(int(number), 1) if re.fullmatch("[0-9]{1,5}", number) else 1


def _sums_of(store: OpenedStore, queue: Queue, holes: list[Gap]) -> _Sums:
    sums = _Sums()
    log, first = store.log, max(queue.minimum(store.log.start, _NEWEST), 0)
    sums.end, spanned = queue.maximum(), 0
    for entries in queue.arrays(first):
        live, places = entries, entries["physicalOffset"]
        sums.end -= _count(entries[places >= log.end], queue)
        if not (there := (places >= log.start) & (places < log.end)).all():
            live = entries[there]
        spanned += _count(live, queue)
        for start, stop in holes:
            places = live["physicalOffset"]
            live = live[(places < start) | (places >= stop)]
        sums.messages += _count(live, queue)
        sums.bytes += int(live["size"].astype(np.int64).sum())
        if len(live):
            if sums.oldest < 0:
                sums.oldest = log.store_timestamp(*_place(live[0]))
            sums.newest = log.store_timestamp(*_place(live[-1]))
    sums.first = sums.end - spanned if sums.messages else sums.end
    return sums


def _count(entries: Any, queue: Queue) -> int:
    return int(entries["batchSize"].sum()) if queue.batch else len(entries)


def _holes(log: LogReader) -> list[Gap]:
    """The physical offsets [start, stop) of missing segments between others."""
    return [(a.end, b.start) for a, b in pairwise(log.segments) if a.end < b.start]


def _place(entry: Any) -> tuple[int, int]:
    return int(entry["physicalOffset"]), int(entry["size"])


def topics(store: OpenedStore, from_log: bool, everything: bool, notes: Notes) -> list[TopicRow]:
    """All topics that have a queue, by name; everything: also those of config/topics.json."""
    return topics_of(store, queues(store, from_log, notes), everything, notes)


def topics_of(
    store: OpenedStore, rows: list[QueueRow], everything: bool, notes: Notes
) -> list[TopicRow]:
    """The topics of these queues; everything: also those of config/topics.json."""
    configured = configured_topics(store.folder, notes)
    by_topic: dict[str, list[QueueRow]] = defaultdict(list)
    for queue in rows:
        by_topic[queue.topic].append(queue)
    names = {*by_topic, *(configured or ())} if everything else set(by_topic)
    return [_topic(name, by_topic.get(name, []), configured) for name in sorted(names)]


def _topic(name: str, rows: list[QueueRow], configured: Any) -> TopicRow:
    return TopicRow(
        name,
        len(rows),
        sum(row.messages for row in rows),
        min((row.min_timestamp for row in rows if row.messages), default=-1),
        max((row.max_timestamp for row in rows if row.messages), default=-1),
        sum(row.bytes for row in rows),
        kind_of(name),
        None if configured is None else name in configured,
    )


def groups(store: OpenedStore, from_log: bool, notes: Notes) -> list[GroupRow]:
    """Each group's progress, by group, topic and queue."""
    rows, found = queues(store, from_log, notes), []
    newest = max((row.max_timestamp for row in rows), default=-1)
    batches = {(row.topic, row.queue_id): row.batch for row in rows}
    for row in groups_of(store, rows, notes):
        seconds: float | None = 0.0
        if row.lag > 0:  # of a queue that there is
            queue = store.queue(row.topic, row.queue_id, batches[row.topic, row.queue_id])
            since = unread_since(queue, store.log, row.consumer_offset)
            seconds = None if since < 0 else max(newest - since, 0) / 1000
        found.append(row._replace(lag_seconds=seconds))
    return found


def groups_of(store: OpenedStore, rows: list[QueueRow], notes: Notes) -> list[GroupRow]:
    """Each group's progress in all queues that it has an offset for. rows: the queues' ends."""
    ends = {(row.topic, row.queue_id): row.max_offset for row in rows}
    offsets_of = consumer_offsets(store.folder, notes)
    found = [
        GroupRow(group, topic, queue_id, offset, end, end - max(offset, 0))
        for (group, topic), offsets in sorted(offsets_of.items())
        for queue_id, offset in sorted(offsets.items())
        for end in (ends.get((topic, queue_id), 0),)
    ]
    past = [row for row in found if row.lag < 0]
    if past:
        many = f"{len(past):,} offsets lie" if len(past) > 1 else "an offset lies"
        notes.note(
            f"{many} past the queue's end (lag below 0): group {past[0].group!r}, topic "
            f"{past[0].topic!r}, queue {past[0].queue_id} at {past[0].consumer_offset:,}; the "
            f"queue ends at {past[0].max_offset:,}; {PAST_QUEUE}"
        )
    below = [row for row in found if row.consumer_offset < 0]
    if below:
        notes.note(
            f"group {below[0].group!r} has offset {below[0].consumer_offset} in topic "
            f"{below[0].topic!r}, queue {below[0].queue_id}: its consumers begin there as a new "
            "group does"
        )
    return found


def unread_since(queue: Queue, log: LogReader, offset: int) -> int:
    """The storeTimestamp (milliseconds) of the message that a group at this offset reads next: the
    first from there on that the log still has. -1 where the queue has no such message.

    A group's lag in time is the storeTimestamp of the log's newest message less this one: it does
    not grow while nothing is put, nor in a store that was copied long ago.
    """
    try:  # entries pass over those before a queue that begins within a file
        found = next(queue.entries(max(offset, 0)), None)
        if found is not None and found.physical_offset < log.start:
            found = next(queue.entries(max(position_from(queue, 0, log), offset, 0)), None)
    except BadQueue:
        return -1
    if found is None or found.position + found.messages <= offset:
        return -1  # a batch holds several positions
    return log.store_timestamp(found.physical_offset, found.size)


def unconsumed(folder: Folder, group: str, notes: Notes) -> dict[tuple[str, int], int]:
    """(topic, queue) -> the offset from which on a group has consumed nothing; it has not begun
    their topics' other queues. Raises StoreError for none.
    """
    found = {
        (topic, queue): max(offset, 0)
        for (name, topic), offsets in consumer_offsets(folder, notes).items() if name == group
        for queue, offset in offsets.items()
    }  # fmt: skip
    if not found:
        raise StoreError(f"--unconsumed-by: the store has no offsets of group {group!r}")
    return found


def rates(store: OpenedStore, buckets: int, notes: Notes) -> list[RateRow]:
    """How many messages of each topic were stored in each of `buckets` equal spans of time, from
    the store's oldest message to its newest.

    Queues are bisected, so their lengths do not matter. What they lack is read from the log, and
    all of it is if it has holes.
    """
    if _holes(store.log):
        found, lacking = dict[tuple[str, int, bool], _Sums](), _whole_log(store)
    else:
        found, lacking = _of_queues(store, notes)
    spans = {key: (sums.first, sums.end) for key, sums in found.items() if sums.messages}
    rows = [row for row in _with_log(store, lacking, found, notes) if row.messages]
    if not rows:
        return []
    begin = min(row.min_timestamp for row in rows)
    width = -(-(max(row.max_timestamp for row in rows) + 1 - begin) // buckets)
    batches = {row.topic for row in rows if row.batch}
    counts: dict[str, list[int]] = {row.topic: [0] * buckets for row in rows}
    for (topic, queue_id, batch), (first, end) in spans.items():
        queue = store.queue(topic, queue_id, batch)
        at = [position_from(queue, begin + width * n, store.log) for n in range(buckets)]
        into = counts[topic]
        for number, (here, after) in enumerate(pairwise([*at, end])):
            into[number] += max(after - max(here, first), 0)
    for message in lacking.messages(store, notes):
        span = max(message.store_timestamp - begin, 0) // width
        counts[message.topic][min(span, buckets - 1)] += _positions(
            message, message.topic in batches
        )
    return [RateRow(topic, begin, width, tuple(each)) for topic, each in sorted(counts.items())]
