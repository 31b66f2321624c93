"""`reput expire`: delete what a broker would, but nothing that somebody still needs."""

import argparse
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from reput.jobs.console.options import (
    DAMAGE,
    DONE,
    add_consent,
    add_store,
    consent,
    options_of_job,
    show,
)
from reput.store_format.notes import Progress
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
  reput expire /data/store --any-hour --set fileReservedTime=48 --archive s3://bucket/old --yes
"""


def expire(  # noqa: PLR0913 (a user's options)
    store: str,
    *,
    rocketmq: str | None = None,
    settings: Mapping[str, str] | None = None,
    any_hour: bool = False,
    even_unread: bool = False,
    even_delayed: bool = False,
    even_pending: bool = False,
    ignored_groups: Iterable[str] = (),
    archive: str | None = None,
    dry_run: bool = False,
    now: int | None = None,
    used: Callable[[str], float] | None = None,
    progress: Progress | None = None,
    confirm: Callable[[str], None] = lambda _: None,
) -> "Expired":
    """Delete from a local store what has expired, by RocketMQ's rules and settings.

    any_hour: at other hours than `deleteWhen` too.
    even_unread: also what a consumer group has not read; even_delayed: also delayed messages that
    are not delivered; even_pending: also half messages without a decision.
    ignored_groups: consumer groups that do not count.
    archive: a folder or URL to which all files are first copied, and compared.
    now: milliseconds since 1970; used: path -> used share of its disk; both by default real.
    confirm: asked first; raises StoreError to stop.

    Raises StoreError (StoreInUse, OverlapsInput), SettingError, UnknownRelease, OSError.
    """
    from reput.jobs.in_place.expire import Archive, Even, When, disk_used, expire_store, plan_expiry
    from reput.jobs.opening.held import held_local_store
    from reput.jobs.outputs.output import inputs_of
    from reput.store_format.files.by_url import storage_for

    if archive == "":  # else the copies would lie wherever this was started
        raise SettingError("--archive: expected a folder or URL")
    with held_local_store(store, dry_run, "; only a local store can be changed") as held:
        kept_in = None
        if archive is not None:
            storage = storage_for(archive, True)
            read = inputs_of(held.storage, held.path, settings or {})
            kept_in = Archive(storage, storage.resolve(archive), tuple(read))
            kept_in.check()
        return expire_store(
            held, plan_expiry(held, held.at(rocketmq, settings)),
            Even(even_unread, even_delayed, even_pending, frozenset(ignored_groups)), kept_in,
            When(any_hour, time.time_ns() // 1_000_000 if now is None else now, used or disk_used),
            progress or Progress(), confirm,
        )  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _HELP
    add_store(parser, on_damage=())
    add_consent(parser)
    parser.add_argument(
        "--any-hour", action="store_true", help="not only at the hour of deleteWhen"
    )
    parser.add_argument(
        "--archive", metavar="DIR", help="copy all that goes there first, path or URL, and compare"
    )
    parser.add_argument(
        "--even-unread", action="store_true", help="also what a consumer group has not read"
    )
    parser.add_argument(
        "--ignore-group", action="append", default=[], metavar="GROUP", dest="ignored_groups",
        help="a consumer group whose unread messages may go; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--even-delayed", action="store_true", help="also delayed messages that are not delivered"
    )
    parser.add_argument(
        "--even-pending", action="store_true", help="also half messages without a decision"
    )


def run(arguments: argparse.Namespace) -> int:
    """Delete, and say what: 0 done, or nothing to delete; 1 with --dry-run where there is."""
    options = options_of_job(arguments)
    about = expire(
        arguments.store, any_hour=arguments.any_hour, even_unread=arguments.even_unread,
        even_delayed=arguments.even_delayed, even_pending=arguments.even_pending,
        ignored_groups=arguments.ignored_groups, archive=arguments.archive,
        dry_run=arguments.dry_run, confirm=consent(arguments.yes), **options,
    )  # fmt: skip
    show(arguments, about.as_json(), about.text())
    return DAMAGE if about.needed and not about.done else DONE
