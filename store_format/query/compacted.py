"""How far a compacted topic's own log goes, against the log that it comes from.

A broker answers consumers of a topic with cleanup.policy=COMPACTION from `compaction/` alone
(CompactionStore.getMessage), and writes to it only what it dispatches
(CommitLogDispatcherCompaction). That begins where the ConsumeQueues end
(DefaultMessageStore.recover): once they have a message, no start brings it into `compaction/`.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from reput.store_format.derived.queue_files import BadQueue, QueueEntry
from reput.store_format.discover.config import topic_attributes
from reput.store_format.faults import StoreChanged
from reput.store_format.files.folder import Folder, read_part
from reput.store_format.layouts import BATCH_QUEUE_ENTRY, BATCH_QUEUE_ENTRY_BYTES, RECORD_HEAD
from reput.store_format.log.reader import NoRecord, NotInLog
from reput.store_format.log.record import Record
from reput.store_format.names import (
    COMPACTION,
    COMPACTION_LOG,
    COMPACTION_QUEUE,
    is_queue_id,
    is_queue_topic,
    segment_name,
    segments_among,
)
from reput.store_format.notes import Notes
from reput.store_format.query.reader import KEYS, OpenedStore
from reput.store_format.release.profiles import release_key
from reput.store_format.release.settings import Settings

BY_RECOVER = "(reput recover)"  # ends what that command mends
_SINCE = "5.1.0"  # CompactionStore
_ASKED_MOST = 64  # entries of a file whose records are looked at
_LOOKED_MOST = 20_000  # messages of a queue in which holes are looked for
Entries = Any  # BATCH_QUEUE_ENTRY


class CompactedQueue(NamedTuple):
    """One queue in `compaction/`. Positions are queueOffsets.

    starts: where its files of either kind begin in its own log; next: after its last message; 0 if
    it has none. queue_end: the next position in the ConsumeQueue; None if the store has no such
    queue, and nothing tells what it had.
    """

    topic: str
    queue_id: int
    starts: tuple[int, ...]
    next: int
    queue_end: int | None

    @property
    def ahead(self) -> bool:
        """Whether it has messages that are not in the log any more. A broker serves them, and puts
        no message before them (CompactionLog.asyncPutMessage).
        """
        return self.queue_end is not None and self.next > self.queue_end

    def folder(self, kind: str) -> str:
        """Its folder below the store, of a kind COMPACTION_LOG or COMPACTION_QUEUE."""
        return f"{COMPACTION}/{kind}/{self.topic}/{self.queue_id}"


class Lacking(NamedTuple):
    """A message that dispatch would have put into `compaction/`."""

    entry: QueueEntry
    record: Record


def compacted_topics(store: Folder, settings: Settings, release: str) -> list[str]:
    if release_key(release) < release_key(_SINCE) or not settings.enable_compaction:
        return []
    return [
        topic
        for topic, about in topic_attributes(store, Notes()).items()
        if about.get("cleanup.policy") == "COMPACTION" and is_queue_topic(topic)
    ]


def compacted_queues(opened: OpenedStore, topics: list[str]) -> Iterator[CompactedQueue]:
    """Each queue of compacted topics that is in the log or in `compaction/`. Raises BadQueue."""
    for topic in topics:
        own = opened.queues.of(topic)
        there = opened.folder.listed(f"{COMPACTION}/{COMPACTION_LOG}/{topic}")
        ids = {int(name) for name, state in there if state is None and is_queue_id(name)}
        for queue_id in sorted(ids | {number for number, _ in own}):
            yield compacted_queue(opened, topic, queue_id)


def compacted_queue(opened: OpenedStore, topic: str, queue_id: int) -> CompactedQueue:
    """One queue as it is now. Raises BadQueue."""
    end = None if opened.log.start else 0
    for number, batch in opened.queues.of(topic):
        if number == queue_id:
            end = opened.queue(topic, queue_id, batch).end_within(opened.log.end)
            break
    known = CompactedQueue(topic, queue_id, (), 0, end)
    folders = [f"{opened.path}/{known.folder(kind)}" for kind in (COMPACTION_LOG, COMPACTION_QUEUE)]
    names = {name for folder in folders for name, _ in Folder(opened.storage, folder).listed()}
    starts = tuple(map(int, segments_among(names)))
    last = 0
    for start in reversed(starts):
        entries = _all_entries(opened.folder, known, start)
        used = np.flatnonzero(_is_used(entries))
        if len(used):  # also behind a place that a killed cut has begun to clear
            last = int(entries[used[-1]]["baseOffset"] + entries[used[-1]]["batchSize"])
            break
    return known._replace(starts=starts, next=last)


def entries_of(store: Folder, queue: CompactedQueue, start: int) -> Entries:
    """The messages' entries in one queue file, up to the first of none (SparseConsumeQueue)."""
    entries = _all_entries(store, queue, start)
    used = _is_used(entries)
    return entries if used.all() else entries[: int(np.argmin(used))]


