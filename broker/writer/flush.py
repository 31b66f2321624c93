"""When appended bytes become durable (SYNC_FLUSH with group commit, ASYNC_FLUSH, write buffer), and
who dispatches them.

Each service is a thread that calls one method again and again, which tests may call by themselves.
docs/writer.md says how a group commit goes.
"""

import threading
from collections.abc import Callable
from typing import NamedTuple

from reput.broker.writer.appender import Appender, Request
from reput.broker.writer.commit_log import CommitLog
from reput.broker.writer.store import Reput
from reput.store_format.message.ids import Clock
from reput.store_format.message.refusals import FLUSH_DISK_TIMEOUT, PUT_OK, WriterClosed
from reput.store_format.release.settings import OS_PAGE_BYTES, WriterSettings

# How long the group commit thread waits, at most, until the callers of a group have been woken.
_TURN_SECONDS = 0.002


class GroupCommit:
    """SYNC_FLUSH: one thread writes and syncs for all callers that wait (GroupCommitService).

    write: appends the records of requests. sync: makes the log durable, and returns the offset up
    to which it is durable. If either raises, all callers that wait get the error, and all later
    callers too.
    """

    def __init__(
        self,
        sync: Callable[[], int],
        fail: Callable[[BaseException], None],
        write: Callable[[list[Request]], None] | None = None,
    ) -> None:
        self._write, self._sync, self._fail = write, sync, fail
        self._gate = threading.Lock()  # guards the fields below; nobody waits while holding it
        self._alarm = threading.Lock()  # released to wake the thread when it is idle
        self._alarm.acquire()
        self._idle = False
        self._writing = threading.Lock()  # held while a group of requests is taken and written
        self._requests: list[Request] = []
        self._wanted = False
        self._stopped = False
        self._error: BaseException | None = None
        self.flushed = 0
        self._thread: threading.Thread | None = None

    def wait(self, end: int, timeout: float) -> str:
        """Wait until the log is durable up to `end`: PUT_OK, or FLUSH_DISK_TIMEOUT.

        timeout: seconds (syncFlushTimeout). Raises the error of a failed sync.
        """
        request = Request(end=end)
        if not self._ask(request):
            # The writer is being closed and its thread has ended, so the caller syncs itself.
            requests = [request]
            self._all_or_fail(requests, self._sync_all)
            self._tell(requests)
        return self._wait(request, timeout)

    def put(self, request: Request, timeout: float) -> str:
        """Write the caller's records together with those of other callers, and wait as in `wait`.

        Raises WriterClosed after `stop`, and the error of this request.
        """
        if not self._ask(request):
            raise WriterClosed("the writer is closed")
        return self._wait(request, timeout)

    def _ask(self, request: Request) -> bool:
        """Queue a request; False where the thread has been stopped."""
        _make_wait(request)
        with self._gate:
            if self._error is not None:
                raise self._error
            if self._stopped:
                return False
            self._requests.append(request)
            self._wake()
        return True

    def _wait(self, request: Request, timeout: float) -> str:
        assert request.done is not None
        status = PUT_OK
        try:
            request.done.acquire(timeout=timeout)
        finally:
            woken = self._leave(request)
        if not woken:
            self._write_late(request)
            status = FLUSH_DISK_TIMEOUT
        if request.error is not None:
            raise request.error
        return status

    def _leave(self, request: Request) -> bool:
        """A caller stops waiting: if it was woken, wake the next. Returns whether it was woken."""
        with self._gate:
            request.left = True
            if request.woken:
                _tell_next(request.following)
            return request.woken

    def _tell(self, requests: list[Request]) -> None:
        """Tell the callers of a group that their records are durable, or that the sync failed.

        Only the first caller is woken here, and each caller wakes the next as it leaves `_wait`. If
        all were woken at once, all but one would only wait again, for Python's interpreter lock.
        """
        following = None
        for request in reversed(requests):
            request.following, following = following, request
        with self._gate:
            _tell_next(following)

    def _write_late(self, request: Request) -> None:
        """Make sure that the records of a caller whose timeout is over are written: the answer to
        that caller holds their physical offset.
        """
        with self._gate:
            waits = request in self._requests
            if waits:
                self._requests.remove(request)
                self._wanted = True
        if not waits:
            with self._writing:
                return
        if self._write is not None and request.drafts:
            self._write([request])

    def wake(self) -> None:
        """Ask for a sync that nobody waits for (a message with WAIT=false)."""
        with self._gate:
            self._wanted = True
            self._wake()

    def stop(self) -> None:
        """End the thread after it has served all requests."""
        with self._gate:
            self._stopped = True
            if self._thread is not None:
                self._wake()
        if self._thread is not None:
            self._thread.join()

    def _wake(self) -> None:
        """Wake the thread if it is idle. Called under the gate."""
        if self._idle:
            self._idle = False
            self._alarm.release()
        elif self._thread is None:
            self._thread = threading.Thread(target=self._run, name="GroupCommit", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            with self._gate:
                requests, self._requests = self._requests, []
                idle = self._idle = not (requests or self._wanted)
                self._wanted = False
                if idle and self._stopped:
                    return
                if not idle:  # requests from now on wait for the next sync, as this may miss them
                    self._writing.acquire()
            if idle:
                self._alarm.acquire()
                continue
            try:
                written = self._all_or_fail(requests, self._write_all)
            finally:
                self._writing.release()
            if written:
                self._all_or_fail(requests, self._sync_all)
            self._tell_before_me(requests)

    def _tell_before_me(self, requests: list[Request]) -> None:
        """Tell the callers of a group, and wait until the last of them has been woken.

        By then most callers have come back with their next request. So the next group is as large,
        and few threads want Python's interpreter lock while it is written and synced. A slow caller
        delays the others by _TURN_SECONDS at most.
        """
        if len(requests) < 2 and not self._requests:
            self._tell(requests)  # a single caller has nobody to wait for
            return
        me = _make_wait(Request())
        self._tell([*requests, me])
        assert me.done is not None
        me.done.acquire(timeout=_TURN_SECONDS)
        self._leave(me)

    def _write_all(self, requests: list[Request]) -> None:
        records = [request for request in requests if request.drafts]
        if records and self._write is not None:
            self._write(records)

    def _sync_all(self, requests: list[Request]) -> None:
        if not requests or max(request.end for request in requests) > self.flushed:
            self.flushed = self._sync()

    def _all_or_fail(self, requests: list[Request], step: Callable[[list[Request]], None]) -> bool:
        """Run a step for a group; if it fails, all callers, later ones too, get the error."""
        try:
            step(requests)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the callers must know
            self._fail(error)
            with self._gate:
                self._error = error
                requests += self._requests
                self._requests = []
            for request in requests:
                request.error = error
            return False
        return True


def _make_wait(request: Request) -> Request:
    """Give the request a lock that is held until its caller is woken."""
    request.done = threading.Lock()
    request.done.acquire()
    return request


def _tell_next(request: Request | None) -> None:
    """Tell the first caller of the chain who still waits. Called under the gate."""
    while request is not None and request.left:
        request = request.following
    if request is not None and request.done is not None:
        request.woken = True
        request.done.release()


class FlushDue(NamedTuple):
    """When a periodic flush or commit is due: after a number of pages, or, once an interval is
    over, for any bytes (flushPhysicQueueLeastPages, flushPhysicQueueThoroughInterval and the like).
    """

    least_pages: int
    thorough_interval: int  # milliseconds

    def now(self, written: int, done: int, time: int, last_thorough: int) -> bool:
        """Whether bytes from `done` to `written` are to be flushed (MappedFile.isAbleToFlush).

        written, done: offsets in bytes. time, last_thorough: milliseconds, now and the last flush.
        """
        if time >= last_thorough + self.thorough_interval or self.least_pages <= 0:
            return written > done
        pages = written // OS_PAGE_BYTES - done // OS_PAGE_BYTES
        return pages >= self.least_pages


class Periodic:
    """Calls a function at an interval, in a thread (FlushRealTimeService, CommitRealTimeService).

    If the function raises, `fail` gets the error and the thread ends.
    """

    def __init__(
        self,
        name: str,
        interval: float,
        work: Callable[[], None],
        fail: Callable[[BaseException], None],
    ) -> None:
        """interval: seconds."""
        self._interval, self._work, self._fail = interval, work, fail
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._interval):
            try:
                self._work()
            except BaseException as error:  # noqa: BLE001 - it ends the writer
                self._fail(error)
                return

    def stop(self) -> None:
        """End the thread after the call that is under way."""
        self._stop.set()
        if self._thread is not threading.current_thread():
            self._thread.join()


