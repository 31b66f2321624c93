"""Say where compiled kernels cannot be kept as they should be: each start takes longer then."""

import os
import sys
from functools import cache

from reput.store_format.disk.cache_folder import cache_folder


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
