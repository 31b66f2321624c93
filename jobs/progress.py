"""Progress of long work: bars on a terminal, else an occasional line; silent for notebooks."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

_TERMINAL_SECONDS = 0.2
_LINE_SECONDS = 10.0
_BAR_WIDTH = 28


class Progress:
    """Says nothing; what library calls use unless told otherwise."""

    @contextmanager
    def stage(
        self, name: str, total: int | None, unit: str, done: Callable[[], int]
    ) -> Iterator[None]:
        """Show a stage while the block runs: `done()` of `total` units."""
        yield


class ShownProgress(Progress):
    """Shows stages on a stream, at most every few seconds where that is no terminal."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._every = _TERMINAL_SECONDS if self._terminal else _LINE_SECONDS

    @contextmanager
    def stage(
        self, name: str, total: int | None, unit: str, done: Callable[[], int]
    ) -> Iterator[None]:
        """Show a stage while the block runs: `done()` of `total` units."""
        started = time.monotonic()
        finished = threading.Event()
        shown = self._terminal

        def watch() -> None:
            nonlocal shown
            while not finished.wait(self._every):
                shown = True
                self._show(name, done(), total, unit, time.monotonic() - started)

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            finished.set()
            watcher.join()
        if shown:
            now = done()
            self._show(
                name, now if total is None else total, total, unit, time.monotonic() - started
            )
        if self._terminal:
            self._stream.write("\n")

    def _show(self, name: str, done: int, total: int | None, unit: str, seconds: float) -> None:
        share = min(done / total, 1.0) if total else 1.0
        left = f", {seconds / share - seconds:.0f} s left" if 0 < share < 1 else ""
        text = f"{name:<12} {done:,} of {total:,} {unit}, {seconds:.0f} s{left}"
        if self._terminal:
            bar = "#" * round(share * _BAR_WIDTH)
            self._stream.write(f"\r\x1b[K[{bar:<{_BAR_WIDTH}}] {text}")
        else:
            self._stream.write(f"reput: {text}\n")
        self._stream.flush()
