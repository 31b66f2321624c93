"""What expires of a store: who still needs it, what of it a backup has, and the deletion."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, tzinfo
from typing import Any, NamedTuple

import numpy as np

from reput.broker.change import expire
from reput.jobs.opening.held import HeldStore, refuse_links
from reput.jobs.opening.plan import Plan, check_unchanged, make_plan
from reput.jobs.opening.questions import Store, open_store
from reput.jobs.outputs.report import counted
from reput.store_format import names
from reput.store_format.derived.queues import Queue
from reput.store_format.discover.config import consumer_offsets
from reput.store_format.discover.purpose import EXPIRE
from reput.store_format.discover.store import Discovered, StoreAt, discover
from reput.store_format.faults import StoreChanged, StoreError
from reput.store_format.files.by_url import storage_for
from reput.store_format.files.catalogue import Catalogue, catalogues
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.frames import decode_all
from reput.store_format.files.protocol import Bytes
from reput.store_format.files.runs import Piece
from reput.store_format.log.segments import commit_log_folders
from reput.store_format.log.there import derived_files, said_of_strangers
from reput.store_format.notes import Notes, Progress
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
    at: StoreAt, release: str, even: Even, progress: Progress, note: Callable[[str], None]
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
        tell=lambda said: None if said.endswith("without --all") else note(said),
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
        for own in (group, *(f"{group}{sign}{topic}" for sign in names.POP_RETRY_SIGNS)):
            asked.setdefault((group, f"{names.RETRY_PREFIX}{own}"), {})
    for (group, topic), read in sorted(asked.items()):
        queues = opened.queues.of(topic)
        for queue_id, batch in queues:
            queue, offset = opened.queue(topic, queue_id, batch), read.get(queue_id, 0)
            refuse_cut(opened, queue)
            first = _first_there(queue, offset, opened.log.start)
            if first is not None:
                yield Needed(
                    first, f"group {group!r} has read topic {topic!r}, queue {queue_id}, up to "
                    f"{offset:,} ({names.CONFIG}/consumerOffset.json)",
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
# How far a log is in a backup repository, where a check has found it whole.

_CHUNK = 4 << 20


def beyond_backups(plan: Plan, repository: str, end: int) -> Needed:
    """The first record that no checked backup has.

    A piece counts where a check found it whole, and where it has the log's own bytes. end: where
    what matters ends. Raises StoreError for what is no repository, OSError.
    """
    stores = catalogues(storage_for(repository), repository)
    upto = max((_same_up_to(plan, each, end) for each in stores), default=plan.segments[0].start)
    return Needed(upto, f"{repository} does not have what follows, or no check found it whole "
                  "(reput backup, reput check)")  # fmt: skip


def _same_up_to(plan: Plan, catalogue: Catalogue, end: int) -> int:
    run, at = catalogue.newest(), plan.segments[0].start
    checked = {name: sha for each in catalogue.checks() for name, sha in each.pieces.items()}
    for piece, used in catalogue.chain(run) if run else []:
        stop = piece.offset + used
        if stop <= at:
            continue
        good = piece.offset <= at < end and checked.get(piece.name) == piece.sha256
        if not good or not _is_same(plan, catalogue, piece, at, stop):
            break
        at = stop
    return at


def _is_same(plan: Plan, catalogue: Catalogue, piece: Piece, at: int, stop: int) -> bool:
    """Whether the log's bytes from `at` to `stop` are those of a piece."""
    there = hashlib.sha256()
    for data in _log_bytes(plan, at, stop):
        there.update(data)
    if (at, stop) == (piece.offset, piece.end):
        return there.hexdigest() == piece.sha256
    raw = catalogue.storage.read_bytes(catalogue.piece_path(piece))
    kept = decode_all(raw, piece.length)[at - piece.offset : stop - piece.offset]
    return there.digest() == hashlib.sha256(kept).digest()


