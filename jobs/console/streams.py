"""The three standard streams: open, able to show any text, and flushed at the end.

Imports little, to keep `reput --help` fast.
"""

import os
import sys
from contextlib import suppress
from typing import TextIO

from reput.jobs.console.voice import label_of_error

_FAILED = 3
_BREAK = "\n  "


def open_streams() -> None:
    """Have the three standard streams open, and able to show any text.

    A closed stream (`reput ... >&-`) becomes /dev/null; else the first file opened would take its
    number, and get what is printed. Characters that the encoding lacks are escaped.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number: this one
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)  # a test's own stream has none
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def flush(code: int) -> int:
    """Flush; returns the exit code: 3 in place of 0 if that fails, as on a full disk.

    A reader that has seen enough (`| head -1`) is no failure.
    """
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        discard(sys.stdout)
    except OSError as error:
        discard(sys.stdout)
        complain(f"standard output: {error.strerror}")
        code = code or _FAILED
    with suppress(OSError):
        sys.stderr.flush()
    return code


def discard(stream: TextIO) -> None:
    """Point a stream that nobody reads to /dev/null, so that the interpreter ends silently."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def complain(text: str) -> None:
    """Write an error to standard error, escaped; nothing is raised if nobody reads it.

    Semicolons separate what is wrong, where, and what to do: each gets its line on a terminal;
    elsewhere all are one line, for grep.
    """
    line = "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
    with suppress(OSError):
        line = line.replace(".; ", ". ") if not sys.stderr.isatty() else (
            line.replace("; ", _BREAK).replace(" Example: ", f"{_BREAK}Example: ")
        )  # fmt: skip
        sys.stderr.write(f"{label_of_error(sys.stderr)} {line}\n")
        sys.stderr.flush()
