"""Reads a log up to its end, its first damage or past all damage, and says why it ends there; an
end with live records after it is refused.
"""

from dataclasses import replace
from typing import Any, BinaryIO, NamedTuple

from reput.jobs.engines.engine import Row
from reput.jobs.opening.open_writer import stored_at
from reput.jobs.opening.plan import Plan
from reput.jobs.pipeline.link import Break, Linked
from reput.jobs.pipeline.pipeline import Pipeline
from reput.jobs.salvaging.damage_map import DamageMap, write_ranges
from reput.jobs.salvaging.damage_search import map_damage
from reput.store_format import faults
from reput.store_format.derived.after_crash import was_durable
from reput.store_format.derived.checkpoint import Checkpoint
from reput.store_format.log.walk import proven_names
from reput.udfs.damage.searches import SURVEYED, SurveySplits
from reput.udfs.rebuild.runs import QUEUE_KEY


class Crash(NamedTuple):
    """The store was not stopped cleanly. checkpoint: None if the store has no such file."""

    checkpoint: Checkpoint | None


def judge_end(
    job: Pipeline, linked: Linked, on_damage: str, crash: Crash | None = None,
    salvages: bool = True,
) -> tuple[str, list[str]]:  # fmt: skip
    """(why the log ends where it does, warnings). Raises DamageFound if live records follow.

    crash: given by a recovery only; records after a fault then count as live only if they were
    durable before the crash. salvages: whether the command has `--on-damage salvage`.
    """
    linked.firsts = on_damage
    blanks = _judge_blanks(job, linked, on_damage, crash, salvages)
    reason, warnings = _judge_break(job, linked, on_damage, crash, salvages)
    return reason, blanks + warnings


def _lost_by_crash(job: Pipeline, live: int, crash: Crash | None) -> bool:
    """Whether the record at offset `live`, after a fault, was not durable before the crash."""
    if crash is None:
        return False
    plan = job.plan
    segment = next(s for s in plan.segments if s.start <= live < s.end)
    stored = stored_at(plan.storage, segment, live, plan.record_rules)
    return not was_durable(stored, crash.checkpoint)


def _choices(salvages: bool, truncate: str) -> str:
    """The choices of --on-damage, as the end of an error message."""
    goes_on = "salvage goes on there, " if salvages else ""
    return f"--on-damage {goes_on}truncate {truncate}"


def _plain_damage(plan: Plan, broke: Break, salvages: bool, truncate: str) -> str:
    """The plain error message for damage that live records follow."""
    why = "checksum does not match"
    if broke.fault not in faults.CRC_FAULTS:
        name, reason = faults.REASONS[broke.fault]
        why = f"{name} {broke.size}: {reason}" if name == "totalSize" else f"{name}: {reason}"
    segment = plan.splits.segment(broke.split)
    skips = "salvage skips it, " if salvages else ""
    return (
        f"Damaged message at offset {broke.offset} ({why}). Intact messages follow.; "
        f"{segment.path}: offset {broke.offset - segment.start}; "
        f"--on-damage {skips}truncate {truncate}."
    )


def _judge_blanks(
    job: Pipeline, linked: Linked, on_damage: str, crash: Crash | None, salvages: bool
) -> list[str]:
    """Warnings of BLANKs whose size is not the rest of their segment.

    At each such BLANK RocketMQ goes on with the next segment, even if records lie between.
    """
    warnings = []
    for number, row in enumerate(linked.accepted):
        if row["wrong_blank"] < 0:
            continue
        broke = Break(row["split"], row["wrong_blank"], faults.Fault.BLANK_SIZE, row["size"], False)
        before = Linked(linked.accepted[: number + 1], broke.offset, broke)
        where = describe_break(job.plan, before)
        live = first_live_record(job, before)
        next_one = "goes on with the next segment as RocketMQ does"
        if live is not None and on_damage == faults.REFUSE and not _lost_by_crash(job, live, crash):
            raise faults.DamageFound(
                f"{where}; live records follow, the first at offset {live}: "
                + _choices(salvages, "with the next segment as RocketMQ does"),
                _plain_damage(job.plan, broke, salvages, next_one),
            )
        warnings.append(f"{where}; what is left of its segment is passed over, as RocketMQ does")
    return warnings


