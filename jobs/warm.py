"""`reput warm`: what makes a start quick, made ahead: Spark's classes and compiled kernels.

The first runs of an installed reput would do the second part themselves, one kernel after the
other; the first part nobody does unasked. `make env` does both in a clone.
"""

import argparse
import time
from typing import Any

from reput.jobs.console.options import DONE, USAGE, show


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `reput warm` understands."""
    parser.epilog = "Again after an update of Java, PySpark or reput; what is there is kept."
    parser.add_argument("--json", action="store_true", help="one JSON object, nothing else")


def warm() -> dict[str, Any]:
    """Make what is not there: paths (None where there is no safe place for it), and seconds.

    Two may do so at once: each makes its own, and whole ones only take the name. Raises
    NoJavaError, ModuleNotFoundError without PySpark, OSError.
    """
    from reput.jobs.spark.rehearsal import make_archive
    from reput.store_format.disk.cache_folder import cache_folder
    from reput.udfs.warm import load_kernels

    started = time.monotonic()
    load_kernels()
    archive = make_archive()
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
