"""A store while it is open, from recovery to close: `abort`, log, queues, index, checkpoint, and
the dispatch of new records.
"""

import os
import threading
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace

from reput.broker.writer.commit_log import CommitLog, Spawn
from reput.broker.writer.index_writer import IndexWriter
from reput.broker.writer.queue_writer import QueueWriter
from reput.broker.writer.recovery import LogEnd, LogRecovery
from reput.store_format import names
from reput.store_format.derived.checkpoint import Checkpoint, read_checkpoint
from reput.store_format.derived.checkpoint import encode as encode_checkpoint
from reput.store_format.derived.index_file import IndexedMessage
from reput.store_format.dispatch.dispatch import unpacked
from reput.store_format.dispatch.scan import (
    Buffers,
    End,
    IndexPuts,
    Read,
    Runs,
    ScanRules,
    place_rules,
    scan,
    scan_rules,
)
from reput.store_format.faults import REASONS, DamageFound, Fault, StoreError
from reput.store_format.files.protocol import Files, write_small
from reput.store_format.layouts import CHECKPOINT, CHECKPOINT_FILE_BYTES
from reput.store_format.log.groups import refuse_dledger
from reput.store_format.log.segments import Stretch
from reput.store_format.message.ids import Clock
from reput.store_format.names import CHECKPOINT as CHECKPOINT_FILE
from reput.store_format.release.profiles import Profile
from reput.store_format.release.settings import WriterSettings

# ---
# Dispatches new records while the log grows (DefaultMessageStore.ReputMessageService).
#
# It reads the records back from the log and dispatches them by the same kernels as a rebuild's
# scan, so that both derive the same files.

_STRETCH_BYTES = 4 << 20  # dispatched at once
_BEYOND_BYTES = 64 << 10  # read past a stretch, where its last record may end


class Reput:
    """Dispatches a log from `at` on. Not for use by two threads at once."""

    def __init__(
        self,
        read: Read,
        segment_bytes: int,
        rules: ScanRules,
        queues: QueueWriter | None,
        index: IndexWriter | None,
        at: int,
    ) -> None:
        """read: fills a buffer from the log; queues, index: None where they are not kept."""
        self.read, self.segment_bytes = read, segment_bytes
        self.rules = rules
        self.queues, self.index = queues, index
        self.at = at
        self._buffers = Buffers(min(segment_bytes, _STRETCH_BYTES))
        self._window = self._buffers.window
        self.timestamp = 0  # milliseconds: store time of the last record dispatched

    def run(self, end: int, known: bool = True) -> None:
        """Dispatch all records up to `end`, where one ends. Raises DamageFound.

        known: this writer appended the records, so no CRC is checked; nor does RocketMQ's running
        dispatch check any.
        """
        rules = replace(self.rules, check_body_crc=False) if known else self.rules
        while self.at < end:
            segment = self.at - self.at % self.segment_bytes
            stop = min(end, segment + self.segment_bytes, self.at + _STRETCH_BYTES)
            stretch = Stretch(segment, segment + self.segment_bytes, self.at, stop, self.at)
            # Nothing is read past `end`: the system would read ahead in large folios, and writing a
            # record into one of these costs several microseconds more.
            self._buffers.window = self._window[: min(stop + _BEYOND_BYTES, end) - self.at]
            stood = self._dispatch(stretch, rules)
            if stood.fault not in (Fault.NONE, Fault.BLANK):
                field, reason = REASONS[stood.fault]
                raise DamageFound(
                    f"{names.COMMIT_LOG}/{names.segment_name(segment)}: at offset {stood.next}: "
                    f"{field}: {reason}; live records follow. Use `reput recover` first"
                )
            self.at = stood.next

    def _dispatch(self, stretch: Stretch, rules: ScanRules) -> End:
        index = self.index
        end = End()
        for out in scan(self.read, stretch, rules, self._buffers):
            if isinstance(out, Runs):
                if self.queues is not None:
                    self.queues.append(out.queues, out.runs)
            elif isinstance(out, IndexPuts):
                if index is not None:
                    index.append_new(unpacked(out.hashes, out.messages))
            else:
                end = out
        if end.records:
            self.timestamp = end.last_timestamp
            if index is not None and end.last_record > index.indexed_to:
                # The last index file may be full; a message without keys opens the next one too.
                index.open_for_message()
        return end


# ---
# A store while it is open: `abort`, log, queues, index and checkpoint, from recovery to close.

_DERIVED = (names.CONSUME_QUEUE, names.BATCH_CONSUME_QUEUE, names.INDEX)


def in_utc(timestamp: int) -> int:
    """A time in milliseconds as the local time in UTC."""
    return timestamp


