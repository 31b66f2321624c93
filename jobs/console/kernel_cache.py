"""Say where compiled kernels are not there yet, or cannot be kept: a start takes longer then."""

import os
import sys
from functools import cache

from reput.store_format.disk.cache_folder import cache_folder, has_kernels


@cache
def tell_of_no_cache() -> None:
    """One line on standard error, once in a process; nothing where the first place would do."""
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
    """One line where this version's kernels are still to be compiled, which takes longest."""
    kept = cache_folder().path
    if kept is not None and not has_kernels(kept):
        sys.stderr.write("reput: compiling kernels, once for this version (some 20 s)\n")
