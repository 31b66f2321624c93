"""What goes with a set, or into a changed store, so that a broker delivers each timer and each
delayed message once: timerlog, config/timercheck, config/delayOffset.json.

Whole files are carried: of a set's store the units that still wait, in place nothing changes. Where
they are lost, or point past the log's end, they are derived from the log.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from reput.broker.services.files import check_can_replace, integer_key, pretty, replace_timer_files
from reput.broker.writer.writer import CommitLogWriter
from reput.jobs.outputs.publish import Built
from reput.jobs.outputs.report import counted
from reput.jobs.pipeline.link import Linked
from reput.jobs.pipeline.pipeline import Pipeline
from reput.store_format.discover.delay_levels import SCHEDULE
from reput.store_format.fate.delays import DelayState, Read, concerns, resolve
from reput.store_format.fate.gather import Gathered, gather_on_all_cores
from reput.store_format.fate.known import (
    Places,
    furthest_unit,
    gather_since,
    read_progress,
    timers_in_rocksdb,
    waiting_units,
    write_times,
)
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.protocol import Files, replace_small
from reput.store_format.layouts import TIMER_CHECK_FILE_BYTES, TIMER_UNIT
from reput.store_format.message.message import TIMER_TOPIC
from reput.store_format.names import ABORT, CONFIG, STORE_DB, TIMER_LOG, TOPICS
from reput.store_format.notes import Notes
from reput.store_format.query.reader import OpenedStore
from reput.store_format.release.profiles import Profile, profile
from reput.store_format.release.settings import writer_settings_from
from reput.store_format.rocksdb.rows import Timers as Rows
from reput.store_format.state.timers import (
    DELAYS_PATH,
    TIMER_CHECK_PATH,
    Ends,
    Timers,
    Turned,
    carried_timers,
    derived_levels,
    derived_timers,
    lost_with_the_end,
    timer_check,
    timer_file_bytes,
    timer_log_files,
    why_lost,
)
from reput.udfs.rebuild.scan import GATHERED, GatherMarks
from reput.udfs.staging import Staging, attempt_name

# ---
# What is carried and what is derived.


class Waits(NamedTuple):
    """What a broker's services keep. None, or empty: there is nothing of the kind, or it stays."""

    timers: Timers | None
    file_bytes: int  # of each file of timerlog
    levels: Mapping[int, int]  # by delay level the next queue offset
    rows_go: bool = False  # all rows of timers in rocksdbstore/, in whose place timerlog is written

    def said(self) -> list[str]:
        """What was written, as lines for people."""
        lines = []
        if self.timers is not None:
            wait = "timer waits" if self.timers.waiting == 1 else "timers wait"
            lines.append(
                f"{self.timers.waiting:,} {wait}: {TIMER_LOG} and {TIMER_CHECK_PATH} are written"
            )
        if self.rows_go:
            lines.append(f"rows of timers in {STORE_DB}/, past the log's end, are removed")
        if self.levels:
            levels = counted(len(self.levels), "delay level")
            lines.append(f"{levels} delivered as the log shows: {DELAYS_PATH} is written")
        return lines


