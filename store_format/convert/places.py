"""Where the records of a new log stand (CommitLog.DefaultAppendMessageCallback.doAppend)."""

import numpy as np
import numpy.typing as npt

from reput.store_format.kernels.jit import kernel
from reput.store_format.layouts import BLANK_BYTES

Numbers = npt.NDArray[np.int64]


@kernel
def place(
    sizes: npt.NDArray[np.uint32], at: int, segment_bytes: int, places: Numbers, begins: Numbers
) -> tuple[int, int]:
    """Place records of these sizes (bytes), one after the other, from `at` on.

    A record stands whole in a segment, with room for a BLANK after it; else the next segment
    begins with it. Fills places (int64) and begins with the indices of the records that begin a
    segment. Returns (where the last record ends, how many begin a segment).
    """
    count = 0
    for i in range(len(sizes)):
        size: int = np.int64(sizes[i])  # type: ignore[assignment]
        left = segment_bytes - at % segment_bytes
        if size + BLANK_BYTES > left:
            at += left
        if at % segment_bytes == 0:
            begins[count] = i
            count += 1
        places[i] = at
        at += size
    return at, count
