"""A child that ends with its parent, though that is killed."""

import os
import signal
import subprocess
import sys
from contextlib import suppress

from tests.processes import runs, until

_CHILD = ("from reput.jobs.sockets.opened import end_with_parent; end_with_parent(); "
          "import time; print('watches', flush=True); time.sleep(600)")  # fmt: skip
_PARENT = f"""
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", {_CHILD!r}], stdin=subprocess.PIPE)
print(child.pid, flush=True)
time.sleep(600)
"""


def test_a_child_ends_with_a_parent_that_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        words = [parent.stdout.readline().strip() for _ in range(2)]
        pid = int(next(word for word in words if word.isdigit()))
        try:
            assert "watches" in words
            assert runs(pid)
            parent.kill()
            assert until(lambda: not runs(pid))
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
