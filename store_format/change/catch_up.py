"""Goes on from what derived files hold, and writes what the log has behind that.

In a store this is done in place, under the file `abort`, and each step can be killed:

1. The last index file gets the mark (writer/index_folder), and the checkpoint does not know of
   more in the queues than there is: a broker that starts after a kill dispatches again from there.
2. A note says where the queues ended; then `abort` is made. A broker that finds `abort` recovers
   as after any crash; the next catch-up goes on from the note.
3. Queue entries are appended to the queues' files, index entries in a folder beside `index/`.
4. The queues are made durable, `index/` changes in one step, the checkpoint says so.
5. `abort` goes, the mark goes, the note goes.
"""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from reput.store_format.change.install import read_note as read_own_note
from reput.store_format.change.position import Ahead, Log, Position, QueueEnd, look_ahead
from reput.store_format.derive.queue_runs import PositionRules, start_position
from reput.store_format.derive.scan import QueueKey, Runs, ScanRules
from reput.store_format.derived.checkpoint import (
    Checkpoint,
    after_rebuild,
    encode,
    read_checkpoint,
)
from reput.store_format.derived.consume_queue import entry_bytes
from reput.store_format.derived.queue_entries import decode_entries
from reput.store_format.disk.files import Files
from reput.store_format.disk.small_files import replace_small
from reput.store_format.faults import Fault, StoreError
from reput.store_format.layouts import RECORD_HEAD_BYTES
from reput.store_format.names import (
    ABORT,
    CHECKPOINT,
    COMMIT_LOG,
    CONSUME_QUEUE,
    QueuePath,
    UnsafeName,
    check_topic,
    segment_name,
)
from reput.store_format.release.profiles import Profile
from reput.store_format.release.settings import Settings
from reput.store_format.writer.index_files import IndexFiles
from reput.store_format.writer.queue_files import QueueFiles
from reput.store_format.writer.recovery import LogEnd, LogRecovery
from reput.store_format.writer.reput import Reput

NOTE = "reput-catch-up.json"
_PART = ".part"
_STRETCH_BYTES = 64 << 20
_LEFT_OUT_SHOWN = 20


@dataclass
class New:
    """What the log has that the derived files lack."""

    position: Position
    ahead: Ahead
    queues: set[QueueKey] = field(default_factory=set)  # that get entries
    left_out: list[str] = field(default_factory=list)  # topics that can be no folder's name
    unsafe: set[QueueKey] = field(default_factory=set)


@dataclass(frozen=True)
class Rules:
    """By which rules files are derived."""

    profile: Profile
    settings: Settings
    scan: ScanRules
    places: PositionRules


class _Sorting:
    """Looks at the runs that a scan gives: which queues are new, and which cannot be written."""

    def __init__(self, new: New) -> None:
        self.new = new
        self.gaps: dict[QueueKey, QueueEnd] = {}  # queues that go on further than they end
        self._known = set(new.position.ends)

    def __call__(self, out: Runs) -> None:
        for number, key in enumerate(out.queues):
            if not out.runs.count[number] or key in self.new.unsafe:
                continue
            at = int(out.runs.entries_at[number])
            place = int(decode_entries(out.runs.entries[at : at + 20])[0]["physicalOffset"])
            if key not in self._known:
                self._first(key, int(out.runs.first[number]), place)
            elif key not in self.new.queues and not key.batch:
                end = self.new.position.ends.get(key)
                if end is not None and int(out.runs.first[number]) > end.entries:
                    self.gaps[key] = end
            if key not in self.new.unsafe:
                self.new.queues.add(key)

    def _first(self, key: QueueKey, first: int, place: int) -> None:
        """A queue that is not there yet. Raises StoreError for an impossible queueOffset."""
        try:
            check_topic(key.topic)
        except UnsafeName as error:
            self.new.unsafe.add(key)
            if len(self.new.left_out) < _LEFT_OUT_SHOWN and str(error) not in self.new.left_out:
                self.new.left_out.append(str(error))
            return
        try:
            start_position(first, key.batch)
        except ValueError as error:
            raise StoreError(
                f"topic {key.topic!r}, queue {key.queue_id}: the record at physical offset "
                f"{place}: {error}; `reput rebuild` has ways to go on"
            ) from None
        self._known.add(key)


