"""Exports a log into Delta tables, range by range; and compares these with the log."""

import importlib.util
import time
from collections.abc import Mapping

from reput.jobs.engines.engine import Engine
from reput.jobs.engines.engine_choice import SPARK
from reput.jobs.exporting.chosen_log import ChosenLog
from reput.jobs.exporting.delta_table import (
    MESSAGES,
    RUNS,
    DeltaTables,
    MessageTable,
    Range,
    chosen_in,
)
from reput.jobs.exporting.export_report import ComparedExport, Exported
from reput.jobs.exporting.file_set import Chosen
from reput.jobs.outputs.output import OutputInUse
from reput.jobs.sources.opened_log import end_of_log
from reput.store_format.faults import StoreError
from reput.store_format.log.reader import LogReader, NoRecord
from reput.store_format.release.settings import SettingError
from reput.store_format.storage import storage_for
from reput.store_format.storage.listing import listed
from reput.store_format.storage.protocol import InputStorage
from reput.udfs.table.export_parts import MessageSums

_DIFFERENCES_MOST = 100


def writer_of(delta_by: str, engine: Engine) -> DeltaTables:
    """Who writes the tables. Raises SettingError where it is not there."""
    if delta_by == SPARK:
        from reput.jobs.engines.spark_engine import SparkEngine
        from reput.jobs.exporting.delta_spark import DeltaSpark

        if not isinstance(engine, SparkEngine):
            raise SettingError("--engine spark: a session is wanted")
        return DeltaSpark(engine.spark)
    if importlib.util.find_spec("deltalake") is None:
        raise SettingError('--as delta: deltalake is missing: pip install "reput[delta]"')
    from reput.jobs.exporting.delta_rs import DeltaRs

    return DeltaRs()


def _refuse_other_files(storage: InputStorage, folder: str, make: bool) -> None:
    """Raise StoreError where a folder is none that the tables may be in, or does not have them."""
    there = {name for name, _ in listed(storage, folder)}
    if not make and MESSAGES not in there:
        raise StoreError(f"{folder}: is no export: it has no table {MESSAGES}")
    if there - {MESSAGES, RUNS}:
        other = min(set(there) - {MESSAGES, RUNS})
        raise OutputInUse(f"{folder}: holds {other!r}; give another folder")


def export_delta(
    writer: DeltaTables, store: str, to: str, chosen: Chosen, rocketmq: str | None,
    settings: Mapping[str, str], keep_repeats: bool = False,
) -> Exported:  # fmt: skip
    """Add to the tables what the log has and they have not; each range is there whole or not.

    Raises StoreError, SettingError, UnknownRelease, OSError, and the writer's own errors.
    """
    began = time.monotonic()
    job = ChosenLog(store, to, rocketmq, settings, chosen)
    _refuse_other_files(job.target, job.folder, make=True)
    table = MessageTable(writer, job)
    _refuse_other_log(job, table)
    log, begin = job.log, job.log.segments[0].start
    start = begin if table.end is None else table.end
    end = end_of_log(log, max(start, begin) if start <= log.segments[-1].end else begin)
    if start > end:
        raise StoreError(
            f"{job.folder}: has messages up to {start}, but the log of {job.store} ends at {end}: "
            "it is another log, or was cut"
        )
    lost, start = max(begin - start, 0), max(start, begin)
    done = Exported(
        store=job.store, output=job.folder, kind="delta", release=job.plan.profile.release,
        log_start=start, log_end=end, chosen=chosen.as_json(), sums=MessageSums(),
        warnings=[*job.plan.notes, *job.plan.warnings],
    )  # fmt: skip
    if lost:
        done.left_out, done.notes = 1, [f"{lost:,} bytes before {start} were deleted unread"]
    job.look_through(start, end, {}, keep_repeats, done.warnings)
    for first, stop in job.ranges(start, end):
        sums, notes = table.add(Range(first, stop, lost if first == start else 0))
        done.sums.join(sums)
        done.left_out += len(notes)
        done.notes += notes
    counted = writer.counts_system or chosen.with_system
    done.system = job.system if counted else None
    done.seconds = time.monotonic() - began
    return done


def _refuse_other_log(job: ChosenLog, table: MessageTable) -> None:
    """Raise StoreError where the table's last message is not what the log has in that place."""
    last, log = table.last(), job.log
    if last is None or not log.segments[0].start <= last.place < log.segments[-1].end:
        return
    with LogReader(log.storage, list(log.segments), log.rules.records) as reader:
        try:
            record = reader.record_at(last.place)
        except NoRecord:
            record = None
    crc = None if record is None or job.chosen.other_crcs else record.body_crc
    if record is None or record.size != last.size or crc not in (None, last.crc):
        raise StoreError(
            f"{job.folder}: has another message at {last.place} than the log of {job.store}: it is "
            "of another log, or of one that was cut"
        )


def compare_delta(
    writer: DeltaTables, store: str, to: str, rocketmq: str | None, settings: Mapping[str, str]
) -> ComparedExport:
    """Compare the tables with each other and, as far as the log is still there, with the log.

    What was chosen stands in the table. Raises as export_delta does.
    """
    target = storage_for(to)
    chosen = Chosen.from_json(chosen_in(writer, target.resolve(to)))
    job = ChosenLog(store, to, rocketmq, settings, chosen)
    _refuse_other_files(target, job.folder, make=False)
    table = MessageTable(writer, job)
    differences: list[str] = []
    try:
        total = _differences(job, table, differences)
    except writer.errors as error:
        total = 0
        differences.append(f"{job.folder}: cannot be read ({type(error).__name__})")
    return ComparedExport(job.store, job.folder, total, differences[:_DIFFERENCES_MOST])


def _differences(job: ChosenLog, table: MessageTable, differences: list[str]) -> int:
    """Note what differs; returns how many messages the table has."""
    total, begin = 0, job.log.segments[0].start
    crcs_differ = job.chosen.other_crcs
    for run in table.runs():
        where = f"[{run['logStart']:,}, {run['logEnd']:,})"
        there = table.sums(run["logStart"], run["logEnd"])
        total += there.messages
        differences += [
            f"runs: {name} of {where}: {run[name]:,}, messages has {getattr(there, name):,}"
            for name in ("messages", "places", "crcs", "sizes")
            if run[name] != getattr(there, name) and not (name == "crcs" and crcs_differ)
        ]
        if run["logStart"] < begin:
            continue  # the log does not have it any more
        log_has = MessageSums()
        for batch in job.batches(run["logStart"], run["logEnd"], [], raw=True):
            log_has.add(batch)
        differences += [
            f"{name} of {where}: {getattr(there, name):,}, the log has {value:,}"
            for name, value in vars(log_has).items()
            if getattr(there, name) != value and not (name == "crcs" and crcs_differ)
        ]
    everything = table.sums(0, 1 << 62).messages
    if everything != total:
        differences.append(f"messages: {everything:,}, of which runs knows {total:,}")
    differences += table.wrong_bodies()
    return everything
