"""How a command ends when it is asked to: by ctrl-c, by SIGTERM, by a terminal that is closed.

The signal becomes an exception, so that staging and temporary folders are removed on the way out:
at once (`ending_by_signals`), or where the work must not end within a step, between two steps
(`StopSignals`). First of all, in the handler, the processes end that could still write to those.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

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
    """Raise Ended in the main thread at the first signal; one that comes later ends all at once."""
    first, came = 0.0, 0

    def end(number: int, _: FrameType | None) -> None:
        nonlocal first, came
        now = time.monotonic()
        if first:
            if now - first > _AGAIN_SECONDS:
                os._exit(128 + number)
            return
        first, came = now, number
        _silence(True)
        for each in list(_ended_first):
            each()
        raise Ended(number)

    before = _handle(end)
    try:
        yield
    except Exception as error:
        if came:
            # PySpark asks the JVM once more on the way out. Where that has ended meanwhile, what is
            # raised then takes the place of Ended.
            raise Ended(came) from error
        raise
    finally:
        if first:
            _silence(False)
        _put_back(before)


def _silence(on: bool) -> None:
    """Switch logging off or on again: py4j would log the traces of all broken connections."""
    logging = sys.modules.get("logging")  # else nobody logs
    if logging is not None:
        logging.disable(logging.CRITICAL if on else logging.NOTSET)


def _handle(handler: Callable[[int, FrameType | None], None]) -> dict[int, Any]:
    """Handle our signals so; what handled them before, for `_put_back`.

    One that is ignored, as nohup does it, stays ignored. Only a main thread can handle any.
    """
    if threading.current_thread() is not threading.main_thread():
        return {}
    taken = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    return {number: signal.signal(number, handler) for number in taken}


def _put_back(before: dict[int, Any]) -> None:
    for number, handler in before.items():
        signal.signal(number, handler)


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


class Stopped(Exception):
    """The process was asked to end, between two steps. exit_code: 128 + the signal."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.exit_code = 128 + number


class StopSignals:
    """While it is entered a signal is noted, and raised by `check` or by a wait for input.

    The first signal gives the handlers back, so that a second one ends the process as ever.
    """

    def __init__(self) -> None:
        self._number = 0
        self._waiting = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopSignals":
        self._before = _handle(self._note)
        return self

    def __exit__(self, *about: object) -> None:
        self._give_back()

    def check(self) -> None:
        """Between two steps. Raises Stopped if a signal came."""
        if self._number:
            raise Stopped(self._number)

    def waiting(self, source: Any) -> Any:
        """Yield what a source yields; a signal ends the wait for it at once."""
        while True:
            self._waiting = True
            try:
                self.check()
                item = next(source, None)
            finally:
                self._waiting = False
            if item is None:
                return
            yield item

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._number = number
        self._give_back()
        if self._waiting:
            raise Stopped(number)

    def _give_back(self) -> None:
        _put_back(self._before)
        self._before = {}
