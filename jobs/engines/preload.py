"""What worker processes are forked with: the modules of all tasks, and compiled kernels.

Only the process that forks them imports this module (`pool`).
"""

import gc
import signal
from contextlib import suppress

import pyarrow as pa

# ctrl-c at a terminal reaches every process of the command: ending workers is the command's to do.
signal.signal(signal.SIGINT, signal.SIG_IGN)
gc.disable()  # the collector would look at what is imported again and again: 0.2 s in all
with suppress(Exception):  # whoever runs a task meets the same failure, and can say it
    from reput.jobs.engines.arrow_alone import arrow_alone

    arrow_alone()
    from reput.udfs.warm import load_kernels

    load_kernels()
    pa.array([0])  # makes pyarrow import pandas, where it is installed: once, not in each worker
gc.freeze()
gc.enable()