# ---
# Makes an open log durable when its flush mode asks for it (CommitLog.DefaultFlushManager).

# What runs in the background: its thread's name, how often (seconds), and the function to call.
Service = tuple[str, float, Callable[[], None]]


class Durability:
    """Group commit, periodic flush and periodic commit of the write buffer, for one log."""

    def __init__(
        self, log: CommitLog, settings: WriterSettings, clock: Clock, appender: Appender,
        check: Callable[[], None], fail: Callable[[BaseException], None],
    ) -> None:  # fmt: skip
        """check: raises if the writer has failed. fail: called with a background thread's error."""
        self.log, self.settings, self.clock = log, settings, clock
        self.synchronous = settings.sync_flush
        self.durable_before = 0  # milliseconds: all records stored before are durable
        self._appender, self._check, self._fail = appender, check, fail
        self._timeout = settings.sync_flush_timeout / 1000
        # Unlike the appender's own check, `check` passes after `close` was called: requests from
        # before that are still written.
        self._group = GroupCommit(self.sync, fail, lambda some: appender.append(some, check))
        self._commit_due = FlushDue(
            settings.commit_commit_log_least_pages, settings.commit_commit_log_thorough_interval
        )
        self._flush_due = FlushDue(
            settings.flush_commit_log_least_pages, settings.flush_commit_log_thorough_interval
        )
        self._last_commit = self._last_flush = clock()
        self._services: list[Periodic] = []
        self._background = False

    def start(self, others: list[Service]) -> None:
        """Start the background threads, with those of `others` too."""
        settings = self.settings
        self._background = True
        services = list(others)
        if settings.transient_store_pool_enable:
            interval = settings.commit_interval_commit_log / 1000
            services.append(("CommitRealTime", interval, self.commit_if_due))
        if not self.synchronous:
            interval = settings.flush_interval_commit_log / 1000
            services.append(("FlushRealTime", interval, self.flush_if_due))
        self._services = [Periodic(*service, self._fail) for service in services]

    def stop(self) -> None:
        """End the background threads, once all callers who wait have their answer."""
        for service in self._services:
            service.stop()
        self._group.stop()

    def wait(self, end: int, wait: bool) -> str:
        """In SYNC_FLUSH wait until the log is durable up to `end`: PUT_OK or FLUSH_DISK_TIMEOUT.

        wait: False for WAIT=false, which only asks for a sync. Raises the error of a failed sync.
        """
        if not self.synchronous:
            return PUT_OK
        if not self._background:
            self.sync()
        elif wait:
            return self._group.wait(end, self._timeout)
        else:
            self._group.wake()
        return PUT_OK

    def append(self, request: Request) -> str:
        """Write a request's records, then `wait` for them. Raises OSError, StoreError."""
        wait = request.drafts[0].wait
        if self.synchronous and wait and self._background:
            return self._group.put(request, self._timeout)
        self._appender.append((request,))
        if request.error is not None:
            raise request.error
        return self.wait(request.end, wait) if self.synchronous else PUT_OK

    def sync(self) -> int:
        """Commit the write buffer, then sync; returns the durable log's end. Raises OSError."""
        self._check()
        timestamp = self._appender.last_timestamp  # read before the sync: later records may miss it
        if self.settings.transient_store_pool_enable:
            with self._appender.lock:
                self.log.commit()
        flushed = self.log.sync()
        self.durable_before = max(timestamp, self.durable_before)
        return flushed

    def commit_if_due(self) -> None:
        """Write the buffer if enough pages or time have passed (CommitRealTimeService)."""
        log, now = self.log, self.clock()
        if self._commit_due.now(log.end, log.committed, now, self._last_commit):
            with self._appender.lock:
                log.commit()
            self._last_commit = now

    def flush_if_due(self) -> None:
        """Sync if enough pages or enough time have passed (FlushRealTimeService)."""
        log, now, timestamp = self.log, self.clock(), self._appender.last_timestamp
        if self._flush_due.now(log.committed, log.flushed, now, self._last_flush):
            whole = log.committed == log.end  # nothing stored before `timestamp` is in the buffer
            log.sync()
            if whole:
                self.durable_before = max(timestamp, self.durable_before)
            self._last_flush = now


