"""Judges the windows of a log on all cores: while one is judged the next ones are read.

One thread goes from record to record, since only a record tells where the next one is. That is a
small part of the work, and kernels and reads let other threads run. Steps come out in the log's
order. In memory there are as many windows as threads, and two more.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import cycle

import numpy as np

from reput.store_format.filter.rows import Verdicts
from reput.store_format.log.reader import LogReader
from reput.store_format.log.records import RECORD_ROW
from reput.store_format.log.walk import Step, most_rows


def judged_steps(
    log: LogReader, place: int, stop: int, judge: Callable[[Step], Verdicts]
) -> Iterator[tuple[Step, Verdicts]]:
    """The steps of `LogReader.steps`, each with the verdicts of `judge` on its rows.

    A step is valid until the next one. Raises as `LogReader.steps` does, after all earlier steps.
    """
    cores, size = len(os.sched_getaffinity(0)), log.storage.window_bytes
    buffers = cycle(
        [
            (np.empty(size, np.uint8), np.zeros(most_rows(size), RECORD_ROW))
            for _ in range(cores + 2)
        ]
    )
    # a reader with files of its own: `log` may close some of its own meanwhile
    own = LogReader(log.storage, log.segments, log.rules, log.checks)
    with own, ThreadPoolExecutor(cores) as judging, ThreadPoolExecutor(1) as reading:
        steps = own.steps(place, stop, lambda: next(buffers))

        def read() -> tuple[Step, Future[Verdicts]] | None:
            step = next(steps, None)
            return None if step is None else (step, judging.submit(judge, step))

        ahead = deque(reading.submit(read) for _ in range(cores))
        try:
            while (found := ahead.popleft().result()) is not None:
                ahead.append(reading.submit(read))
                yield found[0], found[1].result()
        finally:
            reading.shutdown(cancel_futures=True)
