"""`CommitLogWriter`: opens a store as a broker does, appends to it, and closes it cleanly."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from store_format.checkpoint import Checkpoint
from store_format.checkpoint import decode as decode_checkpoint
from store_format.checkpoint import encode as encode_checkpoint
from store_format.faults import StoreError
from store_format.file_layer import DiskFiles, Files
from store_format.layouts import BLANK_BYTES, CHECKPOINT, CHECKPOINT_FILE_BYTES
from store_format.names import ABORT, COMMIT_LOG, LOCK
from store_format.names import CHECKPOINT as CHECKPOINT_FILE
from store_format.profiles import Profile, profile
from store_format.rules import place_rules, scan_rules
from store_format.settings import refuse_unsupported
from store_format.writer.commit_log import CommitLog
from store_format.writer.encode import Draft, Encoder, finish, message_id
from store_format.writer.errors import (
    PUT_OK,
    BatchIllegal,
    BatchQueueTopic,
    MessageTooLarge,
    WriterClosed,
    WriterFailed,
)
from store_format.writer.flush import Due, GroupCommit, Periodic
from store_format.writer.index_files import IndexFiles
from store_format.writer.message import Message, check_sendable
from store_format.writer.options import WriterSettings
from store_format.writer.queue_files import QueueFiles
from store_format.writer.recovery import LogEnd, LogRecovery
from store_format.writer.reput import Reput
from store_format.writer.unique_ids import Clock, UniqueIds

DEFAULT_RELEASE = "5.3.3"
DEFAULT_HOST = "127.0.0.1:10911"
_DISPATCH_SECONDS = 0.05


class AppendResult(NamedTuple):
    """What became of a message (AppendMessageResult), or of a batch: then of its first one."""

    status: str  # RocketMQ's PutMessageStatus: PUT_OK or FLUSH_DISK_TIMEOUT
    physical_offset: int
    queue_offset: int
    size: int  # bytes, of a batch all of them
    store_timestamp: int  # milliseconds
    store_host: bytes
    offsets: tuple[int, ...]  # physical, of each message

    @property
    def message_id(self) -> str:
        """The offsetMsgId; of a batch all of them, separated by commas."""
        return ",".join([message_id(self.store_host, offset) for offset in self.offsets])


class CommitLogWriter:
    """Appends to one store. Safe for use by many threads. Made by `open`."""

    def __init__(
        self, files: Files, settings: WriterSettings, rules: Profile, clock: Clock, host: str,
        batch_topics: Iterable[str], dispatches: bool, background: bool, prepare_ahead: bool,
        unique_ids: UniqueIds,
    ) -> None:  # fmt: skip
        self.files, self.settings, self.profile, self.clock = files, settings, rules, clock
        self.encoder = Encoder(settings, rules, clock, unique_ids, host)
        self.batch_topics = frozenset(batch_topics)
        self.recovered: LogEnd | None = None  # what recovery found, where `abort` was there
        self._scan_rules = scan_rules(rules, settings, self.batch_topics)
        self._sync_flush = settings.sync_flush
        self._dispatches, self._background = dispatches, background
        self._prepare_ahead = prepare_ahead or settings.warm_mapped_file_enable
        self._lock = threading.Lock()  # appending
        self._dispatch_lock = threading.Lock()  # dispatching, queues, index, checkpoint
        self._error: BaseException | None = None
        self._closed = False
        self._next: dict[tuple[str, int], int] = {}
        self._services: list[Periodic] = []
        self._checkpoint = Checkpoint()

    @classmethod
    def open(
        cls,
        path: str,
        settings: WriterSettings | None = None,
        *,
        clock: Clock,
        files: Files | None = None,
        release: str = DEFAULT_RELEASE,
        host: str = DEFAULT_HOST,
        batch_topics: Iterable[str] = (),
        dispatches: bool = True,
        background: bool = True,
        prepare_ahead: bool = False,
        unique_ids: UniqueIds | None = None,
    ) -> "CommitLogWriter":
        """Open a store, or make one. Takes its lock; recovers first if it was not closed.

        clock: milliseconds since 1970. files: where the store is, instead of the folder `path`.
        release: the RocketMQ release whose rules are followed. host: the store's own address.
        batch_topics: those with queue.type BatchCQ, which are not written to. dispatches: keep
        ConsumeQueue and Index; else they are left to a rebuild. background: flush and dispatch
        in threads; without them only when `flush`, `dispatch` and `close` are called (and for
        SYNC_FLUSH with each append).

        Raises StoreInUse, DamageFound, StoreError, SettingError, OSError.
        """
        settings = settings or WriterSettings()
        refuse_unsupported(settings)
        files = files or DiskFiles(path)
        ids = unique_ids or UniqueIds(clock, host, os.getpid(), id(files))
        writer = cls(
            files, settings, profile(release), clock, host, batch_topics, dispatches, background,
            prepare_ahead, ids,
        )  # fmt: skip
        files.make_folder("")
        writer._unlock = files.lock(LOCK)
        try:
            writer._open()
        except BaseException as error:
            if writer._made_abort and isinstance(error, StoreError):
                files.remove(ABORT)  # it was closed cleanly, and a refusal changes nothing of that
            writer._unlock()
            raise
        return writer

    _unlock: Callable[[], None]
    _made_abort = False

    # --- opening ---------------------------------------------------------------------------

    def _open(self) -> None:
        files, settings = self.files, self.settings
        crashed = files.exists(ABORT)
        checkpoint_lost = not files.exists(CHECKPOINT_FILE)
        self._checkpoint = self._read_checkpoint()
        recovery = LogRecovery(
            files, settings.mapped_file_size_commit_log, self._scan_rules.records,
            settings.check_crc_on_recover, self._checkpoint if crashed else None,
            checkpoint_lost,
        )  # fmt: skip
        end = recovery.find()
        if not crashed:
            self._write_abort()
        files.make_folder(COMMIT_LOG)
        recovery.cut(end)
        self.recovered = end if crashed else None
        self._last_timestamp = max(end.last_timestamp, 0)
        self.log = CommitLog(
            files, settings.mapped_file_size_commit_log, end.start, end.end,
            settings.transient_store_pool_enable, self._prepare_ahead,
            settings.warm_mapped_file_enable, _spawn if self._background else None,
        )  # fmt: skip
        self.queues = QueueFiles(files, settings, place_rules(self.profile), self._dispatches)
        self.queues.load(end.checked_from if crashed else end.end)
        self.index = self._open_index(end, crashed)
        at = max((state.end for state in self.queues.states.values()), default=end.start)
        if crashed:
            at = min(at, end.checked_from)
            if self.index is not None:
                at = min(at, max(self.index.indexed_to, end.start))
        self._known_from = at = min(max(at, end.start), end.end)
        self.reput = Reput(
            self.log.read, settings.mapped_file_size_commit_log, self._scan_rules, self.queues,
            self.index, at,
        )  # fmt: skip
        self.reput.timestamp = self._checkpoint.logics_msg_timestamp
        self.reput.run(end.end, known=False)
        self._next = {
            (key.topic, key.queue_id): state.position for key, state in self.queues.states.items()
        }
        self.keep_checkpoint()
        self._start_services()

    def _open_index(self, end: LogEnd, crashed: bool) -> IndexFiles | None:
        if not (self._dispatches and self.settings.message_index_enable):
            return None
        index = IndexFiles(self.files, self.profile, self.settings, self.clock)
        index.load(self._checkpoint.index_msg_timestamp if crashed else None, end.end)
        return index

    def _write_abort(self) -> None:
        """DefaultMessageStore.createTempFile: it is there while a store is open."""
        file = self.files.create(ABORT)
        if self.profile.abort_process_id:
            file.write_at(0, str(os.getpid()).encode())
        file.sync()
        file.close()
        self.files.sync_folder("")
        self._made_abort = True

    def _read_checkpoint(self) -> Checkpoint:
        if not self.files.exists(CHECKPOINT_FILE):
            return Checkpoint()
        file = self.files.open(CHECKPOINT_FILE)
        try:
            raw = np.zeros(CHECKPOINT.itemsize, np.uint8)
            if file.length() >= len(raw):
                file.read_at(0, raw)
            return decode_checkpoint(raw.tobytes())
        finally:
            file.close()

    def _start_services(self) -> None:
        settings = self.settings
        self._group = GroupCommit(self._sync, self._fail)
        self._commit_due = Due(
            settings.commit_commit_log_least_pages, settings.commit_commit_log_thorough_interval
        )
        self._flush_due = Due(
            settings.flush_commit_log_least_pages, settings.flush_commit_log_thorough_interval
        )
        self._last_commit = self._last_flush = self.clock()
        if not self._background:
            return
        services: list[tuple[str, float, Callable[[], None]]] = [
            ("Checkpoint", settings.flush_consume_queue_thorough_interval / 1000,
             self.keep_checkpoint),
        ]  # fmt: skip
        if self._dispatches:
            services.append(("Reput", _DISPATCH_SECONDS, self.dispatch))
        if settings.transient_store_pool_enable:
            services.append(
                ("CommitRealTime", settings.commit_interval_commit_log / 1000, self.commit_if_due)
            )
        if not self._sync_flush:
            services.append(
                ("FlushRealTime", settings.flush_interval_commit_log / 1000, self.flush_if_due)
            )
        self._services = [Periodic(*service, self._fail) for service in services]

    # --- appending -------------------------------------------------------------------------

    def append(self, message: Message) -> AppendResult:
        """Append one message. In SYNC_FLUSH it returns when the message is durable.

        Raises Refused (a subclass for each reason), WriterFailed, WriterClosed.
        """
        check_sendable(message.topic)
        return self.put(self.encoder.draft(message))

    def append_batch(self, messages: Sequence[Message]) -> AppendResult:
        """Append messages of one topic and queue at once, within one segment (MessageExtBatch).

        Raises as `append`; BatchIllegal where they differ, or one is delayed or transactional.
        """
        if not messages:
            raise BatchIllegal("a batch of no messages")
        first = messages[0]
        check_sendable(first.topic)
        for message in messages:
            if (message.topic, message.queue_id) != (first.topic, first.queue_id):
                raise BatchIllegal("a batch is of one topic and one queue")
            if message.delay_level > 0 or message.transaction:
                raise BatchIllegal("a batch holds no delayed message and no half message")
            if (message.wait, message.store_host) != (first.wait, first.store_host):
                raise BatchIllegal("a batch has one WAIT and one store host")
        return self.put(*self.encoder.batch(list(messages)))

    def put(self, *drafts: Draft) -> AppendResult:
        """Append what the encoder made: one record, or those of a batch."""
        first = drafts[0]
        size = first.size if len(drafts) == 1 else sum(draft.size for draft in drafts)
        with self._lock:
            if self._error is not None or self._closed:
                self.check_usable()
            now = self._last_timestamp = max(self.clock(), self._last_timestamp)
            try:
                key = (first.topic, first.queue_id)
                queue_offset = self._next.get(key)
                if queue_offset is None:
                    queue_offset = self.next_offset(key)
                if size + BLANK_BYTES > self.log.room:
                    self._check_fits(size)
                    self.log.make_room(size)
                at = self.log.end
                if len(drafts) == 1:
                    queue_offset = queue_offset if first.counted else 0
                    self.log.write(finish(first, queue_offset, at, now))
                else:
                    self.log.write(_joined(drafts, queue_offset, at, now))
            except OSError as error:
                self._fail(error)
                raise self._ended() from error
            if first.counted:
                self._next[key] = queue_offset + len(drafts)
        status = self._wait(at + size, first.wait) if self._sync_flush else PUT_OK
        offsets = (at,) if len(drafts) == 1 else _offsets(drafts, at)
        return AppendResult(status, at, queue_offset, size, now, first.store_host, offsets)

    @contextmanager
    def appending(self) -> Iterator[int]:
        """Hold the log for one append; yields its storeTimestamp. A failed write ends the writer.

        The time never goes back: recovery tells by it what was durable.
        """
        with self._lock:
            self.check_usable()
            self._last_timestamp = max(self.clock(), self._last_timestamp)
            try:
                yield self._last_timestamp
            except OSError as error:
                self._fail(error)
                raise self._ended() from error

    def wait_durable(self, end: int) -> str:
        """In SYNC_FLUSH return when the log is durable up to `end`; else at once."""
        return self._wait(end, True) if self._sync_flush else PUT_OK

    def _wait(self, end: int, wait: bool) -> str:
        """DefaultFlushManager.handleDiskFlush."""
        if not self._background:
            try:
                self._sync()
            except OSError as error:
                self._fail(error)
                raise self._ended() from error
            return PUT_OK
        if not wait:
            self._group.wake()
            return PUT_OK
        try:
            return self._group.wait(end, self.settings.sync_flush_timeout / 1000)
        except BaseException as error:
            raise self._ended() from error

    def _check_fits(self, size: int) -> None:
        most = self.settings.mapped_file_size_commit_log - BLANK_BYTES
        if size > most:
            raise MessageTooLarge(f"a batch of {size} bytes; a segment takes {most}")

    def next_offset(self, key: tuple[str, int]) -> int:
        """The queueOffset of the next message for a queue; while `appending`."""
        offset = self._next.get(key)
        if offset is not None:
            return offset
        if key[0] in self.batch_topics:
            raise BatchQueueTopic(f"topic {key[0]} has queue.type BatchCQ")
        if self._known_from > self.log.start:
            # Its files may be gone while the log still knows it: look once at what was not read.
            with self._dispatch_lock:
                self._learn_queues()
        return self._next.get(key, 0)

    def set_next_offset(self, key: tuple[str, int], offset: int) -> None:
        """Messages were appended up to this queueOffset; while `appending`."""
        self._next[key] = offset

    def _learn_queues(self) -> None:
        """Find the queues that the log has and the ConsumeQueues lack, in what was not read."""
        missing = QueueFiles(self.files, self.settings, place_rules(self.profile), self._dispatches)
        missing.ignored = frozenset(self.queues.states)
        size = self.settings.mapped_file_size_commit_log
        Reput(self.log.read, size, self._scan_rules, missing, None, self.log.start).run(
            self._known_from, known=False
        )
        missing.sync()
        missing.close()
        self.queues.states.update(missing.states)
        for key, state in missing.states.items():
            self._next.setdefault((key.topic, key.queue_id), state.position)
        self._known_from = self.log.start

    # --- making durable --------------------------------------------------------------------

    def flush(self) -> None:
        """Make all that was appended durable. Raises WriterFailed."""
        self.check_usable()
        try:
            self._sync()
        except OSError as error:
            self._fail(error)
            raise self._ended() from error

    def _sync(self) -> int:
        """Commit the write buffer, then sync; the checkpoint learns of it when it is kept."""
        self.check_usable()
        if self.settings.transient_store_pool_enable:
            with self._lock:
                self.log.commit()
        timestamp = self._last_timestamp
        flushed = self.log.sync()
        self._physic_timestamp = timestamp
        return flushed

    _physic_timestamp = 0

    def commit_if_due(self) -> None:
        """CommitRealTimeService: write buffer to file, by pages or after a while."""
        log, now = self.log, self.clock()
        if self._commit_due.now(log.end, log.committed, now, self._last_commit):
            with self._lock:
                log.commit()
            self._last_commit = now

    def flush_if_due(self) -> None:
        """FlushRealTimeService: sync, by pages or after a while."""
        log, now = self.log, self.clock()
        if self._flush_due.now(log.committed, log.flushed, now, self._last_flush):
            timestamp = self._last_timestamp if log.committed == log.end else 0
            log.sync()
            self._physic_timestamp = max(timestamp, self._physic_timestamp)
            self._last_flush = now

    def dispatch(self) -> None:
        """Dispatch what is in the files, in SYNC_FLUSH what is durable (getConfirmOffset)."""
        if not self._dispatches:
            return
        with self._dispatch_lock:
            self.log.needed_from = self.reput.at
            self.reput.run(self.log.flushed if self._sync_flush else self.log.committed)

    def keep_checkpoint(self) -> None:
        """Make queues durable, then say so in the checkpoint (FlushConsumeQueueService)."""
        with self._dispatch_lock:
            physic = self._physic_timestamp
            logics = self.reput.timestamp
            self.queues.sync()
            old = self._checkpoint
            # `physic` is durable; of what has the same millisecond only a part may be.
            index = self.index.full_timestamp if self.index else 0
            self._write_checkpoint(
                old._replace(
                    physic_msg_timestamp=max(physic, old.physic_msg_timestamp),
                    logics_msg_timestamp=max(
                        logics if self._dispatches else 0, old.logics_msg_timestamp
                    ),
                    index_msg_timestamp=max(index, old.index_msg_timestamp),
                    confirm_phy_offset=(
                        self.log.flushed
                        if self.profile.checkpoint_confirm_offset
                        else old.confirm_phy_offset
                    ),
                    logics_physical_offset=(
                        self.reput.at
                        if self.profile.checkpoint_logics_offset and self._dispatches
                        else old.logics_physical_offset
                    ),
                )
            )

    def _write_checkpoint(self, checkpoint: Checkpoint) -> None:
        """In place: its fields lie within one sector. The file is there before the first record."""
        new = not self.files.exists(CHECKPOINT_FILE)
        file = (self.files.create if new else self.files.open)(CHECKPOINT_FILE)
        try:
            if file.length() != CHECKPOINT_FILE_BYTES:
                file.set_length(CHECKPOINT_FILE_BYTES)
            file.write_at(0, encode_checkpoint(checkpoint)[: CHECKPOINT.itemsize])
            file.sync()
        finally:
            file.close()
        if new:
            self.files.sync_folder("")
        self._checkpoint = checkpoint

    # --- ending ----------------------------------------------------------------------------

    def close(self) -> None:
        """Flush, dispatch what is left, and close as a clean stop. A second call does nothing.

        Raises WriterFailed if the writer failed: then `abort` stays, and the next open recovers.
        """
        if self._closed:
            return
        for service in self._services:
            service.stop()
        self._group.stop()
        try:
            self.check_usable()
            self._close_cleanly()
        except OSError as error:
            self._fail(error)
            raise self._ended() from error
        finally:
            self._closed = True
            self.log.close()
            self.queues.close()
            if self.index is not None:
                self.index.close()
            self._unlock()

    def _close_cleanly(self) -> None:
        self._sync()
        self.dispatch()
        if self.index is not None:
            self.index.finish()
        self.keep_checkpoint()
        self.files.remove(ABORT)
        self.files.sync_folder("")

    def abandon(self) -> None:
        """Let go of everything without flushing, as a killed process would: for tests."""
        self._closed = True
        for service in self._services:
            service.stop()
        self.log.close()
        self.queues.close()
        if self.index is not None:
            self.index.close()
        self._unlock()

    def __enter__(self) -> "CommitLogWriter":
        return self

    def __exit__(self, *about: object) -> None:
        if self._error is None:
            self.close()
        else:
            self.abandon()

    def check_usable(self) -> None:
        """Raise WriterFailed or WriterClosed."""
        if self._error is not None:
            raise self._ended()
        if self._closed:
            raise WriterClosed("the writer is closed")

    def _fail(self, error: BaseException) -> None:
        if self._error is None:
            self._error = error

    def _ended(self) -> WriterFailed:
        return WriterFailed(f"the writer has ended: {self._error}; the next open recovers")


def _joined(drafts: Sequence[Draft], queue_offset: int, at: int, now: int) -> bytes:
    records = []
    for number, draft in enumerate(drafts):
        records.append(finish(draft, queue_offset + number, at, now))
        at += draft.size
    return b"".join(records)


def _offsets(drafts: Sequence[Draft], at: int) -> tuple[int, ...]:
    offsets = []
    for draft in drafts:
        offsets.append(at)
        at += draft.size
    return tuple(offsets)


def _spawn(work: Callable[[], None]) -> Callable[[], None]:
    """Run in a thread; what is returned waits for it, and raises what it raised."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            errors.append(error)

    thread = threading.Thread(target=run, name="AllocateMappedFile", daemon=True)
    thread.start()

    def wait() -> None:
        thread.join()
        if errors:
            raise errors[0]

    return wait
