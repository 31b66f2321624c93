"""What commands share: options and what they mean, exit codes, files and addresses that options
name, progress, asking before a change.
"""

import argparse
import json
import os
import re
import shlex
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from reput.jobs.console import voice
from reput.jobs.console.declared import OfService, OfStore, add_options, given
from reput.jobs.console.moment import add_moment, take_moment
from reput.jobs.console.progress import progress_of, tell_of_first_run
from reput.jobs.console.store_there import check_discovery, check_ending, check_store
from reput.jobs.engines.choice import ENGINES, command_engine
from reput.jobs.engines.engine import Engine
from reput.store_format.faults import StoreError
from reput.store_format.files.by_url import place_at
from reput.store_format.release.profiles import RELEASES, release_named
from reput.store_format.release.settings import (
    SettingError,
    known_settings,
    merge_layers,
    parse_assignments,
    parse_properties,
)

if TYPE_CHECKING:
    from reput.jobs.outputs.output import NewFile
    from reput.store_format.discover.purpose import Purpose

T = TypeVar("T")

# ---
# Single files that options name: a picture, all ranges, a body.


@contextmanager
def new_ranges(
    arguments: argparse.Namespace, settings: Mapping[str, str] | None
) -> Iterator[BinaryIO | None]:
    """The new file of --ranges, if given; it is removed if the job fails. Raises StoreError."""
    ranges = new_file(arguments, "ranges", settings)
    if ranges is None:
        yield None
        return
    with ranges.writing() as output:
        yield output


def new_file(
    arguments: argparse.Namespace, option: str, settings: Mapping[str, str] | None
) -> "NewFile | None":
    """The file that an option names, or None. Raises StoreError if it may not be written."""
    path = getattr(arguments, option)
    if not path:
        return None
    check_ending("stats --output" if option == "output" else f"--{option}", path)
    from reput.jobs.outputs.output import NewFile, inputs_of

    file = NewFile(path, tuple(inputs_of(place_at(arguments.store), settings or {})))
    try:
        file.check()
    except StoreError as error:
        raise StoreError(f"--{option} {error}") from None
    return file


DONE, DAMAGE, USAGE, FAILED = 0, 1, 2, 3

_CONF_BYTES_MAX = 1 << 20
ANY_DAMAGE = ("refuse", "truncate", "salvage")
_ONE_SETTING = (
    "one setting by RocketMQ's name, over the broker's file; may be repeated; "
    "`reput help settings` lists them"
)


# help of --rocketmq for a command that writes messages
WRITES_AS = (
    f"whose rules to follow, {RELEASES[0]} .. {RELEASES[-1]}; without it, those of the store, "
    "where its files show them"
)
VERSIONS = """\
--rocketmq selects the release whose rules hold; without it the store's own files show it, where
they can. `reput help releases` says what differs.
"""


def add_store(
    parser: argparse.ArgumentParser, on_damage: tuple[str, ...] = (), optional: bool = False,
    times: bool = False, in_place: bool = False,
) -> None:  # fmt: skip
    """Add STORE and its options. on_damage: choices, () for no option; times: for add_output;
    in_place: as for add_store_path.
    """
    add_store_path(parser, optional, in_place)
    newest = "or 5.3 for the newest of those; without it, as the store's files show"
    add_broker(parser, f"{RELEASES[0]} .. {RELEASES[-1]}, {newest}")
    if on_damage:
        salvages = ", or leave the damage out and go on at the next intact record"
        salvages = salvages if "salvage" in on_damage else ""
        parser.add_argument(
            "--on-damage", choices=on_damage,
            help="damage with live records after it: refuse (default; verify: as the manifest "
            "says), end the log there as RocketMQ does (but also at a physicalOffset that is not "
            f"its place, which RocketMQ dispatches){salvages} (docs/damage.md)",
        )  # fmt: skip
        parser.add_argument(
            "--no-check-crc", action="store_true", help="do not check body CRCs (checkCRCOnRecover)"
        )
    add_engine(parser)
    voice.add_output(parser, times=times)