def _all_entries(store: Folder, queue: CompactedQueue, start: int) -> Entries:
    path = f"{store}/{queue.folder(COMPACTION_QUEUE)}/{segment_name(start)}"
    try:
        raw = store.storage.read_bytes(path)
    except (FileNotFoundError, NotADirectoryError):
        raw = b""
    whole = len(raw) // BATCH_QUEUE_ENTRY_BYTES * BATCH_QUEUE_ENTRY_BYTES
    return np.frombuffer(raw[:whole], BATCH_QUEUE_ENTRY)


def _is_used(entries: Entries) -> Any:
    found = (entries["size"] > 0) & (entries["batchSize"] > 0)
    return found & (entries["physicalOffset"] >= 0) & (entries["baseOffset"] >= 0)


def lacking(opened: OpenedStore, queue: CompactedQueue, notes: Notes) -> Iterator[Lacking]:
    """The messages with KEYS that the log has after the last one in `compaction/`, in order."""
    for number, batch in opened.queues.of(queue.topic):
        if number != queue.queue_id:
            continue
        entries = opened.queue(queue.topic, number, batch)
        first = max(queue.next, entries.minimum(opened.log.start, opened.profile))
        for entry in entries.entries(first):
            if entry.physical_offset < opened.log.start:
                continue
            try:
                record = opened.log.record_at(entry.physical_offset)
            except (NoRecord, NotInLog) as error:
                notes.note(f"{entries.folder}: {error}: it is not in {COMPACTION}/")
                continue
            if opened.message(record).properties.get(KEYS, "").strip():
                yield Lacking(entry, record)


_WITHOUT = (
    f"Without this folder, and that in {COMPACTION}/{COMPACTION_QUEUE}/, `reput recover` writes "
    "all that the log has; what compaction kept of older messages is lost then"
)


class CompactionFault(NamedTuple):
    """What is wrong with a queue in `compaction/`. why: says it, and what a broker does."""

    queue: CompactedQueue
    why: str

    @property
    def text(self) -> str:
        return f"{self.queue.folder(COMPACTION_LOG)}: {self.why}"


def compaction_faults(opened: OpenedStore, topics: list[str]) -> Iterator[CompactionFault]:
    """Where `compaction/` is behind the log, or ahead. What cannot be read is left to others."""
    for topic in topics:
        try:
            for queue in compacted_queues(opened, [topic]):
                why = _ahead(queue) if queue.ahead else _behind(opened, queue)
                if why:
                    yield CompactionFault(queue, why)
        except BadQueue:
            continue


def hole_faults(opened: OpenedStore, topics: list[str]) -> Iterator[CompactionFault]:
    """Where entries in `compaction/` name no record, and where it lacks messages between others: a
    broker ran on a store whose `compaction/` was not brought to the log, and put new ones after
    those that are missing.

    Compaction leaves out what a newer message of the same KEYS replaces, and deleted keys. What has
    neither, of the newest messages of a queue, was never there.
    """
    yield from _short_files(opened, topics)
    for topic in topics:
        try:
            for queue in compacted_queues(opened, [topic]):
                bad = next(_without_record(opened, queue), None)
                if bad is not None:
                    yield CompactionFault(
                        queue,
                        f"has no record of queueOffset {bad:,} where {COMPACTION}/"
                        f"{COMPACTION_QUEUE}/ names it: a broker does not serve it",
                    )
                found = list(_holes(opened, queue))
                if found:
                    yield CompactionFault(
                        queue,
                        f"lacks messages between others, from queueOffset {found[-1]:,} on, "
                        f"{len(found):,} of them of keys that no newer message has: a broker never "
                        f"serves them. {_WITHOUT}",
                    )
        except BadQueue:
            continue


