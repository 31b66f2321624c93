"""Is anything alive after a break in the log? What is stale is not lost data."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reput.jobs.engines.engine import Row
from reput.jobs.pipeline.link import Linked
from reput.udfs.damage.survey import SURVEYED, SurveySplits
from reput.udfs.staged_runs import QUEUE_KEY

if TYPE_CHECKING:
    from reput.jobs.pipeline.pipeline import Pipeline


def first_live_record(job: "Pipeline", linked: Linked) -> int | None:
    """The physical offset of the first record of a live queue after the break; None if none is.

    What counts are sound records in their own places, stored no earlier than the log's last one. A
    queue is live if one of them has a queueOffset that it does not have yet.
    """
    broke = linked.broke
    assert broke is not None
    last = [row["last_timestamp"] for row in linked.accepted if row["records"]]
    rules = replace(job.rules, not_before=last[-1] if last else None)
    survey = SurveySplits(job.plan.storage, job.plan.splits, rules, broke.offset + 1)
    after = job.ids_from(broke.split).run(survey, SURVEYED)
    after = after.extremes(QUEUE_KEY, greatest=("greatest",), least=("offset",))
    known = job.runs_rows(linked).extremes(QUEUE_KEY, greatest=("greatest",))
    ends = {_queue(row): row["greatest"] for row in known.collect()}
    live = (row["offset"] for row in after.collect() if row["greatest"] > ends.get(_queue(row), -1))
    return min(live, default=None)


def _queue(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in QUEUE_KEY)
