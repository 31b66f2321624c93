"""How a command ends: wrong words, one line on an error and its exit code, a full disk."""

import json
import os
import re
import signal
import sys
import traceback
from collections.abc import Iterable
from difflib import get_close_matches

from reput.jobs.console.options import DAMAGE, FAILED, USAGE
from reput.jobs.console.voice import complain, discard, is_verbose
from reput.store_format.faults import DamageFound, PeerFailed, StoreChanged, StoreError, WrongFilter
from reput.store_format.message.refusals import Unavailable, WriterFailed
from reput.store_format.release.profiles import UnknownRelease
from reput.store_format.release.settings import SettingError

# ---
# Words that are no command or option of reput's.


class WrongWords(StoreError):
    """The command line cannot be understood; the message says why."""


def no_such_command(word: str, commands: Iterable[str]) -> WrongWords:
    """The error for a first word that is not a command, with the nearest one."""
    known = list(commands)
    near = get_close_matches(word, known, 1, 0.5)
    hint = f"did you mean {near[0]}?" if near else "reput --help lists them"
    return WrongWords(f"{word!r} is not a command of reput; {hint}")


# ---
# The end of a command that failed: one line on the error, and the exit code.
#
# -v or REPUT_TRACEBACK=1 shows Python's traceback as well.

_INSTALLED = "pip install 'reput[spark]'"
_TEXT_MOST = 200  # characters of an unforeseen error's text
_JAVA_OR_PYTHON = re.compile(
    r"^(?:: |Caused by: )?((?:[A-Za-z_$]+\.)+[A-Z][\w$]*: .*|[A-Z]\w*(?:Error|Exception): .*)$",
    re.M,
)


def ending(error: BaseException, as_json: bool = False) -> int:
    """Report in one line why a command ends; returns its exit code.

    as_json: also write an object to standard output, where scripts expect JSON.
    """
    if isinstance(error, BrokenPipeError):  # as in `reput dump FILE | head`
        discard(sys.stdout)
        return 0
    if isinstance(error, KeyboardInterrupt):
        number = getattr(error, "number", signal.SIGINT)
        code, text = 128 + number, f"ended by {signal.Signals(number).name}"
    else:
        code, text = meaning(error)
    if as_json:
        about = {"code": code, "kind": type(error).__name__, "message": text}
        sys.stdout.write(json.dumps({"error": about}) + "\n")
    if isinstance(error, DamageFound) and not is_verbose():
        text = error.plain
    complain(text)
    if is_verbose() or os.environ.get("REPUT_TRACEBACK"):  # what it means is read first
        traceback.print_exception(error)
    return code


def meaning(error: BaseException) -> tuple[int, str]:
    code, text = _meaning(error)
    if code == FAILED:
        text = full_disk(text) or text
    return code, text


def _meaning(error: BaseException) -> tuple[int, str]:
    # imported here: they take a tenth of the time of a command that needs no Spark
    from reput.jobs.engines.engine import EngineFailed, NoSparkError, SparkFailed
    from reput.jobs.engines.java import NoJavaError

    if isinstance(error, DamageFound):
        return DAMAGE, str(error)
    if isinstance(error, (StoreChanged, PeerFailed, Unavailable, WriterFailed, OSError)):
        return FAILED, str(error)
    if isinstance(error, (SettingError, UnknownRelease, StoreError, WrongFilter)):
        return USAGE, str(error)
    if isinstance(error, (NoJavaError, NoSparkError)):
        return USAGE, str(error)
    if isinstance(error, SparkFailed):
        return FAILED, cause(str(error))
    if isinstance(error, EngineFailed):
        return FAILED, str(error)
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
        f"{type(error).__name__} at {_place(error)}: {text}; this should not happen: -v shows more"
    )


def cause(trace: str) -> str:
    """The first line of Spark's text that names an exception of Java or Python; else its first."""
    said = _JAVA_OR_PYTHON.findall(trace)
    return str(said[0]) if said else trace.strip().partition("\n")[0]


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else "?"


# ---
# The message on a full disk: which disk, how much room it has left, and what to do.

_FULL = re.compile("No space left on device|Disk quota exceeded")
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
_PATH = re.compile(r"(?:No space left on device|Disk quota exceeded): '(.+?)'")


def full_disk(text: str) -> str | None:
    """The message for an error whose text tells of a full disk; None for another error."""
    full, path = _FULL.search(text), _PATH.search(text)
    if full is None:
        return None
    if path is None or not os.path.isabs(path[1]):
        return (
            f"{full[0]}: make room where the output goes, and for temporary files (TMPDIR names "
            "another folder for them)"
        )
    return f"{path[1]}: {full[0]}: {room_of(path[1])}; make room, or give another folder"


def room_of(path: str) -> str:
    """How much room the disk of an absolute path has."""
    at = path
    while not os.path.exists(at):
        at = os.path.dirname(at)
    room = os.statvfs(at)
    while not os.path.ismount(at):
        at = os.path.dirname(at)
    left, size = (_size(blocks * room.f_frsize) for blocks in (room.f_bavail, room.f_blocks))
    return f"the disk at {at} has {left} of {size} left"


def _size(size: float) -> str:
    unit = 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:,.1f} {_UNITS[unit]}" if unit else f"{size} bytes"
