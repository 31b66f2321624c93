"""SIGINT and SIGTERM at a moment that suits: between two steps of the work, never within one."""

import signal
import threading
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(Exception):
    """The process was asked to end; `exit_code` is what a shell expects then: 128 + the signal."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.exit_code = 128 + number


class StopSignals:
    """While it is entered a signal is noted, and raised by `check` or by a wait for input.

    The first signal gives the handlers back, so that a second one ends the process as ever. In
    another thread than the main one it does nothing.
    """

    def __init__(self) -> None:
        self._number = 0
        self._waiting = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in _SIGNALS}
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
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
