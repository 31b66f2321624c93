"""What a test leaves behind in its process: open files and sockets, threads, children."""

import contextlib
import gc
import os
import socket
import stat
import sys
import threading
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from typing import NamedTuple

from tests.processes import until

# Those that live as long as the process: an engine's pool, a JVM, pytest's own, libraries' pools.
_THREADS = ("MainThread", "pytest", "execnet", "Thread-", "QueueManager", "ExecutorManager")
_PATIENCE_SECONDS = 60  # for a thread or a child that is about to end


class Open(NamedTuple):
    """What a process holds: files and sockets by descriptor, its own threads, its children."""

    files: frozenset[tuple[int, str]]
    threads: frozenset[str]
    children: frozenset[int]


def open_now() -> Open:
    return Open(_files(), _threads(), _children())


def left_since(before: Open) -> str:
    """What is open that was not, in words; waits a moment for what is about to end.

    What nobody can reach is not left: a dropped file is closed at once, but one in a cycle (such as
    a traceback's) whenever Python looks for cycles, which would depend on what else has run."""
    if _more(before, open_now()):
        gc.collect()
    until(lambda: not _more(before, open_now()), _PATIENCE_SECONDS)
    return _more(before, open_now())


def _more(before: Open, now: Open) -> str:
    names = ("open", "running", "child")
    more = [(name, new - old) for name, old, new in zip(names, before, now, strict=True)]
    return "; ".join(f"{name}: {sorted(each)}" for name, each in more if each)


def _files() -> frozenset[tuple[int, str]]:
    """Regular files, folders and sockets; pipes and Unix sockets are an engine's, a library's or
    pytest's, others a JVM's where a session of Spark runs."""
    found = set()
    pyspark = sys.modules.get("pyspark")
    of_jvm = pyspark is not None and pyspark.SparkContext._gateway is not None
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the one that lists
            mode = os.fstat(int(name)).st_mode
            if (
                stat.S_ISREG(mode) or stat.S_ISDIR(mode)
                or (stat.S_ISSOCK(mode) and not of_jvm and _family(int(name)) != socket.AF_UNIX)
            ):  # fmt: skip
                target = os.readlink(f"/proc/self/fd/{name}")
                if not target.startswith(("/proc/", "/dev/")) and "/reput-spark-" not in target:
                    found.add((int(name), target))
    return frozenset(found)


def _family(descriptor: int) -> int:
    with socket.socket(fileno=os.dup(descriptor)) as same:
        return same.family


def _threads() -> frozenset[str]:
    names = {thread.name for thread in threading.enumerate()}
    return frozenset(name for name in names if not name.startswith(_THREADS))


def _has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def _children() -> frozenset[int]:
    path = Path(f"/proc/self/task/{os.getpid()}/children")
    own = {getattr(resource_tracker._resource_tracker, "_pid", None)}  # as long as the process
    own.add(getattr(forkserver._forkserver, "_forkserver_pid", None))
    if workers := sys.modules.get("reput.jobs.engines.workers"):
        workers.reap()
        # told to end, it ends once the workers of a pool that tests share have
        own.update(pid for pid in workers._ending if not _has_ended(pid))
    with contextlib.suppress(OSError):
        return frozenset(map(int, path.read_text().split())) - own
    return frozenset()
