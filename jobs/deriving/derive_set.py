"""Derives a store's files and publishes them as a set: a rebuild, and the last step of a repair."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, BinaryIO

from reput.jobs.deriving.kept import (
    LastEntry,
    Queue,
    expired_files,
    expired_queues,
    files_of_expired,
    new_checkpoint,
    settle_copy,
)
from reput.jobs.deriving.timers import service_files, waiting_ends
from reput.jobs.opening.plan import FILES, ROCKSDB, Plan, check_unchanged
from reput.jobs.outputs.output import REBUILT, Output
from reput.jobs.outputs.publish import Built, name_files, of_queues, publish, unnamed
from reput.jobs.outputs.report import Summary, summary_of
from reput.jobs.pipeline.job import FoundStore, find_store
from reput.jobs.pipeline.link import Linked
from reput.jobs.pipeline.pipeline import Pipeline
from reput.jobs.salvaging.damage_map import lost_by_index
from reput.jobs.salvaging.judge_end import LogRead, read_log
from reput.store_format.discover.delay_levels import SCHEDULE
from reput.store_format.discover.purpose import Purpose
from reput.store_format.discover.store import StoreAt
from reput.store_format.faults import REFUSE
from reput.store_format.files.folder import Place
from reput.store_format.files.protocol import Storage
from reput.store_format.names import CONSUME_QUEUE, INDEX, parse_queue_path
from reput.udfs.rebuild.built_files import KeptFiles
from reput.udfs.staging import Staging

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class ToDerive:
    """What is derived. on_damage, index_start_name, ranges: as for `reput.jobs.rebuild.rebuild`."""

    on_damage: str = REFUSE
    index_start_name: str | None = None
    ranges: BinaryIO | None = None
    # of a repaired log, the lost positions that have no filler (QueueDamage)
    no_room: frozenset[tuple[str, int, int]] | None = None
    queues: str = FILES  # or ROCKSDB
    index: str = FILES
    in_shards: bool = False  # whether the manifest of a large set may be
    levels: bool = False  # derive how far delay levels are delivered even if there is a file
    # last entries of queues without a live message; None: to be found in the store
    expired: Mapping[Queue, LastEntry] | None = None


def derive_set(found: FoundStore, target: Output, wanted: ToDerive) -> Summary:
    """Scan the log, build queues and index from it, and publish them in `target`.

    Raises StoreError (also its subclasses DamageFound, StoreChanged). A failed run leaves no files.
    """
    with found.publishing(target) as (job, cleaned):
        planned = time.monotonic()
        if wanted.queues == ROCKSDB:
            job.keep_times()
        read = read_log(job, wanted.on_damage, wanted.ranges)
        if wanted.no_room is not None:
            damage = read.linked.queue_damage
            read.linked.queue_damage = damage._replace(no_room=wanted.no_room)
        scanned = time.monotonic()
        summary = _summary(job.plan, target.path, read, wanted.on_damage, cleaned)
        named, kept = derive_files(job, read.linked, summary, wanted)
        changed = job.plan.queues_of is not None or wanted.on_damage != REFUSE
        ends = waiting_ends(job, read.linked)
        services, summary.waits = service_files(
            job, read.linked.end, ends, changed, summary.warnings, levels=wanted.levels
        )
        if wanted.on_damage == REFUSE:
            summary.left_out += lost_by_index(job.plan, read.linked.end)  # queues may be very many
        summary.left_out += [f"no broker starts yet: {todo}" for todo in job.plan.in_the_way]
        done = time.monotonic()
        summary.stages = {"scan": scanned - planned, "build": done - scanned}
        summary.seconds = found.seconds()
        checkpoint = new_checkpoint(job.plan, read.linked, named)
        publish(job.staging, named + services, checkpoint, summary, target, job.engine, kept)
        summary.seconds = found.seconds()
        summary.stages["publish"] = time.monotonic() - done
        return summary


# ---
# The files of a store that is being made.

_LOG_PLACES = ("storePathCommitLog", "readOnlyCommitLogStorePaths")


def derive_into(
    found: FoundStore, made: Place, staging: Staging, purpose: Purpose, wanted: ToDerive
) -> Summary:
    """Derive the files of a store that a job makes of the store `found`, into it: its log and its
    configuration are there already. Raises as `derive_set`.
    """
    known = found.plan.discovered.settings  # the new store has only a log, which does not show them
    settings = {name: value for name, value in known.items() if name not in _LOG_PLACES}
    settings |= found.plan.index_zone.as_settings()
    at = StoreAt(made.storage, made.path, found.plan.profile.release, settings)
    there = find_store(found.engine, at, purpose, cut=found.cut, progress=found.progress)
    plan = replace(there.plan, queues_of=found.plan.folder, remade=found.plan.remade)
    there = replace(there, plan=plan)
    folder = staging.path("derived")
    output = there.output(folder, REBUILT, False, made.storage)
    built = derive_set(there, output, wanted)
    move_derived(built, made.storage, folder, made.path)
    settle_copy(at, built.warnings)
    return built


def move_derived(built: Summary, storage: Storage, folder: str, target: str) -> None:
    """Move the derived files from a folder of staging into the set at `target`."""
    for each in dict.fromkeys(file.path.rpartition("/")[0] for file in built.files):
        if each:
            storage.make_folders(f"{target}/{each}")
    storage.move_all((f"{folder}/{file.path}", f"{target}/{file.path}") for file in built.files)


# ---
# Queues and index in staging.


def derive_files(
    job: Pipeline, linked: Linked, summary: Summary, wanted: ToDerive
) -> tuple[list[Built], KeptFiles | None]:
    """Build queues and index in staging from a linked log. Returns BUILT rows with their paths in a
    set, and further files (`in_shards`). summary: gets counts and warnings.
    """
    if ROCKSDB in (wanted.queues, wanted.index):  # else its modules are not loaded
        from reput.jobs.deriving.rocksdb_set import index_database, index_tables, queue_tables
    queues, indexes = wanted.queues == FILES, wanted.index == FILES
    kept = None
    if wanted.in_shards:
        built, kept = job.build_and_keep(linked, queues=queues, indexes=indexes)
        kept = kept if kept.rows else None
    else:
        built = job.build(linked, queues=queues, indexes=indexes)
    indexed = index_tables(job, linked) if wanted.index == ROCKSDB else None
    tables = queue_tables(job, linked) if wanted.queues == ROCKSDB else None
    if wanted.queues == FILES and wanted.expired is not None:
        live = _live(chain(built, kept.built() if kept else ())) if wanted.expired else set()
        gone = {queue: last for queue, last in wanted.expired.items() if queue not in live}
        built += expired_files(job.staging, gone, job.queue_bytes)
    elif wanted.queues == FILES:
        built += files_of_expired(
            job.plan, job.staging, lambda: _live(chain(built, kept.built() if kept else ())),
            job.queue_bytes, summary.warnings,
        )  # fmt: skip
    check_unchanged(job.plan)
    zone = job.plan.index_zone
    named = name_files(built, job.queue_bytes, wanted.index_start_name, zone)
    if wanted.index_start_name is None and any(row["folder"] == INDEX for row in named):
        summary.discovered |= zone.as_discovered()
    if tables is not None:
        named += _in_rocksdb(job, tables.rows, wanted.expired, summary.warnings)
    if indexed is not None:
        named += index_database(job.staging, indexed)
    _count(summary, linked, named)
    near = named
    if kept:
        summary.queue_files += kept.files
        summary.queues = kept.queues + sum(bool(row.get("first")) for row in named)
        odd = {row["folder"] for row in named if row["skipped"]}
        near = named + [row for row in (kept.built() if odd else ()) if row["folder"] in odd]
    said = of_queues(job.staging, near, job.queue_bytes)
    summary.in_no_queue += said.left_out
    # gaps (`said.shifted`) are for check: healthy stores of LMQs have them
    summary.warnings += [*said.ended, *job.plan.assumed_delays(delay_levels(named))]
    if tables is not None:
        summary.queues_in = ROCKSDB
        queues = tables.rows.group_by(["topic", "queue_id"]).aggregate([]).to_pylist()
        levels = {row["queue_id"] + 1 for row in queues if row["topic"] == SCHEDULE}
        summary.queues = len(queues)
        summary.warnings += job.plan.assumed_delays(levels)
        summary.in_no_queue += tables.in_no_queue()
        summary.warnings += tables.ended()
    if indexed is not None:
        summary.index_in, summary.index_keys = ROCKSDB, indexed.rows
    summary.left_out += [*job.plan.lacks, *unnamed(built, job.queue_bytes)]
    return named, kept


def delay_levels(named: Iterable[Built]) -> set[int]:
    """The levels whose queues are built as files. named: BUILT rows with paths."""
    schedule = f"{CONSUME_QUEUE}/{SCHEDULE}/"
    files = (row["folder"] for row in named if row["path"].startswith(schedule))
    return {parse_queue_path(folder).queue_id + 1 for folder in files}


def _live(built: Iterable[Built]) -> set[tuple[str, int]]:
    """(topic, queueId) of the queues that have files."""
    paths = (parse_queue_path(row["folder"]) for row in built if row["folder"] != INDEX)
    return {(path.topic, path.queue_id) for path in paths}


def _in_rocksdb(
    job: Pipeline, tables: "pa.Table", given: Mapping[Queue, LastEntry] | None,
    warnings: list[str],
) -> list[Built]:  # fmt: skip
    """Make the RocksDB of queues in staging; BUILT rows. given: `expired` of derive_set."""
    from reput.jobs.deriving.rocksdb_set import queues_database

    def live() -> set[Queue]:
        return set(zip(tables["topic"].to_pylist(), tables["queue_id"].to_pylist(), strict=True))

    if given:
        expired = {queue: last for queue, last in given.items() if queue not in live()}
    else:
        expired = expired_queues(job.plan, live, warnings) if given is None else {}
    expired = {queue: last for queue, last in expired.items() if not last.batch}
    return queues_database(job.staging, tables, expired, job.plan.segments[0].start)


def _summary(plan: Plan, output: str, read: LogRead, on_damage: str, cleaned: list[str]) -> Summary:
    summary = summary_of(plan, output, read.linked.end, read.reason)
    summary.on_damage, summary.cleaned = on_damage, cleaned
    summary.damage = read.damage.as_json() if read.damage else None
    summary.warnings += read.warnings
    return summary


def _count(summary: Summary, linked: Linked, built: list[Built]) -> None:
    summary.count_files(row["folder"] for row in built)
    summary.messages = sum(row["records"] for row in linked.accepted)
    summary.index_keys = sum(row["index_puts"] for row in linked.accepted)
    summary.bytes_scanned = linked.end - summary.log_start
    unsafe = [name for row in linked.accepted for name in row["unsafe_topics"]]
    summary.left_out = list(dict.fromkeys(unsafe))
