"""Gives each record its queueOffset, physical offset and storeTimestamp, and writes it, if the
store takes messages and the writer may be used.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, count

from reput.broker.writer.store import OpenStore
from reput.store_format.faults import StoreError
from reput.store_format.files.protocol import Files
from reput.store_format.layouts import BLANK_BYTES
from reput.store_format.message import refusals
from reput.store_format.message.encode import Draft, finish
from reput.store_format.message.ids import Clock
from reput.store_format.release.settings import WriterSettings


class Request:
    """What one caller asks for: to write its records, and to make the log durable up to `end`."""

    __slots__ = (
        "done", "drafts", "end", "error", "following", "left", "physical_offset", "queue_offset",
        "size", "store_timestamp", "woken",
    )  # fmt: skip

    def __init__(self, drafts: Sequence[Draft] = (), end: int = 0) -> None:
        """drafts: one record, or those of a batch; none to wait for durability only."""
        self.drafts = drafts
        self.size = drafts[0].size if len(drafts) == 1 else sum(draft.size for draft in drafts)
        self.end = end  # physical
        # of the record, or of a batch's first record; set when it is written
        self.physical_offset = self.queue_offset = self.store_timestamp = -1
        self.error: BaseException | None = None
        # the lock that a caller waits for (flush); released when the caller may go on
        self.done: threading.Lock | None = None
        self.woken = self.left = False
        self.following: Request | None = None  # the request whose caller is woken after this one


class Appender:
    """Writes records under one lock, and knows each queue's next offset.

    No storeTimestamp is less than that of the record before, even if the clock is set back, because
    recovery decides by storeTimestamps what was durable.
    """

    def __init__(
        self, store: OpenStore, batch_topics: frozenset[str], clock: Clock,
        check_usable: Callable[[], None],
    ) -> None:  # fmt: skip
        """check_usable: called under the lock; raises if nothing may be written any more."""
        self.lock = threading.Lock()
        self.last_timestamp = store.last_timestamp
        self.began = 0  # when the append under way began, in milliseconds; 0 if there is none
        self._store, self._log, self._clock = store, store.log, clock
        self._batch_topics = batch_topics
        self._check_usable = check_usable
        self._next = store.positions()
        self._begun = dict(self._next)

    def append(self, requests: Sequence[Request], check: Callable[[], None] | None = None) -> None:
        """Write the records of all requests, those for one segment in one write.

        check: called instead of `check_usable`. An error of one request alone is stored in its
        `error`. Raises OSError: any of the records may then be in the file or not.
        """
        with self.lock:
            (check or self._check_usable)()
            now = self._clock()
            if now < self.last_timestamp:
                now = self.last_timestamp
            self.last_timestamp = self.began = now
            try:
                self._write(requests, now)
            finally:
                self.began = 0

    def _write(self, requests: Sequence[Request], now: int) -> None:
        """Under the lock: place the records of all requests, and write them."""
        log = self._log
        records: list[bytes] = []
        held, room = 0, log.room - BLANK_BYTES
        for request in requests:
            first = request.drafts[0]
            key = (first.topic, first.queue_id)
            queue_offset, after = self._next.get(key), None
            if queue_offset is None or first.further is not None:
                try:
                    queue_offset = self.next_offset(key)
                    after = self._number(request)
                except (refusals.Refused, StoreError) as error:
                    request.error = error
                    continue
            drafts, size = request.drafts, request.size
            first = drafts[0]
            if held + size > room:
                if records:
                    log.write(b"".join(records))
                    records, held = [], 0
                try:
                    log.make_room(size)
                except refusals.CreateFileFailed as error:
                    request.error = error
                    continue
                finally:
                    room = log.room - BLANK_BYTES
            at = log.end + held
            if len(drafts) == 1:
                queue_offset = queue_offset if first.counted else 0
                records.append(finish(first, queue_offset, at, now))
            else:
                places = accumulate((draft.size for draft in drafts), initial=at)
                numbered = zip(drafts, count(queue_offset), places, strict=False)
                records += [finish(draft, n, place, now) for draft, n, place in numbered]
            held += size
            if first.counted:
                self._next[key] = queue_offset + len(drafts)
            if after:
                self._next.update(after)
            request.physical_offset, request.end = at, at + size
            request.queue_offset, request.store_timestamp = queue_offset, now
        if records:
            log.write(records[0] if len(records) == 1 else b"".join(records))

    def _number(self, request: Request) -> dict[tuple[str, int], int] | None:
        """Number a message in its further queues; returns their next offsets. Raises Refused."""
        draft = request.drafts[0]
        if draft.further is None or draft.numbered is None:
            return None
        numbers, after = draft.further.numbers(self.next_offset)
        draft = draft.numbered(numbers)
        request.drafts, request.size = (draft,), draft.size
        return after

    @contextmanager
    def appending(self) -> Iterator[int]:
        """Hold the log for one append made elsewhere; yields its storeTimestamp."""
        with self.lock:
            self._check_usable()
            self.last_timestamp = self.began = max(self._clock(), self.last_timestamp)
            try:
                yield self.last_timestamp
            finally:
                self.began = 0

    def next_offset(self, key: tuple[str, int]) -> int:
        """A queue's next queueOffset. Called under the lock. Raises BatchQueueTopic, StoreError."""
        offset = self._next.get(key)
        if offset is not None:
            return offset
        if key[0] in self._batch_topics:
            raise refusals.batch_queue_topic(key[0])
        self._store.learn_queues()
        for known, position in self._store.positions().items():
            self._next.setdefault(known, position)
            self._begun.setdefault(known, position)
        return self._next.get(key, 0)

    def queues_grown(self) -> dict[str, int]:
        """Topic -> the number of queues that it needs, of what was appended."""
        found: dict[str, int] = {}
        for (topic, queue_id), offset in self._next.items():
            if offset != self._begun.get((topic, queue_id), 0):
                found[topic] = max(found.get(topic, 1), queue_id + 1)
        return found

    def set_next_offset(self, key: tuple[str, int], offset: int) -> None:
        """Set a queue's next queueOffset. Called under the lock."""
        self._next[key] = offset


