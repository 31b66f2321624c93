"""When appended bytes become durable: SYNC_FLUSH with group commit, ASYNC_FLUSH, write buffer.

The services are threads; what they do each time is a method of its own, so that tests may call
it. docs/writer.md has a picture of the group commit.
"""

import threading
from collections.abc import Callable
from typing import NamedTuple

from store_format.writer.errors import FLUSH_DISK_TIMEOUT, PUT_OK
from store_format.writer.options import OS_PAGE_BYTES


class _Request:
    """One caller waits until the log is durable up to `end` (CommitLog.GroupCommitRequest)."""

    __slots__ = ("done", "end", "error")

    def __init__(self, end: int) -> None:
        self.end = end
        self.error: BaseException | None = None
        self.done = threading.Lock()
        self.done.acquire()


class GroupCommit:
    """SYNC_FLUSH: one thread syncs for all callers that wait (CommitLog.GroupCommitService).

    sync: makes the log durable and returns up to where; it raises where it failed, and then
    every caller that waits gets the error, as does every later one.
    """

    def __init__(self, sync: Callable[[], int], fail: Callable[[BaseException], None]) -> None:
        self._sync, self._fail = sync, fail
        self._condition = threading.Condition()
        self._requests: list[_Request] = []
        self._wanted = False
        self._stopped = False
        self._error: BaseException | None = None
        self.flushed = 0
        self._thread: threading.Thread | None = None

    def wait(self, end: int, timeout: float) -> str:
        """Return when the log is durable up to `end`: PUT_OK, or FLUSH_DISK_TIMEOUT.

        timeout: seconds (syncFlushTimeout). Raises what made a sync fail.
        """
        request = _Request(end)
        with self._condition:
            if self._error is not None:
                raise self._error
            alone = self._stopped
            if not alone:
                self._start()
                self._requests.append(request)
                self._condition.notify()
        if alone:  # the writer is being closed: there is no thread to wait for
            self._commit([request])
        if not request.done.acquire(timeout=timeout):
            return FLUSH_DISK_TIMEOUT
        if request.error is not None:
            raise request.error
        return PUT_OK

    def wake(self) -> None:
        """Ask for a sync that nobody waits for (a message with WAIT=false)."""
        with self._condition:
            self._start()
            self._wanted = True
            self._condition.notify()

    def stop(self) -> None:
        """Finish what is asked for, then end the thread."""
        with self._condition:
            self._stopped = True
            self._condition.notify()
        if self._thread is not None:
            self._thread.join()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="GroupCommit", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            with self._condition:
                while not (self._requests or self._wanted or self._stopped):
                    self._condition.wait()
                if not self._requests and not self._wanted:
                    return
                # Those who come from here on wait for the next sync: this one may miss them.
                requests, self._requests = self._requests, []
                self._wanted = False
            self._commit(requests)

    def _commit(self, requests: list[_Request]) -> None:
        """One sync for all requests of a group; each is told only when its bytes are durable."""
        try:
            if not requests or max(r.end for r in requests) > self.flushed:
                self.flushed = self._sync()
        except BaseException as error:  # noqa: BLE001 - whatever it is, the callers must know
            self._fail(error)
            with self._condition:
                self._error = error
                requests += self._requests
                self._requests = []
            for request in requests:
                request.error = error
        for request in requests:
            request.done.release()


class Due(NamedTuple):
    """When a periodic flush or commit has work: by pages, or thoroughly after a while."""

    least_pages: int
    thorough_interval: int  # milliseconds

    def now(self, written: int, done: int, time: int, last_thorough: int) -> bool:
        """Whether bytes from `done` to `written` are to be flushed (MappedFile.isAbleToFlush).

        Offsets in bytes, times in milliseconds; `last_thorough`: when it last was so.
        """
        if time >= last_thorough + self.thorough_interval or self.least_pages <= 0:
            return written > done
        pages = written // OS_PAGE_BYTES - done // OS_PAGE_BYTES
        return pages >= self.least_pages


class Periodic:
    """Calls a function every so often, in a thread (FlushRealTimeService, CommitRealTimeService).

    An error of it goes to `fail` and ends the thread.
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
        """End the thread; work under way is finished first."""
        self._stop.set()
        if self._thread is not threading.current_thread():
            self._thread.join()
