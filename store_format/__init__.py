"""RocketMQ's on-disk structures and rules: bytes in, values out.

No Spark, no clock, no global state; only `file_layer`, `locks` and `storage` touch files.
"""

import sys
from importlib.util import find_spec

# Asked here, because whichever kernel is imported first would name a part of it.
if find_spec("numba") is None:
    raise ModuleNotFoundError(
        f"{sys.executable} has no module 'numba'; reput compiles its kernels with numba: install "
        f"it for this Python, or ship an environment (docs/spark-submit.md, --archives)",
        name="numba",
    )
