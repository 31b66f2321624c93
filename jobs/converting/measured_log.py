"""Measure a log: walk it in parallel, prove it whole, and learn how long its records become."""

from dataclasses import dataclass
from typing import NamedTuple

from reput.jobs.engines.engine import Row
from reput.jobs.pipeline.link import Linked, Scanned, link_all
from reput.jobs.pipeline.pipeline import Pipeline
from reput.jobs.pipeline.task_sizes import guided
from reput.jobs.salvaging.log_read import read_log
from reput.store_format.convert.changes import Changes
from reput.store_format.faults import REFUSE, DamageFound
from reput.udfs.convert.measure_splits import MEASURED, Marks, MeasureSplits, split_queues

_FIRST_THEN = (
    "`reput repair STORE --output DIR` makes a sound copy of it, which can be converted; "
    "`reput check` shows all damage"
)


class QueueKey(NamedTuple):
    """A queue of the log that is read."""

    topic: str
    queue_id: int


@dataclass
class QueueSeen:
    """What the log has of a queue, and what of it is taken.

    positions: records that have a position in the queue; counted: those of them that are taken.
    least, greatest: queueOffsets of all records that have one; least is above greatest where there
    is none. sys_flags: of all that are taken; long: some of them are V2. below: of those counted,
    how many have a queueOffset below each mark.
    """

    records: int = 0
    taken: int = 0
    bytes: int = 0
    positions: int = 0
    counted: int = 0
    least: int = (1 << 63) - 1
    greatest: int = -1
    sys_flags: int = 0
    long: int = 0
    below: tuple[int, ...] = ()

    def add(self, row: Row) -> None:
        """Add what a split has of it, a SPLIT_QUEUE row."""
        for name in ("records", "taken", "bytes", "positions", "counted"):
            setattr(self, name, getattr(self, name) + row[name])
        self.sys_flags |= row["sys_flags"]
        self.long |= row["long"]
        if row["below"]:
            before = self.below or (0,) * len(row["below"])
            self.below = tuple(a + b for a, b in zip(before, row["below"], strict=True))
        self.least = min(self.least, row["least"])
        self.greatest = max(self.greatest, row["greatest"])


@dataclass
class MeasuredLog:
    """A log that is whole: its MEASURED rows in order, where it ends, and what it has of queues."""

    rows: list[Row]
    start: int
    end: int
    queues: dict[QueueKey, QueueSeen]
    warnings: list[str]


def measure(
    job: Pipeline, changes: Changes, ordered: bool = False, marks: Marks | None = None
) -> MeasuredLog:
    """Measure a job's log. ordered: as for MeasureSplits; marks: positions of queues up to which
    records are counted.

    Raises DamageFound where live records follow damage.
    """
    job.check_every_crc()
    linked = _linked(job, changes, ordered, marks or {})
    warnings: list[str] = []
    doubtful = linked.broke is not None and not linked.broke.rest_is_zero
    if doubtful or any(row["wrong_blank"] >= 0 for row in linked.accepted):
        warnings = _judged(job, linked.end)
    queues: dict[QueueKey, QueueSeen] = {}
    for row in linked.accepted:
        if row["records"]:
            for each in split_queues(job.staging, row["run"]):
                key = QueueKey(each["topic"], each["queue_id"])
                queues.setdefault(key, QueueSeen()).add(each)
    return MeasuredLog(
        linked.accepted, job.plan.segments[0].start, linked.end, queues, warnings
    )  # fmt: skip


def _judged(job: Pipeline, end: int) -> list[str]:
    """What a scan says of how the log ends; the scan also tells what is live behind its end."""
    try:
        read = read_log(job, REFUSE)
    except DamageFound as error:
        text = str(error).partition(": --on-damage")[0]
        plain = error.plain.partition("--on-damage")[0]
        raise DamageFound(f"{text}; {_FIRST_THEN}", f"{plain}{_FIRST_THEN}") from None
    assert read.linked.end == end, f"a scan ends at {read.linked.end}, a walk at {end}"
    return read.warnings


def _linked(job: Pipeline, changes: Changes, ordered: bool, marks: Marks) -> Linked:
    plan = job.plan

    def measured(
        scanned: dict[int, Scanned], numbers: range | tuple[int, ...], firsts: dict[int, int]
    ) -> None:
        groups = guided(len(numbers), job.engine.most_cores)
        task = MeasureSplits(
            plan.storage, job.staging, plan.splits, job.rules, changes, numbers, groups,
            firsts, ordered, marks,
        )  # fmt: skip
        rows = job.ids(len(groups)).run(task, MEASURED)
        with job.stages.by_tasks("measured", plan.log_bytes, "bytes"):
            scanned.update((row["split"], row) for row in rows.collect())

    return link_all(plan.splits, measured)
