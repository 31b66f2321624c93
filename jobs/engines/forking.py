"""The process that worker processes are forked from: without threads, so that it does not matter
which threads run here, and with what tasks need loaded (multiprocessing's forkserver).

This module imports little: a command starts that process before it does anything else.
"""

import multiprocessing
import os
from multiprocessing import forkserver
from pathlib import Path

import reput

CONTEXT = multiprocessing.get_context("forkserver")
_PRELOAD = "reput.jobs.engines.preload"


def prepare() -> None:
    """Start the process, where none runs yet; it loads what tasks need while this one goes on."""
    CONTEXT.set_forkserver_preload([_PRELOAD])
    told = of_workers()
    before = {name: os.environ.get(name) for name in told}
    os.environ.update(told)
    try:
        forkserver.ensure_running()
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def of_workers() -> dict[str, str]:
    """Where workers find our packages, and nothing in the current folder: a pandas.py among
    downloads would be imported.
    """
    here = str(Path(reput.__file__).absolute().parent.parent)
    given = os.environ.get("PYTHONPATH")
    path = os.pathsep.join(filter(None, (here, given)))
    return {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
