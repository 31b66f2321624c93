"""Finds the files of a store that have expired and that nobody needs, and deletes them."""

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from reput.broker.change.expire import (
    AgedSegment,
    Going,
    delete,
    expired_segments,
    files_below,
    occasion,
)
from reput.broker.change.install import check_no_links
from reput.jobs.in_place.archive import Archive
from reput.jobs.in_place.needed_messages import Even, Needed, needed
from reput.jobs.opening.held import HeldStore, refuse_log_elsewhere
from reput.jobs.opening.plan import Plan, check_unchanged, make_plan
from reput.jobs.outputs.report import counted
from reput.store_format.discover.store import Discovered, StoreAt, discover
from reput.store_format.faults import StoreChanged, StoreError
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.local import LocalStorage
from reput.store_format.names import ABORT, COMMIT_LOG, CONSUME_QUEUE, segment_name
from reput.store_format.notes import Done, Progress
from reput.store_format.release.settings import ExpirySettings, parse_settings

_MILLION = 1_000_000
_SHOWN = 20


@dataclass
class Expired:
    """What expires of a store, or was deleted. Lengths in bytes, offsets physical."""

    store: str
    rocketmq: str
    occasion: str  # why a broker would delete now; '' if it would not
    log_start: int  # offset after the deletion
    segments: list[Going] = field(default_factory=list)
    files: list[Going] = field(default_factory=list)  # files of queues and index
    kept: list[Needed] = field(default_factory=list)  # who needs an expired segment
    kept_segments: int = 0  # number of segments that have expired but are needed
    archive: str = ""
    done: bool = False
    warnings: list[str] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        return sum(each.length for each in (*self.segments, *self.files))

    @property
    def needed(self) -> bool:
        """Whether there is anything to delete."""
        return bool(self.segments or self.files)

    def as_json(self) -> dict[str, Any]:
        whole = asdict(self) | {"bytes": self.bytes, "needed": self.needed}
        for name in ("segments", "files", "kept"):
            whole[name] = [each._asdict() for each in getattr(self, name)]
        return whole

    def text(self) -> str:
        verb = "deleted" if self.done else "would delete"
        lines = [
            f"{verb} {counted(len(self.segments), 'segment')} and "
            f"{counted(len(self.files), 'queue or index file')} of {self.store}: "
            f"{self.bytes:,} bytes"
            if self.needed
            else f"nothing to delete in {self.store}",
            f"  occasion  {self.occasion or 'none: not the hour of deleteWhen, the disk has room'}",
            f"  log       begins at {self.log_start:,}",
        ]
        for each in (*self.segments, *self.files)[:_SHOWN]:
            lines.append(f"  goes      {each.path}: {each.length:,} bytes; {each.why}")
        more = len(self.segments) + len(self.files) - _SHOWN
        lines += [f"  goes      ... and {counted(more, 'more file')}"] if more > 0 else []
        if self.kept:
            many = counted(self.kept_segments, "expired segment")
            lines.append(f"  kept      {many}, which somebody needs:")
            lines += [
                f"            {each.who}, from {each.offset:,} on" for each in self.kept[:_SHOWN]
            ]
        if self.archive and self.done:
            lines.append(f"  archived  in {self.archive}, each copy read back and compared")
        lines += [f"  warning   {line}" for line in self.warnings]
        return "\n".join(lines)


def disk_used(path: str) -> float:
    """The used share of a path's disk, as in UtilAll.getDiskPartitionSpaceUsedPercent."""
    return DiskFiles(path).used_share()


def plan_expiry(
    held: HeldStore, at: StoreAt, discovered: Discovered | None = None
) -> tuple[Plan, ExpirySettings]:
    """The plan of a held store, and the settings by which its segments expire.

    at: the store with the user's release and settings; discovered: if known already.
    Raises StoreError if files of the store must not be deleted, SettingError, UnknownRelease.
    """
    check_no_links(held.files, "")
    if held.crashed:
        raise StoreError(
            f"{held.path}/{ABORT}: the store was not stopped cleanly; use `reput recover` first"
        )
    discovered = discovered or discover(at)
    discovered.refuse_contradicted()
    # a broker's compaction removes the expired entries of a RocksDB
    plan = make_plan(at, discovered, even_rocksdb=True)
    refuse_log_elsewhere(plan.store, plan.segments, "expire")
    return plan, parse_settings(ExpirySettings, discovered.settings, release=discovered.release)


