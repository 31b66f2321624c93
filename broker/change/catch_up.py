"""Writes what the log has after the last message in the derived files.

In a store this is done in place, under the file `abort`, and each step can be killed:

1. The last index file gets the mark (writer/index_folder). The checkpoint is lowered to what the
   queues hold: a broker that starts after a kill dispatches again from there.
2. A note says where the queues ended; then `abort` is made. A broker that finds `abort` recovers
   as after any crash; the next catch-up goes on from the note.
3. Queue entries are appended to the queues' files, index entries in a folder beside `index/`.
4. The queues are made durable, `index/` changes in one step, what else follows the log is brought
   to it (`settle`), and the checkpoint is raised.
5. `abort`, the mark and the note are removed.
"""

import json
import os
from collections.abc import Callable
from contextlib import closing
from typing import Any

from reput.broker.change.install import read_note as read_own_note
from reput.broker.change.new_messages import New, Rules
from reput.broker.change.position import DispatchedLog, Position, QueueEnd
from reput.broker.writer.index_writer import IndexWriter
from reput.broker.writer.queue_writer import QueueWriter
from reput.broker.writer.recovery import LogRecovery
from reput.broker.writer.store import Reput
from reput.store_format.derived.checkpoint import Checkpoint, after_rebuild, encode, read_checkpoint
from reput.store_format.files.protocol import Files, replace_small, write_small
from reput.store_format.names import ABORT, CHECKPOINT, COMMIT_LOG, segment_name

NOTE = "reput-catch-up.json"
_PART = ".part"
_NOTHING: Callable[[], object] = lambda: None  # noqa: E731


