"""What expires of a store: who still needs the messages, the archive of files before they are
deleted, and the deletion.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np

from reput.broker.change.expire import (
    AgedSegment,
    FileToDelete,
    delete,
    delete_reason,
    expired_segments,
    files_below,
)
from reput.jobs.opening.held import HeldStore, refuse_links
from reput.jobs.opening.plan import Plan, check_unchanged, make_plan
from reput.jobs.opening.questions import Store, open_store
from reput.jobs.outputs.output import refuse_overlap
from reput.jobs.outputs.report import counted
from reput.store_format.derived.queues import Queue
from reput.store_format.discover.config import consumer_offsets
from reput.store_format.discover.purpose import EXPIRE
from reput.store_format.discover.store import Discovered, StoreAt, discover
from reput.store_format.faults import StoreChanged, StoreError
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.folder import Place
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.manifest_last import ManifestLast
from reput.store_format.files.protocol import Bytes, Files, Storage
from reput.store_format.log.segments import commit_log_folders
from reput.store_format.log.there import derived_files, said_of_strangers
from reput.store_format.names import (
    ABORT,
    COMMIT_LOG,
    CONFIG,
    CONSUME_QUEUE,
    POP_RETRY_SIGNS,
    RETRY_PREFIX,
    segment_name,
)
from reput.store_format.notes import Done, Notes, Progress
from reput.store_format.query.by_queue import refuse_cut
from reput.store_format.query.log_scan import log_gaps
from reput.store_format.query.pop_leftovers import InFlightRow, in_flight
from reput.store_format.query.reader import OpenedStore
from reput.store_format.release.settings import ExpirySettings, parse_settings

# ---
# The messages of a log that consumer groups, delays or transactions still need.
#
# A broker deletes such messages without a warning when their segments expire.

_OPEN_DELAYS = ("waiting", "late", "delivered, will be again")
_OPEN_TRANSACTIONS = ("pending", "abandoned")


class Needed(NamedTuple):
    """A record that somebody needs. offset: physical; who: text that names the reader."""

    offset: int
    who: str


class Even(NamedTuple):
    """What may be deleted although it is needed."""

    unread: bool = False
    delayed: bool = False
    pending: bool = False
    groups: frozenset[str] = frozenset()  # consumer groups that no longer count


def needed(
    at: StoreAt,
    release: str,
    even: Even,
    progress: Progress,
    note: Callable[[str], None],
) -> list[Needed]:
    """The first needed record of each reader, in ascending physical offset.

    The log is read once for delays and transactions.
    Raises StoreError if config/ cannot be read, as it is then unknown what is unread.
    """
    found: list[Needed] = []
    if not even.unread:
        notes = Notes()
        opened = OpenedStore(at.folder, release, at.settings, notes)
        with opened:
            found += _unread(opened, even.groups, notes)
        if notes.lines:
            raise StoreError(f"{notes.lines[0]}: what is unread is not known; --even-unread")
    with open_store(
        at.path,
        rocketmq=release,
        settings=at.settings,
        storage=at.storage,
        progress=progress,
        tell=note,
    ) as asked:
        found += _waiting(asked, even)
    return sorted(found)


def _unread(opened: OpenedStore, ignored: frozenset[str], notes: Notes) -> Iterator[Needed]:
    """The first message of each group in each queue that it has not read, or that it popped and
    nobody acknowledged.

    If a group reads a topic, a queue of it without an offset counts as unread. Raises BadQueue.
    """
    offsets = consumer_offsets(opened.folder, notes)
    asked = {pair: read for pair, read in offsets.items() if pair[0] not in ignored}
    for group, topic in list(asked):  # each group also reads its own retry topics
        for own in (group, *(f"{group}{sign}{topic}" for sign in POP_RETRY_SIGNS)):
            asked.setdefault((group, f"{RETRY_PREFIX}{own}"), {})
    for (group, topic), read in sorted(asked.items()):
        queues = opened.queues.of(topic)
        for queue_id, batch in queues:
            queue, offset = opened.queue(topic, queue_id, batch), read.get(queue_id, 0)
            refuse_cut(opened, queue)
            first = _first_there(queue, offset, opened.log.start)
            if first is not None:
                yield Needed(
                    first, f"group {group!r} has read topic {topic!r}, queue {queue_id}, up to "
                    f"{offset:,} ({CONFIG}/consumerOffset.json)",
                )  # fmt: skip
    lacking = list(_not_in_queues(opened))
    # Messages of check points stand before these in the log: each must be known, if need be of it.
    yield from _popped(opened, ignored, in_flight(opened, bool(lacking), notes))
    if asked:
        yield from lacking


def _popped(
    opened: OpenedStore, ignored: frozenset[str], rows: Iterable[InFlightRow]
) -> Iterator[Needed]:
    """The first live message of each queue that a group has in flight: it is to come again."""
    told = set()
    for row in rows:
        group, topic, queue_id, offset = row[:4]
        for number, batch in opened.queues.of(topic):
            if number != queue_id or group in ignored or row[:3] in told:
                continue
            for entry in opened.queue(topic, number, batch).entries(offset, offset + 1):
                if entry.physical_offset >= opened.log.start:
                    told.add(row[:3])
                    yield Needed(
                        entry.physical_offset, f"group {group!r} has popped, and not acknowledged, "
                        f"queueOffset {offset:,} of topic {topic!r}, queue {queue_id}",
                    )  # fmt: skip


def _first_there(queue: Queue, position: int, log_start: int) -> int | None:
    """The physical offset of the first live message at or after a position of a queue."""
    for entries in queue.arrays(max(position, 0)):
        live = np.flatnonzero(entries["physicalOffset"] >= log_start)
        if len(live):
            return int(entries[live[0]]["physicalOffset"])
    return None


def _not_in_queues(opened: OpenedStore) -> Iterator[Needed]:
    """The first message that queues lack, of which it is not known whether a group has read it."""
    queues = [
        opened.queue(topic, queue_id, batch)
        for topic in opened.queues.topics() for queue_id, batch in opened.queues.of(topic)
    ]  # fmt: skip
    notes = Notes()
    lacking = log_gaps(opened, queues, notes)
    first = next((each.physical_offset for each in lacking.messages(opened, notes)), None)
    if first is None and notes.lines:  # behind damage there may be one
        first = lacking.gaps[0][0]
    if first is not None:
        yield Needed(first, "the queues do not have all of the log, and nothing tells whether "
                     "what they lack was read (reput verify, catch-up)")  # fmt: skip


def _waiting(asked: Store, even: Even) -> Iterator[Needed]:
    if not even.delayed:
        rows = [row for row in asked.delayed() if row.state in _OPEN_DELAYS]
        if rows:
            first = min(row.physical_offset for row in rows)
            yield Needed(first, f"{counted(len(rows), 'delayed message')} not delivered yet")
    if not even.pending:
        halves = [row for row in asked.transactions() if row.state in _OPEN_TRANSACTIONS]
        if halves:
            first = min(row.last_physical_offset for row in halves)
            yield Needed(first, f"{counted(len(halves), 'half message')} not decided yet")


# ---
# Copies of files before they are deleted, in a folder or at a URL, each compared with its file.

_CHUNK = 4 << 20
_PART = ".part"


@dataclass(frozen=True)
class Archive:
    """Where copies are kept. A copy has its file's path below the store, here below `folder`."""

    storage: Storage
    folder: str
    inputs: tuple[Place, ...]  # the stores whose files are copied

    def check(self, paths: Iterable[str] = ()) -> None:
        """Raise OverlapsInput if copies would lie among the files of the inputs.

        paths: files to be copied. Their folders below the archive are checked too: a link there
        may lead back into the store, so that a file would be taken for its own copy.
        """
        folders = dict.fromkeys(path.rpartition("/")[0] for path in paths)
        for folder in (self.folder, *(f"{self.folder}/{each}" for each in folders)):
            refuse_overlap(Place(self.storage, folder), self.inputs)

    def keep(self, files: Files, path: str, done: Callable[[int], None]) -> str:
        """Copy a file, read the copy back and compare; its SHA-256. An existing copy stays.

        done: called with the number of bytes of each copied piece. Raises StoreError if another
        file has the copy's name, StoreChanged if the copy differs from what was written.
        """
        target = f"{self.folder}/{path}"
        wanted = _digest(_pieces_of(files, path))
        there = self._digest(target)
        if there is None:
            self._copy(files, path, target, done)
            there = self._digest(target)
            if there != wanted:
                raise StoreChanged(f"{target}: reads otherwise than {path}, of which it is a copy")
        elif there != wanted:
            raise StoreError(f"{target}: is there already, and is no copy of {path}; it stays")
        return wanted

    def _copy(self, files: Files, path: str, target: str, done: Callable[[int], None]) -> None:
        storage = self.storage
        storage.make_folders(target.rpartition("/")[0])
        # a ManifestLast storage shows a file only when it is whole, or cannot rename it
        part = target if isinstance(storage, ManifestLast) else target + _PART
        if part != target:
            storage.remove(part)
        output, length = storage.create(part, digest=True), 0
        try:
            for piece in _pieces_of(files, path):
                output.write(piece)
                length += len(piece)
                done(len(piece))
            output.finish(length)
        except BaseException:
            output.abandon()
            raise
        if part != target:
            storage.move_all([(part, target)])

    def _digest(self, path: str) -> str | None:
        try:
            reader = self.storage.open(path)
            length = reader.state.size
        except FileNotFoundError:
            return None
        try:
            return _digest(_pieces(reader.read_into, length))
        finally:
            reader.close()


