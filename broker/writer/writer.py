"""`CommitLogWriter`: opens a store as a broker does, appends to it, and closes it cleanly."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import NamedTuple

from reput.broker.writer.appender import Admission, Appender, Request, UsageGuard, check_fits
from reput.broker.writer.commit_log import in_background
from reput.broker.writer.flush import LOOK_SECONDS, DispatchPace, Durability, Service
from reput.broker.writer.store import OpenStore, in_utc
from reput.store_format.discover.sizes import settings_to_continue
from reput.store_format.faults import StoreError
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.protocol import Files
from reput.store_format.message.encode import Draft, Encoder, message_id
from reput.store_format.message.ids import Clock, UniqueIds
from reput.store_format.message.message import Message, check_sendable, check_types
from reput.store_format.message.refusals import PUT_OK, BatchIllegal, batch_queue_topic
from reput.store_format.names import LOCK
from reput.store_format.release.profiles import Profile, profile
from reput.store_format.release.settings import (
    SettingError,
    WriterSettings,
    refuse_other_folders,
    refuse_unsupported,
)

DEFAULT_RELEASE = "5.3.3"
DEFAULT_HOST = "127.0.0.1:10911"


class AppendResult(NamedTuple):
    """What became of a message, or of a batch's first message (AppendMessageResult)."""

    # RocketMQ's PutMessageStatus: PUT_OK, FLUSH_DISK_TIMEOUT, or what `replicated` answered
    status: str
    physical_offset: int
    queue_offset: int
    size: int  # bytes, of all messages of a batch
    store_timestamp: int  # milliseconds
    store_host: bytes
    offsets: tuple[int, ...]  # physical, of each message

    @property
    def message_id(self) -> str:
        """The offsetMsgId; for a batch those of all messages, separated by commas."""
        return ",".join([message_id(self.store_host, offset) for offset in self.offsets])


