"""`reput warm`: what makes a start quick, made ahead: Spark's classes and compiled kernels.

The first run of an installed reput does both: the second part itself, the first in the background.
`make env` does both in a clone.
"""

import argparse
import os
import subprocess
import sys
import time
from typing import Any

from reput.jobs.console.options import DONE, USAGE, show


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `reput warm` understands."""
    parser.epilog = "Again after an update of Java, PySpark or reput; what is there is kept."
    parser.add_argument("--json", action="store_true", help="one JSON object, nothing else")


def warm() -> dict[str, Any]:
    """Make what is not there: paths (None where there is no safe place for it), and seconds.

    Kernels are compiled in a process of their own meanwhile. Two may do so at once: each makes its
    own kernels, and whole ones only take the name; of the archive one waits for the other's. Raises
    NoJavaError, ModuleNotFoundError without PySpark, OSError.
    """
    from reput.jobs.spark.jvm import python_environment
    from reput.jobs.spark.rehearsal import make_archive
    from reput.store_format.disk.cache_folder import cache_folder

    started = time.monotonic()
    words = [sys.executable, "-m", "reput.udfs.warm"]
    with subprocess.Popen(words, env=python_environment(os.environ)) as kernels:
        archive = make_archive()
    if kernels.returncode:
        raise OSError(f"the process that compiles kernels ended with code {kernels.returncode}")
    return {
        "classes": str(archive) if archive else None,
        "kernels": cache_folder().path,
        "seconds": time.monotonic() - started,
    }


def run(arguments: argparse.Namespace) -> int:
    """Make it, and say in one line what there is: 0; 2 where a part has no place to be kept."""
    made = warm()
    missing = [name for name in ("classes", "kernels") if made[name] is None]
    text = f"warm in {made['seconds']:.1f} s: classes in {made['classes']}, kernels in " + (
        f"{made['kernels']}"
    )
    if missing:
        text = f"not kept: {', '.join(missing)}: `reput doctor` says why"
    show(arguments, made, text)
    return USAGE if missing else DONE