def _pieces_of(files: Files, path: str) -> Iterator[Bytes]:
    with closing(files.open_read(path)) as file:
        yield from _pieces(file.read_at, file.length())


def _pieces(read: Callable[[int, Bytes], None], length: int) -> Iterator[Bytes]:
    for at in range(0, length, _CHUNK):
        buffer = np.empty(min(_CHUNK, length - at), np.uint8)
        read(at, buffer)
        yield buffer


def _digest(pieces: Iterable[Bytes]) -> str:
    found = hashlib.sha256()
    for piece in pieces:
        found.update(piece)
    return found.hexdigest()


# ---
# Finds the files of a store that have expired and that nobody needs, and deletes them.

_MILLION = 1_000_000
_SHOWN = 20


@dataclass
class Expired:
    """What expires of a store, or was deleted. Lengths in bytes, offsets physical."""

    store: str
    rocketmq: str
    occasion: str  # why a broker would delete now; '' if it would not
    log_start: int  # offset after the deletion
    segments: list[FileToDelete] = field(default_factory=list)
    files: list[FileToDelete] = field(default_factory=list)  # files of queues and index
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
    refuse_links(held.path)
    if held.crashed:
        raise StoreError(
            f"{held.path}/{ABORT}: the store was not stopped cleanly; use `reput recover` first"
        )
    discovered = discovered or discover(at, EXPIRE)
    # a broker's compaction removes the expired entries of a RocksDB
    plan = make_plan(at, discovered, EXPIRE)
    held.spread(discovered.log_folders, plan.settings.mapped_file_size_commit_log)
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
    paths = [each.path for each in (*about.segments, *about.files)]
    if archive is not None:
        archive.check(paths)
    if not about.needed or held.dry_run:
        return about
    confirm(f"delete {len(paths):,} files of {held.path}, {about.bytes:,} bytes, for ever")
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
    delete(held.files, paths)
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
    logs = commit_log_folders(
        held.path, replace(plan.settings, read_only_commit_log_store_paths="")
    )
    queues = f"{held.path}/{CONSUME_QUEUE}"
    at = delete_reason(
        settings, plan.profile, datetime.fromtimestamp(when.now / 1000).hour,
        (min(map(when.used, logs)), when.used(queues if os.path.isdir(queues) else held.path)),
        when.any_hour,
    )  # fmt: skip
    about = Expired(held.path, plan.profile.release, at.why, segments[0].start)
    about.warnings = [*plan.notes, *plan.warnings]
    expired = expired_segments(segments, settings, when.now, at)
    if expired:
        _choose(about, held, plan, even, segments, expired, progress)
    among = derived_files(held.folder).strangers
    about.warnings += said_of_strangers(among, plan.profile)
    about.files = list(files_below(held.files, plan.settings, about.log_start))
    return about


def _choose(
    about: Expired, held: HeldStore, plan: Plan, even: Even, segments: list[AgedSegment],
    expired: list[FileToDelete], progress: Progress,
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
