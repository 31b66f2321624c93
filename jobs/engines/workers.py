"""Starts worker processes. They are forked from a process without threads that has loaded what
tasks need (multiprocessing's forkserver), so threads in this process do no harm.

This module imports little, as a command starts that process before it does anything else.
"""

import atexit
import multiprocessing
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from multiprocessing import forkserver, resource_tracker, util
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from types import ModuleType
from typing import Any, ClassVar
from weakref import WeakSet

from reput.jobs.engines.engine import EngineFailed
from reput.jobs.engines.folders import environment, make_session_folder, our_packages, session_given

_PRELOAD = "reput.jobs.engines.preload"
_TELL_THE_SCRIPT = ("__file__", "__spec__")
# While a process starts, `sys.modules` and `os.environ` are replaced for a moment.
_starting = threading.RLock()
_remove_folder: Callable[[], None] | None = None
_held: "WeakSet[Connection]" = WeakSet()
_ending: set[int] = set()  # forkservers that were told to end


class Worker(ForkServerProcess):
    """A worker process, which ends with the process that started it."""

    def start(self) -> None:
        """Start the worker, even from a daemonic process: unlike other children it ends with it."""
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
    """Start the forkserver, if none runs; it loads what tasks need. Raises EngineFailed."""
    with _starting, failures_said(), environment(of_workers()):
        _have_folder()
        forkserver.set_forkserver_preload([_PRELOAD])
        with _blocked(signal.SIGHUP):  # it ignores ctrl-c and SIGTERM too, to be the last to end
            resource_tracker.ensure_running()
        with _blocked(signal.SIGINT):  # until the forkserver ignores it itself (`preload`)
            forkserver.ensure_running()


def start_early(words: Sequence[str]) -> None:
    """Start loading what tasks need, which takes half a second, if a command, by its words, is
    likely to need it. `command_engine`, or the end of this process, ends it, even unused.
    """
    parts = [part for word in words for part in word.split("=", 1)]
    others = ("--master", "-h", "--help")
    needless = any(
        word in others or (word == "--engine" and after != "local")
        for word, after in pairwise([*parts, ""])
    )
    if not session_given() and not needless:
        with suppress(EngineFailed):  # a command that needs the workers raises it again
            prepare()


def let_go() -> None:
    """Remove what the forkserver needs, so that it ends; a later job starts another one."""
    global _remove_folder
    with _starting:
        if _remove_folder is not None:
            atexit.unregister(_remove_folder)
            _remove_folder()
            _remove_folder = None
            _forget_server()


def remove_semaphores() -> None:
    """Remove the semaphores of this process, which then ends without Python's own exit (os._exit).

    A signal may leave a pool's behind: multiprocessing's resource tracker would warn of them.
    """
    util._run_finalizers(0)  # type: ignore[attr-defined]


def hold() -> tuple[Connection, Connection]:
    """(the end of a pipe that workers watch, the other end, which only this process holds)."""
    reader, held = multiprocessing.Pipe(duplex=False)
    _held.add(held)
    return reader, held


@contextmanager
def failures_said() -> Iterator[None]:
    """Raise EngineFailed for any error that keeps a process from being started."""
    try:
        yield
    except (OSError, EOFError) as error:
        raise EngineFailed(f"no worker process can be started: {error}") from error
    except RuntimeError as error:
        if type(error) is not RuntimeError:  # BrokenProcessPool: a worker was killed
            raise
        raise EngineFailed(f"no worker process can be started: {error}") from error


def of_workers() -> dict[str, str]:
    """The environment of workers: the path of our packages, and no threads of OpenBLAS, as the
    forkserver must have no threads.
    """
    return {**our_packages(os.environ), "OPENBLAS_NUM_THREADS": "1"}


def _have_folder() -> None:
    """Make a folder for the forkserver's socket, whose path may have only 107 bytes; a path in
    $TMPDIR may be longer. The folder is held, so `reput clean` can find it if nobody removes it.
    """
    global _remove_folder
    config = multiprocessing.current_process()._config  # type: ignore[attr-defined]
    if os.path.isdir(config.get("tempdir") or ""):  # made by multiprocessing.util, or here
        return
    folder, release = make_session_folder()
    config["tempdir"], us = folder, os.getpid()

    def remove() -> None:
        if os.getpid() == us:  # not in a process that was forked from ours
            config.pop("tempdir", None)
            shutil.rmtree(folder, ignore_errors=True)
            release()

    _remove_folder = remove
    atexit.register(remove)


def _forget_server() -> None:
    """Forget the forkserver, for which multiprocessing has no public function."""
    server: Any = forkserver._forkserver
    if server._forkserver_alive_fd is not None:
        os.close(server._forkserver_alive_fd)
        _ending.add(server._forkserver_pid)
    server.__init__()
    reap()


def reap() -> None:
    """Take leave of forkservers that have ended: a process that runs many jobs keeps no zombies.

    None is waited for: one that still loads sees only then that it is to end.
    """
    for pid in [*_ending]:
        with suppress(ChildProcessError):  # a process that was forked from ours
            if os.waitpid(pid, os.WNOHANG) == (0, 0):
                continue
        _ending.discard(pid)


def _forked() -> None:
    """Run in a process forked from ours (by os.fork or multiprocessing): forget workers and
    forkserver, which belong to the parent and end with it.
    """
    global _starting
    _starting = threading.RLock()
    for held in list(_held):
        held.close()
    _forget_server()


os.register_at_fork(after_in_child=_forked)


@contextmanager
def _blocked(number: signal.Signals) -> Iterator[None]:
    """Block a signal, so that a process started in the block does not get it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [number])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _without_main() -> Iterator[None]:
    """Keep workers from running the user's script: multiprocessing would import it, as it may
    define tasks, but ours are never in it. Other threads still see all names of the module.
    """
    main = sys.modules["__main__"]
    kept = {name: value for name, value in vars(main).items() if name not in _TELL_THE_SCRIPT}
    sys.modules["__main__"] = ModuleType("__main__")
    vars(sys.modules["__main__"]).update(kept)
    try:
        yield
    finally:
        sys.modules["__main__"] = main
