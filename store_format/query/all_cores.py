"""Judges the windows of a log on all cores: while one is judged the next ones are read.

One thread goes from record to record, since only a record tells where the next one is. That is a
small part of the work, and kernels and reads let other threads run. Steps come out in the log's
order. In memory there are as many windows as threads, and one more.
"""

import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from threading import Thread
from typing import NamedTuple

import numpy as np

from reput.store_format.filter.rows import Verdicts
from reput.store_format.log.reader import LogReader
from reput.store_format.log.records import RECORD_ROW
from reput.store_format.log.walk import Buffers, Step, most_rows


class _Judged(NamedTuple):
    step: Step
    verdicts: Future[Verdicts]
    buffers: Buffers  # that hold the step


_Free = SimpleQueue[Buffers | None]
_Ready = SimpleQueue[_Judged | Exception | None]


class _Stopped(Exception):
    """The caller wants no more steps."""


def judged_steps(
    log: LogReader, place: int, stop: int, judge: Callable[[Step], Verdicts]
) -> Iterator[tuple[Step, Verdicts]]:
    """The steps of `LogReader.steps`, each with the verdicts of `judge` on its rows.

    A step is valid until the next one. Raises as `LogReader.steps` does, after all earlier steps.
    """
    cores = len(os.sched_getaffinity(0))
    free, ready = _Free(), _Ready()
    size = log.storage.window_bytes
    for _ in range(cores + 1):
        free.put((np.empty(size, np.uint8), np.zeros(most_rows(size), RECORD_ROW)))
    # a reader with files of its own: `log` may close some of its own meanwhile
    own = LogReader(log.storage, log.segments, log.rules, log.checks)
    with ThreadPoolExecutor(cores) as pool:
        words = (own, place, stop, lambda step: pool.submit(judge, step), free, ready)
        # a daemon: if the caller drops the steps, it still waits for buffers when Python ends
        reading = Thread(target=_read, args=words, daemon=True)
        reading.start()
        try:
            while (judged := ready.get()) is not None:
                if isinstance(judged, Exception):
                    raise judged
                yield judged.step, judged.verdicts.result()
                free.put(judged.buffers)
        finally:
            free.put(None)
            if not sys.is_finalizing():  # by then daemons have stopped
                reading.join()


def _read(
    log: LogReader, place: int, stop: int, judge: Callable[[Step], Future[Verdicts]], free: _Free,
    ready: _Ready,
) -> None:  # fmt: skip
    """Put each step into `ready` to be judged, and after the last one None or the error."""
    held: Buffers

    def another() -> Buffers:
        nonlocal held
        buffers = free.get()
        if buffers is None:
            raise _Stopped
        held = buffers
        return buffers

    try:
        with log:
            for step in log.steps(place, stop, another):
                ready.put(_Judged(step, judge(step), held))
    except Exception as error:  # noqa: BLE001 (it is raised in the thread that reads the answers)
        ready.put(error)
    else:
        ready.put(None)
