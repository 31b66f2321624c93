"""Who dispatches what was appended: a thread of its own, or those who append."""

from collections.abc import Callable

from reput.broker.writer.commit_log import CommitLog
from reput.broker.writer.reput_service import Reput

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
