"""A catch-up: a log's new messages are added to the store's files, or to copies of them."""

import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from reput.broker.change.catch_up import NOTE, CatchUp, read_note
from reput.broker.change.compaction import settle
from reput.broker.change.new_messages import New, Rules, find_new
from reput.broker.change.position import DispatchedLog, Position, find_position
from reput.broker.writer.recovery import LogRecovery
from reput.jobs.deriving.timers import of_opened, staged_services, write_services
from reput.jobs.opening.held import HeldStore, refuse_second_name, refuse_shared_derived
from reput.jobs.opening.plan import Plan, check_unchanged
from reput.jobs.outputs.output import Output
from reput.jobs.outputs.publish import (
    Built,
    Temporary,
    beside,
    publish,
    remove_leftovers,
    staging_folder,
    temporary_folder,
)
from reput.jobs.outputs.report import Summary, counted, found_lines, guessed_lines, summary_of
from reput.store_format.derived import queue_files
from reput.store_format.derived.index_header import decode_header, listed_index
from reput.store_format.derived.index_names import NameZone
from reput.store_format.discover.config import configured_topics
from reput.store_format.discover.delay_levels import SCHEDULE
from reput.store_format.dispatch.scan import place_rules, scan_rules
from reput.store_format.faults import REASONS, Fault, StoreError
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.folder import Folder, Place
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.protocol import Files
from reput.store_format.log.reader import LogBytes, segment_files
from reput.store_format.log.there import derived_files
from reput.store_format.names import (
    BATCH_CONSUME_QUEUE,
    CHECKPOINT,
    CONSUME_QUEUE,
    INDEX,
    QueuePath,
    segments_among,
)
from reput.store_format.notes import Done, Notes, Progress
from reput.store_format.query.reader import OpenedStore
from reput.udfs.staging import Staging, queue_file_name

# ---
# The report of a catch-up.


@dataclass
class CaughtUp:
    """The messages that the derived files lacked, and whether they were added. Physical offsets."""

    store: str
    output: str  # the set that was written; '' if the store's own files were extended
    rocketmq: str
    start: int  # offset from which the log was read
    log_end: int
    end_reason: str
    messages: int = 0  # messages read; the queues may have had the first of them
    entries: int = 0  # new queue entries
    queues: int = 0  # queues with new entries
    index_keys: int = 0
    needed: bool = False
    done: bool = False
    compaction: list[str] = field(default_factory=list)  # what was written there, or cut off
    resumed: bool = False  # whether this run finished an earlier catch-up that was killed
    left_out: list[str] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)  # queues that lack older messages of the log
    warnings: list[str] = field(default_factory=list)
    waits: list[str] = field(default_factory=list)  # timers and delays: files written for them
    discovered: dict[str, dict[str, Any]] = field(default_factory=dict)
    releases: str = ""  # text that names the releases which write the same
    seconds: float = 0.0

    def text(self) -> str:
        if not self.needed:
            head = f"nothing new in {self.store}: "
            head += (
                "but queues have lost what they had" if self.lacking
                else f"the derived files hold all up to {self.log_end:,}"
            )  # fmt: skip
        else:
            verb = "caught up" if self.done else "would catch up"
            where = f"{self.store} -> {self.output}" if self.output else self.store
            head = f"{verb} {where} as RocketMQ {self.releases or self.rocketmq} would"
        lines = [
            head,
            f"  log       {self.start:,} to {self.log_end:,} ({self.end_reason})",
            f"  new       {counted(self.entries, 'entry')} in {counted(self.queues, 'queue')}, "
            f"{counted(self.index_keys, 'key')}",
            f"  time      {self.seconds:.1f} s",
        ]
        lines += [f"  compacted {line}" for line in self.compaction]
        if self.resumed:
            lines.append("  resumed   an earlier catch-up, which was killed")
        lines += guessed_lines(self.discovered) if self.index_keys else []
        lines += [f"  waits     {line}" for line in self.waits]
        lines += [f"  lacks     {line}" for line in self.lacking]
        lines += [f"  left out  {line}" for line in self.left_out]
        lines += [f"  warning   {line}" for line in self.warnings]
        return "\n".join(lines)

    def details(self) -> list[str]:
        return found_lines(self.discovered)


