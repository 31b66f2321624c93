"""Exports a log into Delta tables, range by range; and compares these with the log."""

import importlib.util
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from reput.jobs.engine.chosen_log import ChosenLog
from reput.jobs.engine.export_report import Compared, Exported
from reput.jobs.engine.exporting import Chosen, wrong_bodies
from reput.jobs.engine.outputs import OutputInUse
from reput.jobs.engine.source_log import end_of_log
from reput.store_format.faults import StoreError
from reput.store_format.log.reader import LogReader, NoRecord
from reput.store_format.release.settings import SettingError
from reput.store_format.storage.local import LocalStorage
from reput.udfs.export import Sums

if TYPE_CHECKING:
    from reput.jobs.engine.delta_table import MessageTable

_DIFFERENCES_MOST = 100


def _want_deltalake() -> None:
    if importlib.util.find_spec("deltalake") is None:
        raise SettingError('--format delta: deltalake is missing: pip install "reput[delta]"')


def _chosen_in(folder: str) -> Chosen:
    _want_deltalake()
    from reput.jobs.engine.delta_table import chosen_in

    told = chosen_in(folder)
    return Chosen(**{**told, "topics": tuple(told["topics"])})


def _table(job: ChosenLog, make: bool) -> "MessageTable":
    """The tables; make: where they are not there. Raises StoreError, SettingError."""
    from reput.jobs.engine.delta_table import MessageTable

    there = os.listdir(job.folder) if os.path.isdir(job.folder) else []
    if not make and "messages" not in there:
        raise StoreError(f"{job.folder}: is no export: it has no table messages")
    if set(there) - {"messages", "runs"}:
        raise OutputInUse(f"{job.folder}: holds {sorted(there)[0]!r}; give another folder")
    told = {**vars(job.chosen), "topics": list(job.chosen.topics)}
    return MessageTable(job.folder, job.store, told, job.plan.profile.release)


def export_delta(
    store: str, to: str, chosen: Chosen, rocketmq: str | None, settings: Mapping[str, str]
) -> Exported:
    """Add to the tables what the log has and they have not; each range is there whole or not.

    Raises StoreError, SettingError, UnknownRelease, OSError, DeltaError.
    """
    _want_deltalake()
    from reput.jobs.engine.delta_table import Range

    began = time.monotonic()
    job = ChosenLog(store, to, rocketmq, settings, chosen)
    table = _table(job, make=True)
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
        log_start=start, log_end=end, chosen=vars(chosen).copy(), sums=Sums(),
        warnings=[*job.plan.notes, *job.plan.warnings],
    )  # fmt: skip
    if lost:
        done.left_out, done.notes = 1, [f"{lost:,} bytes before {start} were deleted unread"]
    for first, stop in job.ranges(start, end):
        notes: list[str] = []
        which = Range(first, stop, lost if first == start else 0)
        sums = table.add(which, job.batches(first, stop, notes, raw=False), notes)
        done.sums.join(sums)
        done.left_out += len(notes)
        done.notes += notes
    done.seconds = time.monotonic() - began
    return done


def _refuse_other_log(job: ChosenLog, table: "MessageTable") -> None:
    """Raise StoreError where the table's last message is not what the log has in that place."""
    last, log = table.last(), job.log
    if last is None or not log.segments[0].start <= last.place < log.segments[-1].end:
        return
    with LogReader(log.storage, list(log.segments), log.rules.records) as reader:
        try:
            record = reader.record_at(last.place)
        except NoRecord:
            record = None
    crc = None if record is None or job.chosen.decompress else record.body_crc
    if record is None or record.size != last.size or crc not in (None, last.crc):
        raise StoreError(
            f"{job.folder}: has another message at {last.place} than the log of {job.store}: it is "
            "of another log, or of one that was cut"
        )


def compare_delta(
    store: str, to: str, rocketmq: str | None, settings: Mapping[str, str]
) -> Compared:
    """Compare the tables with each other and, as far as the log is still there, with the log.

    What was chosen stands in the table. Raises as export_delta does.
    """
    chosen = _chosen_in(LocalStorage().resolve(to))
    from deltalake.exceptions import DeltaError

    job = ChosenLog(store, to, rocketmq, settings, chosen)
    table = _table(job, make=False)
    differences: list[str] = []
    try:
        total = _differences(job, table, differences)
    except (DeltaError, pa.ArrowException, OSError) as error:
        total = 0
        differences.append(f"{job.folder}: cannot be read ({type(error).__name__})")
    return Compared(job.store, job.folder, total, differences[:_DIFFERENCES_MOST])


def _differences(job: ChosenLog, table: "MessageTable", differences: list[str]) -> int:
    """Note what differs; returns how many messages the table has."""
    total, begin = 0, job.log.segments[0].start
    crcs_differ = job.chosen.decompress  # a decompressed body has its own
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
        log_has = Sums()
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
    for batch in table.bodies():
        differences += wrong_bodies(job.folder, batch)
    return everything
