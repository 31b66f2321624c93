"""Single values of the declared layouts, as bytes."""

import struct
from typing import Any

import numpy as np

_CODES = {">i4": "i", ">i8": "q"}


def packer(layout: np.dtype[Any], first: str = "", last: str = "") -> struct.Struct:
    """Packs the fields of a layout, or those from `first` to `last`, which follow each other."""
    names = layout.names
    assert names is not None
    start = names.index(first) if first else 0
    stop = names.index(last) + 1 if last else len(names)
    return struct.Struct(">" + "".join(_CODES[layout[name].str] for name in names[start:stop]))
