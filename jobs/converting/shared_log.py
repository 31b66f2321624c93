"""Stores that share a part of their logs, like a master and the slave that took over."""

from collections.abc import Sequence

from reput.jobs.converting.measured_log import QueueKey
from reput.jobs.converting.ordered_records import Source
from reput.store_format.discover.config import Offsets, consumer_offsets
from reput.store_format.notes import Notes
from reput.store_format.rewrite.placing import EarlierLog


def earlier_logs(sources: Sequence[Source]) -> tuple[EarlierLog, ...]:
    """The logs of the sources, up to the end of their records."""
    return tuple(
        EarlierLog(source.job.plan.storage, tuple(source.job.plan.segments), source.measured.end)
        for source in sources
    )  # fmt: skip


def complete_groups(sources: Sequence[Source]) -> None:
    """Give each store the positions that only another store has, in queues that become one.

    A group that only one store knows has consumed the shared records up to its position there, and
    none of the records that only the other store has.
    """
    known = [
        consumer_offsets(source.job.plan.storage, source.job.plan.store, Notes())
        for source in sources
    ]
    stores = list(zip(sources, known, strict=True))
    for number, (later, theirs) in enumerate(stores):
        ends = {key: seen.shared_end for key, seen in later.measured.queues.items()}
        shared = {(*key,): end for key, end in ends.items() if end}
        for earlier, ours in stores[:number] if shared else ():
            _complete(earlier, ours, theirs, shared)
            _complete(later, theirs, ours, shared)
    for one, own in stores:
        for other, more in stores:
            if other is not one:
                _begin(one, own, other, more)


def _complete(
    one: Source, known: Offsets, more: Offsets, shared: dict[tuple[str, int], int]
) -> None:
    """Give one store the positions that only the other store has, at most the shared end.

    known, more: the positions that the one and the other store have.
    """
    for (group, topic), queues in more.items():
        for queue_id, offset in queues.items():
            end = shared.get((topic, queue_id))
            if end is not None and queue_id not in known.get((group, topic), {}):
                own = one.groups.setdefault((topic, group), {})
                own[queue_id] = min(own.get(queue_id, end), offset, end)


def _begin(one: Source, known: Offsets, other: Source, more: Offsets) -> None:
    """Give one store its queue's start for each group that only the other store knows there.

    Otherwise what waits in the one store would lie before the group's position: retries, and half
    messages that the broker has to check (TransactionalMessageBridge.fetchConsumeOffset).
    """
    for (group, topic), queues in more.items():
        for queue_id in queues:
            key = QueueKey(topic, queue_id)
            seen = one.measured.queues.get(key)
            joined = one.new_queue(key) == other.new_queue(key)
            if seen and seen.counted and joined and queue_id not in known.get((group, topic), {}):
                one.groups.setdefault((topic, group), {}).setdefault(queue_id, seen.least)
