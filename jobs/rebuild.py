"""Rebuild a store's derived files: scan its CommitLog, then build queues and index from it."""

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from reput.jobs.engine.after_crash import stored_at
from reput.jobs.engine.damage import DamageMap, map_damage, write_ranges
from reput.jobs.engine.link import Break, Linked
from reput.jobs.engine.outputs import Output, inputs_of
from reput.jobs.engine.pipeline import Cut, Pipeline, is_local, spark_cores
from reput.jobs.engine.plan import Plan, make_plan
from reput.jobs.engine.progress import Progress
from reput.jobs.engine.publish import Built, name_files, publish, unnamed
from reput.jobs.engine.sets import REBUILT
from reput.jobs.engine.staging import beside, remove_leftovers, staging_folder
from reput.jobs.engine.summary import InputFile, Summary
from reput.jobs.engine.survey import first_live_record
from reput.store_format import faults
from reput.store_format.derived import checkpoint
from reput.store_format.derived.after_crash import was_durable
from reput.store_format.faults import REASONS, DamageFound, Fault, StoreChanged
from reput.store_format.names import INDEX
from reput.store_format.storage import storage_for
from reput.store_format.storage.protocol import Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REFUSE, TRUNCATE, SALVAGE = faults.REFUSE, faults.TRUNCATE, faults.SALVAGE
_QUEUES_SHOWN = 20


def rebuild(
    spark: "SparkSession",
    store: str,
    output: str,
    *,
    rocketmq: str,
    settings: Mapping[str, str] | None = None,
    on_damage: str = REFUSE,
    replace: bool = False,
    index_start_name: str | None = None,
    cut: Cut | None = None,
    ranges: BinaryIO | None = None,
    storage: Storage | None = None,
    output_storage: Storage | None = None,
    progress: Progress | None = None,
) -> Summary:
    """Derive ConsumeQueue and Index files from a store's CommitLog, as RocketMQ would.

    store: a folder that holds `commitlog/`; output: a folder that is absent or empty, or with
    `replace` a set that was rebuilt before; each a path or a URL, of one file system or two
    (store_format/storage); rocketmq: the release whose bytes are wanted; settings: by RocketMQ's
    names, as text (`{"maxIndexNum": "400"}`); storage: what to read and write by instead of what
    the URLs say, output_storage: what to write by; on_damage: `refuse` raises DamageFound where
    live records follow damage, `truncate` ends the log there as RocketMQ's recovery does (but also
    at a record whose physicalOffset is not its place, where RocketMQ goes on), `salvage` goes on at
    the next record that proves itself (docs/damage.md); ranges: with `salvage`, gets every range
    and every gap as JSON lines, however many.

    Raises StoreError (of which DamageFound is one), SettingError, UnknownRelease; nothing is
    left behind in `output` then.
    """
    started = time.monotonic()
    shared = not is_local(spark)
    output_storage = output_storage or storage or storage_for(output, shared)
    storage = storage or storage_for(store)
    progress = progress or Progress()
    cores = spark_cores(spark)
    cut = cut or Cut()
    store, output = storage.resolve(store), output_storage.resolve(output)
    salvage = on_damage == SALVAGE
    plan = make_plan(storage, store, rocketmq, settings or {}, cores, cut.split_bytes, salvage)
    inputs = inputs_of(storage, store, settings or {})
    target = Output(output_storage, output, REBUILT, replace, tuple(inputs))
    target.check()
    cleaned = remove_leftovers(output_storage, output, inputs)
    with staging_folder(output_storage, *beside(output_storage, output)) as staging:
        job = Pipeline(spark, plan, staging, cores, cut, progress)
        planned = time.monotonic()
        linked, reason, warnings, damage = read_log(job, on_damage, ranges)
        scanned = time.monotonic()
        summary = _summary(plan, output, linked, reason, warnings)
        summary.cleaned = cleaned
        summary.on_damage, summary.damage = on_damage, damage.as_json() if damage else None
        built = job.build(linked)
        done = time.monotonic()
        summary.stages = {"scan": scanned - planned, "build": done - scanned}
        check_unchanged(plan)
        named = name_files(built, job.queue_bytes, index_start_name)
        _count(summary, linked, named)
        summary.left_out += unnamed(built, job.queue_bytes)
        summary.seconds = time.monotonic() - started
        publish(staging, named, new_checkpoint(plan, linked, named), summary, target)
        summary.seconds = time.monotonic() - started
        summary.stages["publish"] = time.monotonic() - done
        return summary


def _summary(plan: Plan, output: str, linked: Linked, reason: str, warnings: list[str]) -> Summary:
    return Summary(
        store=plan.store,
        output=output,
        rocketmq=plan.profile.release,
        profile=asdict(plan.profile),
        settings=plan.settings.by_name(),
        log_start=plan.segments[0].start,
        log_end=linked.end,
        end_reason=reason,
        warnings=[*plan.notes, *plan.warnings, *warnings],
        inputs=[InputFile(s.path, s.state.size, s.state.mtime) for s in plan.segments],
    )


class Crash(NamedTuple):
    """The store was not stopped cleanly. checkpoint: None where there is none."""

    checkpoint: checkpoint.Checkpoint | None


class LogRead(NamedTuple):
    """The log as it counts: its pieces, why it ends where it does, what was passed over."""

    linked: Linked
    reason: str
    warnings: list[str]
    damage: DamageMap | None


def read_log(job: Pipeline, on_damage: str, ranges: BinaryIO | None = None) -> LogRead:
    """Scan the log. Raises DamageFound where live records follow damage, and that is refused."""
    if on_damage != SALVAGE:
        linked = job.scan()
        return LogRead(linked, *judge_end(job, linked, on_damage), None)
    found = map_damage(job, gap_lines=ranges is not None)
    if ranges:
        write_ranges(job, found, ranges)
    reason = "the end of the last live record" if found.count else "undamaged"
    return LogRead(found.linked, reason, found.all_warnings(), found)


