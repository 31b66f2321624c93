"""Check: read a whole log, report every damaged range, then the derived files against it."""

import tempfile
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, BinaryIO

from reput.jobs.engine.after_crash import read_checkpoint
from reput.jobs.engine.check_report import CheckReport
from reput.jobs.engine.damage import DamageMap, map_damage, write_ranges
from reput.jobs.engine.log_end import add_torn, past_the_end
from reput.jobs.engine.outputs import inputs_of
from reput.jobs.engine.pipeline import Cut, Pipeline, spark_cores
from reput.jobs.engine.plan import Plan, make_plan
from reput.jobs.engine.progress import Progress
from reput.jobs.engine.staging import temporary_folder
from reput.jobs.engine.verdict import files_there, judge
from reput.jobs.rebuild import check_unchanged
from reput.store_format.storage import storage_for
from reput.store_format.storage.protocol import Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check(
    spark: "SparkSession",
    store: str,
    *,
    rocketmq: str,
    settings: Mapping[str, str] | None = None,
    cut: Cut | None = None,
    staging_folder: str | None = None,
    storage: Storage | None = None,
    ranges: BinaryIO | None = None,
    progress: Progress | None = None,
) -> CheckReport:
    """Read all of a store's log, with every CRC there is, and compare its derived files.

    What is wrong with the log's files is a finding. Nothing is written but to staging_folder,
    by default a temporary one; on a cluster it must be one that all machines see; and to
    `ranges`, which gets every range and every gap as JSON lines, however many. Raises
    StoreError where there is no log at all, SettingError, UnknownRelease, StoreChanged.
    """
    started = time.monotonic()
    base = staging_folder or tempfile.gettempdir()
    staging_storage = storage or storage_for(base)
    storage = storage or storage_for(store)
    cut, store = cut or Cut(), storage.resolve(store)
    cores = spark_cores(spark)
    plan = make_plan(storage, store, rocketmq, settings or {}, cores, cut.split_bytes, True)
    inputs = inputs_of(storage, store, settings or {})
    with temporary_folder(staging_storage, base, "reput-check", inputs) as staging:
        job = Pipeline(spark, plan, staging, cores, cut, progress or Progress())
        job.check_every_crc()
        found = map_damage(job, gap_lines=ranges is not None)
        known = read_checkpoint(storage, store)
        if not plan.in_use:
            add_torn(job, found, known)
        if ranges:
            write_ranges(job, found, ranges)
        report = _report(plan, found)
        if any(True for _ in files_there(storage, store)):
            verdict = judge(spark, job, found.linked, storage, store)
            report.derived_files, report.differences = len(verdict.named), verdict.differences
            report.behind, report.expired = verdict.behind, verdict.expired
            report.notes += verdict.notes()
        else:
            report.warnings.append("no derived files are there: only the log was read")
        if not plan.in_use:
            report.findings += past_the_end(job, found.linked, known, report.differences)
        check_unchanged(plan)
        report.seconds = time.monotonic() - started
        return report


def _report(plan: Plan, found: DamageMap) -> CheckReport:
    return CheckReport(
        store=plan.store,
        rocketmq=plan.profile.release,
        log_start=plan.segments[0].start,
        log_end=found.linked.end,
        segment_bytes=found.segment_bytes,
        segments=[segment.start for segment in plan.segments],
        messages=sum(row["records"] for row in found.linked.accepted),
        damage=found.as_json(),
        findings=list(found.findings),
        warnings=plan.warnings + found.warnings,
        notes=list(plan.notes),
    )
