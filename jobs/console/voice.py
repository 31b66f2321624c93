"""Output of every command: how much (`-v`, `--quiet`), in which form, in which colours, over which
streams.

Imports next to nothing, to keep `reput --help` fast.
"""

import argparse
import io
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise
from typing import Any, TextIO

# ---
# Texts and times as a terminal may show them.

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HUMP = re.compile("_([a-z])")
_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))


def safe(text: str) -> str:
    """Text that a terminal can take: what is not printable is escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def duration(milliseconds: int) -> str:
    """A time span by its two largest units, as `3 d 4 h`."""
    sign, rest = ("-" if milliseconds < 0 else ""), abs(milliseconds)
    for (name, size), (smaller, less) in pairwise(_UNITS):
        if rest >= size:
            more = rest % size // less
            fine = f" {more} {smaller}" if more and smaller != "ms" else ""
            return f"{sign}{rest // size} {name}{fine}"
    return f"{sign}{rest} ms"


def time_text(milliseconds: int) -> str:
    """A time as ISO 8601, in the zone of --tz; the number itself if it is outside the calendar."""
    try:
        moment = (EPOCH + timedelta(milliseconds=milliseconds)).astimezone(_loudness.zone)
    except (OverflowError, ValueError):
        return str(milliseconds)
    text = moment.isoformat(timespec="milliseconds")
    return text.removesuffix("+00:00") + "Z" if _loudness.zone is UTC else text


def wall_clock(milliseconds: int) -> int:
    """A time as a clock of --tz's zone shows it, in milliseconds since its own 1970."""
    with suppress(OverflowError, ValueError):
        shown = (EPOCH + timedelta(milliseconds=milliseconds)).astimezone(_loudness.zone)
        return milliseconds + (shown.utcoffset() or timedelta()) // timedelta(milliseconds=1)
    return milliseconds


def in_zone(title: str) -> str:
    """The title of a column of times, with their zone."""
    return f"{title} ({safe(_loudness.zone_name)})"


