"""Judges the windows of a log on all cores: while one is judged the next ones are read.

One thread goes from record to record, since only a record tells where the next one is; that is a
small part of the work, and kernels and reads let other threads run. What comes out is in the log's
order. So many windows are held as there are threads, and one more.
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
    buffers: Buffers  # in which the step is


_Free = SimpleQueue[Buffers | None]
_Ready = SimpleQueue[_Judged | Exception | None]


class _Stopped(Exception):
    """Nobody wants further steps."""


def judged_steps(
    log: LogReader, place: int, stop: int, judge: Callable[[Step], Verdicts]
) -> Iterator[tuple[Step, Verdicts]]:
    """The steps of `LogReader.steps`, each with what `judge` says of its rows.

    A step is valid until the next one. Raises as `LogReader.steps` does, after the steps before.
    """
    cores = len(os.sched_getaffinity(0))
    free, ready = _Free(), _Ready()
    size = log.storage.window_bytes
    for _ in range(cores + 1):
        free.put((np.empty(size, np.uint8), np.zeros(most_rows(size), RECORD_ROW)))
    # it has its own files open: in another thread `log` may close some meanwhile
    own = LogReader(log.storage, log.segments, log.rules, log.checks)
    with ThreadPoolExecutor(cores) as pool:
        words = (own, place, stop, lambda step: pool.submit(judge, step), free, ready)
        # a daemon: where an answer is left half read it waits for buffers when Python ends
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
            if not sys.is_finalizing():  # then daemons do not run any more
                reading.join()


def _read(
    log: LogReader, place: int, stop: int, judge: Callable[[Step], Future[Verdicts]], free: _Free,
    ready: _Ready,
) -> None:  # fmt: skip
    """Have each step judged; at the end put None, or what was raised, behind them."""
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
