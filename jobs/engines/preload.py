"""What worker processes are forked with: the modules of all tasks, and compiled kernels.

Only the process that forks them imports this module (`pool`).
"""

import gc
import os
import signal
import sys
from contextlib import suppress
from types import TracebackType

_SECONDS = 0.2
_parent = os.getppid()


def _end_if_alone(*_: object) -> None:
    """Kernels may take a minute to compile; nobody waits for them whose process is gone."""
    if os.getppid() != _parent:
        os._exit(1)


def _say(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """A worker that is started as its program ends finds nothing of it, and nobody to tell. Where
    the program goes on, it says itself that a worker could not be started.
    """
    if not issubclass(kind, (EOFError, OSError)):
        sys.__excepthook__(kind, error, trace)


sys.excepthook = _say
signal.signal(signal.SIGALRM, _end_if_alone)
signal.setitimer(signal.ITIMER_REAL, _SECONDS, _SECONDS)

# ctrl-c at a terminal reaches every process of the command: ending workers is the command's to do.
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
gc.disable()  # the collector would look at what is imported again and again: 0.2 s in all
with suppress(Exception):  # whoever runs a task meets the same failure, and can say it
    from reput.jobs.engines.arrow_alone import arrow_alone

    arrow_alone()
    import reput.jobs.engines.pool  # what a worker begins with
    import reput.udfs.rebuild.build_index
    import reput.udfs.rebuild.queue_shares
    import reput.udfs.rebuild.scan_splits  # noqa: F401
    from reput.udfs.warm import load_kernels

    load_kernels()
gc.freeze()
gc.enable()
signal.setitimer(signal.ITIMER_REAL, 0)
signal.signal(signal.SIGALRM, signal.SIG_DFL)
