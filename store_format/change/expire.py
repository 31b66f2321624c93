"""What a broker deletes in time, by its rules, and the steps in which it goes.

Segments: CleanCommitLogService and MappedFileQueue.deleteExpiredFileByTime; then queue and index
files whose messages are all gone: CleanConsumeQueueService, deleteExpiredFileByOffset,
IndexService.deleteExpiredFile. Files go one by one, the oldest first, so that what a kill leaves is
a store that a broker may leave too.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from reput.store_format.derived.consume_queue import entry_bytes
from reput.store_format.disk.files import Files
from reput.store_format.layouts import INDEX_HEADER, INDEX_HEADER_BYTES, QUEUE_AT
from reput.store_format.names import BATCH_CONSUME_QUEUE, CONSUME_QUEUE, INDEX, is_queue_folder
from reput.store_format.release.expiry_settings import ExpirySettings

_HOUR_MS = 3_600_000


class AgedSegment(NamedTuple):
    """One segment's file: its path below the store, its place and length in bytes, its age."""

    path: str
    start: int
    length: int
    modified: int  # milliseconds: when it was last written to

    @property
    def end(self) -> int:
        return self.start + self.length


class Occasion(NamedTuple):
    """Why a broker deletes now, if it does (isTimeToDelete, isSpaceToDelete)."""

    why: str  # '' where it does not
    of_any_age: bool  # segments go that are not expired too


class Going(NamedTuple):
    """A file that goes: its path below the store, its length in bytes, and why."""

    path: str
    length: int
    why: str


def occasion(
    settings: ExpirySettings, hour: int, log_used: float, queues_used: float, manual: bool
) -> Occasion:
    """Whether a broker would delete now.

    hour: of the day, local. log_used, queues_used: which share (0 to 1) of their disks is used.
    manual: as `mqadmin deleteExpiredCommitLog` asks, at any hour.
    """
    forced = settings.disk_space_clean_forcibly_ratio / 100
    for used in (log_used, queues_used):
        if used > forced:
            at_once = settings.clean_file_forcibly_enable
            return Occasion(
                f"{used:.0%} of the disk is used, more than {forced:.0%} "
                f"(diskSpaceCleanForciblyRatio)", at_once,
            )  # fmt: skip
    for used in (log_used, queues_used):
        if used > settings.used_most / 100:
            return Occasion(
                f"{used:.0%} of the disk is used, more than {settings.used_most}% "
                f"(diskMaxUsedSpaceRatio)", False,
            )  # fmt: skip
    if hour in settings.hours:
        return Occasion(f"it is {hour:02}h (deleteWhen={settings.delete_when})", False)
    return Occasion("asked for at any hour" if manual else "", False)


def expired_segments(
    segments: Sequence[AgedSegment], settings: ExpirySettings, now: int, at: Occasion
) -> list[Going]:
    """The segments that go in one run: never the last, and none behind one that stays.

    now: milliseconds.
    """
    if not at.why:
        return []
    going: list[Going] = []
    for segment in segments[:-1]:
        hours = (now - segment.modified) / _HOUR_MS
        expired = now >= segment.modified + settings.file_reserved_time * _HOUR_MS
        if len(going) == settings.delete_file_batch_max or not (expired or at.of_any_age):
            break
        why = (
            f"unchanged for {hours:,.0f} h (fileReservedTime={settings.file_reserved_time}); "
            if expired
            else ""
        )
        going.append(Going(segment.path, segment.length, why + at.why))
    return going


def files_below(files: Files, log_start: int) -> Iterator[Going]:
    """Queue and index files of which no message is left in a log that starts at `log_start`."""
    for folder, batch in ((CONSUME_QUEUE, False), (BATCH_CONSUME_QUEUE, True)):
        for topic in files.names(folder):
            if files.is_folder(f"{folder}/{topic}"):
                for queue_id in files.names(f"{folder}/{topic}"):
                    if is_queue_folder(queue_id):
                        yield from _of_queue(
                            files, f"{folder}/{topic}/{queue_id}", batch, log_start
                        )
    yield from _of_index(files, log_start)


def _of_queue(files: Files, folder: str, batch: bool, log_start: int) -> Iterator[Going]:
    """The files of a queue but the last, up to the first whose last entry is still in the log."""
    for name in files.names(folder)[:-1]:
        path = f"{folder}/{name}"
        length, last = _last_place(files, path, batch)
        if last is None or last >= log_start:
            return
        yield Going(path, length, f"its last message, at {last:,}, is gone")


def _last_place(files: Files, path: str, batch: bool) -> tuple[int, int | None]:
    """A file's length, and the physicalOffset that stands in its last entry."""
    file = files.open_read(path)
    try:
        length, size = file.length(), entry_bytes(batch)
        if length < size:
            return length, None
        raw = np.empty(size, np.uint8)
        file.read_at(length - size, raw)
    finally:
        file.close()
    at = QUEUE_AT.physicalOffset  # a batch entry begins the same
    return length, int(raw[at : at + 8].view(">i8")[0])


def _of_index(files: Files, log_start: int) -> Iterator[Going]:
    for name in files.names(INDEX)[:-1]:
        path = f"{INDEX}/{name}"
        file = files.open_read(path)
        try:
            length = file.length()
            if length < INDEX_HEADER_BYTES:
                return
            raw = np.empty(INDEX_HEADER_BYTES, np.uint8)
            file.read_at(0, raw)
        finally:
            file.close()
        end = int(raw.view(INDEX_HEADER)[0]["endPhyOffset"])
        if end >= log_start:
            return
        yield Going(path, length, f"its last message, at {end:,}, is gone")


def delete(files: Files, going: Iterable[str]) -> None:
    """Remove files one by one, in this order, durably. Raises OSError: run again."""
    folder = None
    for path in going:
        if folder not in (None, path.rpartition("/")[0]):
            files.sync_folder(folder)
        files.remove(path)
        folder = path.rpartition("/")[0]
    if folder is not None:
        files.sync_folder(folder)
