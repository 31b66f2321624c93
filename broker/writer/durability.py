"""Makes an open log durable when its flush mode asks for it (CommitLog.DefaultFlushManager)."""

from collections.abc import Callable

from reput.broker.writer.appender import Appender, Request
from reput.broker.writer.commit_log import CommitLog
from reput.broker.writer.flush import FlushDue, GroupCommit, Periodic
from reput.store_format.message.ids import Clock
from reput.store_format.message.refusals import PUT_OK
from reput.store_format.release.settings import WriterSettings

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
        self._group = GroupCommit(self.sync, fail, self._write_group)
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

    def _write_group(self, requests: list[Request]) -> None:
        # Unlike the appender's own check, `check` passes after `close` was called: requests from
        # before that are still written.
        self._appender.append(requests, self._check)

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