def add_job(
    parser: argparse.ArgumentParser, options: type, epilog: str, timezone: bool = False,
    **of_store: Any,
) -> None:  # fmt: skip
    """Add what a job on a store takes: STORE and its options, as for add_store, then its own.
    timezone: whether it names index files.
    """
    parser.epilog = epilog
    add_store(parser, **of_store)
    if timezone:
        add_timezone(parser)
    add_options(parser, options)


def add_engine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--engine", choices=ENGINES,
        help="local: processes of this machine (default); spark: a session, which --master, "
        "spark-submit and Databricks also mean",
    )  # fmt: skip
    parser.add_argument(
        "--master", metavar="MASTER", help="Spark master (default: local[*], or spark-submit's)"
    )


def add_store_path(
    parser: argparse.ArgumentParser, optional: bool = False, in_place: bool = False,
    at_of_store: str = "",
) -> None:  # fmt: skip
    """Add STORE; unless it is changed in place, with the options by which a repository is one."""
    parser.add_argument(
        "store", metavar="STORE", nargs="?" if optional else None,
        help="a store's root, path or URL: it holds commitlog/",
    )  # fmt: skip
    if not in_place:
        add_moment(parser, at_of_store)


def as_of(arguments: argparse.Namespace) -> None:
    """Have a command read a backup repository, where STORE is one, as of the moment it names."""
    if arguments.store:
        take_moment(arguments, milliseconds, voice.remark)


def add_broker(parser: argparse.ArgumentParser, rocketmq: str, setting: str = _ONE_SETTING) -> None:
    """Add the options on a store's broker. rocketmq, setting: help of --rocketmq and --set."""
    parser.add_argument("--rocketmq", metavar="VERSION", help=rocketmq)
    parser.add_argument("--broker-conf", metavar="FILE", help="the broker's properties file")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", dest="assignments",
        help=setting,
    )  # fmt: skip


def add_timezone(parser: argparse.ArgumentParser) -> None:
    """Add --timezone, for a command that names index files."""
    parser.add_argument(
        "--timezone", metavar="NAME",
        help="the broker's time zone, in which it names index files: America/New_York, -05:00 "
        "(default: as the store's files show it, else that of this process)",
    )  # fmt: skip


def setting_layers(arguments: argparse.Namespace) -> list[dict[str, str]]:
    """The settings of --broker-conf, then those of --set, which win. Raises SettingError."""
    layers = []
    if arguments.broker_conf:
        known, unknown = known_settings(broker_conf(arguments.broker_conf))
        layers.append(known)
        if unknown:
            voice.remark(f"--broker-conf {arguments.broker_conf}: {unknown}")
    if getattr(arguments, "timezone", None):
        layers.append({"user.timezone": arguments.timezone})
    return [*layers, parse_assignments(arguments.assignments)]


def given_words(arguments: argparse.Namespace) -> str:
    """The options on a store's broker that were given, for a line that says what to run next."""
    words = [] if arguments.rocketmq is None else ["--rocketmq", arguments.rocketmq]
    words += ["--broker-conf", arguments.broker_conf] if arguments.broker_conf else []
    for each in arguments.assignments:
        words += ["--set", each]
    return "".join(f" {shlex.quote(word)}" for word in words)


def broker_conf(path: str) -> dict[str, str]:
    """The settings in a broker's properties file. Raises SettingError.

    BrokerStartup gives a stream of bytes to Properties.load, which decodes them as Latin-1.
    """
    try:
        # opening a FIFO must not wait for a writer
        with open(path, "rb", opener=lambda at, how: os.open(at, how | os.O_NONBLOCK)) as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode):
                raise SettingError(f"--broker-conf {path}: is not a regular file")
            if about.st_size > _CONF_BYTES_MAX:
                raise SettingError(
                    f"--broker-conf {path}: {about.st_size} bytes are too many for a broker's "
                    f"configuration: {_CONF_BYTES_MAX} at most"
                )
            return parse_properties(file.read(_CONF_BYTES_MAX).decode("latin-1"))
    except OSError as error:
        raise SettingError(f"--broker-conf {path}: {error.strerror}") from None