class Asked(NamedTuple):
    """A store's files of services, and its log."""

    store: Folder
    release: str
    settings: Mapping[str, str]
    ends: Callable[[], Ends]  # of the queues of what waits
    log_end: int  # physical offset
    gather: Callable[[], Gathered]  # the marks of the whole log
    in_place: bool = True  # or what is written is for another store, that has no rocksdbstore/
    removes_rows: bool = False  # of timers in rocksdbstore/, where they are wrong
    stopped: bool = False  # cleanly: `abort`, if it is there, is of the caller's own work

    def waits(
        self, derive: bool, carry: bool, notes: list[str],
        grown: Callable[[Places], Gathered] | None = None, levels: bool = False,
    ) -> Waits:  # fmt: skip
        """derive: even if the files look whole; carry: give those that are. notes: gets warnings.

        grown: gives the marks of the timers at some places, and of all records after the last of
        them: to go on from whole files. levels: derive delay levels even if there is a file.
        """
        store, now = self.store, time.time_ns() // 1_000_000
        timers: Timers | None = None
        served = any(name != TOPICS for name, _ in store.listed(CONFIG))
        if not (derive or carry or grown or served):
            return Waits(None, 0, {})  # no broker ever was there
        ends = self.ends()
        known = writer_settings_from(self.settings, release=self.release)
        precision = known.timer_precision_ms
        gather = cache(self.gather)
        read = read_progress(store, Notes())
        read = read._replace(stopped=read.stopped or self.stopped)
        of_timers, of_levels = (False, False) if read.stopped else self._lost_with_the_end(read)
        asks = (TIMER_TOPIC, 0) in ends or self.removes_rows
        rows = timers_in_rocksdb(store) if asks else None
        rows_go = rows is not None and self.removes_rows and self._are_wrong(rows, read, gather)
        if (TIMER_TOPIC, 0) in ends and profile(self.release).timer_messages:
            lost = of_timers or why_lost(store, self.log_end)
            written = partial(write_times, store)
            # RocksDB's own log is written late: a broker that is killed soon loses all rows.
            on = self.settings.get("timerRocksDBEnable", "").strip().lower() == "true"
            rows_lost = on and rows is None and not read.stopped
            if rows is not None and self.in_place and not rows_go:
                notes.append("timers are in RocksDB (timerRocksDBEnable): they stay there")
            elif grown is not None and not (lost or rows_go):
                marks = grown(waiting_units(store, read.timer_read))
                timers = derived_timers(marks, read, written, now, precision)
            elif derive or lost or rows is not None or rows_lost:
                timers = derived_timers(gather(), read, written, now, precision)
            elif carry:
                timers = carried_timers(store, now, precision)
        elif not (derive or carry or grown) and furthest_unit(store) >= self.log_end:
            none = Turned(read.timer_read, read.timer_read, 0, now, precision)
            timers = Timers(np.zeros(0, TIMER_UNIT), none, 0)  # all of the topic's are lost
        offsets: dict[int, int] = {}
        there = store.head(DELAYS_PATH, 0) is not None
        if any(topic == SCHEDULE for topic, _ in ends) and (
            levels or not there or of_levels or _past(read.levels, ends)
        ):
            offsets = derived_levels(gather())
        size = timer_file_bytes(store, known.mapped_file_size_timer_log)
        return Waits(timers, size, offsets, rows_go)

    def _are_wrong(self, rows: Rows, read: Read, gather: Callable[[], Gathered]) -> bool:
        """Whether rows of timers in RocksDB are past the log's end, or of a timer that they have as
        delivered the log has lost the delivery.
        """
        end = self.ends().get((TIMER_TOPIC, 0), 0)
        if rows.position > end or bool((rows.waiting >= self.log_end).any()):
            return True
        waits = () if read.stopped else resolve(gather(), {}, read._replace(timers=rows))
        return any(each.level == 0 and each.state == DelayState.UNSURE for each in waits)

    def _lost_with_the_end(self, read: Read) -> tuple[bool, bool]:
        with OpenedStore(self.store, self.release, self.settings, Notes()) as opened:
            return lost_with_the_end(opened, read, self.log_end)


def _past(levels: Mapping[int, int] | None, ends: Ends) -> bool:
    """Whether some level's position is past its queue's end: a broker before 4.9.2 delivers
    nothing of it, a later one skips what waits (ScheduleMessageService.correctDelayOffset).
    """
    return any(
        offset > ends.get((SCHEDULE, level - 1), offset) for level, offset in (levels or {}).items()
    )


def _files(waits: Waits, profile: Profile, old_check: bytes) -> Iterator[tuple[str, bytes, int]]:
    """(path, content, length with the zeros behind it) of each file."""
    timers = waits.timers
    if timers is not None:
        size = waits.file_bytes
        for name, content in timer_log_files(timers.units, size, timers.turned.precision):
            yield f"{TIMER_LOG}/{name}", content, size
        yield TIMER_CHECK_PATH, timer_check(old_check, **timers.check), TIMER_CHECK_FILE_BYTES
    if waits.levels:
        text = delay_offsets(waits.levels, profile)
        yield DELAYS_PATH, text, len(text)


def delay_offsets(levels: Mapping[int, int], profile: Profile) -> bytes:
    """The content of delayOffset.json (DelayOffsetSerializeWrapper)."""
    table = {integer_key(level): offset for level, offset in sorted(levels.items())}
    return pretty({"offsetTable": table}, profile.config_entry_lines).encode()


# ---
# The files of a set.


def service_files(
    job: Pipeline, end: int, ends: Callable[[], Ends], derive: bool, notes: list[str],
    found: Callable[[Places], tuple[Places, Places]] | None = None, levels: bool = False,
) -> tuple[list[Built], list[str]]:  # fmt: skip
    """(BUILT rows with paths of the files for a set, what is said of them).

    end: of the log. ends: of the queues of what waits, if it is asked. derive: the log is not, or
    not to its end, the one that the store's files are of. notes: gets warnings. found: as for
    `Timers.moved`, where the set is of a log that is written anew. levels: derive delay levels even
    if there is a file.
    """
    in_place = found is None and job.plan.queues_of is None
    asked = _of_job(job, end, ends)._replace(in_place=in_place)
    running = asked.store.head(ABORT, 0) is not None
    profile = job.plan.profile
    derive = derive or running
    return staged_services(asked, derive, job.staging, profile, notes, found, levels)


