"""`reput forget`: remove old backups from a repository."""

import argparse
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from reput.jobs.console import options
from reput.jobs.console.declared import OfRepository, add_options, given, option
from reput.jobs.console.voice import add_output
from reput.jobs.engines.choice import alone
from reput.store_format.release.settings import SettingError

if TYPE_CHECKING:
    from reput.jobs.repository.forget import Forgotten

_HELP = """\
Removes older backups, and the pieces of the log and other files that only they need. What a kept
backup needs stays, and so does the newest backup of each branch. A segment that the broker had
deleted stays until no kept backup had it. What unfinished runs left goes too.

  reput forget /backup/repository --keep 30d --dry-run
  reput forget s3://bucket/repository --keep-last 100 --yes
"""


@dataclass(frozen=True)
class ForgetBackups(OfRepository):
    """What `reput forget` is asked. keep: milliseconds."""

    _: KW_ONLY
    keep: int | None = option(
        "keep backups of the last 30d, 12h, ...", type=options.duration, metavar="TIME"
    )
    keep_last: int | None = option(
        "keep the last N of each store", type=options.at_least_one, metavar="N"
    )
    dry_run: bool = False
    confirm: Callable[[str], None] = lambda _: None


@alone(ForgetBackups)
def forget(asked: ForgetBackups) -> "list[Forgotten]":
    """Remove old backups; what went of each store. Raises StoreError, SettingError, OSError."""
    from reput.jobs.repository.forget import forget_old
    from reput.jobs.repository.repository import Repository
    from reput.store_format.files.catalogue import catalogues

    if (asked.keep is None) == (asked.keep_last is None):
        raise SettingError("say which backups stay: --keep TIME or --keep-last N")
    now = time.time_ns() // 1_000_000
    there = Repository.at(asked.repository)
    stores = [each.store for each in catalogues(there.storage, there.root, asked.name)]
    for store in stores:
        there.check((), store)
    return [forget_old(there, store, asked, now) for store in stores]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _HELP
    add_options(parser, ForgetBackups)
    options.add_consent(parser)
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Remove, and say what: 0 done, or nothing to remove; 1 with --dry-run where there is."""
    asked = given(arguments, ForgetBackups, confirm=options.consent(arguments.yes))
    found = forget(asked)
    whole = {"repository": asked.repository, "stores": [each.as_json() for each in found]}
    options.show(arguments, whole, "\n".join(each.text() for each in found) or "no stores")
    return options.DAMAGE if any(each.needed and not each.done for each in found) else options.DONE
