"""PyArrow without pandas, whose import at the first array costs us a quarter of a second."""

import sys
import warnings
from types import ModuleType

_PANDAS = "pandas"


def arrow_alone() -> None:
    """Let PyArrow do without pandas from now on; in a process that is ours from its start only.

    Of a version that is too old PyArrow says so, once, and holds it for missing.
    """
    import pyarrow

    if _PANDAS in sys.modules:
        return
    too_old = ModuleType(_PANDAS)
    too_old.__version__ = "0"  # type: ignore[attr-defined]
    sys.modules[_PANDAS] = too_old
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pyarrow.array([0])
    finally:
        del sys.modules[_PANDAS]