# ---
# Catch-up of one store in place: find the new messages of its log, and write their entries.


def rules_of(plan: Plan) -> Rules:
    """The rules of a plan's releases and settings. New records are of the last release. Rules of
    older releases only apply to the records to which the files point (`discover`).
    """
    scanned = replace(
        scan_rules(plan.profile, plan.settings, plan.batch_topics, plan.eras),
        older_delays=plan.discovered.older_delays,
    )
    return Rules(plan.profile, plan.settings, scanned, place_rules(plan.profile))


def topics_of(plan: Plan) -> Collection[str] | None:
    """The topics of topics.json, None without it; its faults are in the plan already."""
    return configured_topics(plan.folder, Notes())


def clock_in(zone: NameZone) -> Callable[[], int]:
    """The local time in milliseconds, by which index files are named."""
    return lambda: zone.local(time.time_ns() // 1_000_000)


def catch_up_in_place(
    held: HeldStore, plan: Plan, progress: Progress, confirm: Callable[[str], None],
    *, growing: bool = False, settled: bool = True, settle_too: Callable[[], object] = lambda: None,
) -> CaughtUp:  # fmt: skip
    """Extend the derived files of a held store to its log's end. Raises StoreError, OSError.

    growing: whether the log is still being copied, so that its end is not judged, and its services
    get their files later. settled: whether the log has not changed since the last round.
    settle_too: brings what else the caller has beside the log to it, before `abort` goes.
    """
    files, rules = held.files, rules_of(plan)
    size = plan.settings.mapped_file_size_commit_log
    log_files = segment_files(held.storage, plan.segments, size, held.files if growing else None)
    source = LogBytes(log_files, size)
    end = plan.segments[-1].end
    log = DispatchedLog(source.read, plan.segments[0].start, end, size, end)
    recovery = LogRecovery(log_files, size, rules.scan, None)
    catching = CatchUp(files, log, recovery, rules, clock_in(plan.index_zone))
    try:
        resumed = held.crashed and not held.dry_run
        if held.crashed:
            position = _noted(held, catching, confirm)
        else:
            position = find_position(held.folder, log, plan.settings, rules.scan)
        with progress.stage("read", lambda: Done(None, f"from {position.first:,} on")):
            new = find_new(log, recovery, position, rules, growing, settled, topics_of(plan))
        about = report(plan, new)
        about.resumed = resumed
        about.needed = new_here = resumed or not new.ahead.nothing_new
        if not about.needed:
            if not held.dry_run and files.exists(NOTE):
                catching.settle()
            if not growing:
                mend_lost(held, plan, confirm, about)
        if held.dry_run or not new_here:
            return about
        catching.index.folder.remove_staged()  # a killed run leaves hard links of index files there
        _refuse_links(files, held.path, new)
        if not resumed:
            confirm(
                f"write {new.ahead.entries:,} queue entries and {new.ahead.index_puts:,} keys to "
                f"{held.path}, in place"
            )
        held.changed = True
        if held.lock_at_last() and not growing:
            check_unchanged(plan)
        given, release, notes = plan.discovered.settings, plan.profile.release, Notes()

        def follow_the_log() -> None:
            about.compaction = settle(files, held.folder, release, given, notes).lines
            settle_too()
            if not growing:
                mend_lost(held, plan, lambda _: None, about)

        with progress.stage("written", lambda: Done(None, f"up to {new.ahead.end:,}")):
            (catching.resume if resumed else catching.apply)(new, follow_the_log)
        about.warnings += notes.lines
        held.crashed = False
        about.done = True
        return about
    finally:
        catching.close()
        source.close()


def mend_lost(
    held: HeldStore, plan: Plan, confirm: Callable[[str], None], about: CaughtUp
) -> None:  # fmt: skip
    """Write what the services of a stopped store have lost, though no message may be new:
    `--follow` leaves it to its end, and to the next catch-up if it has none.
    """
    release, given, notes = plan.profile.release, plan.discovered.settings, list[str]()
    with OpenedStore(held.folder, release, given, Notes()) as opened:
        asked = of_opened(opened, given, about.log_end)._replace(stopped=True)
        waits = asked.waits(False, False, notes)
    said = waits.said()
    about.needed = about.needed or bool(said)
    about.waits = [*said, *notes] if about.needed else []
    if said and not held.dry_run:
        confirm(f"write what timers and delays wait for to {held.path}")
        held.changed = True
        held.lock_at_last()
        write_services(held.files, waits, plan.profile)
        about.done = True


def _noted(held: HeldStore, catching: CatchUp, confirm: Callable[[str], None]) -> Position:
    """The position of a killed catch-up; the entries that it wrote after that position are cut.

    Raises StoreError if the store's crash was not that of a catch-up, or the user does not agree.
    """
    note = read_note(held.files)
    if note is not None and held.dry_run:
        raise StoreError(
            f"{held.path}/{NOTE}: a catch-up was killed when the queues ended at "
            f"{note['queues']:,}; without --dry-run the next one goes on from there"
        )
    if note is None or not catching.is_of(note):
        raise StoreError(f"{held.path}: was not stopped cleanly; use `reput recover` first")
    refuse_shared_derived(held.path)
    confirm(
        f"go on with the catch-up of {held.path} that was killed when its queues ended at "
        f"{note['queues']:,}"
    )
    held.changed = True
    return catching.noted(note)


def report(plan: Plan, new: New) -> CaughtUp:
    """The report of what there is to do, or was done."""
    ahead, levels = new.ahead, {key.queue_id + 1 for key in new.queues if key.topic == SCHEDULE}
    reason = REASONS[ahead.fault][1] if ahead.fault in REASONS else "the last segment's end"
    if ahead.fault not in (Fault.NONE, Fault.BLANK, Fault.ZEROS):
        field, said = REASONS[ahead.fault]
        reason = f"{field}: {said}; nothing live follows"
    return CaughtUp(
        store=plan.store, output="", rocketmq=plan.profile.release, start=ahead.start,
        log_end=ahead.end, end_reason=reason, messages=ahead.records, entries=ahead.entries,
        queues=len(new.queues), index_keys=ahead.index_puts, left_out=new.left_out,
        lacking=new.lacking,
        warnings=[*plan.notes, *plan.warnings, *plan.assumed_delays(levels)],
        discovered=plan.discovered.as_json() | plan.index_zone.as_discovered(),
        releases=plan.discovered.releases,
    )  # fmt: skip


def _refuse_links(files: Files, store: str, new: New) -> None:
    """Raise StoreError if a file or folder to be written to is a link, or has a second name."""
    folders, ends = [INDEX], [INDEX]
    for key in new.queues:
        kind = BATCH_CONSUME_QUEUE if key.batch else CONSUME_QUEUE
        parts = str(QueuePath(kind, key.topic, key.queue_id)).split("/")
        folders += ["/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]
        ends.append("/".join(parts))
    for folder in dict.fromkeys(folders):
        if files.exists(folder) and not files.is_folder(folder):
            raise StoreError(f"{folder}: is not a folder")
    for folder in ends:
        names = files.names(folder)
        if folder == INDEX:
            names = [each.name for each in listed_index(Folder(LocalStorage(), store))]
        for name in (names if folder == INDEX else segments_among(names))[-1:]:
            path = f"{folder}/{name}"
            if files.is_folder(path):
                raise StoreError(f"{path}: is not a file")
            refuse_second_name(f"{store}/{path}")


# ---
# A catch-up that writes a new set: copies of the store's derived files, extended there.

_CHUNK_ENTRIES = 1 << 16


def catch_up_set(plan: Plan, target: Output, progress: Progress) -> CaughtUp:
    """Publish the store's derived files, extended to its log's end, as a set at `target`.

    The store is only read. Raises StoreError, OSError; a failed run leaves no files.
    """
    target.check()
    remove_leftovers(target, target.inputs)
    size, rules = plan.settings.mapped_file_size_commit_log, rules_of(plan)
    log_files = segment_files(plan.storage, plan.segments, size)
    source = LogBytes(log_files, size)
    stop = plan.segments[-1].end if plan.splits.limit is None else plan.splits.limit
    log = DispatchedLog(source.read, plan.segments[0].start, stop, size)
    recovery = LogRecovery(log_files, size, rules.scan, None)
    local = LocalStorage()
    base = Place(local, tempfile.gettempdir())
    with temporary_folder(base, Temporary.CATCH_UP, target.inputs) as place:
        work, made = place.folder, Place(local, place.folder)
        try:
            with progress.stage("copied", lambda: Done(None, plan.store)):
                for path in _derived(plan.folder):
                    _copy(plan.folder, path, made)
            position = find_position(made, log, plan.settings, rules.scan)
            new = find_new(
                log, recovery, position, rules, growing=plan.splits.limit is not None,
                topics=topics_of(plan),
            )  # fmt: skip
            catching = CatchUp(DiskFiles(work), log, recovery, rules, clock_in(plan.index_zone))
            with progress.stage("written", lambda: Done(None, f"up to {new.ahead.end:,}")):
                catching.continue_set(new)
            check_unchanged(plan)
            about = report(plan, new)
            about.output, about.needed, about.done = target.path, True, True
            with staging_folder(*beside(target)) as staging:
                built = [_stage(made, path, staging) for path in _derived(made)]
                built = [row for row in built if row["path"] != CHECKPOINT]
                summary = _summary(plan, target.path, new, built)
                settings = plan.discovered.settings
                with OpenedStore(
                    plan.folder, plan.profile.release, settings, Notes(), derived=made
                ) as opened:
                    asked = of_opened(opened, settings, new.ahead.end)
                    rows, about.waits = staged_services(
                        asked, False, staging, plan.profile, about.warnings
                    )
                built += rows
                summary.waits = about.waits
                publish(staging, built, local.read_bytes(f"{work}/{CHECKPOINT}"), summary, target)
            return about
        except StoreError as error:
            if work not in str(error):
                raise
            raise StoreError(str(error).replace(work, plan.store)) from None
        finally:
            source.close()


def _derived(store: Folder) -> Iterator[str]:
    """The derived files below a store or set."""
    yield from derived_files(store).files
    if CHECKPOINT in dict(store.listed()):
        yield CHECKPOINT


def _copy(source: Folder, path: str, to: Place) -> None:
    to.storage.make_folders(f"{to}/{path}".rpartition("/")[0])
    reader = source.open(path)
    output = to.storage.create(f"{to}/{path}")
    length = reader.state.size
    for raw in _chunks(reader, length, 1 << 20):
        output.write(raw)
    output.finish(length)
    reader.close()


def _stage(made: Folder, path: str, staging: Staging) -> Built:
    """Copy a finished file to staging; its BUILT row."""
    folder = path.rpartition("/")[0]
    row: Built = {"path": path, "folder": folder, "name": queue_file_name(), "entries": 0}
    if path == CHECKPOINT:
        return row
    reader = made.open(path)
    output = staging.storage.create(staging.path(row["name"]), digest=True)
    length = reader.state.size
    batch = queue_files.is_batch(folder)
    for number, raw in enumerate(
        _chunks(reader, length, _CHUNK_ENTRIES * queue_files.layout_of(batch).itemsize)
    ):
        output.write(raw)
        if folder != INDEX:
            entries = queue_files.decode_entries(raw, batch)
            used = queue_files.is_message(entries) & ~queue_files.is_pre_blank(entries)
            row["entries"] += int(np.count_nonzero(used))
        elif number == 0:
            row["entries"] = decode_header(raw).entries
    written = output.finish(length)
    reader.close()
    return {**row, **written._asdict()}


def _chunks(reader: object, length: int, size: int) -> Iterator[np.ndarray]:
    for at in range(0, length, size):
        buffer = np.empty(min(size, length - at), np.uint8)
        reader.read_into(at, buffer)  # type: ignore[attr-defined]
        yield buffer


def _summary(plan: Plan, output: str, new: New, built: list[Built]) -> Summary:
    summary = summary_of(plan, output, new.ahead.end, report(plan, new).end_reason)
    summary.count_files(row["folder"] for row in built)
    summary.index_keys = sum(row["entries"] for row in built if row["folder"] == INDEX)
    summary.messages = new.ahead.records
    summary.bytes_scanned = new.ahead.end - new.ahead.start
    summary.left_out = new.left_out
    summary.warnings[:0] = [
        f"gone on from the store's own files at {new.position.first:,}; what was there is taken as "
        "it was",
        *new.lacking,
    ]
    return summary
