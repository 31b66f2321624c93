"""Has the class-data archive made in the background, after a session that started without one."""

import os
import subprocess
import sys

from reput.jobs.spark.jvm import python_environment

BACKGROUND = "--background"
_MAKER = "reput.jobs.spark.rehearsal"  # not imported: it makes sessions itself
_NEVER = "never"


def prepare_next_start() -> None:
    """Start a process that makes the archive and outlives this one; one line says so.

    Nothing where REPUT_WARM=never forbids it, as in a container that is thrown away.
    """
    if os.environ.get("REPUT_WARM") == _NEVER:
        return
    sys.stderr.write(
        "reput: preparing quicker starts in the background, once (some 20 s; `reput warm` waits "
        "for it)\n"
    )
    subprocess.Popen(
        [sys.executable, "-m", _MAKER, BACKGROUND],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=python_environment(os.environ),
        start_new_session=True,  # a ctrl-c at the terminal is not meant for it
    )
