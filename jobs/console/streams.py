"""The three standard streams: open, able to show any text, and flushed at the end.

Imports little: `reput --help` pays for it.
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

    A closed one (`reput ... >&-`) is made /dev/null: else the first file that is opened takes its
    number, and gets what is printed. What an encoding has no letters for is escaped.
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
        reconfigure = getattr(stream, "reconfigure", None)  # a test's own has none
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def flush(code: int) -> int:
    """The exit code, once all is printed: 3 where that is not possible, as on a full disk.

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
    """Lead a stream that nobody reads to /dev/null, so that the interpreter's end is silent."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def complain(text: str) -> None:
    """An error on standard error, whatever the text holds; nothing where nobody reads it.

    What is wrong, where, and what to do stand between semicolons: on a terminal each gets its
    line; a log has one, for grep.
    """
    line = "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
    with suppress(OSError):
        line = line.replace(".; ", ". ") if not sys.stderr.isatty() else (
            line.replace("; ", _BREAK).replace(" Example: ", f"{_BREAK}Example: ")
        )  # fmt: skip
        sys.stderr.write(f"{label_of_error(sys.stderr)} {line}\n")
        sys.stderr.flush()
