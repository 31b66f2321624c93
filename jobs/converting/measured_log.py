"""Measure a log: walk it in parallel, prove it whole, and compute its records' new lengths."""

from dataclasses import dataclass
from typing import NamedTuple

from reput.jobs.engines.engine import Row
from reput.jobs.pipeline.link import Linked, Scanned, link_all
from reput.jobs.pipeline.pipeline import Pipeline, guided
from reput.jobs.salvaging.judge_end import read_log
from reput.store_format.faults import REFUSE, DamageFound
from reput.store_format.rewrite.placing import EarlierLog
from reput.store_format.rewrite.selection import Changes, Tally
from reput.udfs.convert.measure import MEASURED, MeasureSplits, split_queues

_FIRST_THEN = "`reput repair STORE --output DIR` makes a sound copy, which can be converted"


class QueueKey(NamedTuple):
    """A queue of the old log."""

    topic: str
    queue_id: int


@dataclass
class MeasuredLog:
    """A whole log. rows: MEASURED rows in order; start, end: physical offsets."""

    rows: list[Row]
    start: int
    end: int
    queues: dict[QueueKey, Tally]
    warnings: list[str]


def measure(
    job: Pipeline, changes: Changes, ordered: bool = False, waiting: tuple[int, ...] = (),
    earlier: tuple[EarlierLog, ...] = (),
) -> MeasuredLog:  # fmt: skip
    """Measure a job's log. ordered, waiting, earlier: as for MeasureSplits.

    Raises DamageFound if live records follow damage.
    """
    job.check_every_crc()
    linked = _linked(job, changes, ordered, waiting, earlier)
    warnings: list[str] = []
    doubtful = linked.broke is not None and not linked.broke.rest_is_zero
    if doubtful or any(row["wrong_blank"] >= 0 for row in linked.accepted):
        warnings = _judged(job, linked.end)
    queues: dict[QueueKey, Tally] = {}
    for row in linked.accepted:
        if row["records"]:
            for each in split_queues(job.staging, row["run"]):
                key = QueueKey(each["topic"], each["queue_id"])
                tally = Tally(*(each[name] for name in Tally._fields))
                queues[key] = queues[key].plus(tally) if key in queues else tally
    return MeasuredLog(
        linked.accepted, job.plan.segments[0].start, linked.end, queues, warnings
    )  # fmt: skip


def _judged(job: Pipeline, end: int) -> list[str]:
    """Warnings of a scan about the log's end. Raises DamageFound if live records follow the end."""
    try:
        read = read_log(job, REFUSE)
    except DamageFound as error:
        text = str(error).partition(": --on-damage")[0]
        plain = error.plain.partition("--on-damage")[0]
        raise DamageFound(f"{text}; {_FIRST_THEN}", f"{plain}{_FIRST_THEN}") from None
    assert read.linked.end == end, f"a scan ends at {read.linked.end}, a walk at {end}"
    return read.warnings


def _linked(
    job: Pipeline, changes: Changes, ordered: bool, waiting: tuple[int, ...],
    earlier: tuple[EarlierLog, ...],
) -> Linked:  # fmt: skip
    plan = job.plan

    def measured(
        scanned: dict[int, Scanned], numbers: range | tuple[int, ...], firsts: dict[int, int]
    ) -> None:
        groups = guided(len(numbers), job.engine.most_cores)
        task = MeasureSplits(
            plan.storage, job.staging, plan.splits, job.rules, changes, numbers, groups,
            firsts, ordered, waiting, earlier,
        )  # fmt: skip
        rows = job.ids(len(groups)).run(task, MEASURED)
        with job.stages.by_tasks("measured", plan.log_bytes, "bytes"):
            scanned.update((row["split"], row) for row in rows.collect())

    return link_all(plan.splits, measured)