class CatchUp:
    """Writes what is new to the derived files below a root; the log is only read."""

    def __init__(
        self,
        files: Files,
        log: DispatchedLog,
        recovery: LogRecovery,
        rules: Rules,
        clock: Callable[[], int],
    ) -> None:
        """recovery: knows the log's segments. clock: local milliseconds, which name index files."""
        self.files, self.log, self.recovery, self.rules = files, log, recovery, rules
        self.checkpoint = read_checkpoint(files)
        settings = rules.settings
        self.queues = QueueWriter(files, settings, rules.places)
        self.index = IndexWriter(files, rules.profile, settings, clock, self._vouch)
        self._indexes = settings.builds_index

    # --- a set that nobody uses --------------------------------------------------------------

    def continue_set(self, new: New) -> None:
        """Write what is new to copies, of which publishing makes files that are durable."""
        if self._indexes:
            self.index.sort_names()
            self.index.load(None, new.ahead.end)
        self._take_up_queues(new)
        self._dispatch(new)
        if self._indexes:
            self.index.publish_changes()
            self.index.settle()
        self._write_checkpoint(self._checkpoint_after(new))
        self.close()

    # --- a store, in place -------------------------------------------------------------------

    def apply(self, new: New, settle: Callable[[], object] = _NOTHING) -> None:
        """Write what is new to a locked, cleanly stopped store. Raises OSError: run again.

        settle: brings what else follows the log to it, once queues and index are there. Without
        `abort` nobody would do it again: a broker would deliver what was delivered.
        """
        self.guard(new)
        self._take_up_queues(new)
        self._finish(new, settle)

    def guard(self, new: New) -> None:
        """Mark the store: a broker that starts now recovers, and the next catch-up goes on here.

        A replica's log grows while the store is marked; `new` is then still empty. Raises OSError.
        """
        self._remove_prepared()
        if self._indexes:
            self.index.sort_names()
            self.index.load(None, new.ahead.end)
        self._sync_log(new)
        if self._indexes:
            self.index.protect()
        self._lower_checkpoint(new.position)
        self._write_note(new)
        self._write_abort()

    def is_of(self, note: dict[str, Any]) -> bool:
        """Whether a note is of the store as it is now, so that no broker has run since."""
        return is_noted(self.checkpoint, note)

    def noted(self, note: dict[str, Any]) -> Position:
        """The position from which a killed catch-up started, by its note.

        Entries that the killed run has written are cut off the queues; the index keeps whole files.
        """
        queues = index = int(note["queues"])
        full = False
        self.index.folder.remove_staged()
        self.queues.load(queues, queues)
        self.queues.cut_off()
        if self._indexes:
            self.index.load(self.checkpoint.index_msg_timestamp, self.log.stop)
            index, full = max(self.index.indexed_to, self.log.start), self.index.needs_file
        ends = {k: QueueEnd(s.position, s.end) for k, s in self.queues.states.items()}
        return Position(ends, queues, index, False, full, int(note["timestamp"]))

    def resume(self, new: New, settle: Callable[[], object] = _NOTHING) -> None:
        """Go on where a catch-up was killed. new: found for the position that `noted` returned.

        The log may have grown since, so the note is written again, with another checkpoint to come.
        """
        self._sync_log(new)
        self._write_note(new)
        self._finish(new, settle)

    def settle(self) -> None:
        """End a catch-up that was killed after it had removed `abort`."""
        if self._indexes:
            self.index.load(None, self.log.stop)
            self.index.settle()
        self._remove_prepared()
        self.files.sync_folder("")

    def _remove_prepared(self) -> None:
        """Remove the files of a run that was killed before it changed anything."""
        for name in (NOTE, NOTE + _PART, CHECKPOINT + _PART):
            if self.files.exists(name):
                self.files.remove(name)
        self.index.folder.remove_staged()

    def _take_up_queues(self, new: New) -> None:
        for key, end in new.position.ends.items():
            self.queues.take_up(key, end.entries, end.offset)

    def _finish(self, new: New, settle: Callable[[], object]) -> None:
        self._dispatch(new)
        self.queues.sync()
        if self._indexes:
            self.index.publish_changes()
        settle()
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
        """Make messages durable before they are indexed: no key of a lost message may remain."""
        start = self.log.segment_of(new.position.first)
        for segment in range(start, new.ahead.end, self.log.segment_bytes):
            with closing(self.files.open_read(f"{COMMIT_LOG}/{segment_name(segment)}")) as file:
                file.sync()

    def _vouch(self, timestamp: int) -> None:
        if timestamp > self.checkpoint.index_msg_timestamp:
            self._write_checkpoint(self.checkpoint._replace(index_msg_timestamp=timestamp))

    def _lower_checkpoint(self, position: Position) -> None:
        """Lower the checkpoint to the queue entries that there are.

        After a crash a broker dispatches from the last segment whose first record is not newer than
        the checkpoint (CommitLog.isMappedFileMatchedRecover), from 5.5.0 on from an offset in it.
        """
        old = self.checkpoint
        later = self.recovery.first_timestamps(position.first)
        logics = min([old.logics_msg_timestamp, *(time - 1 for time in later if time > 0)])
        place = min(old.logics_physical_offset, position.first)
        lowered = old._replace(logics_msg_timestamp=max(logics, 0), logics_physical_offset=place)
        if lowered != old:
            self._write_checkpoint(lowered)

    def _checkpoint_after(self, new: New) -> Checkpoint:
        """The checkpoint that a rebuild would write; other fields keep their old values."""
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
        process = str(os.getpid()) if self.rules.profile.abort_process_id else ""
        write_small(self.files, ABORT, process.encode())
        self.files.sync_folder("")

    def close(self) -> None:
        self.queues.close()
        self.index.close()


def read_note(files: Files) -> dict[str, Any] | None:
    """The note of a catch-up by this user that did not end; None where there is none.

    A note that other users could have written is not trusted.
    """
    note = read_own_note(files, NOTE)
    if note is None:
        return None
    numbers = [note.get(name) for name in ("queues", "timestamp")]
    sound = all(type(number) is int and number >= 0 for number in numbers)
    return note if sound and isinstance(note.get("checkpoints"), list) else None


def is_noted(checkpoint: Checkpoint, note: dict[str, Any]) -> bool:
    """Whether a note is of the store with this checkpoint, so that no broker has run since."""
    return [checkpoint.physic_msg_timestamp, checkpoint.logics_msg_timestamp] in note["checkpoints"]


def _put(files: Files, path: str, content: bytes, own: bool = False) -> None:
    """Write a small file in the store's root durably."""
    replace_small(files, path, content, own=own, beside=_PART)
    files.sync_folder("")