def staged_services(
    asked: Asked, derive: bool, staging: Staging, profile: Profile, notes: list[str],
    found: Callable[[Places], tuple[Places, Places]] | None = None, levels: bool = False,
) -> tuple[list[Built], list[str]]:  # fmt: skip
    """As `service_files`, of any store."""
    waits = asked.waits(derive, True, notes, levels=levels)
    if waits.timers is not None and found is not None:
        waits = waits._replace(timers=waits.timers.moved(found))
    old = asked.store.head(TIMER_CHECK_PATH, TIMER_CHECK_FILE_BYTES) or b""
    rows: list[Built] = []
    for path, content, length in _files(waits, profile, old):
        name = attempt_name("service")
        output = staging.storage.create(staging.path(name), digest=True)
        output.write(content)
        made = output.finish(length)
        rows.append({"path": path, "name": name, "entries": 0, **made._asdict()})
    return rows, waits.said()


def lost_services(job: Pipeline, linked: Linked, notes: list[str]) -> Waits:
    """What is lost of a store's own, or points past the log's end, for `write_services`."""
    asked = _of_job(job, linked.end, waiting_ends(job, linked))
    return asked._replace(removes_rows=True).waits(False, False, notes)


def waiting_ends(job: Pipeline, linked: Linked) -> Callable[[], Ends]:
    """Gives the ends of the queues of what waits, which are few, whatever else the log has."""
    return lambda: job.queue_ends(linked, (SCHEDULE, TIMER_TOPIC))


def _of_job(job: Pipeline, end: int, ends: Callable[[], Ends]) -> Asked:
    plan = job.plan
    release, known = plan.profile.release, plan.discovered.settings
    return Asked(plan.queues_at, release, known, ends, end, lambda: _gather(job, end))


def _gather(job: Pipeline, end: int) -> Gathered:
    """A second walk, of those stores alone that have lost what waits: that is known after the first
    one, which would else mark all that could be a delivery, of any store.
    """
    plan = job.plan
    segments = tuple(segment for segment in plan.segments if segment.start < end)
    task = GatherMarks(
        plan.storage, job.staging, segments, plan.record_rules, plan.profile.split_properties, end
    )
    with job.stages.by_tasks("looked for timers", plan.log_bytes, "bytes"):
        return task.read(job.ids(len(segments)).run(task, GATHERED).collect())


# ---
# The files of a store that is changed in place. Its log is read on all cores of this machine.


def of_opened(opened: OpenedStore, settings: Mapping[str, str], end: int) -> Asked:
    """An opened store. end: of its log."""
    log, split = opened.log, opened.profile.split_properties
    gather = partial(gather_on_all_cores, log, log.segments, concerns, split, end)
    at = opened.folder, opened.profile.release, settings

    def ends() -> Ends:
        return {
            (topic, queue_id): opened.queue(topic, queue_id, batch).end_within(end)
            for topic in (SCHEDULE, TIMER_TOPIC) for queue_id, batch in opened.queues.of(topic)
        }  # fmt: skip

    return Asked(*at, ends, end, gather)


def mend_written(writer: CommitLogWriter, path: str, settings: Mapping[str, str]) -> list[str]:
    """Write what the local store has lost that a writer has open; what is said of it. A store
    without a record stays.
    """
    if not writer.log.end:
        return []
    release, notes = writer.profile.release, list[str]()
    with OpenedStore(Folder(LocalStorage(), path), release, settings, Notes()) as opened:
        waits = of_opened(opened, settings, writer.log.end).waits(False, False, notes)
    write_services(writer.store.files, waits, writer.profile)
    return [*waits.said(), *notes]


def follow_services(
    files: Files, opened: OpenedStore, settings: Mapping[str, str], end: int, levels: bool
) -> tuple[list[str], bool]:
    """As `mend_written`, of a replica, whose timers are delivered elsewhere: by its log, that has
    grown since; and whether delay offsets were written. levels: they are not copied.
    """

    def grown(places: Places) -> Gathered:
        since = furthest_unit(opened.folder)
        split = opened.profile.split_properties
        return gather_since(opened.log, [*places.tolist(), since], since, concerns, split, end)

    notes: list[str] = []
    waits = of_opened(opened, settings, end).waits(False, False, notes, grown, levels)
    write_services(files, waits, opened.profile)
    return [*waits.said(), *notes], bool(waits.levels)


def write_services(files: Files, waits: Waits, profile: Profile) -> None:
    """Write them in steps of which each can be killed; files: the store's, whose lock is held.

    Until it is done a further run finds them lost. Raises StoreError, OSError.
    """
    if waits.timers is not None:
        check_can_replace(files)
        replace_timer_files(files, waits.timers, waits.file_bytes)
    if waits.levels:
        files.make_folder(CONFIG)
        replace_small(files, DELAYS_PATH, delay_offsets(waits.levels, profile))
        files.sync_folder(CONFIG)
