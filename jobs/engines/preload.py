"""What worker processes are forked with: the modules of all tasks, and compiled kernels.

Only the process that forks them imports this module (`pool`).
"""

import gc
import os
import signal
from contextlib import suppress

import pyarrow as pa

_SECONDS = 0.2
_parent = os.getppid()


def _end_if_alone(*_: object) -> None:
    """Kernels may take a minute to compile; nobody waits for them whose process is gone."""
    if os.getppid() != _parent:
        os._exit(1)


signal.signal(signal.SIGALRM, _end_if_alone)
signal.setitimer(signal.ITIMER_REAL, _SECONDS, _SECONDS)

# ctrl-c at a terminal reaches every process of the command: ending workers is the command's to do.
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
gc.disable()  # the collector would look at what is imported again and again: 0.2 s in all
with suppress(Exception):  # whoever runs a task meets the same failure, and can say it
    from reput.jobs.engines.arrow_alone import arrow_alone

    arrow_alone()
    from reput.udfs.warm import load_kernels

    load_kernels()
    pa.array([0])  # makes pyarrow import pandas, where it is installed: once, not in each worker
gc.freeze()
gc.enable()
signal.setitimer(signal.ITIMER_REAL, 0)
signal.signal(signal.SIGALRM, signal.SIG_DFL)
