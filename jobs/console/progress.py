"""What a person sees while a command works: progress, and why a start takes longer."""

import argparse
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cache
from typing import TextIO

from reput.jobs.console.voice import CSV, is_quiet
from reput.store_format.files.private import cache_folder, has_kernels
from reput.store_format.notes import Done, Progress

# ---
# Tells why a start takes longer: kernels must be compiled first, or cannot be kept.


@cache
def tell_of_no_cache() -> None:
    """Warn on standard error, once in a process, if the first place for kernels was refused."""
    found = cache_folder()
    if not found.refused:
        return
    why = "; ".join(found.refused)
    if found.path is None:
        text = f"kernels are compiled anew at each start: no folder to keep them in: {why}"
    else:
        kept = os.path.dirname(found.path)
        text = f"compiled kernels are kept in {kept}, for {why}"
    sys.stderr.write(f"reput: warning: {text}\n")


def tell_of_first_run() -> None:
    """Write a line to standard error if this version's kernels must be compiled first."""
    kept = cache_folder().path
    if kept is not None and not has_kernels(kept):
        sys.stderr.write("reput: compiling kernels, once for this version (some 20 s)\n")


# ---
# Progress of long work for a person: bars on a terminal, else an occasional line.

_TERMINAL_SECONDS = 0.2
_LINE_SECONDS = 10.0
_BAR_WIDTH = 28
_KNOWS = 0.02  # from this share on the time left is estimated
_SHORT = 1.0  # seconds; the bar of a shorter stage is removed again


class ShownProgress(Progress):
    """Shows stages on a stream: as bars on a terminal, else by a line every ten seconds."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._every = _TERMINAL_SECONDS if self._terminal else _LINE_SECONDS

    @contextmanager
    def stage(self, name: str, done: Callable[[], Done]) -> Iterator[None]:
        """Show a stage while the block runs. Without a terminal a short stage shows nothing."""
        started = time.monotonic()
        finished = threading.Event()
        shown = self._terminal

        def watch() -> None:
            nonlocal shown
            while not finished.wait(self._every):
                shown = True
                self._show(name, done(), time.monotonic() - started)

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            finished.set()
            watcher.join()
        if self._terminal and time.monotonic() - started < _SHORT:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
        elif shown:
            self._show(name, done()._replace(share=1.0), time.monotonic() - started)
            self._stream.write("\n" if self._terminal else "")

    def _show(self, name: str, done: Done, seconds: float) -> None:
        share = done.share
        text = f"{name:<8} {done.text}, {seconds:.0f} s{_end(share, seconds)}"
        if self._terminal:
            bar = "#" * round((share or 0.0) * _BAR_WIDTH)
            self._stream.write(f"\r\x1b[K[{bar:<{_BAR_WIDTH}}] {text}")
        else:
            self._stream.write(f"reput: {text}\n")
        self._stream.flush()


def _end(share: float | None, seconds: float) -> str:
    """Text on the end of a stage, if its speed stays the same; empty if unknown."""
    if not share or not _KNOWS <= share < 1:
        return ""
    left = seconds / share - seconds
    at = (datetime.now() + timedelta(seconds=left)).strftime("%H:%M:%S")
    return f", {left:.0f} s left (until {at})"


def progress_of(arguments: argparse.Namespace) -> Progress:
    """Progress on standard error; none for JSON or CSV if standard output is the same stream.

    spark-submit gives the driver one stream for both (PythonRunner).
    """
    one_stream = os.path.sameopenfile(1, 2)
    for_programs = arguments.json or arguments.format == CSV
    return Progress() if is_quiet() or (for_programs and one_stream) else ShownProgress()
