"""How a command ends when it is asked to: by ctrl-c, by SIGTERM, by a terminal that is closed.

The signal becomes an exception, so that staging and temporary folders are removed on the way out.
First of all, in the handler, the processes end that could still write to those.
"""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AGAIN_SECONDS = 1.0  # a terminal and a shell may both pass one on; later, somebody is impatient

_ended_first: list[Callable[[], None]] = []


class Ended(KeyboardInterrupt):
    """A signal asked this process to end; what handles a KeyboardInterrupt handles it."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.number = number


@contextmanager
def ending_by_signals() -> Iterator[None]:
    """Raise Ended in the main thread at the first signal; one that comes later ends all at once.

    A signal that is ignored already, as nohup does it, stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    first = 0.0

    def end(number: int, _: FrameType | None) -> None:
        nonlocal first
        now = time.monotonic()
        if first:
            if now - first > _AGAIN_SECONDS:
                os._exit(128 + number)
            return
        first = now
        logging.disable()  # py4j would log the traces of all connections that break now
        for each in list(_ended_first):
            each()
        raise Ended(number)

    before = {number: signal.getsignal(number) for number in SIGNALS}
    ours = [number for number, handler in before.items() if handler != signal.SIG_IGN]
    for number in ours:
        signal.signal(number, end)
    logged = logging.root.manager.disable
    try:
        yield
    finally:
        logging.disable(logged)
        for number in ours:
            signal.signal(number, before[number])


@contextmanager
def ended_first(end: Callable[[], None]) -> Iterator[None]:
    """Have `end` called in the signal's handler, before anything is removed. It must not raise."""
    _ended_first.append(end)
    try:
        yield
    finally:
        _ended_first.remove(end)


@contextmanager
def handlers_kept() -> Iterator[None]:
    """Put the handler of ctrl-c back after the block: PySpark sets one of its own."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread() and before is not None:
            signal.signal(signal.SIGINT, before)


def ignore() -> None:
    """Leave these signals to the process that started this one."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
