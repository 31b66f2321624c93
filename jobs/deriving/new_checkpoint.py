"""The checkpoint that goes with a set of derived files."""

from reput.jobs.opening.plan import Plan
from reput.jobs.outputs.publish import Built
from reput.jobs.pipeline.link import Linked
from reput.store_format.derived import checkpoint
from reput.store_format.names import INDEX


def new_checkpoint(plan: Plan, linked: Linked, built: list[Built]) -> bytes:
    """The checkpoint file of a store with these derived files."""
    with_records = [row for row in linked.accepted if row["records"]]
    dispatched = [row["last_dispatched"] for row in with_records if row["last_dispatched"] >= 0]
    return checkpoint.encode(
        checkpoint.after_rebuild(
            plan.profile,
            last_timestamp=with_records[-1]["last_timestamp"] if with_records else 0,
            last_dispatched=dispatched[-1] if dispatched else 0,
            index_end=max((row["end"] for row in built if row["folder"] == INDEX), default=0),
            last_record=with_records[-1]["last_record"] if with_records else 0,
        )
    )
