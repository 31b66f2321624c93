"""Decides what becomes of a queue that several stores have."""

from collections.abc import Sequence
from dataclasses import replace

from reput.jobs.converting.carried_config import SCHEDULE
from reput.jobs.converting.measured_log import QueueKey
from reput.jobs.converting.ordered_records import Source
from reput.store_format.discover.config import queues_of
from reput.store_format.faults import StoreError
from reput.store_format.notes import Notes
from reput.store_format.rewrite.selection import WAIT

MEET_REFUSE, RENUMBER, APART = "refuse", "renumber", "apart"
MEETS = (MEET_REFUSE, RENUMBER, APART)
_JOIN = (SCHEDULE, *WAIT)  # topics of waiting messages, which are numbered anew in any case


def meet(sources: Sequence[Source], how: str) -> None:
    """Refuse queues that several stores have, or keep them apart: a later store's queues then get
    ids above those of the stores before it. Raises StoreError.

    The queues of waiting messages are internal to the broker, and are always joined.
    """
    if how == APART:
        _part(sources)
        return
    if how == RENUMBER:
        return
    owners: dict[QueueKey, Source] = {}
    for source in sources:
        for key, queue in source.measured.queues.items():
            if not queue.taken or key.topic in _JOIN:
                continue
            new = source.new_queue(key)
            other = owners.setdefault(new, source)
            if other is not source:
                raise StoreError(
                    f"{source.job.plan.store}: queue {new.queue_id} of topic {new.topic[:127]!r} "
                    f"is in {other.job.plan.store} too: --meet apart gives its queues other ids, "
                    "--meet renumber joins them by store time, --rename or --drop keeps one out"
                )


def _part(sources: Sequence[Source]) -> None:
    counts: dict[str, int] = {}  # a topic's new name -> number of queues of earlier stores
    for source in sources:
        own: dict[str, int] = {}
        for key, queue in source.measured.queues.items():
            if queue.taken and key.topic not in _JOIN:
                plan = source.job.plan
                known = own.get(key.topic) or queues_of(
                    plan.storage, plan.store, key.topic, Notes()
                )
                own[key.topic] = max(known, key.queue_id + 1)
        shifts = {topic: counts.get(source.changes.renamed(topic), 0) for topic in own}
        moved = tuple((topic, shift) for topic, shift in shifts.items() if shift)
        source.changes = replace(source.changes, shifts=moved)
        for topic, count in own.items():
            counts[source.changes.renamed(topic)] = shifts[topic] + count