def camel_case(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A row's fields by the names that they have in JSON: `queue_id` as `queueId`."""
    return {_HUMP.sub(lambda found: found[1].upper(), name): fields[name] for name in fields}


TABLE, JSON, CSV = "table", "json", "csv"
FORMS = (TABLE, JSON, CSV)
ONE_OBJECT = "one JSON object on standard output, nothing else"
ROWS = "JSON lines on standard output: one object for each row"
_RED, _GREEN, _YELLOW, _BOLD, _DIM = "31", "32", "33", "1", "2"
_LABEL = re.compile(r"^(  )(warning|damage|differs|left out|lacks|file|next)(  +)", re.M)
_COLOURS = {"warning": _YELLOW, "next": _BOLD}


def _zone(name: str) -> tzinfo:
    if name == "UTC":  # without an import
        return UTC
    from reput.store_format.release.settings import zone_named

    return zone_named(name)


class _Loudness:
    """How much the command in this process says, in which time zone, and what it has said."""

    def __init__(self, quiet: bool = False, verbose: bool = False, zone: str = "UTC") -> None:
        self.quiet, self.verbose, self.zone_name, self.zone = quiet, verbose, zone, _zone(zone)
        self.said: set[str] = set()


_loudness = _Loudness()


def begin(quiet: bool = False, verbose: bool = False, zone: str = "UTC") -> None:
    """Set how much a command says, at its start, and with which time zone. Raises SettingError."""
    global _loudness
    _loudness = _Loudness(quiet, verbose, zone)


def shown_zone() -> tzinfo:
    """The zone of --tz, in which times are shown and read."""
    return _loudness.zone


def is_quiet() -> bool:
    """Whether only errors and the answer are shown."""
    return _loudness.quiet


def is_verbose() -> bool:
    """Whether details are shown too."""
    return _loudness.verbose


def first_time(text: str) -> bool:
    """Whether a note is said for the first time in this command."""
    new = text not in _loudness.said
    _loudness.said.add(text)
    return new


def remark(text: str) -> None:
    """Write a line to standard error, escaped, each text once; nothing with --quiet."""
    if is_quiet() or not first_time(text):
        return
    with suppress(OSError):
        sys.stderr.write(f"reput: {safe(text)}\n")
        sys.stderr.flush()


# --- options --------------------------------------------------------------------------------------


def add_output(parser: argparse.ArgumentParser, rows: bool = False, times: bool = False) -> None:
    """Add a command's output options. rows: it shows rows, not one object; times: or takes any."""
    is_json = ROWS if rows else ONE_OBJECT

    class Form(argparse.Action):
        def __call__(self, _: Any, namespace: Any, value: Any, option: str | None = None) -> None:
            if value not in FORMS:
                raise argparse.ArgumentError(self, f"{value!r}: one of {', '.join(FORMS)}")
            if value != JSON and option == "--format" and getattr(namespace, "json", False):
                raise argparse.ArgumentError(self, f"{value}: not with --json")
            namespace.format, namespace.json = value, value == JSON

    class AsJson(argparse.Action):
        def __call__(self, _: Any, namespace: Any, value: Any, option: str | None = None) -> None:
            if namespace.format == CSV:
                raise argparse.ArgumentError(self, "not with --format csv")
            namespace.format, namespace.json = JSON, True

    parser.set_defaults(json=False, quiet=False, verbose=False)
    group = parser.add_argument_group("what it says")
    csv = "a heading, and a line for each row" if rows else "a heading and one line"
    group.add_argument(
        "--format", action=Form, default=TABLE, metavar="table|json|csv",
        help=f"table (default): text for people; json: as --json; csv: {csv}",
    )  # fmt: skip
    group.add_argument("--json", action=AsJson, nargs=0, default=False, help=is_json)
    if times:
        group.add_argument(
            "--tz", metavar="ZONE",
            help="the time zone of days, and of times that a table shows or that are given without "
            "one: Asia/Shanghai, +08:00 (default: UTC)",
        )  # fmt: skip
    how_much = group.add_mutually_exclusive_group()
    how_much.add_argument(
        "--quiet", action="store_true",
        help="no summary, progress or notes: errors alone, and what --json, --format or rows say",
    )  # fmt: skip
    how_much.add_argument(
        "-v", "--verbose", action="store_true",
        help="say details too, such as what was detected; of an error, Python's trace",
    )  # fmt: skip


# --- answers --------------------------------------------------------------------------------------


def csv_text(rows: Iterable[Sequence[Any]]) -> str:
    """Rows as CSV (RFC 4180); lists and objects become JSON text. For a terminal, which obeys
    control characters, these are escaped.
    """
    import csv

    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    shown = safe if sys.stdout.isatty() else str
    for row in rows:
        cells = (_cell(value) for value in row)
        writer.writerow([shown(each) if isinstance(each, str) else each for each in cells])
    # Java's text may hold half of a surrogate pair, which no encoding has
    return sink.getvalue().encode("utf-8", "backslashreplace").decode()


def _cell(value: Any) -> Any:
    import json

    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value) if isinstance(value, (dict, list, tuple)) else value


# --- colour ---------------------------------------------------------------------------------------


def has_colour(stream: TextIO) -> bool:
    """Whether a stream is a terminal on which colours are wanted (no-color.org)."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    with suppress(OSError, ValueError):
        return stream.isatty()
    return False


def painted(text: str, good: bool) -> str:
    """A summary with its first line and its labels in colour, where standard output has them."""
    if not has_colour(sys.stdout):
        return text
    first, line_end, rest = text.partition("\n")
    rest = _LABEL.sub(lambda m: f"{m[1]}{paint(m[2], _COLOURS.get(m[2], _RED))}{m[3]}", rest)
    return f"{paint(first, f'{_BOLD};{_GREEN if good else _RED}')}{line_end}{rest}"


def paint(text: str, colour: str) -> str:
    """Text with a terminal's escape codes for a colour."""
    return f"\x1b[{colour}m{text}\x1b[0m"


# ---
# The three standard streams: open, able to show any text, and flushed at the end.
#
# Imports little, to keep `reput --help` fast.

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
        label = "reput: error:"
        label = paint(label, f"{_BOLD};{_RED}") if has_colour(sys.stderr) else label
        sys.stderr.write(f"{label} {line}\n")
        sys.stderr.flush()