def judge_end(
    job: Pipeline, linked: Linked, on_damage: str, crash: Crash | None = None
) -> tuple[str, list[str]]:
    """(why the log ends where it does, warnings); DamageFound where live records follow.

    crash: of a recovery: what follows a fault and was not durable is what a crash leaves.
    """
    linked.firsts = on_damage
    blanks = _judge_blanks(job, linked, on_damage, crash)
    reason, warnings = _judge_break(job, linked, on_damage, crash)
    return reason, blanks + warnings


def _lost_by_crash(job: Pipeline, live: int, crash: Crash | None) -> bool:
    """Whether the record at offset `live`, behind a fault, was not durable before the crash."""
    if crash is None:
        return False
    segment = next(s for s in job.plan.segments if s.start <= live < s.end)
    return not was_durable(stored_at(job.plan.storage, segment, live), crash.checkpoint)


def _judge_blanks(job: Pipeline, linked: Linked, on_damage: str, crash: Crash | None) -> list[str]:
    """Warnings of BLANKs that are not as long as what is left of their segments.

    RocketMQ goes on with the next segment at each, whatever it jumps over.
    """
    warnings = []
    for number, row in enumerate(linked.accepted):
        if row["wrong_blank"] < 0:
            continue
        broke = Break(row["split"], row["wrong_blank"], Fault.BLANK_SIZE, row["size"], False)
        before = Linked(linked.accepted[: number + 1], broke.offset, broke)
        where = describe_break(job.plan, before)
        live = first_live_record(job, before)
        if live is not None and on_damage == REFUSE and not _lost_by_crash(job, live, crash):
            raise DamageFound(
                f"{where}; live records follow, the first at offset {live}: --on-damage "
                "salvage goes on there, truncate with the next segment as RocketMQ does"
            )
        warnings.append(f"{where}; what is left of its segment is passed over, as RocketMQ does")
    return warnings


def _judge_break(
    job: Pipeline, linked: Linked, on_damage: str, crash: Crash | None
) -> tuple[str, list[str]]:
    broke = linked.broke
    if broke is None and job.plan.splits.limit is not None:
        return "where a log in use ended when this began", []
    if broke is None:
        return "the last segment's end", []
    _, reason = REASONS[broke.fault]
    if broke.rest_is_zero:
        return reason, []
    where = describe_break(job.plan, linked)
    ends_so = "ends the log here as RocketMQ does"
    if broke.fault == Fault.PLACE:
        where += " (RocketMQ does not look at that: it dispatches such a record, and goes on)"
        ends_so = "ends the log here, where RocketMQ does not"
    live = first_live_record(job, linked)
    if live is not None and _lost_by_crash(job, live, crash):
        return reason, [f"{where}; what follows was not durable before the crash"]
    if live is None:
        return reason, [f"{where}; nothing live follows: the log ends there"]
    if on_damage == REFUSE:
        raise DamageFound(
            f"{where}; live records follow, the first at offset {live}: "
            f"--on-damage salvage goes on there, truncate {ends_so}"
        )
    return reason, [f"{where}; cut there, live records follow from {live} on"]


def describe_break(plan: Plan, linked: Linked) -> str:
    """File, offset, field, value and reason of a break."""
    broke = linked.broke
    assert broke is not None
    segment = plan.splits.segment(broke.split)
    name, reason = REASONS[broke.fault]
    value = f" (totalSize {broke.size})" if broke.fault != Fault.ZEROS else ""
    return (
        f"{segment.path}: offset {broke.offset - segment.start} "
        f"(physical {broke.offset}): {name} {reason}{value}"
    )


def _count(summary: Summary, linked: Linked, built: list[Built]) -> None:
    queues = {row["folder"] for row in built if row["folder"] != INDEX}
    summary.messages = sum(row["records"] for row in linked.accepted)
    summary.index_keys = sum(row["index_puts"] for row in linked.accepted)
    summary.queues = len(queues)
    summary.index_files = sum(row["folder"] == INDEX for row in built)
    summary.queue_files = len(built) - summary.index_files
    summary.bytes_scanned = linked.end - summary.log_start
    unsafe = [name for row in linked.accepted for name in row["unsafe_topics"]]
    summary.left_out = list(dict.fromkeys(unsafe))
    summary.warnings += _skipped(built)


def _skipped(built: list[Built]) -> list[str]:
    """A warning a queue that does not hold all of its messages."""
    skipped: dict[str, int] = {}
    for row in built:
        if row["skipped"]:
            skipped[row["folder"]] = skipped.get(row["folder"], 0) + row["skipped"]
    lines = [
        f"{folder}: {count:,} messages are not in this queue, their queueOffset is below its next "
        "position (so does RocketMQ)"
        for folder, count in sorted(skipped.items())[:_QUEUES_SHOWN]
    ]
    more = len(skipped) - len(lines)
    return [*lines, f"... and {more:,} more queues"] if more else lines


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


def check_unchanged(plan: Plan) -> None:
    """Raise StoreChanged where a segment is not what it was when the plan was made.

    By listing its folder again: one request for many, where a file system is asked by requests.
    """
    folders = dict.fromkeys(segment.path.rpartition("/")[0] for segment in plan.segments)
    now = {f"{folder}/{name}": state
           for folder in folders for name, state in plan.storage.list(folder)}  # fmt: skip
    for segment in plan.segments:
        state = now.get(segment.path)
        if state is None or not segment.state.admits(state):
            raise StoreChanged(
                f"{segment.path}: changed during the rebuild: {segment.state} is now {state}"
            )
