"""Ends a child process when its parent is gone, even if the parent was killed by SIGKILL."""

import os
import signal
import sys
import threading
import time

_KILL_SECONDS = 10.0  # from SIGTERM to SIGKILL


def end_with_parent() -> None:
    """Send SIGTERM to this process once its standard input ends, and then SIGKILL if it lives on.

    Standard input is a pipe to which the parent writes nothing. The kernel closes the parent's end
    of the pipe when the parent ends, however it ends.
    """
    threading.Thread(target=_watch, name="with-parent", daemon=True).start()


def _watch() -> None:
    sys.stdin.buffer.raw.read(1)  # type: ignore[union-attr]
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_KILL_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)
