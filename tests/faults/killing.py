"""Work that is killed at each change of the file system, and what it leaves."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

# What the interpreter says it is about to do, if it changes a file system (sys.audit).
CHANGES = {"os.rename", "os.mkdir", "os.rmdir", "os.remove", "os.truncate", "os.link"}


def killed_at(step: int, work: Callable[[], object]) -> tuple[int, int]:
    """Run it in a child that SIGKILLs itself before the given change to the file system.

    (steps taken, the child's end: -9 where it was killed, 0 where it had come to its end)."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        taken = 0

        def before(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal taken
            writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_CREAT
            names_call = event == "ctypes.dlsym" and arguments[1] in ("renameat2", "syncfs")
            if event in CHANGES or writes or names_call:
                os.write(send, b".")
                if taken == step:
                    os.kill(os.getpid(), signal.SIGKILL)
                taken += 1

        try:
            sys.addaudithook(before)
            work()
            os._exit(0)
        finally:
            os._exit(1)
    os.close(send)
    steps = 0
    while part := os.read(receive, 1 << 16):
        steps += len(part)
    os.close(receive)
    _, status = os.waitpid(child, 0)
    return steps, os.waitstatus_to_exitcode(status)


def lengths_at_each_kill(root: Path, work: Callable[[str], object]) -> set[int]:
    """The lengths of all files that the work leaves below a folder, killed before each change.

    work: is given a new folder each time."""
    found, step, code = set(), 0, -signal.SIGKILL
    while code:
        assert code == -signal.SIGKILL
        folder = root / str(step)
        folder.mkdir()
        _, code = killed_at(step, lambda at=str(folder): work(at))  # type: ignore[misc]
        found |= {path.stat().st_size for path in folder.rglob("*") if path.is_file()}
        step += 1
    return found
