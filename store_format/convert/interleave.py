"""The order of the records of several logs in one: by store time, each log's order kept."""

import numpy as np
import numpy.typing as npt

from reput.store_format.kernels.jit import kernel
from reput.store_format.layouts import BLANK_BYTES

Numbers = npt.NDArray[np.int64]

EXHAUSTED, BEGINS = 0, 1  # why `interleave` stopped


@kernel
def interleave(  # noqa: PLR0913 (a kernel takes its arrays one by one)
    times: Numbers, sizes: Numbers, queues: Numbers, cursors: Numbers, ends: Numbers,
    following: Numbers, at: int, segment_bytes: int, begun: bool, places: Numbers,
    numbers: Numbers,
) -> tuple[int, int]:  # fmt: skip
    """Place the next records of several logs, whose records stand one log after the other in
    times, sizes and queues.

    times: milliseconds, never falling within a log; queues: the index of a record's queue in
    `following`, -1 where it keeps its queueOffset; cursors, ends: the indices of each log's next
    record and of the end of its records; cursors and following are advanced. Of equal times the
    first log's record comes first. begun: the segment at `at` is known to the caller.

    Fills places and numbers, and stops where a log has no record left (EXHAUSTED) or before a
    record that begins a segment (BEGINS). Returns (why it stopped, the new log's end so far).
    """
    while True:
        first = -1
        for log in range(len(cursors)):
            if cursors[log] == ends[log]:
                if ends[log] >= 0:
                    return EXHAUSTED, at
            elif first < 0 or times[cursors[log]] < times[cursors[first]]:
                first = log
        if first < 0:
            return EXHAUSTED, at
        i = cursors[first]
        left = segment_bytes - at % segment_bytes
        if sizes[i] + BLANK_BYTES > left:
            at += left
        if at % segment_bytes == 0 and not begun:
            return BEGINS, at
        begun = False
        places[i], numbers[i] = at, -1
        if queues[i] >= 0:
            numbers[i] = following[queues[i]]
            following[queues[i]] += 1
        at += sizes[i]
        cursors[first] += 1
