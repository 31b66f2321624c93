"""The store that is or becomes a replica: whether it may, its log's end, notes; and the report."""

import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from reput.broker.change import replica
from reput.broker.change.catch_up import NOTE as CATCH_UP_NOTE
from reput.broker.change.catch_up import CatchUp, is_noted, read_note
from reput.broker.change.new_messages import New, Rules
from reput.broker.change.position import DispatchedLog, LogRest, Position, find_position
from reput.broker.writer.recovery import LogRecovery
from reput.jobs.console.voice import time_text
from reput.jobs.deriving.kept import expired_file, last_entries
from reput.jobs.deriving.timers import follow_services
from reput.jobs.in_place.catch_up import catch_up_in_place, clock_in
from reput.jobs.in_place.follow import consented, growing_plan
from reput.jobs.opening.held import (
    HeldStore,
    held_store,
    refuse_shared_segments,
    refuse_what_is_no_store,
)
from reput.jobs.opening.plan import index_zone
from reput.jobs.outputs.output import refuse_overlap
from reput.jobs.outputs.report import counted
from reput.jobs.replicating.config import put_offsets
from reput.store_format.derived.checkpoint import read_checkpoint
from reput.store_format.derived.queue_files import is_batch, segment_bytes
from reput.store_format.derived.queues import FileQueues
from reput.store_format.discover.config import Offsets, offsets_as_of
from reput.store_format.faults import Fault, StoreError
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.folder import Folder, Place
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.protocol import read_small, replace_small
from reput.store_format.log.reader import LogBytes, segment_files
from reput.store_format.log.records import RECORD_ROW
from reput.store_format.log.rules import Checks
from reput.store_format.log.walk import Read, Walk, most_rows
from reput.store_format.names import (
    ABORT,
    BATCH_CONSUME_QUEUE,
    COMMIT_LOG,
    CONFIG,
    CONSUME_QUEUE,
    DELAY_OFFSETS,
    INDEX,
    segment_name,
    segments_among,
)
from reput.store_format.notes import Done, Notes, Progress
from reput.store_format.query.reader import OpenedStore
from reput.store_format.state.timers import DELAYS_PATH

_DERIVED = (CONSUME_QUEUE, BATCH_CONSUME_QUEUE, INDEX)
_NOTES = {replica.NOTE, CATCH_UP_NOTE}
_WINDOW_BYTES = 1 << 20
_HEAD_BYTES = 4096  # compared at the log's start
_BODIES = Checks(body=True)


class ReplicaDiffers(StoreError):
    """The target's log is not a beginning of the source's log."""


@contextmanager
def held_target(
    path: str, inputs: tuple[Place, ...], like: os.stat_result | None
) -> Iterator[HeldStore]:
    """Make the folder, or open an existing replica, and hold its lock.

    inputs: the source's paths; like: gives mode and owner of a new folder. Raises OverlapsInput,
    StoreInUse, StoreError for a folder that is neither empty nor a store, OSError.
    """
    check_target(path, inputs)
    if not os.path.isdir(path):
        DiskFiles(path).make_folder("")
        if like is not None:
            os.chmod(path, stat.S_IMODE(like.st_mode))
            if os.geteuid() == 0:
                os.chown(path, like.st_uid, like.st_gid)
    with held_store(path, False) as held:
        held.lock_at_last()
        held.changed = True
        held.files.make_folder(COMMIT_LOG)  # first, as it marks a replica for the next run
        yield held


def check_target(path: str, inputs: tuple[Place, ...]) -> None:
    """Raise StoreError if no replica may be made or extended at a local path."""
    refuse_overlap(Place(LocalStorage(), path), inputs)
    if not os.path.lexists(path):
        return
    if os.path.islink(path) or not os.path.isdir(path):
        raise StoreError(f"{path}: is there, and is not a folder; a replica is a folder of its own")
    names = set(os.listdir(path))
    if names - {"lock", "lost+found"} and not names & {COMMIT_LOG, replica.NOTE}:
        raise StoreError(f"{path}: is not empty and holds no {COMMIT_LOG}; give another folder")
    for name in (COMMIT_LOG, CONFIG, *_DERIVED):
        _refuse_links(f"{path}/{name}")
    known = (COMMIT_LOG in names and os.listdir(f"{path}/{COMMIT_LOG}")) or names & _NOTES
    if not known and any(os.listdir(f"{path}/{name}") for name in names & {*_DERIVED}):
        raise StoreError(
            f"{path}: has queues or an index, and no log that they are of; they would go: give "
            f"another folder"
        )
    refuse_what_is_no_store(path)
    refuse_shared_segments(path)