def find_new(
    log: Log, recovery: LogRecovery, position: Position, rules: Rules, growing: bool = False,
    settled: bool = True,
) -> New:  # fmt: skip
    """Read what is new once: where the log ends, and what comes.

    growing: what stands at the end may be about to be written, and is not judged. settled: False
    where the last record may be there in part: zeros in its properties are found by no CRC, so it
    waits until something follows it.

    Raises DamageFound where live records follow a fault, StoreError for an impossible queueOffset,
    and for a queue that has lost its last entries, so that the next ones had no place.
    """
    new = New(position, Ahead(position.first, position.first))
    sorting = _Sorting(new)
    new.ahead = look_ahead(log, position, rules.scan, sorting, _STRETCH_BYTES)
    if sorting.gaps:
        _refuse_lost(log, position, rules.scan, sorting.gaps)
    ahead = new.ahead
    if not settled and ahead.fault not in (Fault.NONE, Fault.BLANK) and ahead.last_record >= 0:
        before = replace(log, stop=max(ahead.last_record, position.first))
        new = New(position, Ahead(position.first, position.first))
        new.ahead = look_ahead(before, position, rules.scan, _Sorting(new), _STRETCH_BYTES)
    if not growing and not _ends_in_zeros(log, new.ahead):
        ahead = new.ahead
        last = max(position.timestamp, ahead.last_timestamp)
        recovery.refuse_damage(LogEnd(log.start, ahead.end, position.first, last, ahead.fault))
    return new


def _refuse_lost(
    log: Log, position: Position, rules: ScanRules, gaps: dict[QueueKey, QueueEnd]
) -> None:  # fmt: skip
    """Raise StoreError where a queue lacks what the log has of it, before what is new.

    gaps: queues whose next record has a queueOffset beyond their end, and their ends. Without such
    a record the log itself has the gap, and the queue goes on as RocketMQ's. A record with a lower
    queueOffset is none: RocketMQ skips it.
    """

    def seen(out: Runs) -> None:
        for number, key in enumerate(out.queues):
            if key not in gaps or not out.runs.count[number]:
                continue
            at, count = int(out.runs.entries_at[number]), int(out.runs.count[number])
            entries = decode_entries(out.runs.entries[at : at + count * entry_bytes(False)])
            offsets_at, first = int(out.runs.offsets_at[number]), int(out.runs.first[number])
            offsets = (
                np.arange(first, first + count) if offsets_at < 0
                else out.runs.offsets[offsets_at : offsets_at + count]
            )  # fmt: skip
            places, end = entries["physicalOffset"], gaps[key]
            lost = places[(places >= end.offset) & (offsets >= end.entries)]
            if len(lost):
                folder = QueuePath(CONSUME_QUEUE, key.topic, key.queue_id)
                raise StoreError(
                    f"{folder}: ends before its record at physical offset {int(lost[0])}, which "
                    f"other queues are past: it has lost a file or entries; `reput rebuild` has all"
                )

    start = max(min(end.offset for end in gaps.values()), log.start)
    before = replace(log, stop=position.queues)
    look_ahead(
        before, Position({}, start, position.queues, False, False, 0), rules, seen, _STRETCH_BYTES
    )


def _ends_in_zeros(log: Log, ahead: Ahead) -> bool:
    """Whether the log ends where zeros begin, and all later segments begin with zeros too.

    A broker prepares a segment ahead: to read all of its zeros would take as long as all else.
    """
    if ahead.fault != Fault.ZEROS:
        return False
    head = np.empty(RECORD_HEAD_BYTES, np.uint8)
    for segment in range(
        log.segment_of(ahead.end) + log.segment_bytes, log.stop, log.segment_bytes
    ):
        log.read(segment, head)
        if head.any():
            return False
    return True


