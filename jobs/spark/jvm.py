"""The JVM of a local session as a process: how it ended, and its end with all that it started.

PySpark starts it by spark-submit's script, which becomes the JVM. Its process is found by the
kernel's lists, as PySpark knows of it only once it answers: its command line names the session's
folder, and no other does.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_END_SECONDS = 5.0  # for killed processes to be gone
_DEATH_SECONDS = 1.0  # between a broken connection and the end of the process that had it
_STEP_SECONDS = 0.005


def jvm_of(folder: str) -> int | None:
    """The child of this process that this folder's session runs in; None where there is none."""
    for child in _children(os.getpid()):
        with suppress(OSError):
            if folder.encode() in Path(f"/proc/{child}/cmdline").read_bytes():
                return child
    return None


def end_jvm(folder: str) -> None:
    """Kill the JVM of a session and its Python workers, and wait until all of them are gone.

    In a signal's handler: it takes no locks, as the subprocess module does.
    """
    jvm = jvm_of(folder)
    if jvm is None:
        return
    ended = list(_end(jvm))
    until = time.monotonic() + _END_SECONDS
    while any(map(_runs, ended)) and time.monotonic() < until:
        time.sleep(_STEP_SECONDS)


def cause_of_death(jvm: int | None) -> str | None:
    """How the JVM ended, where it did so before it was asked to; None where it lives.

    Asked after something failed: what breaks with a process is seen before its end is.
    """
    until = time.monotonic() + _DEATH_SECONDS
    with suppress(ChildProcessError):
        while jvm is not None and time.monotonic() < until:
            end = os.waitid(os.P_PID, jvm, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if end is not None:
                return f"the Java process ended, {_ended_how(end)}"
            time.sleep(_STEP_SECONDS)
    return None


def _ended_how(end: os.waitid_result) -> str:
    if end.si_code == os.CLD_EXITED:
        return f"with code {end.si_status}"
    try:
        name = signal.Signals(end.si_status).name
    except ValueError:
        name = f"signal {end.si_status}"
    if end.si_status == signal.SIGKILL:
        return f"killed by {name}: where nobody did that, the machine ran out of memory"
    return f"killed by {name}"


def _end(process: int) -> Iterator[int]:
    """Kill a process and all that it started, the last first: a worker whose JVM is gone prints a
    stack trace. Each is stopped before, so that it starts no more.
    """
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGSTOP)
        for child in _children(process):
            yield from _end(child)
        os.kill(process, signal.SIGKILL)
        yield process


def _children(parent: int) -> list[int]:
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        state, its_parent = _state(int(place.name))
        if its_parent == parent and state != "Z":
            found.append(int(place.name))
    return found


def _runs(process: int) -> bool:
    return _state(process)[0] not in ("Z", "")


def _state(process: int) -> tuple[str, int]:
    """The state of a process and its parent; "" where it is gone."""
    try:
        about = Path(f"/proc/{process}/stat").read_text(errors="replace")
    except OSError:
        return "", 0
    state, parent, *_ = about.rpartition(")")[2].split()
    return state, int(parent)