def check_fits(request: Request, segment_bytes: int) -> None:
    """Raise MessageTooLarge for a batch that no segment can take."""
    most = segment_bytes - BLANK_BYTES
    if request.size > most:
        raise refusals.MessageTooLarge(f"a batch of {request.size} bytes; a segment takes {most}")


# ---
# Whether a store takes messages at this moment, as a broker asks before each put.
#
# HookUtils.checkBeforePutMessage refuses a message where the disk is full, and while another append
# takes too long. CleanCommitLogService looks at the disk every cleanResourceInterval.
#
# A broker keeps the ratio within 35 and 90 percent. Here the user's own counts: who appends to a
# store by hand may well want a disk's last room.

_NO_APPEND_MS = 10_000_000  # DefaultMessageStore.isOSPageCacheBusy: no append takes longer


class Admission:
    """Whether a store takes messages; asked before each put."""

    def __init__(
        self, files: Files, settings: WriterSettings, clock: Clock, appender: Appender
    ) -> None:
        self.is_full = False
        self._files, self._clock, self._appender = files, clock, appender
        self._ratio = settings.disk_space_warning_level_ratio / 100
        self._busy_after = settings.os_page_cache_busy_timeout_mills

    def look(self) -> None:
        """Look at the disk (CleanCommitLogService.isSpaceToDelete)."""
        self.is_full = self._files.used_share() > self._ratio

    def check(self) -> None:
        """Raise DiskFull or PageCacheBusy."""
        if self.is_full:
            raise refusals.DiskFull(
                f"the disk is {self._files.used_share():.0%} full, more than "
                f"diskSpaceWarningLevelRatio ({self._ratio:.0%}): make room, or set that higher"
            )
        began = self._appender.began
        if began and self._busy_after < self._clock() - began < _NO_APPEND_MS:
            raise refusals.PageCacheBusy(
                f"another message has been on its way for {self._clock() - began} ms "
                f"(osPageCacheBusyTimeOutMills is {self._busy_after})"
            )


# ---
# Who may still use a writer: its own process, until it is closed or a write fails.


class _Process:
    """The number of this process, asked of the system once: an append needs it twice."""

    def __init__(self) -> None:
        self.renew()
        os.register_at_fork(after_in_child=self.renew)

    def renew(self) -> None:
        self.id = os.getpid()


_process = _Process()


class UsageGuard:
    """What a writer asks before it does anything. Made by the process that opens the store."""

    def __init__(self) -> None:
        self._process = _process.id
        self.error: BaseException | None = None  # what ended the writer
        self.closing = False

    @property
    def is_fork(self) -> bool:
        """Whether this is another process than the one that opened the store."""
        return self._process != _process.id

    @property
    def is_usable(self) -> bool:
        return self.error is None and not self.closing and self._process == _process.id

    def check_process(self) -> None:
        """Raise ForkedWriter in another process than the one that opened the store.

        Called before a lock is taken: in a fork, locks that other threads held are never released.
        """
        if self.is_fork:
            raise refusals.ForkedWriter(
                f"the writer was opened by process {self._process}, and this is a fork of it: "
                f"open the store anew once that one has closed it"
            )

    def check_usable(self) -> None:
        """Raise ForkedWriter, WriterFailed or WriterClosed."""
        self.check_process()
        self.check_sound()
        if self.closing:
            raise refusals.WriterClosed("the writer is closed")

    def check_sound(self) -> None:
        """Raise WriterFailed where a write has failed."""
        if self.error is not None:
            raise self._ended()

    def fail(self, error: BaseException) -> None:
        """Note the error that ends the writer; the first error stays."""
        if self.error is None:
            self.error = error

    @contextmanager
    def failing(self) -> Iterator[None]:
        """An OSError within ends the writer, and becomes WriterFailed."""
        try:
            yield
        except OSError as error:
            raise self.failed(error) from error

    def failed(self, error: OSError) -> refusals.WriterFailed:
        """Note the error that ends the writer; returns what the caller is to raise."""
        self.fail(error)
        return self._ended()

    def _ended(self) -> refusals.WriterFailed:
        return refusals.WriterFailed(f"the writer has ended: {self.error}; the next open recovers")
