"""What a first run says: that kernels are compiled, and that later starts will be quicker.

The class-data archive is made in the background, beside a session that started without one: while
a first run compiles kernels, which keeps one core busy, another core makes it.
"""

import os
import subprocess
import sys

from reput.jobs.spark.jvm import python_environment
from reput.store_format.disk.cache_folder import cache_folder, has_kernels

BACKGROUND = "--background"
_MAKER = "reput.jobs.spark.rehearsal"  # not imported: it makes sessions itself
_NEVER = "never"


def tell_of_first_run() -> None:
    """One line where this version's kernels are still to be compiled, which takes longest."""
    kept = cache_folder().path
    if kept is not None and not has_kernels(kept):
        sys.stderr.write("reput: compiling kernels, once for this version (some 20 s)\n")


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