def _log_bytes(plan: Plan, at: int, stop: int) -> Iterator[Bytes]:
    for segment in plan.segments:
        end = min(stop, segment.end)
        if at >= end or at < segment.start:
            continue
        with closing(plan.storage.open(segment.path, segment.state)) as reader:
            while at < end:
                data = np.empty(min(_CHUNK, end - at), np.uint8)
                reader.read_into(at - segment.start, data)
                yield data
                at += len(data)


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
    segments: list[expire.FileToDelete] = field(default_factory=list)
    files: list[expire.FileToDelete] = field(default_factory=list)  # files of queues and index
    kept: list[Needed] = field(default_factory=list)  # who needs an expired segment
    kept_segments: int = 0  # number of segments that have expired but are needed
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
        raise StoreError(f"{held.path}: was not stopped cleanly; use `reput recover` first")
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
    zone: tzinfo | None = None  # of the hour of deleteWhen; None: this process's


def expire_store(
    held: HeldStore, planned: tuple[Plan, ExpirySettings], even: Even, backed_up: str | None,
    when: When, progress: Progress, confirm: Callable[[str], None],
) -> Expired:  # fmt: skip
    """Delete the expired files of a held store. backed_up: of the log only what this backup
    repository has, as a check found it whole.

    Raises StoreError, OSError; StoreChanged if more is needed than when the user was asked.
    """
    plan = planned[0]
    about = _expired(held, planned, even, backed_up, when, progress)
    paths = [each.path for each in (*about.segments, *about.files)]
    if not about.needed or held.dry_run:
        return about
    confirm(f"delete {len(paths):,} files of {held.path}, {about.bytes:,} bytes, for ever")
    if held.lock_at_last():  # a broker may have run meanwhile
        check_unchanged(plan)
        again = _expired(held, planned, even, backed_up, when, progress)
        if (again.segments, again.files) != (about.segments, about.files):
            raise StoreChanged(f"{held.path}: changed since; nothing is deleted: run it again")
    held.changed = True
    expire.delete(held.files, paths)
    about.done = True
    return about


def _expired(
    held: HeldStore, planned: tuple[Plan, ExpirySettings], even: Even, backed_up: str | None,
    when: When, progress: Progress,
) -> Expired:  # fmt: skip
    plan, settings = planned
    segments = [
        expire.AgedSegment(
            f"{names.COMMIT_LOG}/{names.segment_name(s.start)}", s.start, s.state.size,
            s.state.mtime // _MILLION,
        )
        for s in plan.segments
    ]  # fmt: skip
    logs = commit_log_folders(
        held.path, replace(plan.settings, read_only_commit_log_store_paths="")
    )
    queues = f"{held.path}/{names.CONSUME_QUEUE}"
    at = expire.delete_reason(
        settings, plan.profile, datetime.fromtimestamp(when.now / 1000, when.zone).hour,
        (min(map(when.used, logs)), when.used(queues if os.path.isdir(queues) else held.path)),
        when.any_hour,
    )  # fmt: skip
    about = Expired(held.path, plan.profile.release, at.why, segments[0].start)
    about.warnings = [*plan.notes, *plan.warnings]
    expired = expire.expired_segments(segments, settings, when.now, at)
    if expired:
        end = segments[len(expired) - 1].end
        lacking = [] if backed_up is None else [beyond_backups(plan, backed_up, end)]
        _choose(about, held, plan, even, segments, expired, lacking, progress)
    among = derived_files(held.folder).strangers
    about.warnings += said_of_strangers(among, plan.profile)
    about.files = list(expire.files_below(held.files, plan.settings, about.log_start))
    return about


def _choose(
    about: Expired, held: HeldStore, plan: Plan, even: Even, segments: list[expire.AgedSegment],
    expired: list[expire.FileToDelete], lacking: list[Needed], progress: Progress,
) -> None:  # fmt: skip
    """Choose the segments to delete: the expired ones before the first that somebody needs, or that
    is `lacking` in a repository.
    """
    end = segments[len(expired) - 1].end
    wanted = needed(
        held.at(plan.profile.release, plan.discovered.settings), plan.profile.release, even,
        progress, lambda note: about.warnings.append(note),
    )  # fmt: skip
    about.kept = sorted(each for each in (*wanted, *lacking) if each.offset < end)
    first = min((each.offset for each in about.kept), default=end)
    about.segments = [
        each for each, segment in zip(expired, segments, strict=False) if segment.end <= first
    ]
    about.kept_segments = len(expired) - len(about.segments)
    about.log_start = segments[len(about.segments)].start
