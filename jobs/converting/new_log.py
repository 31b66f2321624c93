"""The two steps of a new log: the old logs are measured, then its segments are written."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from reput.jobs.engines.engine import Row
from reput.jobs.pipeline.link import Linked, Scanned, by_split, link_all
from reput.jobs.pipeline.pipeline import Pipeline
from reput.jobs.pipeline.stages import guided
from reput.jobs.salvaging.judge_end import read_log
from reput.store_format.dispatch.scan import ScanRules
from reput.store_format.faults import REFUSE, DamageFound, StoreError
from reput.store_format.layouts import BLANK_BYTES
from reput.store_format.rewrite.changes import Changes
from reput.store_format.rewrite.placing import EarlierLog
from reput.store_format.rewrite.selection import Tally
from reput.udfs.convert.measure import MEASURED, MeasureSplits, measured_records, split_queues
from reput.udfs.convert.write import (
    SEGMENT_WRITTEN,
    NewSegment,
    OldLog,
    Part,
    Piece,
    WriteSegments,
    placed,
)

# ---
# Measure a log: walk it in parallel, prove it whole, and compute its records' new lengths.

_FIRST_THEN = "`reput repair STORE --output DIR` makes a sound copy, which can be converted"


class QueueKey(NamedTuple):
    """A queue of the old log."""

    topic: str
    queue_id: int


@dataclass
class MeasuredLog:
    """A whole log. rows: MEASURED rows in order; start, end: physical offsets."""

    rows: Sequence[Scanned]
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
            plan.storage, job.staging, plan.splits, job.rules, numbers, groups, firsts, changes,
            ordered, waiting, earlier,
        )  # fmt: skip
        rows = job.ids(len(groups)).run(task, MEASURED)
        with job.stages.by_tasks("measured", plan.log_bytes, "bytes"):
            scanned.update(by_split(rows.as_table()))

    return link_all(plan.splits, measured)


class NewLog(NamedTuple):
    """The plan of a new log. olds: the logs that it is made of; end: a physical offset."""

    olds: tuple[OldLog, ...]
    segments: list[NewSegment]
    end: int


def start_of(log_starts: Iterable[int], segment_bytes: int) -> int:
    """The start of a new log: that of the last old log, rounded up to a segment's start.

    It is not lower, as what remains of expired records (a queue's last entry) must point before it.
    """
    return -(-max(log_starts) // segment_bytes) * segment_bytes


def records_of(job: Pipeline, row: Scanned, segment_bytes: int) -> Any:
    """The MEASURED_RECORD rows of a MEASURED row. Raises StoreError if one exceeds a segment."""
    records = measured_records(job.staging, row["run"], row["taken"])
    longest = int(records["size"].max())
    if longest + BLANK_BYTES > segment_bytes:
        at = job.plan.splits.stretch(row["split"]).start
        at += int(records["offset"][int(records["size"].argmax())])
        raise StoreError(
            f"{job.plan.store}: the record at physical offset {at}: totalSize {longest}: does not "
            f"fit into a segment; mappedFileSizeCommitLog={segment_bytes} takes "
            f"{segment_bytes - BLANK_BYTES}: choose a greater size"
        )
    return records


def piece_of(job: Pipeline, row: Scanned, records: Any, at: int) -> Piece:
    """The piece of a MEASURED row. records: its MEASURED_RECORD rows; at: in the new log."""
    splits = job.plan.splits
    start = splits.stretch(row["split"]).start
    return Piece(
        start, start + int(records["offset"][0]), row["run"], row["taken"], at,
        splits.segment(row["split"]), row["longest"],
    )  # fmt: skip


def old_log(
    job: Pipeline, measured: MeasuredLog, changes: Changes, pieces: Sequence[Piece], ordered: bool
) -> OldLog:
    return OldLog(
        job.plan.storage, job.rules, changes, tuple(pieces), measured.start, measured.end,
        ordered=ordered,
    )  # fmt: skip


def place_records(
    job: Pipeline, measured: MeasuredLog, changes: Changes, segment_bytes: int
) -> NewLog:
    """Give each record its new offset, in the old log's order. segment_bytes: of a new segment.

    Raises StoreError if a record does not fit into a segment.
    """
    pieces: list[Piece] = []
    begins: list[tuple[int, int, int]] = []  # segment's start, number of first piece, of its record
    at = start_of([measured.start], segment_bytes)
    for row in measured.rows:
        if row["taken"]:
            records = records_of(job, row, segment_bytes)
            pieces.append(piece_of(job, row, records, at))
            places, indices, at = placed(records, at, segment_bytes)
            begins += [(int(places[i]), len(pieces) - 1, i) for i in indices.tolist()]
    old = old_log(job, measured, changes, pieces, False)
    return NewLog((old,), list(_segments(begins, pieces)) or [NewSegment(at, (), True)], at)


def _segments(begins: list[tuple[int, int, int]], pieces: list[Piece]) -> Iterator[NewSegment]:
    for number, (start, piece, record) in enumerate(begins):
        last = number + 1 == len(begins)
        if last:
            last_piece, stop = len(pieces) - 1, pieces[-1].taken
        else:
            _, last_piece, stop = begins[number + 1]
        yield NewSegment(start, (Part(0, piece, record, last_piece, stop),), last)


def write_log(job: Pipeline, log: NewLog, segment_bytes: int, rules: ScanRules) -> list[Row]:
    """Write the segments in staging; SEGMENT_WRITTEN rows in order. rules: of the new log."""
    task = WriteSegments(job.staging, log.olds, tuple(log.segments), segment_bytes, rules)
    total = log.end - log.segments[0].start
    with job.stages.by_tasks("written", total, "bytes"):
        rows = job.ids(len(task.segments)).run(task, SEGMENT_WRITTEN).collect()
    return sorted(rows, key=lambda row: int(row["start"]))