def _refuse_links(folder: str) -> None:
    """Raise StoreError if a folder of the store, or a folder in it, is a link or no folder, as
    files behind it that are cut would be another store's.
    """
    if not os.path.lexists(folder):
        return
    found = [folder, *(f"{at}/{name}" for at, names, _ in os.walk(folder) for name in names)]
    for each in found:
        if os.path.islink(each) or not os.path.isdir(each):
            raise StoreError(f"{each}: is a link or no folder; a replica has its files in its own")


class ReplicaTarget:
    """A held store whose log grows by `log`, for one run of `reput replicate`."""

    def __init__(
        self, held: HeldStore, rules: Rules, settings: Mapping[str, str], source: str
    ) -> None:
        """rules, settings: of the source; source: its name, for the note. Raises StoreError."""
        self.held, self.files, self.rules, self.source = held, held.files, rules, source
        self.name = held.path
        # without the source's paths
        self.settings = {n: v for n, v in settings.items() if "storepath" not in n.lower()}
        self.segment_bytes = rules.settings.mapped_file_size_commit_log
        self.standing = replica.read_standing(self.files)
        self.config = dict(self.standing.config) if self.standing else {}
        self.segments = self._segments()
        self.last = -1
        # its own by take_up or stand
        self.log = replica.ReplicaLog(self.files, self.segment_bytes, 0)
        self._refuse_another_crash()

    def _segments(self) -> list[int]:
        """The starts of the segments. Raises StoreError for wrong names or sizes, and holes."""
        found: list[int] = []
        for name in segments_among(self.files.names(COMMIT_LOG)):
            path, start = f"{COMMIT_LOG}/{name}", int(name)
            with closing(self.files.open_read(path)) as file:
                length = file.length()
            if start % self.segment_bytes or length > self.segment_bytes:
                raise ReplicaDiffers(
                    f"{self.held.path}/{path}: has {length} bytes; the source's segments have "
                    f"{self.segment_bytes}, and begin at multiples of that"
                )
            if found and start != found[-1] + self.segment_bytes:
                raise StoreError(f"{self.held.path}/{path}: a hole before it; segments are missing")
            found.append(start)
        return found

    def _refuse_another_crash(self) -> None:
        """Raise StoreError unless `abort` is that of a killed replication or catch-up."""
        if not self.held.crashed:
            return
        note = read_note(self.files)
        if note is None or not is_noted(read_checkpoint(self.files), note):
            raise StoreError(
                f"{self.held.path}/{ABORT}: the target was not stopped cleanly; use "
                f"`reput recover` first"
            )

    def close(self) -> None:
        """Let go of the log's files, whether the replication has come to its end or not."""
        self.log.close()

    # --- where it ends -----------------------------------------------------------------------

    def find_end(self) -> tuple[int, int, int] | None:
        """(offset from which records were read, their end, begin of the last record or -1).

        None if there is no record yet. Earlier records are durable by the note.
        """
        written = [start for start in self.segments if any(self._head(start))]
        if not written:
            return None
        begin, last = written[-1], -1
        known = self.standing
        if known is not None and self.segments[0] <= known.end <= written[-1] + self.segment_bytes:
            begin, last = known.end, known.last
        at = begin
        while at - at % self.segment_bytes in self.segments:
            at, last, fault = self._walk(at, last)
            if fault != Fault.BLANK:
                break
        return begin, at, last

    def _walk(self, at: int, last: int, stop: int = 1 << 62) -> tuple[int, int, Fault]:
        """Walk from a record to its segment's end, the first fault, or the record that holds
        `stop`: (the offset of that, begin of the last record before it, the fault).
        """
        end = at - at % self.segment_bytes + self.segment_bytes
        buffer = np.empty(min(_WINDOW_BYTES, self.segment_bytes), np.uint8)
        rows = np.zeros(most_rows(len(buffer)), RECORD_ROW)
        walk = Walk(self.read, end, self.rules.scan.records, _BODIES, buffer, rows)
        fault = Fault.BLANK
        for step in walk.steps(at, end):
            ends = step.rows["physicalOffset"] + step.rows["size"]
            good = int(np.searchsorted(ends, stop, "right"))
            if good:
                last = int(step.rows["physicalOffset"][good - 1])
            if good < len(step.rows):
                return int(step.rows["physicalOffset"][good]), last, Fault.NONE
            at, fault = step.next, step.fault
        if fault in (Fault.NONE, Fault.BLANK):
            return end, last, Fault.BLANK
        return at, last, fault

    def _head(self, start: int) -> bytes:
        head = np.zeros(8, np.uint8)
        self.read(start, head)
        return head.tobytes()

    def read(self, at: int, buffer: np.ndarray) -> None:
        """Fill a buffer that lies within one segment; missing bytes read as zeros."""
        start = at - at % self.segment_bytes
        with closing(self.files.open_read(f"{COMMIT_LOG}/{segment_name(start)}")) as file:
            there = max(min(file.length() - (at - start), len(buffer)), 0)
            if there:
                file.read_at(at - start, buffer[:there])
            buffer[there:] = 0

    def take_up(self, source: Read, start: int, stop: int, verify: bool = False) -> None:
        """Find the log's end, and compare its first bytes and last records with the source.

        start, stop: physical offsets of the source. A new replica begins at `start`.
        verify: compare the bytes between too.
        Raises ReplicaDiffers if the target is no beginning of the source.
        """
        found = self._found_end(start)
        if found is None:
            return
        begin, end, last = found
        first = self.segments[0]
        if end > stop:
            raise ReplicaDiffers(
                f"{self.name}: its log goes on to {end}, the source's only to {stop}: it is no "
                f"replica of that"
            )
        low = max(last if last >= 0 and last < begin else begin, start, first)
        if verify:
            self._compare(source, max(start, first), low)
        elif start <= first:
            self._compare(source, first, min(first + _HEAD_BYTES, low))
        differs = replica.first_difference(self.read, source, low, end, self.segment_bytes)
        if differs < end and differs >= begin and self.held.crashed:
            end, last, _ = self._walk(begin, last, differs)  # cut what a power cut has torn
        elif differs < end:
            self._refuse(differs)
        self.last = last
        self.log = replica.ReplicaLog(self.files, self.segment_bytes, end)

    def stand(self, start: int) -> None:
        """Find where a source that only sends what follows goes on; `last` is compared later."""
        found = self._found_end(start)
        if found is None:
            return
        _, end, self.last = found
        if self.last < start:  # the master has deleted that record
            self.last = -1
        self.log = replica.ReplicaLog(self.files, self.segment_bytes, end)

    def _found_end(self, start: int) -> tuple[int, int, int] | None:
        """`find_end`; without a record the replica begins at `start`. Raises ReplicaDiffers."""
        found = self.find_end()
        if found is None:
            self.log = replica.ReplicaLog(self.files, self.segment_bytes, start)
        elif found[1] < start:
            raise ReplicaDiffers(
                f"{self.name}: ends at {found[1]}, but the source's log now begins at {start}: "
                f"what is between was deleted there; make a new replica"
            )
        return found

    def _compare(self, source: Read, low: int, end: int) -> None:
        differs = replica.first_difference(self.read, source, low, end, self.segment_bytes)
        if differs < end:
            self._refuse(differs)

    def _refuse(self, at: int) -> None:
        start = at - at % self.segment_bytes
        raise ReplicaDiffers(
            f"{self.name}/{COMMIT_LOG}/{segment_name(start)}: at offset {at - start} it has not "
            f"the source's bytes (physical offset {at}): it is no beginning of that log; give "
            f"another folder"
        )

    # --- abort, notes, derived files ---------------------------------------------------------

    def begin(self) -> None:
        """Prepare for growth of the log: a broker that starts now recovers as after a crash.

        A new replica gets its note, by which the run after a kill recognises it. That run reads the
        whole log, as nothing is durable yet.
        """
        if self.standing is None and not self._has_log():
            self.note(self.last)
        self.log.clear_end()
        if self.held.crashed:
            return
        size = self.segment_bytes
        start = self.segments[0] if self.segments else self.log.end
        home = Folder(self.held.storage, self.name)
        with ExitStack() as stack:
            if self._has_log():
                plan = growing_plan(self.held.at(self.rules.profile.release, self.settings))
                log_files = segment_files(self.held.storage, plan.segments, size, self.files)
                end = plan.segments[-1].end
                source = stack.enter_context(closing(LogBytes(log_files, size)))
                log = DispatchedLog(source.read, start, end, size, end)
                recovery = LogRecovery(log_files, size, self.rules.scan, None)
                position = find_position(home, log, self.rules.settings, self.rules.scan)
            else:
                log = DispatchedLog(self.read, start, start, size)
                recovery = LogRecovery(self.files, size, self.rules.scan, None)
                position = Position({}, start, start, False, True, 0)
            zone = index_zone(home, self.rules.settings)
            catching = CatchUp(self.files, log, recovery, self.rules, clock_in(zone))
            stack.enter_context(closing(catching))
            catching.guard(New(position, LogRest(position.first, position.first)))
        self.held.crashed = True

    def _has_log(self) -> bool:
        return any(any(self._head(start)) for start in self.segments[:1])

    def note(self, last: int) -> None:
        """Make the log durable, and write its end to the note. Raises OSError."""
        self.last = last if last >= 0 else self.last
        self.log.sync()
        self.standing = replica.Standing(self.source, self.log.end, self.last, self.config)
        replica.write_standing(self.files, self.standing)

    def derive(self, settle_too: Callable[[], object]) -> int:
        """Extend queues and index to the log's end; the number of new queue entries. settle_too: as
        for `catch_up_in_place`; called also if the log has nothing new.
        """
        if not self._segments_there() or not self.files.exists(CATCH_UP_NOTE):
            settle_too()
            return 0
        plan = growing_plan(self.held.at(self.rules.profile.release, self.settings))
        older = self.rules.scan.older_delays or plan.discovered.older_delays  # the source's first
        plan = replace(plan, discovered=replace(plan.discovered, older_delays=older))
        return catch_up_in_place(
            self.held, plan, Progress(), consented, growing=True, settle_too=settle_too
        ).entries

    def keep_expired(self, store: Folder, log_start: int) -> list[str]:
        """Add the source's queues whose messages have all expired, with their last entries, so that
        a broker numbers on; warnings. log_start: of the replica.
        """
        there = FileQueues(Folder(self.held.storage, self.name), lambda _: 0)
        live = {(topic, queue_id) for topic in there.topics() for queue_id, _ in there.of(topic)}
        warnings: list[str] = []
        settings = self.rules.settings
        sizes = {
            False: segment_bytes(settings.mapped_file_size_consume_queue, False),
            True: segment_bytes(settings.mapper_file_size_batch_consume_queue, True),
        }
        for queue, last in last_entries(store, log_start, live, warnings).items():
            made = expired_file(queue, last, lambda folder: sizes[is_batch(folder)])
            name = segment_name(made.number * made.length)
            self.files.make_folder(made.folder)
            path = f"{made.folder}/{name}"
            replace_small(self.files, path, made.content, length=made.length)
            self.files.sync_folder(made.folder)
        return warnings

    def keep_offsets(self, offsets: Offsets, of_lmq: bool, about: "Replicated") -> None:
        """Write the source's groups' offsets, no further than the replica's queues go.

        of_lmq: in the file of a broker with enableLmq too (LmqConsumerOffsetManager).
        """
        queues = FileQueues(Folder(self.held.storage, self.name), lambda _: 0)
        if not queues.topics():
            about.offsets = "none: there are no queues that show how far a group may have come"
            return

        def end(topic: str, queue_id: int) -> int:
            own = dict(queues.of(topic))
            if queue_id not in own:
                return 0
            with closing(queues.open(topic, queue_id, own[queue_id])) as queue:
                return queue.maximum()

        found, about.offsets = offsets_as_of(offsets, end)
        put_offsets(self.files, found, of_lmq, self.config, about.warnings)
        about.config = sorted(self.config)
        self.note(self.last)

    def follow_services(self, positions: bool) -> list[str]:
        """Have timers and delays wait as the log shows at its end; what is said of it. positions:
        whether the source's delayOffset.json is copied.
        """
        if not self._segments_there():
            return []
        release = self.rules.profile.release
        with OpenedStore(
            Folder(self.held.storage, self.name), release, self.settings, Notes()
        ) as opened:
            end = self.log.end
            said, offsets = follow_services(
                self.files, opened, self.settings, end, levels=not positions
            )
        if offsets:  # else a later run would not replace them by the source's
            raw = read_small(self.files, DELAYS_PATH, 1 << 20)
            self.config[DELAY_OFFSETS] = hashlib.sha256(raw).hexdigest()
            self.note(self.last)
        return said

    def _segments_there(self) -> bool:
        self.segments = self._segments()
        return self._has_log()


