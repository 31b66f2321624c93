"""What goes with a set, or into a changed store, so that a broker delivers each timer and each
delayed message once: timerlog, config/timercheck, config/delayOffset.json.

Whole files are carried: of a set's store the units that still wait, in place nothing changes. Where
they are lost, or point past the log's end, they are derived from the log.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from reput.broker.services.files import check_can_replace, integer_key, pretty, replace_timer_files
from reput.jobs.outputs.publish import Built
from reput.jobs.outputs.report import counted
from reput.jobs.pipeline.pipeline import Pipeline
from reput.store_format.discover.delay_levels import SCHEDULE
from reput.store_format.fate.delays import concerns
from reput.store_format.fate.gather import Gathered, gather_on_all_cores
from reput.store_format.fate.known import Places, read_progress, timers_in_rocksdb, write_times
from reput.store_format.files.protocol import Files, InputStorage, read_head, replace_small
from reput.store_format.layouts import TIMER_CHECK_FILE_BYTES
from reput.store_format.message.message import TIMER_TOPIC
from reput.store_format.names import ABORT, CONFIG, TIMER_LOG
from reput.store_format.notes import Notes
from reput.store_format.query.reader import OpenedStore
from reput.store_format.release.profiles import Profile
from reput.store_format.release.settings import writer_settings_from
from reput.store_format.state.timers import (
    DELAYS_PATH,
    TIMER_CHECK_PATH,
    Timers,
    carried_timers,
    derived_levels,
    derived_timers,
    timer_check,
    timer_file_bytes,
    timer_log_files,
    why_lost,
)
from reput.udfs.rebuild.scan import GATHERED, GatherMarks
from reput.udfs.staging import attempt_name

# ---
# What is carried and what is derived.


class Waits(NamedTuple):
    """What a broker's services keep. None, or empty: there is nothing of the kind, or it stays."""

    timers: Timers | None
    file_bytes: int  # of each file of timerlog
    levels: Mapping[int, int]  # by delay level the next queue offset

    def said(self) -> list[str]:
        """What was written, as lines for people."""
        lines = []
        if self.timers is not None:
            wait = "timer waits" if self.timers.waiting == 1 else "timers wait"
            lines.append(
                f"{self.timers.waiting:,} {wait}: {TIMER_LOG} and {TIMER_CHECK_PATH} are written"
            )
        if self.levels:
            levels = counted(len(self.levels), "delay level")
            lines.append(f"{levels} delivered as the log shows: {DELAYS_PATH} is written")
        return lines


class _Asked(NamedTuple):
    """A store's files of services, and the topics of its log."""

    storage: InputStorage
    store: str
    release: str
    settings: Mapping[str, str]
    topics: Collection[str]
    log_end: int  # physical offset

    def waits(
        self, gather: Callable[[], Gathered], derive: bool, carry: bool, notes: list[str]
    ) -> Waits:
        """derive: even if the files look whole; carry: give those that are; gather: the log's
        marks, asked for only where something is derived.
        """
        storage, store, now = self.storage, self.store, time.time_ns() // 1_000_000
        timers, marks, levels = None, None, dict[int, int]()
        known = writer_settings_from(self.settings, release=self.release)
        precision = known.timer_precision_ms
        if TIMER_TOPIC in self.topics:
            if timers_in_rocksdb(storage, store):
                notes.append("timers are in RocksDB (timerRocksDBEnable): they stay there")
            elif derive or why_lost(storage, store, self.log_end):
                marks = gather()
                read, written = (
                    read_progress(storage, store, Notes()),
                    partial(write_times, storage, store),
                )
                timers = derived_timers(marks, read, written, now, precision)
            elif carry:
                timers = carried_timers(storage, store, now, precision)
        if SCHEDULE in self.topics and read_head(storage, f"{store}/{DELAYS_PATH}", 0) is None:
            levels = derived_levels(gather() if marks is None else marks)
        size = timer_file_bytes(storage, store, known.mapped_file_size_timer_log)
        return Waits(timers, size, levels)


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
    job: Pipeline, end: int, topics: Collection[str], derive: bool, notes: list[str],
    found: Callable[[Places], tuple[Places, Places]] | None = None,
) -> tuple[list[Built], list[str]]:  # fmt: skip
    """(BUILT rows with paths of the files for a set, what is said of them).

    end: the log's. topics: of its queues. derive: the log is not, or not to its end, the one that
    the store's files are of. notes: gets warnings. found: as for `Timers.moved`, where the set is
    of a log that is written anew.
    """
    plan = job.plan
    storage, store = plan.queues_at
    running = read_head(storage, f"{store}/{ABORT}", 0) is not None
    asked = _Asked(storage, store, plan.profile.release, plan.discovered.settings, topics, end)
    waits = asked.waits(lambda: _gather(job, end), derive or running, True, notes)
    if waits.timers is not None and found is not None:
        waits = waits._replace(timers=waits.timers.moved(found))
    old = read_head(storage, f"{store}/{TIMER_CHECK_PATH}", TIMER_CHECK_FILE_BYTES) or b""
    rows: list[Built] = []
    for path, content, length in _files(waits, plan.profile, old):
        name = attempt_name("service")
        output = job.staging.storage.create(job.staging.path(name), digest=True)
        output.write(content)
        made = output.finish(length)
        rows.append({"path": path, "name": name, "entries": 0, **made._asdict()})
    return rows, waits.said()


def _gather(job: Pipeline, end: int) -> Gathered:
    plan = job.plan
    segments = tuple(segment for segment in plan.segments if segment.start < end)
    task = GatherMarks(
        plan.storage, job.staging, segments, plan.record_rules, plan.profile.split_properties, end
    )
    with job.stages.by_tasks("looked for timers", plan.log_bytes, "bytes"):
        return task.read(job.ids(len(segments)).run(task, GATHERED).collect())


# ---
# The files of a store that was changed in place.


def mend_services(
    files: Files, opened: OpenedStore, settings: Mapping[str, str], end: int, derive: bool = False
) -> list[str]:
    """Write what is lost, in steps that can be killed and repeated; what is said of it.

    files: the store's, whose lock is held; opened: the same store. end, derive: as for
    `service_files`. Raises StoreError, OSError.
    """
    waits, notes = lost_services(opened, settings, end, derive)
    if waits.timers is not None:
        check_can_replace(files)
        replace_timer_files(files, waits.timers, waits.file_bytes)
    if waits.levels:
        files.make_folder(CONFIG)
        replace_small(files, DELAYS_PATH, delay_offsets(waits.levels, opened.profile))
        files.sync_folder(CONFIG)
    return [*waits.said(), *notes]


def lost_services(
    opened: OpenedStore, settings: Mapping[str, str], end: int, derive: bool = False
) -> tuple[Waits, list[str]]:
    """What `mend_services` would write, and notes."""
    topics = opened.queues.topics()
    asked = _Asked(opened.storage, opened.path, opened.profile.release, settings, topics, end)
    notes: list[str] = []
    gather = partial(
        gather_on_all_cores, opened.log, concerns, opened.profile.split_properties, end
    )
    return asked.waits(gather, derive, False, notes), notes
