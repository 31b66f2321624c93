"""`reput expire`: delete what a broker would, but nothing that somebody still needs."""

import argparse
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import tzinfo
from typing import TYPE_CHECKING

from reput.jobs.console.declared import InPlace, add_options, option
from reput.jobs.console.options import DAMAGE, DONE, add_consent, add_store, asked_of, show
from reput.jobs.console.voice import shown_zone
from reput.jobs.engines.choice import alone
from reput.store_format.release.settings import SettingError

if TYPE_CHECKING:
    from reput.jobs.in_place.expire import Expired

_HELP = """\
A broker deletes segments that were not written to for fileReservedTime hours (72), at the hour of
deleteWhen (04), or at any hour where over diskMaxUsedSpaceRatio (75%) of the disk is used, and of
any age over 85%: ten a run, never the last; then queue and index files of which no message is left.
So does this, without a broker, and says first what and why. It keeps what a broker would delete in
silence: what a consumer group has not read, what is delayed, half messages without a decision.

  reput expire /data/store --dry-run
  reput expire /data/store --any-hour --set fileReservedTime=48 --backed-up s3://bucket/old --yes
"""


@dataclass(frozen=True, kw_only=True)
class Expire(InPlace):
    """What `reput expire` is asked.

    now: milliseconds since 1970; used: path -> used share of its disk; both by default real.
    zone: of the hour of deleteWhen, by default that of this process.
    """

    any_hour: bool = option("not only at the hour of deleteWhen", False)
    backed_up: str | None = option(
        "of the log only what this backup repository has, as a check found it whole", metavar="REPO"
    )
    even_unread: bool = option("also what a consumer group has not read", False)
    ignored_groups: Iterable[str] = option(
        "a consumer group whose unread messages may go; may be repeated",
        (), "--ignore-group", metavar="GROUP",
    )  # fmt: skip
    even_delayed: bool = option("also delayed messages that are not delivered", False)
    even_pending: bool = option("also half messages without a decision", False)
    now: int | None = None
    used: Callable[[str], float] | None = None
    zone: tzinfo | None = None


@alone(Expire)
def expire(asked: Expire) -> "Expired":
    """Delete from a local store what has expired, by RocketMQ's rules and settings.

    Raises StoreError (StoreInUse, OverlapsInput), SettingError, UnknownRelease, OSError.
    """
    from reput.jobs.in_place.expire import Even, When, disk_used, expire_store, plan_expiry
    from reput.jobs.opening.held import held_local_store

    if asked.backed_up == "":  # as a shell gives it for a variable that is not set
        raise SettingError("--backed-up: expected a folder or URL")
    instead = "; only a local store can be changed"
    with held_local_store(asked.store, asked.dry_run, instead) as held:
        groups = frozenset(asked.ignored_groups)
        now = time.time_ns() // 1_000_000 if asked.now is None else asked.now
        when = When(asked.any_hour, now, asked.used or disk_used, asked.zone)
        return expire_store(
            held, plan_expiry(held, held.at(asked.rocketmq, asked.settings)),
            Even(asked.even_unread, asked.even_delayed, asked.even_pending, groups),
            asked.backed_up, when, asked.shows, asked.confirm,
        )  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _HELP
    add_store(parser, times=True, in_place=True)
    add_consent(parser)
    add_options(parser, Expire)


def run(arguments: argparse.Namespace) -> int:
    """Delete, and say what: 0 done, or nothing to delete; 1 with --dry-run where there is."""
    about = expire(asked_of(arguments, Expire, zone=shown_zone() if arguments.tz else None))
    show(arguments, about.as_json(), about.text())
    return DAMAGE if about.needed and not about.done else DONE
