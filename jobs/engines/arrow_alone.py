"""PyArrow without pandas, whose import at the first array takes a quarter of a second."""

import sys
import warnings
from types import ModuleType

_PANDAS = "pandas"


def arrow_alone() -> None:
    """Keep PyArrow from importing pandas; only for processes that are reput's from their start.

    If pandas' version is too old, PyArrow warns once and then treats pandas as missing.
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
