"""Which expired files a broker deletes, and the steps in which they are deleted; and the steps by
which `recover` changes a store.

First segments: CleanCommitLogService and MappedFileQueue.deleteExpiredFileByTime. Then queue and
index files without a message left: CleanConsumeQueueService, deleteExpiredFileByOffset,
IndexService.deleteExpiredFile. Files are deleted one by one, the oldest first: so a kill leaves a
store as a killed broker may leave it too.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import NamedTuple

import numpy as np

from reput.broker.writer.recovery import LogEnd, LogRecovery
from reput.store_format.derived.index_header import header_in, in_log_order
from reput.store_format.derived.queue_files import entry_bytes, segment_bytes
from reput.store_format.faults import StoreError
from reput.store_format.files.protocol import Files, add_folders, replace_small, write_small
from reput.store_format.layouts import INDEX_HEADER_BYTES, QUEUE_AT
from reput.store_format.names import (
    ABORT,
    BATCH_CONSUME_QUEUE,
    CHECKPOINT,
    CONSUME_QUEUE,
    CUT,
    INDEX,
    QueuePath,
    index_files_among,
    queue_paths,
    segments_among,
)
from reput.store_format.release.profiles import Profile
from reput.store_format.release.settings import ExpirySettings, Settings

_HOUR_MS = 3_600_000


class AgedSegment(NamedTuple):
    """One segment's file: its path below the store, its physical offset, length (bytes), age."""

    path: str
    start: int
    length: int
    modified: int  # milliseconds: when it was last written to

    @property
    def end(self) -> int:
        return self.start + self.length


class DeleteReason(NamedTuple):
    """Why a broker deletes now, if it does (isTimeToDelete, isSpaceToDelete)."""

    why: str  # '' where it deletes nothing
    of_any_age: bool  # whether segments that are not expired are deleted too


class FileToDelete(NamedTuple):
    """A file to be deleted: its path below the store, its length in bytes, and why."""

    path: str
    length: int
    why: str


def delete_reason(
    settings: ExpirySettings, profile: Profile, hour: int, used: Sequence[float], manual: bool
) -> DeleteReason:
    """Whether a broker would delete now.

    hour: of the day, local. used: the used shares (0 to 1) of the log's disk and of the queues'.
    manual: delete at any hour, as `mqadmin deleteExpiredCommitLog` does.
    """

    def over(share: float, percent: int, name: str) -> str:
        return f"{share:.0%} of the disk is used, more than {percent}% ({name})"

    forced, name = settings.forced
    forcibly = settings.clean_file_forcibly_enable
    if profile.full_disk_deletes:
        for share in used:
            if share > forced / 100:
                return DeleteReason(over(share, forced, name), forcibly)
    full = ""  # why segments of any age go
    for share in used:
        if share > forced / 100:
            full = over(share, forced, name)
        if share > settings.used_most / 100:
            why = full or over(share, settings.used_most, "diskMaxUsedSpaceRatio")
            return DeleteReason(why, bool(full) and forcibly)
    why = "asked for at any hour" if manual else ""
    if hour in settings.hours:
        why = f"it is {hour:02}h (deleteWhen={settings.delete_when})"
    if why and full:
        why = f"{why}; {full}"
    return DeleteReason(why, bool(why and full) and forcibly)


def expired_segments(
    segments: Sequence[AgedSegment], settings: ExpirySettings, now: int, at: DeleteReason
) -> list[FileToDelete]:
    """The segments deleted in one run, never the last segment. now: milliseconds."""
    if not at.why:
        return []
    chosen: list[FileToDelete] = []
    for segment in segments[:-1]:
        hours = (now - segment.modified) / _HOUR_MS
        expired = now >= segment.modified + settings.file_reserved_time * _HOUR_MS
        if len(chosen) == settings.delete_file_batch_max or not (expired or at.of_any_age):
            break
        why = (
            f"unchanged for {hours:,.0f} h (fileReservedTime={settings.file_reserved_time}); "
            if expired
            else ""
        )
        chosen.append(FileToDelete(segment.path, segment.length, why + at.why))
    return chosen