def _judge_break(
    job: Pipeline, linked: Linked, on_damage: str, crash: Crash | None, salvages: bool
) -> tuple[str, list[str]]:
    broke = linked.broke
    if broke is None and job.plan.splits.limit is not None:
        return job.plan.ends_by, []
    if broke is None:
        return "the last segment's end", []
    _, reason = faults.REASONS[broke.fault]
    if broke.rest_is_zero:
        return reason, []
    where = describe_break(job.plan, linked)
    ends_so, stops = "ends the log here as RocketMQ does", "stops there as RocketMQ does"
    if broke.fault == faults.Fault.PLACE:
        where += " (RocketMQ does not look at that: it dispatches such a record, and goes on)"
        ends_so = "ends the log here, where RocketMQ does not"
        stops = "stops there, where RocketMQ goes on"
    live = first_live_record(job, linked)
    if live is not None and _lost_by_crash(job, live, crash):
        return reason, [f"{where}; what follows was not durable before the crash"]
    if live is None:
        if broke.fault == faults.Fault.PLACE and on_damage == faults.REFUSE:
            _refuse_misnamed(job.plan, where)
        return reason, [f"{where}; nothing live follows: the log ends there"]
    if on_damage == faults.REFUSE:
        raise faults.DamageFound(
            f"{where}; live records follow, the first at offset {live}: "
            + _choices(salvages, ends_so),
            _plain_damage(job.plan, broke, salvages, stops),
        )
    return reason, [f"{where}; cut there, live records follow from {live} on"]


def _refuse_misnamed(plan: Plan, where: str) -> None:
    """Raise DamageFound if segments have each other's names: what they hold is no torn end."""
    names = proven_names(plan.storage, plan.segments, plan.splits.segment_bytes, assume=False)
    for path, reason, *_ in names.findings:
        plain = f"{path}: {reason}, with `reput repair`"
        raise faults.DamageFound(f"{where}; {plain}", plain)


def describe_break(plan: Plan, linked: Linked) -> str:
    """File, offset, field, value and reason of a break."""
    broke = linked.broke
    assert broke is not None
    segment = plan.splits.segment(broke.split)
    name, reason = faults.REASONS[broke.fault]
    field = faults.HEAD_FIELDS.get(broke.fault, "totalSize")
    value = f" ({field} {broke.size})" if broke.fault != faults.Fault.ZEROS else ""
    return (
        f"{segment.path}: offset {broke.offset - segment.start} "
        f"(physical {broke.offset}): {name} {reason}{value}"
    )


def first_live_record(job: Pipeline, linked: Linked) -> int | None:
    """The physical offset of the first record of a live queue after the break, or None.

    Only sound records at their own physical offset count, if stored no earlier than the log's last
    record. A queue is live if such a record has a greater queueOffset than the queue before the
    break.
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


# ---
# Read the log up to its first damage or past all damage, depending on `on_damage`.


class LogRead(NamedTuple):
    """The log as read: its pieces, why it ends where it does, and the damage passed over."""

    linked: Linked
    reason: str
    warnings: list[str]
    damage: DamageMap | None


def read_log(job: Pipeline, on_damage: str, ranges: BinaryIO | None = None) -> LogRead:
    """Scan the log. Raises DamageFound if live records follow damage and on_damage is REFUSE."""
    if on_damage != faults.SALVAGE:
        linked = job.scan()
        return LogRead(linked, *judge_end(job, linked, on_damage), None)
    job.check_property_crc()
    found = map_damage(job, gap_lines=ranges is not None)
    if ranges:
        write_ranges(job.staging, found, ranges)
    reason = "the end of the last live record" if found.count else "undamaged"
    return LogRead(found.linked, reason, found.all_warnings(), found)
