"""Stores that share a part of their logs, like a master and the slave that took over."""

from collections.abc import Sequence

from reput.jobs.converting.ordered_records import Source
from reput.store_format.convert.shared_records import EarlierLog
from reput.store_format.discover.config_folder import consumer_offsets
from reput.store_format.notes import Notes


def earlier_logs(sources: Sequence[Source]) -> tuple[EarlierLog, ...]:
    """The logs of the sources, up to the end of their records."""
    return tuple(
        EarlierLog(source.job.plan.storage, tuple(source.job.plan.segments), source.measured.end)
        for source in sources
    )  # fmt: skip


def complete_groups(sources: Sequence[Source]) -> None:
    """Give each store the positions in shared queues that only another store has.

    A group that only one store knows has consumed the shared records up to its position there, and
    none of the records that only the other store has.
    """
    for number, later in enumerate(sources):
        ends = {key: seen.shared_end for key, seen in later.measured.queues.items()}
        shared = {(*key,): end for key, end in ends.items() if end}
        for earlier in sources[:number] if shared else ():
            _complete(earlier, later, shared)
            _complete(later, earlier, shared)


def _complete(one: Source, other: Source, shared: dict[tuple[str, int], int]) -> None:
    """Give one store the positions that only the other store has, at most the shared end."""
    known, more = (
        consumer_offsets(source.job.plan.storage, source.job.plan.store, Notes())
        for source in (one, other)
    )  # fmt: skip
    for (group, topic), queues in more.items():
        for queue_id, offset in queues.items():
            end = shared.get((topic, queue_id))
            if end is not None and queue_id not in known.get((group, topic), {}):
                own = one.groups.setdefault((topic, group), {})
                own[queue_id] = min(own.get(queue_id, end), offset, end)