def files_below(files: Files, settings: Settings, log_start: int) -> Iterator[FileToDelete]:
    """Queue and index files without a message in a log that starts at `log_start`.

    What has no name of theirs stays. Raises StoreError where a file's length is not that of the
    settings: its last entry cannot be found then.
    """
    for folder, batch, size in (
        (CONSUME_QUEUE, False, settings.mapped_file_size_consume_queue),
        (BATCH_CONSUME_QUEUE, True, settings.mapper_file_size_batch_consume_queue),
    ):
        for queue in queue_paths(folder, files.names, files.is_folder):
            yield from _of_queue(files, queue, batch, segment_bytes(size, batch), log_start)
    yield from _of_index(files, log_start)


def _of_queue(
    files: Files, queue: QueuePath, batch: bool, usual: int, log_start: int
) -> Iterator[FileToDelete]:
    """The files of a queue but the last, up to the first whose last entry is still in the log.

    usual: the files' length in bytes.
    """
    folder = str(queue)
    for name in segments_among(files.names(folder))[:-1]:
        path = f"{folder}/{name}"
        last = _last_place(files, path, batch, usual)
        if last >= log_start:
            return
        yield FileToDelete(path, usual, f"its last message, at {last:,}, is gone")


def _last_place(files: Files, path: str, batch: bool, usual: int) -> int:
    """The physicalOffset of a file's last entry. Raises StoreError."""
    with closing(files.open_read(path)) as file:
        if file.length() != usual:
            setting = "mapperFileSizeBatchConsumeQueue" if batch else "mappedFileSizeConsumeQueue"
            raise StoreError(f"{path}: has {file.length()} bytes, but {setting} makes it {usual}")
        raw = np.empty(entry_bytes(batch), np.uint8)
        file.read_at(usual - len(raw), raw)
    at = QUEUE_AT.physicalOffset  # the same in a batch entry
    return int(raw[at : at + 8].view(">i8")[0])


def _of_index(files: Files, log_start: int) -> Iterator[FileToDelete]:
    names = index_files_among(files.names(INDEX))
    found = {name: header_in(files, f"{INDEX}/{name}") for name in names}
    for name in in_log_order([(name, head) for name, (head, _) in found.items()])[:-1]:
        head, length = found[name]
        if length < INDEX_HEADER_BYTES or head.end_offset >= log_start:
            return
        why = f"its last message, at {head.end_offset:,}, is gone"
        yield FileToDelete(f"{INDEX}/{name}", length, why)


def delete(files: Files, paths: Iterable[str]) -> None:
    """Remove files one by one, in this order, durably. Raises OSError: run again.

    Of two removals in a folder a power cut may else keep the second alone: a hole in the log.
    """
    for path in paths:
        files.remove(path)
        files.sync_folder(path.rpartition("/")[0])


# ---
# The steps by which `recover` brings a store into the state of a clean stop.
#
# Each step can be repeated. The file `abort` is there from before the first change until after the
# last. A broker that finds `abort` recovers as after any crash, and so does the next `recover`.


class StagedFile(NamedTuple):
    """A finished derived file, and the name that it will get; both are paths in the store."""

    staged: str
    path: str


def apply(
    files: Files, log: LogRecovery, end: LogEnd, placed: Sequence[StagedFile],
    removed: Sequence[str], checkpoint: bytes, abort: bytes, settle: Callable[[], object],
) -> None:  # fmt: skip
    """Cut the log at `end`, put derived files in their places, and note a clean stop.

    What is cut is kept in the folder CUT. removed: old derived files without a new one.
    abort: content of the file `abort`, if it must be made. settle: brings what else follows the log
    to it, once the queues are there. Raises OSError: run again.
    """
    if not files.exists(ABORT):
        write_small(files, ABORT, abort)
        files.sync_folder("")
    log.cut(end, CUT)
    if placed:
        files.sync_all("")  # what the files hold is durable before they get their names
    for file in placed:
        add_folders(files, "", file.path.rpartition("/")[0])
        files.rename(file.staged, file.path)
    for path in removed:
        files.remove(path)
    if placed or removed:
        files.sync_all("")
    settle()
    replace_small(files, CHECKPOINT, checkpoint)
    files.sync_folder("")
    files.remove(ABORT)
    files.sync_folder("")
