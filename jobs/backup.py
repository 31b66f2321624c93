"""`reput backup`: a store into a backup repository, at first whole, then what is new."""

import argparse
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING

from reput.jobs.console import options
from reput.jobs.console.declared import OfStore, add_options, option, shown
from reput.jobs.console.voice import add_output
from reput.jobs.engines.choice import alone
from reput.store_format.faults import StoreError
from reput.store_format.release.settings import SettingError

if TYPE_CHECKING:
    from reput.jobs.repository.backup import BackedUp

_HELP = """\
The log is kept in compressed pieces, with what else the broker keeps: topics, groups, offsets,
ACLs, broker.conf. All other files are derived again by a restore. A running broker's store is
backed up too, without a lock. A log that was cut back and went on differently becomes a branch;
nothing in a repository is ever overwritten.

  reput backup /data/store /backup/repository
  reput backup /data/store s3://bucket/repository --every 5m --rate 50M
"""


@dataclass(frozen=True)
class Backup(OfStore):
    """What `reput backup` is asked. rate: bytes a second; conf: the broker's configuration."""

    repository: str = field(
        metadata=shown("a folder or URL, new or a repository", "repository", metavar="REPO"),
    )  # fmt: skip
    _: KW_ONLY
    name: str | None = option(
        "the store's name in the repository (default: its brokerName, else its folder's name)",
        None, "--store", metavar="NAME",
    )  # fmt: skip
    rate: float | None = option(
        "read so many bytes of the log a second at most (also 500K, 50M, 1G)", metavar="BYTES",
    )  # fmt: skip
    secrets: bool = option("leave out users, ACLs and broker.conf", True, "--no-secrets")
    conf: str | None = None
    dry_run: bool = option("say what would be backed up", False)


@alone(Backup)
def backup(asked: Backup) -> "BackedUp":
    """Back a store up to a repository, once. The store is only read.

    Raises StoreError (OverlapsInput, Claimed, SourceCleaned), SettingError, OSError.
    """
    from reput.jobs.repository.backup import back_up
    from reput.jobs.repository.repository import Repository
    from reput.store_format.discover.store import store_at

    if not asked.repository:
        raise SettingError("REPO is empty: name a folder or URL")
    at = store_at(asked.store, asked.rocketmq, asked.settings)
    at = at._replace(path=at.path.rstrip("/"))
    return back_up(asked, at, Repository.at(asked.repository))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _HELP
    parser.add_argument("store", metavar="STORE", help="a store's root, path or URL")
    add_options(parser, Backup)
    parser.add_argument(
        "--every", type=options.duration, metavar="TIME",
        help="go on until stopped: again each 5m, 1h, ..., a line each time",
    )  # fmt: skip
    parser.add_argument(
        "--textfile", metavar="FILE.prom", help="write metrics for node_exporter after each backup"
    )
    options.add_broker(parser, "the release of its broker; without it, as the store's files show")
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Back up, and say what is new: 0 done; 1 where the log has damage, which is kept as it is, or
    with --dry-run where something is new.
    """
    rate = None if arguments.rate is None else options.byte_rate(arguments.rate)
    if arguments.every is not None and arguments.dry_run:
        raise SettingError("--dry-run says what is there now: not with --every")
    arguments.conf = arguments.broker_conf
    asked = options.asked_of(arguments, Backup, rate=rate)
    tell = _metrics(arguments.textfile, asked)
    while arguments.every is not None:
        began = time.monotonic()
        try:
            about = backup(asked)
            tell(about)
            options.show(arguments, about.as_json(), about.line() if about.good else about.text())
            sys.stdout.flush()
        except (OSError, StoreError) as error:  # a lost connection, a cleaned segment: next time
            if isinstance(error, SettingError):
                raise
            sys.stderr.write(f"reput: error: {error}; tried again\n")
            with suppress(OSError, StoreError):  # the disk of the metrics may be full
                tell(None)
        time.sleep(max(arguments.every / 1000 - (time.monotonic() - began), 0))
    about = backup(asked)
    tell(about)
    options.show(arguments, about.as_json(), about.text(), good=about.good)
    return options.DONE if about.good and not (about.dry_run and about.new) else options.DAMAGE


# ---
# Metrics of the last round in a file that node_exporter reads, as `reput metrics` writes it.

_SERIES = {
    "failures": "Rounds that failed since the process began",
    "branches": "Times that the log had gone on differently since then",
    "timestamp_seconds": "When the last backup ended",
    "log_end": "Physical offset up to which the repository has the log",
    "new_bytes": "Bytes of the log that were new",
    "stored_bytes": "Bytes that were added to the repository",
    "pieces": "Pieces of the log that were written",
    "good": "0 where the log has damage or lacks a segment",
}


def _metrics(path: str | None, asked: Backup) -> "Callable[[BackedUp | None], None]":
    """What writes the file after a round; None: it failed. Raises SettingError, StoreError."""
    if path is None or asked.dry_run:
        return lambda about: None
    file = options.TextFile(path, asked.store, asked.settings or {}, b"# HELP reput_backup_")
    found = dict[str, float](failures=0, branches=0)

    def tell(about: "BackedUp | None") -> None:
        found["failures"] += about is None
        if about is not None:
            found["branches"] += about.branch is not None
            values = time.time(), about.end, about.bytes, about.stored, about.pieces, about.good
            found.update(zip(list(_SERIES)[2:], values, strict=True))
        text = ""
        for name, value in found.items():
            series = f"reput_backup_{name}"
            text += f"# HELP {series} {_SERIES[name]}\n# TYPE {series} gauge\n"
            text += f"{series} {value:.0f}\n"
        file.give(text.encode())

    return tell