class CatchUp:
    """Writes what is new to the derived files below a root; the log is only read."""

    def __init__(
        self, files: Files, log: Log, recovery: LogRecovery, rules: Rules, clock: Callable[[], int]
    ) -> None:
        """recovery: knows the log's segments. clock: milliseconds, for the names of index files."""
        self.files, self.log, self.recovery, self.rules = files, log, recovery, rules
        self.checkpoint = read_checkpoint(files)
        settings = rules.settings
        self.queues = QueueFiles(files, settings, rules.places)
        self.index = IndexFiles(files, rules.profile, settings, clock, self._vouch)
        self._indexes = settings.builds_index

    # --- a set that nobody uses --------------------------------------------------------------

    def continue_set(self, new: New) -> None:
        """Write what is new to files that nobody else sees yet."""
        if self._indexes:
            self.index.load(None, new.ahead.end)
        self._take_up_queues(new)
        self._dispatch(new)
        self.queues.sync()
        if self._indexes:
            self.index.publish_changes()
            self.index.settle()
        self._write_checkpoint(self._checkpoint_after(new))
        self.close()

    # --- a store, in place -------------------------------------------------------------------

    def apply(self, new: New) -> None:
        """Write what is new to a store whose lock is held, and which was stopped cleanly.

        Raises OSError: run again.
        """
        self.guard(new)
        self._take_up_queues(new)
        self._finish(new)

    def guard(self, new: New) -> None:
        """From now on a broker that starts recovers, and the next catch-up goes on from here.

        A replica's log grows while this stands; `new` then has nothing yet. Raises OSError.
        """
        self._remove_prepared()
        if self._indexes:
            self.index.load(None, new.ahead.end)
        self._sync_log(new)
        if self._indexes:
            self.index.protect()
        self._lower_checkpoint(new.position)
        self._write_note(new)
        self._write_abort()

    def is_of(self, note: dict[str, Any]) -> bool:
        """Whether a note tells of the store as it is: no broker has run since."""
        return is_noted(self.checkpoint, note)

    def noted(self, note: dict[str, Any]) -> Position:
        """The position of a catch-up that was killed, by its note.

        Entries that it has written are cut off the queues; the index keeps what is whole.
        """
        queues = index = int(note["queues"])
        full = False
        self.index.folder.remove_staged()
        self.queues.load(queues)
        if self._indexes:
            self.index.load(self.checkpoint.index_msg_timestamp, self.log.stop)
            index, full = max(self.index.indexed_to, self.log.start), self.index.needs_file
        ends = {k: QueueEnd(s.position, s.end) for k, s in self.queues.states.items()}
        return Position(ends, queues, index, False, full, int(note["timestamp"]))

    def resume(self, new: New) -> None:
        """Go on where a catch-up was killed; new: found for the position that was noted.

        The log may have grown since, so that the checkpoint to come is another one.
        """
        self._sync_log(new)
        self._write_note(new)
        self._finish(new)

    def settle(self) -> None:
        """End a catch-up that was killed after `abort` had gone."""
        if self._indexes:
            self.index.load(None, self.log.stop)
            self.index.settle()
        self._remove_prepared()
        self.files.sync_folder("")

    def _remove_prepared(self) -> None:
        """Remove what a run left that was killed before it changed anything."""
        for name in (NOTE, NOTE + _PART, CHECKPOINT + _PART):
            if self.files.exists(name):
                self.files.remove(name)
        self.index.folder.remove_staged()

    def _take_up_queues(self, new: New) -> None:
        for key, end in new.position.ends.items():
            self.queues.take_up(key, end.entries, end.offset)

    def _finish(self, new: New) -> None:
        self._dispatch(new)
        self.queues.sync()
        if self._indexes:
            self.index.publish_changes()
        self._write_checkpoint(self._checkpoint_after(new))
        self.files.remove(ABORT)
        self.files.sync_folder("")
        if self._indexes:
            self.index.settle()
        self._remove_prepared()
        self.files.sync_folder("")

    def _dispatch(self, new: New) -> None:
        """Dispatch again what is new; `find_new` has read it, with its CRCs."""
        log, position, index = self.log, new.position, self.index if self._indexes else None
        self.queues.ignored = frozenset(new.unsafe)
        rules, end = self.rules.scan, new.ahead.end
        if position.index_from < position.queues:
            Reput(log.read, log.segment_bytes, rules, None, index, position.index_from).run(
                min(position.queues, end)
            )
        Reput(log.read, log.segment_bytes, rules, self.queues, index, position.queues).run(end)

    # --- the files beside ----------------------------------------------------------------------

    def _sync_log(self, new: New) -> None:
        """What is indexed is durable first: a power cut must not leave keys of lost messages."""
        start = self.log.segment_of(new.position.first)
        for segment in range(start, new.ahead.end, self.log.segment_bytes):
            file = self.files.open_read(f"{COMMIT_LOG}/{segment_name(segment)}")
            try:
                file.sync()
            finally:
                file.close()

    def _vouch(self, timestamp: int) -> None:
        if timestamp > self.checkpoint.index_msg_timestamp:
            self._write_checkpoint(self.checkpoint._replace(index_msg_timestamp=timestamp))

    def _lower_checkpoint(self, position: Position) -> None:
        """Let the checkpoint not know of queue entries that are not there.

        After a crash a broker dispatches from the last segment whose first record is not newer than
        the checkpoint (CommitLog.isMappedFileMatchedRecover), from 5.5.0 on from an offset.
        """
        old = self.checkpoint
        later = self.recovery.first_timestamps(position.first)
        logics = min([old.logics_msg_timestamp, *(time - 1 for time in later if time > 0)])
        place = min(old.logics_physical_offset, position.first)
        lowered = old._replace(logics_msg_timestamp=max(logics, 0), logics_physical_offset=place)
        if lowered != old:
            self._write_checkpoint(lowered)

    def _checkpoint_after(self, new: New) -> Checkpoint:
        """Of all fields that a rebuild knows, what it would say; the others as they were."""
        old, ahead = self.checkpoint, new.ahead
        if not ahead.records:
            return old
        headers = self.index.folder.headers() if self._indexes else []
        index_end = max((header.end.timestamp for header in headers), default=0)
        dispatched = ahead.last_dispatched
        rebuilt = after_rebuild(
            self.rules.profile, ahead.last_timestamp,
            dispatched if dispatched >= 0 else old.logics_msg_timestamp, index_end,
            ahead.last_record,
        )  # fmt: skip
        return rebuilt._replace(master_flushed_offset=old.master_flushed_offset)

    def _write_checkpoint(self, checkpoint: Checkpoint) -> None:
        _put(self.files, CHECKPOINT, encode(checkpoint))
        self.checkpoint = checkpoint

    def _write_note(self, new: New) -> None:
        after, now = self._checkpoint_after(new), self.checkpoint
        note = {
            "queues": new.position.queues,
            "timestamp": new.position.timestamp,
            "checkpoints": [
                [known.physic_msg_timestamp, known.logics_msg_timestamp] for known in (now, after)
            ],
        }
        _put(self.files, NOTE, json.dumps(note).encode(), own=True)

    def _write_abort(self) -> None:
        file = self.files.create(ABORT)
        if self.rules.profile.abort_process_id:
            file.write_at(0, str(os.getpid()).encode())
        file.sync()
        file.close()
        self.files.sync_folder("")

    def close(self) -> None:
        """Close all files."""
        self.queues.close()
        self.index.close()


def read_note(files: Files) -> dict[str, Any] | None:
    """The note of a catch-up by this user that did not come to its end; None where there is none.

    What others could have written is not believed.
    """
    note = read_own_note(files, NOTE)
    if note is None:
        return None
    numbers = [note.get(name) for name in ("queues", "timestamp")]
    sound = all(type(number) is int and number >= 0 for number in numbers)
    return note if sound and isinstance(note.get("checkpoints"), list) else None


def is_noted(checkpoint: Checkpoint, note: dict[str, Any]) -> bool:
    """Whether a note tells of the store that has this checkpoint: no broker has run since."""
    return [checkpoint.physic_msg_timestamp, checkpoint.logics_msg_timestamp] in note["checkpoints"]


def _put(files: Files, path: str, content: bytes, own: bool = False) -> None:
    """Write a small file of the store's root durably."""
    replace_small(files, path, content, own=own, beside=_PART)
    files.sync_folder("")