class CommitLogWriter:
    """Appends to one store. Safe for use by many threads, but only of the process that opened it:
    in a fork every method raises ForkedWriter. Made by `open`.
    """

    # Called with topic, queue id, old and new position of a message copied from another log.
    placed: Callable[[str, int, int, int], None] | None = None

    def __init__(
        self, store: OpenStore, encoder: Encoder, batch_topics: frozenset[str], background: bool,
        unlock: Callable[[], None],
    ) -> None:  # fmt: skip
        self.store, self.encoder = store, encoder
        self.settings, self.profile, self.clock = store.settings, store.profile, store.clock
        self.log, self.queues, self.index = store.log, store.queues, store.index
        self.reput, self.recovered = store.reput, store.recovered
        self.entries_cut = store.past_end
        self.sizes_found = store.sizes_found
        self._unlock = unlock
        self._closed = False
        self.guard = UsageGuard()
        self.appender = Appender(store, batch_topics, self.clock, self.guard.check_usable)
        self._durability = Durability(
            store.log, self.settings, self.clock, self.appender, self.guard.check_sound,
            self.guard.fail,
        )  # fmt: skip
        self.admission = Admission(store.files, self.settings, self.clock, self.appender)
        self.admission.look()
        # As a SYNC_MASTER: waits until enough replicas have the log up to the offset given, the end
        # of a put. Returns PUT_OK, FLUSH_SLAVE_TIMEOUT or SLAVE_NOT_AVAILABLE. None: no waiting.
        self.replicated: Callable[[int], str] | None = None
        # Called once queues are complete, before the store counts as cleanly stopped.
        self.settle: Callable[[], object] = lambda: None
        self._queues_flushed = 0
        self._pace: DispatchPace | None = None
        if background:
            services: list[Service] = [
                (
                    "FlushConsumeQueue", self.settings.flush_interval_consume_queue / 1000,
                    self.flush_queues_if_due,
                ),
                (
                    "CleanCommitLog", self.settings.clean_resource_interval / 1000,
                    self.admission.look,
                ),
            ]  # fmt: skip
            if store.dispatches:
                self._pace = DispatchPace(store.log, store.reput, self.dispatch, self.guard.fail)
                services.append(("Reput", LOOK_SECONDS, self._pace.look))
            self._durability.start(services)

    @classmethod
    def open(  # noqa: PLR0913 (a user's options)
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
        local: Callable[[int], int] = in_utc,
    ) -> "CommitLogWriter":
        """Open a store, or make one. Takes its lock; recovers first if it was not closed.

        clock: milliseconds since 1970. files: where the store is, instead of the folder `path`.
        release: the RocketMQ release whose rules are followed. host: the store's own address.
        batch_topics: those with queue.type BatchCQ, which are not written to. dispatches: keep
        ConsumeQueue and Index; else they are left to a rebuild. background: flush and dispatch
        in threads; without them only when `flush`, `dispatch` and `close` are called (and for
        SYNC_FLUSH with each append).

        local: a time as the local time by which index files are named.

        Sizes that were not given are those of the store's files (`sizes_found` says which).

        Raises StoreInUse, DamageFound, StoreError, SettingError (SizeDisagrees), OSError.
        """
        settings = settings or WriterSettings()
        refuse_unsupported(settings)
        if settings.enable_dledger_commit_log:
            raise SettingError("enableDLegerCommitLog=true: no command writes to a DLedger log")
        if files is None:
            refuse_other_folders(settings, path)
            there = os.path.isdir(path)
            files = DiskFiles.as_owned_by(os.stat(path), path) if there else DiskFiles(path)
        rules = profile(release)
        ids = unique_ids or UniqueIds(clock, host, os.getpid(), id(files))
        files.make_folder("")
        unlock = files.lock(LOCK)
        store: OpenStore | None = None
        try:
            settings, found = settings_to_continue(settings, files)
            encoder = Encoder(settings, rules, clock, ids, host)
            store = OpenStore(files, settings, rules, clock, batch_topics, dispatches, local)
            store.sizes_found = found
            ahead = prepare_ahead or settings.warm_mapped_file_enable
            store.open(ahead, in_background if background else None)
            return cls(store, encoder, frozenset(batch_topics), background, unlock)
        except BaseException as error:
            if store is not None and isinstance(error, StoreError):
                store.take_back()
                store.let_go()
            unlock()
            raise

    # --- appending -------------------------------------------------------------------------

    def append(self, message: Message) -> AppendResult:
        """Append one message. In SYNC_FLUSH it returns when the message is durable.

        Raises Refused (a subclass for each reason), WriterFailed, WriterClosed, ForkedWriter.
        """
        check_sendable(message.topic, message.queue_id)
        return self.put(self.encoder.draft(message))

    def append_batch(self, messages: Sequence[Message]) -> AppendResult:
        """Append messages of one topic and queue at once, within one segment (MessageExtBatch).

        Raises as `append`; BatchIllegal where they differ, or one is delayed or transactional.
        """
        if not messages:
            raise BatchIllegal("a batch of no messages")
        first = messages[0]
        check_sendable(first.topic, first.queue_id)
        for message in messages:
            check_types(message)
            if (message.topic, message.queue_id) != (first.topic, first.queue_id):
                raise BatchIllegal("a batch is of one topic and one queue")
            if self.encoder.is_delayed(message) or message.transaction:
                raise BatchIllegal("a batch holds no delayed message and no half message")
            if (message.wait, message.store_host) != (first.wait, first.store_host):
                raise BatchIllegal("a batch has one WAIT and one store host")
        return self.put(*self.encoder.batch(list(messages)))

    def put(self, *drafts: Draft) -> AppendResult:
        """Append what the encoder made: one record, or those of a batch."""
        request = Request(drafts)
        if len(drafts) > 1:
            check_fits(request, self.settings.mapped_file_size_commit_log)
        if not self.guard.is_usable:
            self.guard.check_usable()
        if self.appender.began or self.admission.is_full:
            self.admission.check()
        try:
            status = self._durability.append(request)
        except OSError as error:
            raise self.guard.failed(error) from error
        at = request.physical_offset
        if self._pace is not None:
            self._pace.appended()
        if self.replicated is not None and drafts[0].wait:
            answer = self.replicated(request.end)
            if answer != PUT_OK:  # replaces a FLUSH_DISK_TIMEOUT (CommitLog.handleDiskFlushAndHA)
                status = answer
        return AppendResult(
            status, at, request.queue_offset, request.size, request.store_timestamp,
            drafts[0].store_host, tuple(accumulate((d.size for d in drafts[:-1]), initial=at)),
        )  # fmt: skip

    @contextmanager
    def appending(self) -> Iterator[int]:
        """Hold the log for one append; yields its storeTimestamp. Raises Unavailable."""
        self.guard.check_process()
        self.admission.check()
        with self.guard.failing(), self.appender.appending() as now:
            yield now

    def end(self) -> int:
        """Where the log ends: a physical offset."""
        return self.log.end

    def wait_durable(self, end: int) -> str:
        """In SYNC_FLUSH wait until the log is durable up to `end`; else return at once."""
        self.guard.check_process()
        with self.guard.failing():
            return self._durability.wait(end, wait=True)

    # --- making durable --------------------------------------------------------------------

    def flush(self) -> None:
        """Make all appended records durable. Raises WriterFailed."""
        self.guard.check_usable()
        with self.guard.failing():
            self._durability.sync()

    def dispatch(self, alone: bool = False) -> None:
        """Dispatch what is in the files (SYNC_FLUSH: durable). alone: if no other thread does."""
        self.guard.check_process()
        log = self.log
        self.store.dispatch(log.flushed if self._durability.synchronous else log.committed, alone)

    def flush_queues_if_due(self) -> None:
        """Make queues durable that have grown enough, at times all (FlushConsumeQueueService)."""
        self.guard.check_process()
        now = self.clock()
        if now >= self._queues_flushed + self.settings.flush_consume_queue_thorough_interval:
            self._queues_flushed = now
            self.keep_checkpoint()
        else:
            self.store.flush_queues()

    def keep_checkpoint(self) -> None:
        """Make queues durable, and note in the checkpoint what is durable."""
        self.guard.check_process()
        self.store.keep_checkpoint(self._durability.durable_before)

    # --- ending ----------------------------------------------------------------------------

    def close(self) -> None:
        """Flush, dispatch what is left, and close as a clean stop. A second call does nothing.

        Raises WriterFailed if the writer failed: then `abort` stays, and the next open recovers.
        """
        self.guard.check_process()
        with self.appender.lock:
            if self.guard.closing:
                return
            self.guard.closing = True
        self._durability.stop()
        try:
            with self.guard.failing():
                self._durability.sync()
                self.store.finish(self._durability.durable_before, self.settle)
        finally:
            self._let_go()

    def abandon(self) -> None:
        """Let go of everything without flushing, as a killed process would."""
        self.guard.check_process()
        self.guard.closing = True
        self._durability.stop()
        self._let_go()

    def _let_go(self) -> None:
        if not self._closed:
            self._closed = True
            self.store.let_go()
            self._unlock()

    def __enter__(self) -> "CommitLogWriter":
        self.guard.check_process()
        return self

    def __exit__(self, *about: object) -> None:
        if self.guard.is_fork and about[0] is not None:
            return  # close() would raise ForkedWriter and hide what ends the fork, such as sys.exit
        if self.guard.error is None:
            self.close()
        else:
            self.abandon()


class Trial(CommitLogWriter):
    """Refuses what the writer of a store would refuse, and keeps nothing."""

    def __init__(
        self, settings: WriterSettings, rules: Profile, clock: Clock, batch_topics: Iterable[str]
    ) -> None:
        self.settings, self.profile = settings, rules
        ids = UniqueIds(clock, settings.store_host, os.getpid(), id(self))
        self.encoder = Encoder(settings, rules, clock, ids, settings.store_host)
        self._batch_topics = frozenset(batch_topics)

    def next_offset(self, key: tuple[str, int]) -> int:
        """0: no queue has a message. Raises BatchQueueTopic."""
        if key[0] in self._batch_topics:
            raise batch_queue_topic(key[0])
        return 0

    def put(self, *drafts: Draft) -> AppendResult:
        first = drafts[0]
        self.next_offset((first.topic, first.queue_id))
        if first.further is not None and first.numbered is not None:
            first.numbered(first.further.numbers(self.next_offset)[0])
        return AppendResult(PUT_OK, 0, 0, first.size, 0, first.store_host, (0,))

    def end(self) -> int:
        return 0

    def wait_durable(self, end: int) -> str:
        return PUT_OK