def _settings(arguments: argparse.Namespace) -> dict[str, str]:
    """The settings of --broker-conf, --set and --no-check-crc, merged. Raises SettingError."""
    settings = merge_layers(*setting_layers(arguments))
    if getattr(arguments, "no_check_crc", False):
        settings["checkCRCOnRecover"] = "false"
    return settings


def asked_of(arguments: argparse.Namespace, options: type[T], **more: Any) -> T:
    """The options of a job, as they were given. more: fields that win.

    Raises SettingError, UnknownRelease, and StoreError if there is no such store, before Spark is
    started.
    """
    if arguments.rocketmq:
        release_named(arguments.rocketmq)
    settings = _settings(arguments)
    known: dict[str, Any] = {"settings": settings, "progress": progress_of(arguments)}
    if issubclass(options, OfService):
        known["tell"] = voice.remark
    elif arguments.store is not None:
        check_store(arguments.store, settings)
    if hasattr(arguments, "yes"):
        known["confirm"] = consent(arguments.yes)
    return given(arguments, options, **known | more)


def engine_for(
    arguments: argparse.Namespace,
    meanwhile: Callable[[], None] = lambda: None,
    settings: Mapping[str, str] | None = None,
) -> AbstractContextManager[Engine]:
    tell_of_first_run()
    return command_engine(arguments.engine, arguments.master, meanwhile, settings)


def asks_store(
    asked: OfStore, purpose: "Purpose", compared: str | None = None
) -> Callable[[], None]:
    """A function for `meanwhile` of engine_for. It raises if the store's files do not show what
    the job needs, and imports the job's modules, so that nobody waits for them later.

    compared: folder of the derived files that the job compares, if any.
    """

    def asks() -> None:
        check_discovery(asked.store, asked.rocketmq, asked.settings or {}, purpose, compared)
        import reput.jobs.deriving.derive_set  # noqa: F401

    return asks


TIME_FORMS = (
    "milliseconds since 1970, 2026-01-31 (in the zone of --tz, else UTC), 2026-01-31T12:00:00Z, "
    "2h ago or now"
)
_DURATION = re.compile(r"(\d+) ?(ms|s|m|h|d|w)", re.ASCII)
_AGO = re.compile(rf"{_DURATION.pattern} ago", re.ASCII)
_SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


class Ago(int):
    """A time that its `word` names, but another one in each run."""

    word = ""


