"""Tells why a start takes longer: kernels must be compiled first, or cannot be kept."""

import os
import sys
from functools import cache

from reput.store_format.files.private import cache_folder, has_kernels


@cache
def tell_of_no_cache() -> None:
    """Warn on standard error, once in a process, if the first place for kernels was refused."""
    found = cache_folder()
    if not found.refused:
        return
    why = "; ".join(found.refused)
    if found.path is None:
        text = f"kernels are compiled anew at each start: no folder to keep them in: {why}"
    else:
        kept = os.path.dirname(found.path)
        text = f"compiled kernels are kept in {kept}, for {why}"
    sys.stderr.write(f"reput: warning: {text}\n")


def tell_of_first_run() -> None:
    """Write a line to standard error if this version's kernels must be compiled first."""
    kept = cache_folder().path
    if kept is not None and not has_kernels(kept):
        sys.stderr.write("reput: compiling kernels, once for this version (some 20 s)\n")