class OpenStore:
    """What a writer appends to. Its own lock guards dispatch, queues, index and checkpoint."""

    log: CommitLog
    queues: QueueWriter
    index: IndexWriter
    reput: Reput

    def __init__(
        self, files: Files, settings: WriterSettings, profile: Profile, clock: Clock,
        batch_topics: Iterable[str], dispatches: bool, local: Callable[[int], int] = in_utc,
    ) -> None:  # fmt: skip
        """local: a time as the local time by which index files are named (`NameZone.local`)."""
        self._local = local
        self.files, self.settings, self.profile, self.clock = files, settings, profile, clock
        self.dispatches = dispatches
        self.scan_rules = scan_rules(profile, settings, batch_topics)
        self.checkpoint = Checkpoint()
        self.recovered: LogEnd | None = None  # what recovery found, if `abort` was there
        self.past_end = 0  # queue entries past the log's end, which a recovery cut
        self.sizes_found: dict[str, int] = {}  # sizes of the files, by RocketMQ's names
        self.last_timestamp = 0  # storeTimestamp of the last record when the store was opened
        self.made_abort = False
        self._known_from = 0  # records from here on were read: older ones may have unknown queues
        self._lock = threading.Lock()

    def open(self, prepare_ahead: bool, spawn: Spawn | None) -> None:
        """Recover, load queues and index, and dispatch what they lack."""
        files, settings = self.files, self.settings
        names.refuse_foreign("", files.names)
        refuse_dledger("", files.names)
        crashed = files.exists(names.ABORT)
        only_log = not self.dispatches
        # `close` removes `abort`, and then a broker trusts the files that a crash has left
        self.dispatches |= crashed and any(map(files.names, _DERIVED))
        checkpoint_lost = not files.exists(CHECKPOINT_FILE)
        self.checkpoint = read_checkpoint(files)
        recovery = LogRecovery(
            files, settings.mapped_file_size_commit_log, self.scan_rules,
            self.checkpoint if crashed else None, checkpoint_lost,
        )  # fmt: skip
        end = recovery.find()
        self.queues = QueueWriter(files, settings, place_rules(self.profile), self.dispatches)
        self.past_end = self.queues.load(end.checked_from if crashed else end.end, end.end)
        if self.past_end and not crashed:
            raise StoreError(
                f"{self.past_end:,} entries of queues lie past the log's end at {end.end:,}; new "
                "messages would take their places: put back what is missing of the log, or have "
                "`reput recover` cut queues and index"
            )
        self.log = CommitLog(files, settings, end.start, end.end, prepare_ahead, spawn)
        self.index = IndexWriter(
            files, self.profile, settings, lambda: self._local(self.clock()), self._vouch_for_index
        )
        self.index.sort_names()
        self.index.load(self.checkpoint.index_msg_timestamp if crashed else None, end.end)
        if crashed:
            self.index.folder.remove_staged()
        else:
            self.index.protect()
            self._write_abort()
        files.make_folder(names.COMMIT_LOG)
        recovery.cut(end, names.CUT)
        self.recovered = end if crashed else None
        self.last_timestamp = max(end.last_timestamp, 0)
        self.queues.cut_off()
        self._known_from = self._dispatched_to(end, crashed)
        self.reput = self._reput(
            self.queues, self.index if self._indexes else None, self._known_from
        )
        self.reput.timestamp = self.checkpoint.logics_msg_timestamp
        self.reput.run(end.end, known=False)
        self._note_opened()
        if only_log:
            self.dispatches = False

    @property
    def _indexes(self) -> bool:
        return self.dispatches and self.settings.builds_index

    def _note_opened(self) -> None:
        """Note in the checkpoint that all the log is durable and dispatched, and not to be reread.

        Where the clock was set back, the new timestamps are lower than the old checkpoint's: no
        record that is stored from now on may be older than what the checkpoint says.
        """
        if self._indexes:
            self.index.publish_changes()
        if self.last_timestamp:
            last = self.last_timestamp
            logics = last if self.dispatches else self.checkpoint.logics_msg_timestamp
            self.checkpoint = self.checkpoint._replace(
                physic_msg_timestamp=last, logics_msg_timestamp=min(logics, last)
            )
            self.reput.timestamp = self.checkpoint.logics_msg_timestamp
        self.keep_checkpoint(0)

    def _vouch_for_index(self, timestamp: int) -> None:
        """Raise indexMsgTimestamp, up to which IndexService.load keeps index files in a recovery.

        The indexed messages are made durable first. If a power cut took them, their keys would lead
        to the messages that are stored in their place, and the keys of these would be missing:
        IndexService.buildIndex skips what lies before the last file's endPhyOffset.
        """
        if self.index.indexed_to >= self.log.flushed:
            self.log.sync()
        if timestamp > self.checkpoint.index_msg_timestamp:
            self._write_checkpoint(self.checkpoint._replace(index_msg_timestamp=timestamp))

    def _dispatched_to(self, end: LogEnd, crashed: bool) -> int:
        """The physical offset from which records are dispatched: after those that the queues hold.

        After a crash not after the segment from which records were checked, nor, where `index/` is
        not known to be whole, after the last message indexed.
        """
        at = max((state.end for state in self.queues.states.values()), default=end.start)
        if crashed:
            at = min(at, end.checked_from)
            if self._indexes and not self.index.whole:
                at = min(at, max(self.index.indexed_to, end.start))
        return min(max(at, end.start), end.end)

    def _reput(self, queues: QueueWriter, index: IndexWriter | None, at: int) -> Reput:
        segment_bytes = self.settings.mapped_file_size_commit_log
        return Reput(self.log.read, segment_bytes, self.scan_rules, queues, index, at)

    def _write_abort(self) -> None:
        """DefaultMessageStore.createTempFile: `abort` is there while a store is open."""
        process = str(os.getpid()) if self.profile.abort_process_id else ""
        write_small(self.files, names.ABORT, process.encode())
        self.files.sync_folder("")
        self.made_abort = True

    # --- queues ----------------------------------------------------------------------------

    def positions(self) -> dict[tuple[str, int], int]:
        return {
            (key.topic, key.queue_id): state.position for key, state in self.queues.states.items()
        }

    def learn_queues(self) -> None:
        """Find queues that have records in the log but no ConsumeQueue, in the part not read yet.

        Their files may have been deleted. Done once, at the first message for an unknown queue.
        """
        if self._known_from == self.log.start:
            return
        with self._lock:
            missing = QueueWriter(
                self.files, self.settings, place_rules(self.profile), self.dispatches
            )
            missing.ignored = frozenset(self.queues.states)
            self._reput(missing, None, self.log.start).run(self._known_from, known=False)
            missing.sync()
            missing.close()
            self.queues.states.update(missing.states)
            self._known_from = self.log.start

    def dispatch(self, end: int, alone: bool = False) -> None:
        """Dispatch the log up to `end`, if this writer keeps queues and index.

        alone: only if no other thread is dispatching.
        """
        if not self._lock.acquire(blocking=not alone):
            return
        try:
            if self.dispatches:
                self.log.needed_from = self.reput.at
                self.reput.run(end)
        finally:
            self._lock.release()

    # --- checkpoint and end ----------------------------------------------------------------

    def keep_checkpoint(self, physic_timestamp: int) -> None:
        """Make queues durable, then note that in the checkpoint (FlushConsumeQueueService).

        physic_timestamp: milliseconds; all records stored before it are durable.
        """
        with self._lock:
            self.queues.sync()
            old, rules = self.checkpoint, self.profile
            reput = IndexedMessage(self.reput.timestamp, self.reput.at)
            logics = self.index.covered(reput) if self._indexes else reput
            new = {"physic_msg_timestamp": max(physic_timestamp, old.physic_msg_timestamp)}
            if self.dispatches:
                new["logics_msg_timestamp"] = max(logics.timestamp, old.logics_msg_timestamp)
            if rules.checkpoint_confirm_offset:
                new["confirm_phy_offset"] = self.log.flushed
            if rules.checkpoint_logics_offset and self.dispatches:
                new["logics_physical_offset"] = logics.physical_offset
            self._write_checkpoint(old._replace(**new))

    def flush_queues(self) -> None:
        """Make queues durable that have flushConsumeQueueLeastPages new pages."""
        with self._lock:
            self.queues.sync(self.settings.flush_consume_queue_least_pages)

    def _write_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Written in place: the fields lie within one sector. Made before the first record."""
        new = not self.files.exists(CHECKPOINT_FILE)
        with closing((self.files.create if new else self.files.open)(CHECKPOINT_FILE)) as file:
            if file.length() != CHECKPOINT_FILE_BYTES:
                file.set_length(CHECKPOINT_FILE_BYTES)
            file.write_at(0, encode_checkpoint(checkpoint)[: CHECKPOINT.itemsize])
            file.sync()
        if new:
            self.files.sync_folder("")
        self.checkpoint = checkpoint

    def finish(self, physic_timestamp: int, settle: Callable[[], object]) -> None:
        """End as a clean stop, once the log is durable: dispatch all of it, and remove `abort`.

        settle: brings to the log what else follows it.
        """
        self.dispatch(self.log.flushed)
        if self.dispatches:
            settle()
        if self._indexes:
            self.index.publish_changes()
        self.keep_checkpoint(physic_timestamp)
        self._remove_abort()

    def _remove_abort(self) -> None:
        """Without `abort` a broker does not recover, so the index may lose its mark."""
        self.files.remove(names.ABORT)
        self.files.sync_folder("")
        self.index.settle()

    def take_back(self) -> None:
        """After a refusal: remove the `abort` made here, if the store had been closed cleanly."""
        if self.made_abort:
            self._remove_abort()

    def let_go(self) -> None:
        """Close all files; nothing is synced. A refusal comes before some are there."""
        with self._lock:
            self.dispatches = False
            for part in ("log", "queues", "index"):
                if hasattr(self, part):
                    getattr(self, part).close()