# ---
# The report of a replication.


@dataclass
class Replicated:
    """What `reput replicate` did or would do. Offsets are physical, times milliseconds."""

    source: str
    target: str
    start: int = 0  # start of the target's log
    resumed_at: int = 0  # end of the target's log before
    end: int = 0  # end of the target's log now, or after the replication
    records: int = 0  # copied records
    entries: int = 0  # derived queue entries
    last_timestamp: int = 0  # storeTimestamp of the last copied record
    behind: int = 0  # bytes that the source has and the target lacks
    end_reason: str = ""
    offsets: str = ""  # what consumer groups' offsets are, if the replica ends before its source
    config: list[str] = field(default_factory=list)  # names of the copied files of config/
    dry_run: bool = False
    reconnects: int = 0
    warnings: list[str] = field(default_factory=list)
    waits: list[str] = field(default_factory=list)  # timers and delays: files written for them
    seconds: float = 0.0

    def done(self, stop: int, there: int, follow: bool) -> Done:
        """How far it is. stop: where it will end; there: where the source's records end."""
        start, end = self.resumed_at, self.end
        share = (end - start) / (stop - start) if stop > start and not follow else None
        behind = behind_text(max(there - end, 0), self.last_timestamp, time.time_ns() // 1_000_000)
        return Done(share, f"up to {end:,}, {behind}")

    def text(self) -> str:
        copied = self.end - self.resumed_at
        verb = "would copy" if self.dry_run else "copied"
        speed = f", {copied / self.seconds / 1e6:,.0f} MB/s" if self.seconds > 0.1 else ""
        lines = [
            f"{verb} {self.source} to {self.target}",
            *([f"  offsets   {self.offsets}"] if self.offsets else []),
            f"  log       {self.resumed_at:,} to {self.end:,} ({self.end_reason})",
        ]
        if not self.dry_run:
            entries = counted(self.entries, "queue entry")
            lines.append(f"  new       {counted(self.records, 'record')}, {entries}")
            lines.append(f"  time      {self.seconds:.1f} s{speed}")
        if self.last_timestamp:
            lines.append(f"  last      stored {time_text(self.last_timestamp)}")
        if self.behind:
            lines.append(f"  behind    {self.behind:,} bytes")
        if self.reconnects:
            lines.append(f"  again     connected {counted(self.reconnects, 'time')}")
        lines += [f"  waits     {line}" for line in self.waits]
        lines += [f"  warning   {line}" for line in self.warnings]
        return "\n".join(lines)


def behind_text(behind: int, last: int, now: int) -> str:
    """A text of how far a replica is behind, in bytes and time."""
    late = f", {max(now - last, 0) // 1000:,} s old" if last and behind else ""
    return f"{behind:,} bytes behind{late}" if behind else "up to date"
