"""How worker processes are started: by a process without threads that has loaded what tasks need
(multiprocessing's forkserver), so that it does not matter which threads run here.

This module imports little: a command starts that process before it does anything else.
"""

import atexit
import multiprocessing
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from types import ModuleType
from typing import Any, ClassVar
from weakref import WeakSet

from reput.jobs.engines.engine import EngineFailed
from reput.jobs.spark.python_workers import environment, our_packages
from reput.jobs.spark.session_folder import make_session_folder

_PRELOAD = "reput.jobs.engines.preload"
_TELL_THE_SCRIPT = ("__file__", "__spec__")
# While a process starts, `sys.modules` and `os.environ` are others for a moment.
_starting = threading.RLock()
_remove_folder: Callable[[], None] | None = None
_held: "WeakSet[Connection]" = WeakSet()


class Worker(ForkServerProcess):
    """A worker process, which ends with the one that started it."""

    def start(self) -> None:
        """Start it; a daemonic process may have none that could outlive it, but this one."""
        us = multiprocessing.current_process()
        daemonic = us.daemon
        with _starting, _without_main():
            if daemonic:
                us.daemon = False
            try:
                super().start()
            finally:
                if daemonic:
                    us.daemon = True


class Workers(ForkServerContext):
    """multiprocessing's forkserver, for workers."""

    Process: ClassVar[Any] = Worker


def prepare() -> None:
    """Start the process that forks, if none runs; it loads what tasks need. Raises EngineFailed."""
    with _starting, failures_said(), environment(of_workers()):
        _have_folder()
        forkserver.set_forkserver_preload([_PRELOAD])
        with _blocked(signal.SIGHUP):  # as it ignores ctrl-c and SIGTERM, to be the last to end
            resource_tracker.ensure_running()
        with _blocked(signal.SIGINT):  # it is a while until it can ignore that itself (`preload`)
            forkserver.ensure_running()


def let_go() -> None:
    """Remove what the forking process needs, which ends then; a next job starts another one."""
    global _remove_folder
    with _starting:
        if _remove_folder is not None:
            atexit.unregister(_remove_folder)
            _remove_folder()
            _remove_folder = None
            _forget_server()


def hold() -> tuple[Connection, Connection]:
    """A pipe for workers to watch, and its other end, which this process alone holds."""
    reader, held = multiprocessing.Pipe(duplex=False)
    _held.add(held)
    return reader, held


@contextmanager
def failures_said() -> Iterator[None]:
    """Raise EngineFailed for what keeps a process from being started."""
    try:
        yield
    except (OSError, EOFError) as error:
        raise EngineFailed(f"no worker process can be started: {error}") from error
    except RuntimeError as error:
        if type(error) is not RuntimeError:  # BrokenProcessPool: one was killed
            raise
        raise EngineFailed(f"no worker process can be started: {error}") from error


def of_workers() -> dict[str, str]:
    """What workers get: where our packages are; and to have no threads for products of
    matrices, as the process that forks them may have none.
    """
    return {**our_packages(os.environ), "OPENBLAS_NUM_THREADS": "1"}


def _have_folder() -> None:
    """Have a folder for the forking process's socket, whose path may have 107 bytes: $TMPDIR's may
    have more. It is held, so that `reput clean` finds it where nobody could remove it.
    """
    global _remove_folder
    config = multiprocessing.current_process()._config  # type: ignore[attr-defined]
    if os.path.isdir(config.get("tempdir") or ""):  # made by multiprocessing.util, or here
        return
    folder, release = make_session_folder()
    config["tempdir"], us = folder, os.getpid()

    def remove() -> None:
        if os.getpid() == us:  # and not a process that was forked from ours
            config.pop("tempdir", None)
            shutil.rmtree(folder, ignore_errors=True)
            release()

    _remove_folder = remove
    atexit.register(remove)


def _forget_server() -> None:
    """Have no process that forks; there is no public way to say so."""
    server: Any = forkserver._forkserver
    if server._forkserver_alive_fd is not None:
        os.close(server._forkserver_alive_fd)
    server.__init__()


def _forked() -> None:
    """In a process that was forked from ours (by os.fork, or by multiprocessing): workers, and who
    forks them, belong to the other one, and end with it.
    """
    global _starting
    _starting = threading.RLock()
    for held in list(_held):
        held.close()
    _forget_server()


os.register_at_fork(after_in_child=_forked)


@contextmanager
def _blocked(number: signal.Signals) -> Iterator[None]:
    """Start a process that does not get this signal."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [number])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _without_main() -> Iterator[None]:
    """Start workers that do not run the user's script again: multiprocessing would import it, as
    tasks may be of it. Ours never are. Other threads go on to find all that is in it.
    """
    main = sys.modules["__main__"]
    kept = {name: value for name, value in vars(main).items() if name not in _TELL_THE_SCRIPT}
    sys.modules["__main__"] = ModuleType("__main__")
    vars(sys.modules["__main__"]).update(kept)
    try:
        yield
    finally:
        sys.modules["__main__"] = main
