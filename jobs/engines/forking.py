"""The process that worker processes are forked from: without threads, so that it does not matter
which threads run here, and with what tasks need loaded (multiprocessing's forkserver).

This module imports little: a command starts that process before it does anything else.
"""

import multiprocessing
import os
from multiprocessing import forkserver

from reput.jobs.spark.python_workers import environment, our_packages

CONTEXT = multiprocessing.get_context("forkserver")
_PRELOAD = "reput.jobs.engines.preload"


def prepare() -> None:
    """Start the process, where none runs yet; it loads what tasks need while this one goes on."""
    CONTEXT.set_forkserver_preload([_PRELOAD])
    with environment(our_packages(os.environ)):
        forkserver.ensure_running()