def milliseconds(text: str) -> int:
    """A time in one of TIME_FORMS as milliseconds since 1970; without a zone it has --tz's."""
    with suppress(ValueError):
        return int(text)
    ago = _AGO.fullmatch(text)
    if ago is not None or text == "now":
        before = int(ago[1]) * _UNITS[ago[2]] if ago is not None else 0
        found = Ago(time.time_ns() // 1_000_000 - before)
        found.word = text
        return found
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time: {TIME_FORMS}") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=voice.shown_zone())
    return (moment - voice.EPOCH) // timedelta(milliseconds=1)


def seconds(text: str) -> float:
    """A length of time such as 15s or 1m, in seconds."""
    found = _AGO.fullmatch(f"{text} ago")
    if found is None or not int(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 15s or 1m")
    return int(found[1]) * _UNITS[found[2]] / 1000


def before(text: str) -> int:
    """The last millisecond before a time: `--until` is exclusive, ends of queries inclusive."""
    return milliseconds(text) - 1


def duration(text: str) -> int:
    """A length of time, such as 5m or 30d, in milliseconds."""
    found = _DURATION.fullmatch(text.strip())
    if found is None or not int(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a length of time: 90s, 5m, 30d")
    return int(found[1]) * _UNITS[found[2]]


def byte_rate(text: str) -> float:
    """Bytes a second, for --rate. Raises SettingError."""
    size = text.strip().upper().removesuffix("B")
    unit = size[-1:] if size[-1:] in _SIZES else ""
    count = size.removesuffix(unit) if unit else size
    if not (count.isascii() and count.isdigit() and int(count)):
        raise SettingError(f"--rate {text}: expected a number of bytes a second, as 50M")
    return float(int(count) * _SIZES[unit])


def number(text: str) -> int:
    """A whole number, 0 or more."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{value} is negative")
    return value


def at_least_one(text: str) -> int:
    """A whole number, 1 or more: with 0 nothing could be found."""
    value = number(text)
    if not value:
        raise argparse.ArgumentTypeError("0 is nothing: expected 1 or more")
    return value


def add_consent(parser: argparse.ArgumentParser) -> None:
    """Options of commands that change a store in place."""
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done")


def consent(yes: bool) -> Callable[[str], None]:
    """A function that asks at the terminal before a change; StoreError if nobody says yes."""

    def ask(what: str) -> None:
        if yes:
            return
        if not sys.stdin.isatty():
            raise StoreError(
                f"would {what}; nothing was done, as there is no terminal to ask at; --yes does it"
            )
        sys.stderr.write(f"reput: {what}? [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise StoreError("nothing was done")

    return ask


def show(
    arguments: argparse.Namespace, whole: Mapping[str, Any], text: str,
    details: Iterable[str] = (), good: bool = True,
) -> None:  # fmt: skip
    """Print a command's result: `whole` as JSON or CSV, else `text`, with -v also `details`.

    good: whether the result is good, for the colour of the first line.
    """
    if getattr(arguments, "format", voice.TABLE) == voice.CSV:
        sys.stdout.write(voice.csv_text([list(whole), list(whole.values())]))
    elif arguments.json:
        sys.stdout.write(json.dumps(whole) + "\n")
    elif not voice.is_quiet():
        lines = text.split("\n")  # where it is of several stores, they may say the same
        lines += [
            line for line in dict.fromkeys(details) if voice.is_verbose() and line not in lines
        ]
        lines = [line for line in lines if _unsaid(line)]
        sys.stdout.write(voice.painted("\n".join(lines), good) + "\n")


def answer(arguments: argparse.Namespace, report: Any, good: bool) -> int:
    """Print a job's report; returns the exit code, DONE if it is good, else DAMAGE."""
    show(arguments, report.as_json(), report.text(), report.details(), good)
    return DONE if good else DAMAGE


def _unsaid(line: str) -> bool:
    """False for a warning that standard error has already."""
    label, _, text = line.strip().partition(" ")
    return label != "warning" or voice.first_time(text.strip())


# ---
# Shared by commands that run a service of the broker once: deliveries, transactions.


def add_service(
    parser: argparse.ArgumentParser, options: type, epilog: str, times: bool = False
) -> None:
    """Add what a service takes: STORE, its own options, those on the broker, consent, output.

    times: as for add_output.
    """
    parser.epilog = epilog
    parser.add_argument("store", metavar="STORE", help="a local store's root")
    add_options(parser, options)
    add_broker(parser, WRITES_AS)
    add_consent(parser)
    voice.add_output(parser, times=times)


# ---
# Addresses in the values of options.

_PORT_MOST = (1 << 16) - 1


def host_port(option: str, text: str, least: int = 0) -> tuple[str, int]:
    """Host (IPv6 without brackets) and port. Raises SettingError, also for a port below `least`."""
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or not least <= int(port) <= _PORT_MOST:
        raise SettingError(f"{option} {text!r} is not an address: HOST:PORT")
    return host.strip("[]"), int(port)


class TextFile:
    """A file that node_exporter reads, replaced in one step. Everybody may read it, whatever the
    umask: node_exporter has a user of its own, and topics and groups are all that it names.
    """

    does = "wrote"

    def __init__(self, path: str, store: str, settings: Mapping[str, str], begins: bytes) -> None:
        """begins: as such a file does, which alone is replaced. Raises SettingError, StoreError if
        the file may not be written.
        """
        from reput.jobs.outputs.output import whole_file

        if not path.endswith(".prom"):
            raise SettingError(f"--textfile {path}: node_exporter reads *.prom alone")
        self.where, self._file = path, whole_file(path, store, settings, begins, True)

    def give(self, text: bytes) -> None:
        with self._file.writing() as output:
            os.fchmod(output.fileno(), 0o644)
            output.write(text)
