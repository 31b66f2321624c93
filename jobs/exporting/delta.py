"""Exports a log into Delta tables, range by range, and compares such tables with the log."""

import importlib.util
import time
from collections.abc import Mapping

from reput.jobs.engines.choice import SPARK
from reput.jobs.engines.engine import Engine
from reput.jobs.engines.spark import SparkEngine
from reput.jobs.exporting import delta_table
from reput.jobs.exporting.chosen import ChosenLog
from reput.jobs.exporting.files import Chosen, ComparedExport, Exported
from reput.jobs.outputs.output import OutputInUse
from reput.jobs.sources.opened_log import end_of_log
from reput.store_format.faults import StoreError
from reput.store_format.files.by_url import storage_for
from reput.store_format.files.folder import Folder
from reput.store_format.log.reader import LogReader, NoRecord
from reput.store_format.release.settings import SettingError
from reput.udfs.table.export import MessageSums

_DIFFERENCES_MOST = 100


def writer_of(delta_by: str, engine: Engine) -> delta_table.DeltaTables:
    """The writer of the tables. Raises SettingError if its package or session is missing."""
    if delta_by == SPARK:
        from reput.jobs.exporting.delta_writers import DeltaSpark

        if not isinstance(engine, SparkEngine):
            raise SettingError("--engine spark: expected a session")
        return DeltaSpark(engine.spark)
    if importlib.util.find_spec("deltalake") is None:
        raise SettingError('--as delta: deltalake is missing: pip install "reput[delta]"')
    from reput.jobs.exporting.delta_writers import DeltaRs

    return DeltaRs()


def _refuse_other_files(folder: Folder, make: bool) -> None:
    """Raise StoreError if a folder has other files than the tables, or (make=False) no tables."""
    there = {name for name, _ in folder.listed()}
    if not make and delta_table.MESSAGES not in there:
        raise StoreError(f"{folder}: is not an export: it has no table {delta_table.MESSAGES}")
    if there - {delta_table.MESSAGES, delta_table.RUNS}:
        other = min(set(there) - {delta_table.MESSAGES, delta_table.RUNS})
        raise OutputInUse(f"{folder}: holds {other!r}; give another folder")


def export_delta(
    writer: delta_table.DeltaTables, store: str, to: str, chosen: Chosen, rocketmq: str | None,
    settings: Mapping[str, str], keep_repeats: bool = False, engine: Engine | None = None,
) -> Exported:  # fmt: skip
    """Add the new messages of the log to the tables; each range is added whole or not at all.

    Raises StoreError, SettingError, UnknownRelease, OSError, and the errors of the writer.
    """
    began = time.monotonic()
    job = ChosenLog(engine, store, to, rocketmq, settings, chosen)
    _refuse_other_files(Folder(job.target, job.folder), make=True)
    table = delta_table.MessageTable(writer, job)
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
        done.left_out, done.unread = 1, True
        done.notes = [f"{lost:,} bytes before {start} were deleted unread"]
    job.look_through(start, end, {}, keep_repeats, done.warnings)
    for first, stop in job.ranges(start, end):
        sums, notes = table.add(delta_table.Range(first, stop, lost if first == start else 0))
        done.sums.join(sums)
        done.left_out += len(notes)
        done.notes += notes
    done.system = job.system
    done.without(chosen.lacks(job.plan, end))
    done.seconds = time.monotonic() - began
    return done


def _refuse_other_log(job: ChosenLog, table: delta_table.MessageTable) -> None:
    """Raise StoreError if the log has another record at the place of the table's last message."""
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
    writer: delta_table.DeltaTables, store: str, to: str, rocketmq: str | None,
    settings: Mapping[str, str], engine: Engine | None = None,
) -> ComparedExport:  # fmt: skip
    """Compare the tables with each other and with the log, as far as it still exists.

    The options are read from the table. Raises as export_delta does.
    """
    target = storage_for(to)
    chosen = Chosen.from_json(delta_table.chosen_in(writer, target.resolve(to)))
    job = ChosenLog(engine, store, to, rocketmq, settings, chosen)
    _refuse_other_files(Folder(target, job.folder), make=False)
    table = delta_table.MessageTable(writer, job)
    differences: list[str] = []
    try:
        total = _differences(job, table, differences)
    except writer.errors as error:
        total = 0
        differences.append(f"{job.folder}: cannot be read ({type(error).__name__})")
    return ComparedExport(job.store, job.folder, total, differences[:_DIFFERENCES_MOST])


def _differences(job: ChosenLog, table: delta_table.MessageTable, differences: list[str]) -> int:
    """Add a line for each difference; the number of messages in the table."""
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
            continue  # the range was deleted from the log
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
