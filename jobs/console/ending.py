"""How a command ends: one line for whatever went wrong, and the exit code that it has.

REPUT_TRACEBACK=1 shows Python's traceback as well.
"""

import os
import re
import signal
import sys
import traceback
from contextlib import suppress
from typing import TextIO

from reput.jobs.console.options import DAMAGE, FAILED, USAGE
from reput.store_format.faults import DamageFound, StoreChanged, StoreError
from reput.store_format.release.profiles import UnknownRelease
from reput.store_format.release.settings import SettingError

_INSTALLED = "pip install 'reput[local]'"
_TEXT_MOST = 500  # of an error that nobody foresaw
_JAVA_OR_PYTHON = re.compile(
    r"^(?:: |Caused by: )?((?:[A-Za-z_$]+\.)+[A-Z][\w$]*: .*|[A-Z]\w*(?:Error|Exception): .*)$",
    re.M,
)


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
        code = code or FAILED
    with suppress(OSError):
        sys.stderr.flush()
    return code


def discard(stream: TextIO) -> None:
    """Lead a stream that nobody reads to /dev/null, so that the interpreter's end is silent."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def ending(error: BaseException) -> int:
    """Say in one line why a command ends; its exit code."""
    if os.environ.get("REPUT_TRACEBACK"):
        traceback.print_exception(error)
    if isinstance(error, BrokenPipeError):  # as in `reput dump FILE | head`
        discard(sys.stdout)
        return 0
    if isinstance(error, KeyboardInterrupt):
        number = getattr(error, "number", signal.SIGINT)
        complain(f"ended by {signal.Signals(number).name}")
        return 128 + number
    code, text = meaning(error)
    complain(text)
    return code


def meaning(error: BaseException) -> tuple[int, str]:
    """The exit code of an error, and what it says."""
    # here, because they take a tenth of the time of a command that needs no Spark
    from reput.jobs.spark.java import NoJavaError
    from reput.jobs.spark.jvm import SparkFailed

    if isinstance(error, DamageFound):
        return DAMAGE, str(error)
    if isinstance(error, (StoreChanged, OSError)):
        return FAILED, str(error)
    if isinstance(error, (SettingError, UnknownRelease, StoreError, NoJavaError)):
        return USAGE, str(error)
    if isinstance(error, SparkFailed):
        return FAILED, cause(str(error))
    if isinstance(error, ModuleNotFoundError):
        return USAGE, f"{error.name} is missing: {_INSTALLED}"
    if isinstance(error, ValueError) and "embedded null" in str(error):
        return USAGE, "a path holds a NUL"
    if isinstance(error, MemoryError):
        return FAILED, "out of memory"
    if isinstance(error, RecursionError):
        return FAILED, f"{_place(error)}: something is nested too deeply"
    text = " ".join(str(error).split())[:_TEXT_MOST]
    return FAILED, (
        f"{type(error).__name__} at {_place(error)}: {text}; this should not happen: "
        "REPUT_TRACEBACK=1 shows more"
    )


def cause(trace: str) -> str:
    """What a failed task said, out of Spark's account of it: the last line of Python's trace."""
    said = _JAVA_OR_PYTHON.findall(trace)
    return str(said[0]) if said else trace.strip().partition("\n")[0]


def complain(text: str) -> None:
    """One line on standard error, whatever the text holds; nothing where nobody reads it."""
    line = "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
    with suppress(OSError):
        sys.stderr.write(f"reput: error: {line}\n")
        sys.stderr.flush()


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else "?"
