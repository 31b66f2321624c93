"""The messages of a log that consumer groups, delays or transactions still need.

A broker deletes such messages without a warning when their segments expire.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from reput.jobs.opening.questions import Store, open_store
from reput.jobs.outputs.report import counted
from reput.store_format.derived.queues import Queue
from reput.store_format.discover.config import consumer_offsets, has_rows
from reput.store_format.discover.store import StoreAt
from reput.store_format.faults import StoreError
from reput.store_format.names import CONFIG, POP_DB, RETRY_PREFIX
from reput.store_format.notes import Notes, Progress
from reput.store_format.query.by_queue import refuse_cut
from reput.store_format.query.log_scan import log_gaps
from reput.store_format.query.reader import OpenedStore

_OPEN_DELAYS = ("waiting", "late", "delivered, will be again")
_NOT_KNOWN = "what is unread is not known; --even-unread"
_OPEN_TRANSACTIONS = ("pending", "abandoned")


class Needed(NamedTuple):
    """A record that somebody needs. offset: physical; who: text that names the reader."""

    offset: int
    who: str


class Even(NamedTuple):
    """What may be deleted although it is needed."""

    unread: bool = False
    delayed: bool = False
    pending: bool = False
    groups: frozenset[str] = frozenset()  # consumer groups that no longer count


def needed(
    at: StoreAt,
    release: str,
    even: Even,
    progress: Progress,
    note: Callable[[str], None],
) -> list[Needed]:
    """The first needed record of each reader, in ascending physical offset.

    The log is read once for delays and transactions.
    Raises StoreError if config/ cannot be read, as it is then unknown what is unread.
    """
    found: list[Needed] = []
    if not even.unread:
        notes = Notes()
        opened = OpenedStore(at.storage, at.path, release, at.settings, notes)
        with opened:
            found += _unread(opened, even.groups, notes)
        if notes.lines:
            raise StoreError(f"{notes.lines[0]}: what is unread is not known; --even-unread")
    with open_store(
        at.path,
        rocketmq=release,
        settings=at.settings,
        storage=at.storage,
        progress=progress,
        tell=note,
    ) as asked:
        found += _waiting(asked, even)
    return sorted(found)


def _unread(opened: OpenedStore, ignored: frozenset[str], notes: Notes) -> Iterator[Needed]:
    """The first unread message of each group in each queue.

    If a group reads a topic, a queue of it without an offset counts as unread. Raises BadQueue.
    """
    folder = f"{opened.path}/{POP_DB}"
    if has_rows(opened.storage, folder):
        raise StoreError(f"{folder}: what pop consumers still hold is in RocksDB: {_NOT_KNOWN}")
    offsets = consumer_offsets(opened.storage, opened.path, notes)
    asked = {pair: read for pair, read in offsets.items() if pair[0] not in ignored}
    for group, _ in list(asked):  # each group also reads its own retry topic
        asked.setdefault((group, f"{RETRY_PREFIX}{group}"), {})
    for (group, topic), read in sorted(asked.items()):
        queues = opened.queues.of(topic)
        for queue_id, batch in queues:
            queue, offset = opened.queue(topic, queue_id, batch), read.get(queue_id, 0)
            refuse_cut(opened, queue)
            first = _first_there(queue, offset, opened.log.start)
            if first is not None:
                yield Needed(
                    first, f"group {group!r} has read topic {topic!r}, queue {queue_id}, up to "
                    f"{offset:,} ({CONFIG}/consumerOffset.json)",
                )  # fmt: skip
    if asked:
        yield from _not_in_queues(opened)


def _first_there(queue: Queue, position: int, log_start: int) -> int | None:
    """The physical offset of the first live message at or after a position of a queue."""
    for entries in queue.arrays(max(position, 0)):
        live = np.flatnonzero(entries["physicalOffset"] >= log_start)
        if len(live):
            return int(entries[live[0]]["physicalOffset"])
    return None


def _not_in_queues(opened: OpenedStore) -> Iterator[Needed]:
    """The first message that queues lack, of which it is not known whether a group has read it."""
    queues = [
        opened.queue(topic, queue_id, batch)
        for topic in opened.queues.topics() for queue_id, batch in opened.queues.of(topic)
    ]  # fmt: skip
    notes = Notes()
    lacking = log_gaps(opened, queues, notes)
    first = next((each.physical_offset for each in lacking.messages(opened, notes)), None)
    if first is None and notes.lines:  # behind damage there may be one
        first = lacking.gaps[0][0]
    if first is not None:
        yield Needed(first, "the queues do not have all of the log, and nothing tells whether "
                     "what they lack was read (reput verify, catch-up)")  # fmt: skip


def _waiting(asked: Store, even: Even) -> Iterator[Needed]:
    if not even.delayed:
        rows = [row for row in asked.delayed() if row.state in _OPEN_DELAYS]
        if rows:
            first = min(row.physical_offset for row in rows)
            yield Needed(first, f"{counted(len(rows), 'delayed message')} not delivered yet")
    if not even.pending:
        halves = [row for row in asked.transactions() if row.state in _OPEN_TRANSACTIONS]
        if halves:
            first = min(row.last_physical_offset for row in halves)
            yield Needed(first, f"{counted(len(halves), 'half message')} not decided yet")
