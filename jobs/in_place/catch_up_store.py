"""Catch-up of one store in place: find the new messages of its log, and write their entries."""

import time
from collections.abc import Callable, Collection
from typing import cast

from reput.broker.change.catch_up import NOTE, CatchUp, read_note
from reput.broker.change.new_messages import New, Rules, find_new
from reput.broker.change.position import DispatchedLog, Position, find_position
from reput.broker.writer.recovery import LogRecovery
from reput.jobs.in_place.catch_up_report import CaughtUp
from reput.jobs.opening.held import HeldStore, refuse_second_name, refuse_shared_derived
from reput.jobs.opening.plan import Plan, check_unchanged
from reput.store_format.discover.config import configured_topics
from reput.store_format.dispatch.scan import place_rules, scan_rules
from reput.store_format.faults import REASONS, Fault, StoreError
from reput.store_format.files.protocol import Files
from reput.store_format.log.reader import LogBytes, SegmentFiles
from reput.store_format.names import ABORT, BATCH_CONSUME_QUEUE, CONSUME_QUEUE, INDEX, QueuePath
from reput.store_format.notes import Done, Notes, Progress


def rules_of(plan: Plan) -> Rules:
    """The rules of a plan's releases and settings. New records are of the last release. Rules of
    older releases only apply to the records to which the files point (`discover`).
    """
    scanned = scan_rules(plan.profile, plan.settings, plan.batch_topics, plan.eras)
    return Rules(plan.profile, plan.settings, scanned, place_rules(plan.profile))


def topics_of(plan: Plan) -> Collection[str] | None:
    """The topics of topics.json, None without it; its faults are in the plan already."""
    return configured_topics(plan.storage, plan.store, Notes())


def clock() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def catch_up_in_place(
    held: HeldStore, plan: Plan, progress: Progress, confirm: Callable[[str], None],
    *, growing: bool = False, settled: bool = True,
) -> CaughtUp:  # fmt: skip
    """Extend the derived files of a held store to its log's end. Raises StoreError, OSError.

    growing: whether the log is still being copied, so that its end is not judged.
    settled: whether the log has not changed since the last round.
    """
    files, rules = held.files, rules_of(plan)
    size = plan.settings.mapped_file_size_commit_log
    log_files = SegmentFiles(held.storage, plan.segments, size, held.files if growing else None)
    source = LogBytes(log_files, size)
    end = plan.segments[-1].end
    log = DispatchedLog(source.read, plan.segments[0].start, end, size, end)
    recovery = LogRecovery(cast(Files, log_files), size, rules.scan, None)
    catching = CatchUp(files, log, recovery, rules, clock)
    try:
        resumed = held.crashed and not held.dry_run
        if held.crashed:
            position = _noted(held, catching, confirm)
        else:
            position = find_position(held.storage, held.path, log, plan.settings, rules.scan)
        with progress.stage("read", lambda: Done(None, f"from {position.first:,} on")):
            new = find_new(log, recovery, position, rules, growing, settled, topics_of(plan))
        about = report(plan, new)
        about.resumed = resumed
        about.needed = resumed or not new.ahead.nothing_new
        if held.dry_run:
            return about
        if not about.needed:
            if files.exists(NOTE):
                catching.settle()
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
        with progress.stage("written", lambda: Done(None, f"up to {new.ahead.end:,}")):
            if resumed:
                catching.resume(new)
            else:
                catching.apply(new)
        held.crashed = False
        about.done = True
        return about
    finally:
        catching.close()
        source.close()


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
        raise StoreError(
            f"{held.path}/{ABORT}: the store was not stopped cleanly; use `reput recover` first"
        )
    refuse_shared_derived(held.path)
    confirm(
        f"go on with the catch-up of {held.path} that was killed when its queues ended at "
        f"{note['queues']:,}"
    )
    held.changed = True
    return catching.noted(note)


def report(plan: Plan, new: New) -> CaughtUp:
    """The report of what there is to do, or was done."""
    ahead = new.ahead
    reason = REASONS[ahead.fault][1] if ahead.fault in REASONS else "the last segment's end"
    if ahead.fault not in (Fault.NONE, Fault.BLANK, Fault.ZEROS):
        field, said = REASONS[ahead.fault]
        reason = f"{field}: {said}; nothing live follows"
    return CaughtUp(
        store=plan.store, output="", rocketmq=plan.profile.release, start=ahead.start,
        log_end=ahead.end, end_reason=reason, messages=ahead.records, entries=ahead.entries,
        queues=len(new.queues), index_keys=ahead.index_puts, left_out=new.left_out,
        lacking=new.lacking,
        warnings=[*plan.notes, *plan.warnings], discovered=plan.discovered.as_json(),
        releases=plan.discovered.releases,
    )  # fmt: skip


def _refuse_links(files: Files, store: str, new: New) -> None:
    """Raise StoreError if a file or folder to be written to is a link, or has a second name."""
    folders = [INDEX]
    for key in new.queues:
        kind = BATCH_CONSUME_QUEUE if key.batch else CONSUME_QUEUE
        folders += [kind, f"{kind}/{key.topic}", str(QueuePath(kind, key.topic, key.queue_id))]
    for folder in dict.fromkeys(folders):
        if files.exists(folder) and not files.is_folder(folder):
            raise StoreError(f"{folder}: is not a folder")
    ends = [folder for folder in dict.fromkeys(folders) if folder.count("/") == 2] + [INDEX]
    for folder in ends:
        for name in files.names(folder)[-1:]:
            path = f"{folder}/{name}"
            if files.is_folder(path):
                raise StoreError(f"{path}: is not a file")
            refuse_second_name(f"{store}/{path}")
