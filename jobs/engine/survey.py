"""Is anything alive after a break in the log? What is stale is not lost data."""

from dataclasses import replace
from typing import TYPE_CHECKING

from reput.jobs.engine.collect import collect, run_in_tasks
from reput.jobs.engine.link import Linked
from reput.udfs.staged_runs import QUEUE_KEY
from reput.udfs.survey import SURVEYED, SurveySplits

if TYPE_CHECKING:
    from reput.jobs.engine.pipeline import Pipeline


def first_live_record(job: "Pipeline", linked: Linked) -> int | None:
    """The physical offset of the first record of a live queue after the break; None if none is.

    What counts are sound records in their own places, stored no earlier than the log's last one. A
    queue is live if one of them has a queueOffset that it does not have yet.
    """
    from pyspark.sql import functions as f

    broke = linked.broke
    assert broke is not None
    last = [row["last_timestamp"] for row in linked.accepted if row["records"]]
    rules = replace(job.rules, not_before=last[-1] if last else None)
    survey = SurveySplits(job.plan.storage, job.plan.splits, rules, broke.offset + 1)
    after = (
        run_in_tasks(job.ids_from(broke.split), survey, SURVEYED)
        .groupBy(*QUEUE_KEY)
        .agg(f.max("greatest").alias("greatest"), f.min("offset").alias("offset"))
    )
    known = job.runs_frame(linked).groupBy(*QUEUE_KEY).agg(f.max("greatest").alias("known"))
    live = after.join(known, list(QUEUE_KEY), "left").where(
        f.col("known").isNull() | (f.col("greatest") > f.col("known"))
    )
    first: int | None = collect(live.agg(f.min("offset").alias("first")))[0]["first"]
    return first
