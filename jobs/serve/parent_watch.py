"""Ends a child process when its parent is gone, also where that was killed and could do nothing."""

import os
import signal
import sys
import threading
import time

_KILL_SECONDS = 10.0  # for SIGTERM to have an end


def end_with_parent() -> None:
    """From now on: SIGTERM to this process once standard input ends, and SIGKILL if it stays.

    Its standard input is a pipe of which the parent has the other end, and into which it writes
    nothing: the kernel closes that when the parent ends, however it does.
    """
    threading.Thread(target=_watch, name="with-parent", daemon=True).start()


def _watch() -> None:
    sys.stdin.buffer.raw.read(1)  # type: ignore[union-attr]
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_KILL_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)
