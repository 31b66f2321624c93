"""Exports a log's messages as a set of files, and compares such a set with the log."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from reput.jobs.engine.export_read import UNREADABLE, batches_in
from reput.jobs.engine.export_report import Compared, Exported
from reput.jobs.engine.job import FoundStore
from reput.jobs.engine.outputs import Output
from reput.jobs.engine.plan import Plan
from reput.jobs.engine.publish import begin_set, end_set
from reput.jobs.engine.sets import EXPORTED as EXPORTED_SET
from reput.jobs.engine.sets import parse_manifest
from reput.jobs.engine.source_log import cut, parts_log
from reput.jobs.engine.source_options import SourceOptions
from reput.jobs.engine.unchanged import check_unchanged
from reput.jobs.engines.engine import Engine, Row
from reput.store_format.faults import StoreError
from reput.store_format.filter.filters import AllOf, Filter, tag_filter
from reput.store_format.names import MANIFEST
from reput.store_format.storage.protocol import Storage
from reput.udfs.export import EXPORTED, NOTES_MOST, ExportParts, Sums, wrong_bodies
from reput.udfs.log_choice import LESS, Choice, Condition
from reput.udfs.log_parts import LogParts, Part
from reput.udfs.message_columns import SCHEMA
from reput.udfs.staging import Staging

_SUMMED = pa.schema([SCHEMA.field(name) for name in ("physicalOffset", "bodyCRC", "size")])
_BODY = SCHEMA.get_field_index("body")


@dataclass(frozen=True)
class Chosen:
    """Which messages, and what of them; times are storeTimestamps in milliseconds, `until` not
    within.
    """

    topics: tuple[str, ...] = ()
    tags: str | None = None
    sql: str | None = None
    since: int | None = None
    until: int | None = None
    bodies: bool = True
    decompress: bool = False
    on_damage: str = "fail"

    @property
    def columns(self) -> pa.Schema:
        """The columns of the files."""
        return SCHEMA if self.bodies else SCHEMA.remove(_BODY)

    @property
    def choice(self) -> Choice:
        """What of it is told by columns."""
        late = () if self.until is None else (Condition("storeTimestampMillis", LESS, self.until),)
        return Choice(self.topics or None, since=self.since, conditions=late)

    def wanted(self, plan: Plan) -> Filter | None:
        """What of it is a consumer's subscription. Raises WrongTags, WrongExpression."""
        found: list[Filter] = [] if self.tags is None else [tag_filter(self.tags)]
        if self.sql is not None:
            from reput.store_format.filter.sql import sql_filter

            found.append(sql_filter(self.sql, plan.profile))
        return AllOf(*found) if found else None


def export_set(found: FoundStore, target: Output, kind: str, chosen: Chosen) -> Exported:
    """Write the chosen messages, and publish them in `target`.

    Raises StoreError, of which DamageFound and StoreChanged are two; nothing is left behind then.
    """
    with found.publishing(target) as (job, cleaned):
        plan = job.plan
        log, parts = _parts(plan, chosen, found.engine.cores, found.cut.split_bytes)
        rows = _run(found.engine, log, parts, plan, chosen, kind, job.staging)
        check_unchanged(plan)
        written, begin = [row for row in rows if row["name"]], log.segments[0].start
        paths = [f"part-{number:08d}.{kind}" for number in range(len(written))]
        done = Exported(
            store=plan.store, output=target.path, kind=kind, release=plan.profile.release,
            log_start=begin, log_end=max((begin, *(row["end"] for row in rows))),
            chosen=vars(chosen).copy(),
            sums=_added(rows), warnings=[*plan.notes, *plan.warnings], cleaned=cleaned,
            left_out=sum(row["left_out"] for row in rows),
            notes=[note for row in rows for note in row["notes"]][:NOTES_MOST],
        )  # fmt: skip
        done.files = [
            {"path": path, **{name: row[name] for name in ("length", "sha256", "messages")}}
            for path, row in zip(paths, written, strict=True)
        ]
        names = [row["name"] for row in written]
        begin_set(job.staging, list(zip(names, paths, strict=True)), target)
        end_set(job.staging, done.manifest(), target)
        done.seconds = found.seconds()
        return done