class When(NamedTuple):
    """The time and disk use by which a store expires."""

    any_hour: bool  # whether to expire at other hours than deleteWhen too
    now: int  # milliseconds since 1970
    used: Callable[[str], float]  # path -> the used share of its disk


def expire_store(
    held: HeldStore, planned: tuple[Plan, ExpirySettings], even: Even, archive: Archive | None,
    when: When, progress: Progress, confirm: Callable[[str], None],
) -> Expired:  # fmt: skip
    """Delete the expired files of a held store.

    Raises StoreError, OSError; StoreChanged if more is needed than when the user was asked.
    """
    plan = planned[0]
    about = _expired(held, planned, even, when, progress)
    going = [each.path for each in (*about.segments, *about.files)]
    if archive is not None:
        archive.check(going)
    if not about.needed or held.dry_run:
        return about
    confirm(f"delete {len(going):,} files of {held.path}, {about.bytes:,} bytes, for ever")
    if archive is not None:
        _archive(about, held, archive, progress)
    if held.lock_at_last():  # a broker may have run meanwhile
        check_unchanged(plan)
        again = _expired(held, planned, even, when, progress)
        if (again.segments, again.files) != (about.segments, about.files):
            raise StoreChanged(
                f"{held.path}: changed after this was looked at; nothing is deleted: run it again"
            )
    held.changed = True
    delete(held.files, going)
    about.done = True
    return about


def _expired(
    held: HeldStore, planned: tuple[Plan, ExpirySettings], even: Even, when: When,
    progress: Progress,
) -> Expired:  # fmt: skip
    """What expires of a store now."""
    plan, settings = planned
    segments = [
        AgedSegment(
            f"{COMMIT_LOG}/{segment_name(s.start)}", s.start, s.state.size,
            s.state.mtime // _MILLION,
        )
        for s in plan.segments
    ]  # fmt: skip
    log = f"{held.path}/{COMMIT_LOG}"
    queues = f"{held.path}/{CONSUME_QUEUE}"
    at = occasion(
        settings, plan.profile, datetime.fromtimestamp(when.now / 1000).hour,
        (when.used(log), when.used(queues if os.path.isdir(queues) else held.path)), when.any_hour,
    )  # fmt: skip
    about = Expired(held.path, plan.profile.release, at.why, segments[0].start)
    about.warnings = [*plan.notes, *plan.warnings]
    expired = expired_segments(segments, settings, when.now, at)
    if expired:
        _choose(about, held, plan, even, segments, expired, progress)
    about.files = list(files_below(held.files, plan.settings, about.log_start))
    return about


def _choose(
    about: Expired, held: HeldStore, plan: Plan, even: Even, segments: list[AgedSegment],
    expired: list[Going], progress: Progress,
) -> None:  # fmt: skip
    """Choose the segments to delete: the expired ones before the first that somebody needs."""
    end = segments[len(expired) - 1].end
    wanted = needed(
        held.at(plan.profile.release, plan.discovered.settings), plan.profile.release, even,
        progress, lambda note: about.warnings.append(note),
    )  # fmt: skip
    about.kept = [each for each in wanted if each.offset < end]
    first = min((each.offset for each in about.kept), default=end)
    about.segments = [
        each for each, segment in zip(expired, segments, strict=False) if segment.end <= first
    ]
    about.kept_segments = len(expired) - len(about.segments)
    about.log_start = segments[len(about.segments)].start


def _archive(about: Expired, held: HeldStore, archive: Archive, progress: Progress) -> None:
    copied = 0

    def count(more: int) -> None:
        nonlocal copied
        copied += more

    def done() -> Done:
        return Done(min(copied / max(about.bytes, 1), 1.0), f"{copied:,} of {about.bytes:,} bytes")

    with progress.stage("archived", done):
        for each in (*about.segments, *about.files):
            archive.keep(held.files, each.path, count)
        if isinstance(archive.storage, LocalStorage):
            DiskFiles(archive.folder).sync_all("")  # the names of the copies too
    about.archive = archive.folder