def _short_files(opened: OpenedStore, topics: list[str]) -> Iterator[CompactionFault]:
    """Files that are shorter than others of their kind (MappedFileQueue.load)."""
    for kind in (COMPACTION_LOG, COMPACTION_QUEUE):
        sizes = [
            (state.size, CompactedQueue(topic, int(number), (), 0, None), name)
            for topic in topics
            for number, _ in opened.folder.listed(f"{COMPACTION}/{kind}/{topic}")
            for name, state in opened.folder.listed(f"{COMPACTION}/{kind}/{topic}/{number}")
            if is_queue_id(number) and state is not None
        ]
        usual = max((size for size, *_ in sizes), default=0)
        for size, queue, name in sizes:
            if size < usual or (kind == COMPACTION_QUEUE and size % BATCH_QUEUE_ENTRY_BYTES):
                yield CompactionFault(
                    queue, f"{name} of {kind} has {size:,} bytes, others {usual:,}: no broker "
                    f"starts. {_WITHOUT}"
                )  # fmt: skip


def _without_record(opened: OpenedStore, queue: CompactedQueue) -> Iterator[int]:
    """The queueOffsets of entries, some of each file, whose record is not in the queue's log."""
    head = np.zeros(1, RECORD_HEAD)
    for start in queue.starts:
        entries = entries_of(opened.folder, queue, start)
        path = f"{opened.path}/{queue.folder(COMPACTION_LOG)}/{segment_name(start)}"
        step = max(len(entries) // _ASKED_MOST, 1)
        for entry in (*entries[::step], *entries[-1:]):
            at, position = int(entry["physicalOffset"]) - start, int(entry["baseOffset"])
            try:
                raw = read_part(opened.storage, path, max(at, 0), head.nbytes)
                head = raw.view(RECORD_HEAD)
                read_part(opened.storage, path, at + int(entry["size"]) - 1, 1)
            except (FileNotFoundError, NotADirectoryError, StoreChanged):
                yield position
                continue
            if (head[0]["totalSize"], head[0]["queueOffset"]) != (entry["size"], position):
                yield position


def _holes(opened: OpenedStore, queue: CompactedQueue) -> Iterator[int]:
    """The queueOffsets of messages in holes, the latest first."""
    entries = [entries_of(opened.folder, queue, at)["baseOffset"]
               for at in queue.starts]  # fmt: skip
    there = np.sort(np.concatenate([np.zeros(0, np.int64), *entries]))
    if not len(there) or queue.queue_end is None:
        return
    own = opened.queue(queue.topic, queue.queue_id, False)
    first = max(int(there[0]), own.minimum(opened.log.start, opened.profile))
    newer: set[str] = set()
    last = min(int(there[-1]) + 1, queue.queue_end)
    for position in range(last - 1, max(first, last - _LOOKED_MOST) - 1, -1):
        try:
            record = opened.log.record_at(own.entry(position).physical_offset)
        except (NoRecord, NotInLog, BadQueue):
            return
        keys = opened.message(record).properties.get(KEYS, "")
        if keys.strip() and keys not in newer and record.body_length:
            at = int(np.searchsorted(there, position))
            if at == len(there) or there[at] != position:
                yield position
        newer.add(keys)


def _ahead(queue: CompactedQueue) -> str:
    gone = queue.next - (queue.queue_end or 0)
    return (
        f"has messages up to queueOffset {queue.next - 1:,}, {gone:,} positions past the queue's "
        f"end: a broker serves these, and none that come in their place {BY_RECOVER}"
    )


def _behind(opened: OpenedStore, queue: CompactedQueue) -> str:
    first = next(lacking(opened, queue, Notes()), None)
    if first is None:
        return ""
    return (
        f"lacks the messages from queueOffset {first.entry.position:,} on: a broker answers "
        "consumers of this topic from here alone, and does not dispatch what its queues have "
        f"already {BY_RECOVER}"
    )
