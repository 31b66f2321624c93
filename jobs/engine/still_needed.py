"""Which messages of a log somebody still needs: consumer groups, delays, transactions.

A broker deletes all of these in silence when their segments expire.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from reput.jobs.engine.open_store import Store, open_store
from reput.jobs.engine.progress import Progress
from reput.store_format.faults import StoreError
from reput.store_format.names import CONFIG
from reput.store_format.query.config import consumer_offsets
from reput.store_format.query.opened import OpenedStore
from reput.store_format.query.told import Told
from reput.store_format.storage.protocol import Storage

_OPEN_DELAYS = ("waiting", "late", "delivered, will be again")
_OPEN_TRANSACTIONS = ("pending", "abandoned")


class Needed(NamedTuple):
    """The first record that somebody needs: its physical offset, and who needs it."""

    offset: int
    who: str


class Even(NamedTuple):
    """What may go although it is needed."""

    unread: bool = False
    delayed: bool = False
    pending: bool = False
    groups: frozenset[str] = frozenset()  # consumer groups that nobody asks any more


def needed(
    storage: Storage,
    store: str,
    release: str,
    settings: dict[str, str],
    even: Even,
    progress: Progress,
    note: Callable[[str], None],
) -> list[Needed]:
    """What is needed of a store's log, for each who needs it the first record, lowest first.

    The log is read once for delays and transactions. Raises StoreError where config/ cannot be
    read, so that nobody knows what is unread.
    """
    found: list[Needed] = []
    if not even.unread:
        told = Told()
        opened = OpenedStore(storage, store, release, settings, told)
        with opened:
            found += _unread(opened, even.groups, told)
        if told.notes:
            raise StoreError(f"{told.notes[0]}: what is unread is not known; --even-unread")
    with open_store(
        store, rocketmq=release, settings=settings, storage=storage, progress=progress, tell=note
    ) as asked:
        found += _waiting(asked, even)
    return sorted(found)


def _unread(opened: OpenedStore, ignored: frozenset[str], told: Told) -> Iterator[Needed]:
    """Of each group and queue the first message that it has not read."""
    offsets = consumer_offsets(opened.storage, opened.path, told)
    for (group, topic), queues in sorted(offsets.items()):
        if group in ignored:
            continue
        kinds = dict(opened.queues_of(topic))
        for queue_id, offset in sorted(queues.items()):
            if queue_id not in kinds:
                continue
            queue = opened.queue(topic, queue_id, kinds[queue_id])
            first = max(offset, queue.minimum(opened.log.start, opened.profile))
            entry = next(queue.entries(first), None)
            if entry is not None and entry.physical_offset >= opened.log.start:
                yield Needed(
                    entry.physical_offset,
                    f"group {group!r} has read topic {topic!r}, queue {queue_id}, up to "
                    f"{offset:,} ({CONFIG}/consumerOffset.json)",
                )


def _waiting(asked: Store, even: Even) -> Iterator[Needed]:
    if not even.delayed:
        rows = [row for row in asked.delayed() if row.state in _OPEN_DELAYS]
        if rows:
            first = min(row.physical_offset for row in rows)
            yield Needed(first, f"{len(rows):,} delayed messages are not delivered yet")
    if not even.pending:
        halves = [row for row in asked.transactions() if row.state in _OPEN_TRANSACTIONS]
        if halves:
            first = min(row.last_physical_offset for row in halves)
            yield Needed(first, f"{len(halves):,} half messages are not decided yet")