def compare_set(found: FoundStore, storage: Storage, folder: str) -> Compared:
    """Read an export back, and compare counts, sums and CRCs with those of the log.

    Raises StoreError where the folder is no export.
    """
    manifest = export_manifest(storage, folder)
    there = Sums()
    differences: list[str] = []
    for path, batches in batches_in(storage, folder, manifest):
        try:
            for batch in batches:
                there.add(batch)
                differences += wrong_bodies(path, batch)
        except (*UNREADABLE, OSError) as error:
            differences.append(f"{path}: cannot be read ({type(error).__name__})")
    chosen = chosen_of(manifest, folder)
    plan = found.plan
    log, parts = _parts(plan, replace(chosen, decompress=False), found.engine.cores, None)
    stop = int(manifest["log_end"])
    parts = [part._replace(stop=min(part.stop, stop)) for part in parts if part.start < stop]
    with found.temporarily("reput-export-") as job:
        rows = _run(found.engine, log, parts, plan, chosen, "", job.staging)
    log_has = _added(rows)
    for name, value in vars(log_has).items():
        told = getattr(there, name)
        if told != value and not (name == "crcs" and chosen.decompress):
            differences.append(f"{name}: {told:,}, the log has {value:,}")
    return Compared(plan.store, folder, there.messages, differences)


def export_manifest(storage: Storage, folder: str) -> dict[str, Any]:
    """The manifest of an export. Raises StoreError where there is none."""
    path = f"{folder}/{MANIFEST}"
    try:
        raw = storage.read_bytes(path)
    except (FileNotFoundError, NotADirectoryError):
        raise StoreError(f"{folder}: is no export: it has no {MANIFEST}") from None
    return parse_manifest(raw, path, EXPORTED_SET)


def chosen_of(manifest: dict[str, Any], folder: str) -> Chosen:
    """What an export's manifest says was chosen. Raises StoreError."""
    try:
        told = dict(manifest["chosen"])
        return Chosen(**{**told, "topics": tuple(told["topics"])})
    except (KeyError, TypeError, ValueError):
        raise StoreError(f"{folder}/{MANIFEST}: does not say what was chosen") from None


def _end(plan: Plan) -> int:
    return plan.segments[-1].end if plan.splits.limit is None else plan.splits.limit


def _parts(
    plan: Plan, chosen: Chosen, cores: int, part_bytes: int | None
) -> tuple[LogParts, list[Part]]:
    options = SourceOptions(plan.store, on_damage=chosen.on_damage)
    log = parts_log(plan, options, chosen.bodies, grows=False)
    wanted = None if part_bytes is None else max(plan.log_bytes // part_bytes, 1)
    return log, cut(log, log.segments[0].start, _end(plan), cores, wanted)


def _run(
    engine: Engine, log: LogParts, parts: list[Part], plan: Plan, chosen: Chosen, kind: str,
    staging: Staging,
) -> list[Row]:  # fmt: skip
    """The EXPORTED rows, in the log's order."""
    if not parts:
        return []
    columns = chosen.columns if kind else _SUMMED
    task = ExportParts(
        log, tuple(parts), chosen.choice, chosen.wanted(plan), columns, kind, staging,
        chosen.decompress,
    )  # fmt: skip
    rows = engine.numbers(range(len(parts))).run(task, EXPORTED).collect()
    return sorted(rows, key=lambda row: row["part"])


def _added(rows: Iterable[dict[str, Any]]) -> Sums:
    whole = Sums()
    for row in rows:
        whole.join(Sums(*(row[name] for name in vars(whole))))
    return whole
