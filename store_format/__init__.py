"""RocketMQ's on-disk structures and rules, without Spark: `udfs` and `jobs` are built on it.

Nothing here reads a clock: the caller passes the time. Only `files/` opens files of a store.
All other folders work on bytes, on a function that reads, or on a `Files` or a `Storage`
(`files/protocol.py`) that the caller passes. `kernels/jit.py` keeps compiled kernels in a folder.
"""

import sys
from importlib.util import find_spec

# numba is looked for here: without this, the user would see an ImportError from inside whichever
# kernel happens to be imported first.
if find_spec("numba") is None:
    raise ModuleNotFoundError(
        f"{sys.executable} has no module 'numba'; reput compiles its kernels with numba: install "
        f"it for this Python, or ship an environment (docs/clusters.md, --archives)",
        name="numba",
    )
