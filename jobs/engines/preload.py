"""Loads what workers are forked with: the modules of all tasks, and compiled kernels.

Only the forkserver imports this module (`workers.py`).
"""

import atexit
import gc
import os
import signal
import sys
from contextlib import suppress
from types import TracebackType

_SECONDS = 0.2
_parent = os.getppid()


def _end_if_alone(*_: object) -> None:
    """End if the job's process is gone, as compiling kernels may take another minute."""
    if os.getppid() != _parent:
        os._exit(1)


def _say(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print no error of a worker whose program has ended meanwhile. A program that still runs
    reports by itself that a worker could not be started.
    """
    if not issubclass(kind, (EOFError, OSError)):
        sys.__excepthook__(kind, error, trace)


sys.excepthook = _say
signal.signal(signal.SIGALRM, _end_if_alone)
signal.setitimer(signal.ITIMER_REAL, _SECONDS, _SECONDS)

# ctrl-c at a terminal reaches all processes of the command, but only the command may end workers.
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
atexit.register(os._exit, 0)  # Python's own end takes 0.1 s more; workers end without it anyway
gc.disable()  # the collector would scan the imported modules again and again: 0.2 s in all
with suppress(Exception):  # a worker that runs a task meets the same error, and can report it
    from reput.jobs.engines.engine import NoPandas

    NoPandas.begin()
    import pyarrow.compute  # noqa: F401 (for the task that builds queues)

    import reput.jobs.engines.local  # a worker runs its functions
    import reput.udfs.rebuild.index
    import reput.udfs.rebuild.queues
    import reput.udfs.rebuild.scan  # noqa: F401
    from reput.udfs.warm import load_kernels

    load_kernels()
gc.freeze()
gc.enable()
signal.setitimer(signal.ITIMER_REAL, 0)
signal.signal(signal.SIGALRM, signal.SIG_DFL)
