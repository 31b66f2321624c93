"""A process beside each pytest: what hangs where no signal is answered is named and ended.

pytest-timeout raises in Python, and once: a loop in a kernel or a mutex never hears of it, nor
does what waits in a fixture's end after it. A minute later this process says which test it is, has
faulthandler show where (SIGABRT), and ends it with all that it started: a fork would keep xdist's
pipe open. xdist takes the test for failed and goes on in a new process."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.processes import runs, tree

_LOOKS_SECONDS = 5.0  # whether who is watched is still there


class Watchdog:
    """Watches this process from another, which is no child: tests count theirs."""

    def __init__(self, grace: float) -> None:
        self._grace, (lines, self._tell) = grace, os.pipe()
        words = [sys.executable, "-m", __name__, str(os.getpid()), str(lines)]
        subprocess.run(["sh", "-c", '"$@" </dev/null >/dev/null &', "sh", *words], check=True,
                       pass_fds=[lines], cwd=Path(__file__).parents[1])  # fmt: skip
        os.close(lines)

    def begins(self, test: str, limit: float) -> None:
        """A test begins, which pytest-timeout ends after so many seconds; 0: never."""
        self._say(f"{limit + self._grace} {test!a}" if limit else "")

    def ends(self) -> None:
        self._say("")

    def _say(self, line: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # somebody has killed it
            os.write(self._tell, line.encode() + b"\n")

    def close(self) -> None:
        os.close(self._tell)


def _watch(pid: int, lines: int) -> None:
    until, test, rest = float("inf"), "", b""
    while runs(pid):
        wait = max(0.0, min(until - time.monotonic(), _LOOKS_SECONDS))
        if select.select([lines], [], [], wait)[0]:
            if not (read := os.read(lines, 1 << 16)):
                return
            *whole, rest = (rest + read).split(b"\n")
            if whole:
                seconds, _, test = whole[-1].decode().partition(" ")
                until = time.monotonic() + float(seconds or "inf")
        elif time.monotonic() > until:
            _end(pid, test)
            return


def _end(pid: int, test: str) -> None:
    print(f"\nhangs, and is ended with its process {pid}: {test}", file=sys.stderr, flush=True)
    started = [*tree(pid)]
    os.kill(pid, signal.SIGABRT)
    time.sleep(1)  # to write what each thread does
    for each in started:
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)


if __name__ == "__main__":
    _watch(int(sys.argv[1]), int(sys.argv[2]))