# ---
# Who dispatches what was appended: a thread of its own, or those who append.

LOOK_SECONDS = 0.05  # how often the dispatching thread looks
BEHIND_BYTES = 4 << 20  # a caller who appends dispatches once this much is not dispatched
_SLOW_BYTES = BEHIND_BYTES // 10  # if less is appended between two looks, the thread dispatches


class DispatchPace:
    """Keeps dispatch close behind the log.

    Two busy threads share Python's interpreter lock badly. Each time the dispatching thread
    releases it to read or write a file, it may wait 5 ms to get it back, and each append pays for
    waking it. So if much is appended, one of the threads that append dispatches now and then. The
    dispatching thread only works if little is appended, or if the others are late.
    """

    def __init__(
        self,
        log: CommitLog,
        reput: Reput,
        dispatch: Callable[[bool], None],
        fail: Callable[[BaseException], None],
    ) -> None:
        """dispatch: with True only if no other thread dispatches. fail: called with its error."""
        self._log, self._reput = log, reput
        self._dispatch, self._fail = dispatch, fail
        self._last_end = log.committed

    def appended(self) -> None:
        """Called by a thread that has appended; its append is done, whatever happens here."""
        if self._log.committed - self._reput.at >= BEHIND_BYTES:
            try:
                self._dispatch(True)
            except BaseException as error:
                self._fail(error)  # as in the thread, it ends the writer
                if not isinstance(error, Exception):
                    raise

    def look(self) -> None:
        """Called by the dispatching thread every LOOK_SECONDS."""
        end = self._log.committed
        grown, self._last_end = end - self._last_end, end
        if grown < _SLOW_BYTES or end - self._reput.at >= 2 * BEHIND_BYTES:
            self._dispatch(False)
