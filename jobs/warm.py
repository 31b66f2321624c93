"""`reput warm`: compiles kernels ahead, as the first run would. `make env` does so in a clone."""

import argparse
import os
import subprocess
import sys
import time
from typing import Any

from reput.jobs.console.options import DONE, USAGE, show
from reput.jobs.console.voice import add_output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = """\
Again after an update of reput; what is there is kept.

examples:
  reput warm
  reput warm --json
"""
    add_output(parser)


def warm() -> dict[str, Any]:
    """Compile missing kernels; returns their folder (None if there is no safe one) and seconds.

    Two processes may compile at once: only whole files get a kernel's name. Raises OSError.
    """
    from reput.jobs.engines.folders import our_packages
    from reput.store_format.files.private import cache_folder

    started = time.monotonic()
    words = [sys.executable, "-m", "reput.udfs.warm"]
    done = subprocess.run(words, env={**os.environ, **our_packages(os.environ)}, check=False)
    if done.returncode:
        raise OSError(f"the process that compiles kernels ended with code {done.returncode}")
    return {"kernels": cache_folder().path, "seconds": time.monotonic() - started}


def run(arguments: argparse.Namespace) -> int:
    """Compile, and say in one line where they are: 0; 2 where there is no place to keep them."""
    made = warm()
    text = f"warm in {made['seconds']:.1f} s: kernels in {made['kernels']}"
    if made["kernels"] is None:
        text = "not kept: kernels: `reput doctor` says why"
    show(arguments, made, text)
    return DONE if made["kernels"] else USAGE
