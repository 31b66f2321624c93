"""A catch-up that writes a new set: copies of the store's derived files, extended there."""

import tempfile
from collections.abc import Iterator
from typing import cast

import numpy as np

from reput.broker.change.catch_up import CatchUp
from reput.broker.change.new_messages import New, find_new
from reput.broker.change.position import DispatchedLog, find_position
from reput.broker.writer.recovery import LogRecovery
from reput.jobs.in_place.catch_up_report import CaughtUp
from reput.jobs.in_place.catch_up_store import clock, report, rules_of, topics_of
from reput.jobs.judging.verdict import files_there
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
from reput.jobs.outputs.report import Summary, summary_of
from reput.store_format.derived.index_reader import decode_header
from reput.store_format.derived.queue_files import (
    decode_entries,
    is_batch,
    is_message,
    is_pre_blank,
    layout_of,
)
from reput.store_format.faults import StoreError
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.protocol import Files, InputStorage, StagingStorage, listed
from reput.store_format.log.reader import LogBytes, SegmentFiles
from reput.store_format.names import CHECKPOINT, INDEX, is_queue_folder
from reput.store_format.notes import Done, Progress
from reput.udfs.staging import Staging, queue_file_name

_CHUNK_ENTRIES = 1 << 16


def catch_up_set(plan: Plan, target: Output, progress: Progress) -> CaughtUp:
    """Publish the store's derived files, extended to its log's end, as a set at `target`.

    The store is only read. Raises StoreError, OSError; a failed run leaves no files.
    """
    target.check()
    remove_leftovers(target.storage, target.path, target.inputs)
    size, rules = plan.settings.mapped_file_size_commit_log, rules_of(plan)
    log_files = SegmentFiles(plan.storage, plan.segments, size)
    source = LogBytes(log_files, size)
    stop = plan.segments[-1].end if plan.splits.limit is None else plan.splits.limit
    log = DispatchedLog(source.read, plan.segments[0].start, stop, size)
    recovery = LogRecovery(cast(Files, log_files), size, rules.scan, None)
    local = LocalStorage()
    with temporary_folder(local, tempfile.gettempdir(), Temporary.CATCH_UP, target.inputs) as place:
        work = place.folder
        try:
            with progress.stage("copied", lambda: Done(None, plan.store)):
                for path in _derived(plan.storage, plan.store):
                    local.make_folders(f"{work}/{path}".rpartition("/")[0])
                    _copy(plan.storage, f"{plan.store}/{path}", local, f"{work}/{path}")
            position = find_position(local, work, log, plan.settings, rules.scan)
            new = find_new(
                log, recovery, position, rules, growing=plan.splits.limit is not None,
                topics=topics_of(plan),
            )  # fmt: skip
            catching = CatchUp(DiskFiles(work), log, recovery, rules, clock)
            with progress.stage("written", lambda: Done(None, f"up to {new.ahead.end:,}")):
                catching.continue_set(new)
            check_unchanged(plan)
            about = report(plan, new)
            about.output, about.needed, about.done = target.path, True, True
            with staging_folder(target.storage, *beside(target.storage, target.path)) as staging:
                built = [_stage(local, work, path, staging) for path in _derived(local, work)]
                built = [row for row in built if row["path"] != CHECKPOINT]
                summary = _summary(plan, target.path, new, built)
                publish(staging, built, local.read_bytes(f"{work}/{CHECKPOINT}"), summary, target)
            return about
        except StoreError as error:
            if work not in str(error):
                raise
            raise StoreError(str(error).replace(work, plan.store)) from None
        finally:
            source.close()


def _derived(storage: InputStorage, store: str) -> Iterator[str]:
    """The derived files below a store or set, without files that a broker does not read."""
    for path in files_there(storage, store):
        parts = path.split("/")
        if parts[0] == INDEX or is_queue_folder(parts[2]):
            yield path
    if CHECKPOINT in dict(listed(storage, store)):
        yield CHECKPOINT


def _copy(source: InputStorage, path: str, to: StagingStorage, target: str) -> None:
    reader = source.open(path)
    output = to.create(target)
    length = reader.state.size
    for raw in _chunks(reader, length, 1 << 20):
        output.write(raw)
    output.finish(length)
    reader.close()


def _stage(local: InputStorage, work: str, path: str, staging: Staging) -> Built:
    """Copy a finished file to staging; its BUILT row."""
    folder = path.rpartition("/")[0]
    row: Built = {"path": path, "folder": folder, "name": queue_file_name(), "entries": 0}
    if path == CHECKPOINT:
        return row
    reader = local.open(f"{work}/{path}")
    output = staging.storage.create(staging.path(row["name"]), digest=True)
    length = reader.state.size
    batch = is_batch(folder)
    for number, raw in enumerate(
        _chunks(reader, length, _CHUNK_ENTRIES * layout_of(batch).itemsize)
    ):
        output.write(raw)
        if folder != INDEX:
            entries = decode_entries(raw, batch)
            used = is_message(entries) & ~is_pre_blank(entries)
            row["entries"] += int(np.count_nonzero(used))
        elif number == 0:
            row["entries"] = decode_header(raw).entries
    written = output.finish(length)
    reader.close()
    return {**row, "length": written.length, "sha256": written.sha256}


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
