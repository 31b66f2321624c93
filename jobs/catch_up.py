"""`reput catch-up`: extend a store's derived files up to its log's end."""

import argparse
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from reput.jobs.console import options
from reput.jobs.console.declared import InPlace, OfLog, OfStore, add_options, option
from reput.jobs.engines.choice import alone
from reput.store_format.discover.purpose import CATCH_UP, CATCH_UP_IN_PLACE
from reput.store_format.faults import StoreError
from reput.store_format.files.by_url import place_at
from reput.store_format.files.protocol import StoreInUse
from reput.store_format.names import ABORT
from reput.store_format.notes import Progress
from reput.store_format.release.settings import SettingError

if TYPE_CHECKING:
    from reput.jobs.in_place.catch_up import CaughtUp
    from reput.jobs.opening.held import HeldStore
    from reput.store_format.discover.store import StoreAt
    from reput.store_format.files.folder import Place
    from reput.store_format.files.protocol import Storage

_HELP = """\
A broker that starts goes on where its queues end, as ReputMessageService does; so does this,
without a broker. The queues' last entries and the newest index file's must be of this log. What is
there already is not read: a small growth of a large store takes a moment, and no Spark. After a log
has grown by many gigabytes, `reput rebuild` and `reput install` use all cores.

  reput catch-up /data/store --dry-run      what is new
  reput catch-up /data/store --yes          write it, in place; safe to kill at any point
  reput catch-up s3://bucket/store --output /data/set --rocketmq 5.3.3
  reput catch-up /data/store --yes --follow --idle 600      while the log is copied in
"""


@dataclass(frozen=True, kw_only=True)
class CatchUp(InPlace, OfLog):
    """What `reput catch-up` is asked. output_storage: only writes."""

    output_storage: "Storage | None" = None
    output: str | None = option(
        "write all derived files there, path or URL, as a new set", metavar="DIR"
    )
    replace: bool = option("replace the set in DIR, if it is a rebuilt one", False)


@dataclass(frozen=True, kw_only=True)
class Follow(OfStore):
    """What `reput catch-up --follow` is asked. said: called with each round's report.

    confirm: as for `catch_up`. Times are seconds; idle: None: never.
    """

    every: float = option("with --follow: how often (5)", 5.0, type=float, metavar="SECONDS")
    idle: float | None = option(
        "with --follow: end when nothing new has come for so long", type=float, metavar="SECONDS"
    )
    confirm: Callable[[str], None] = lambda _: None
    said: Callable[["CaughtUp"], None] = lambda _: None


@alone(CatchUp)
def catch_up(asked: CatchUp) -> "CaughtUp":
    """Add the entries that a store's queues and index lack.

    output: None: in place, in a local store. Else the store is only read.

    Raises StoreError (StoreInUse, DamageFound, BadQueue, BadIndex), SettingError, UnknownRelease,
    OSError.
    """
    started = time.monotonic()
    if asked.output is not None:
        target = place_at(asked.output, asked.output_storage)
        about = _to_output(asked.named(), target, asked.replace, asked.shows)
    else:
        about = _in_place(asked)
    about.seconds = time.monotonic() - started
    return about


def _to_output(source: "StoreAt", target: "Place", replace: bool, progress: Progress) -> "CaughtUp":
    from reput.jobs.in_place.catch_up import catch_up_set
    from reput.jobs.opening.plan import make_plan, refuse_rocksdb
    from reput.jobs.outputs.output import REBUILT, Output, inputs_of
    from reput.store_format.discover.store import discover
    from reput.store_format.log.groups import refuse_heads

    store = source.path
    refuse_rocksdb(source.folder)
    plan = make_plan(source, discover(source, CATCH_UP), CATCH_UP)
    refuse_heads(plan.segments, "catch-up")
    if plan.in_use:
        raise StoreInUse(f"{store}: is in use, so that its queues change; `reput rebuild` reads it")
    if any(name == ABORT for name, _ in source.folder.listed()):
        raise StoreError(f"{store}/{ABORT}: was not stopped cleanly; `reput rebuild` reads it")
    inputs = tuple(inputs_of(source.folder, source.settings))
    return catch_up_set(
        plan, Output(target.storage, target.path, REBUILT, replace, inputs), progress
    )


def _held(store: str, dry_run: bool) -> "AbstractContextManager[HeldStore]":
    from reput.jobs.opening.held import held_local_store

    instead = "; only a local store is changed in place: --output"
    return held_local_store(store, dry_run, instead)


def _in_place(asked: CatchUp) -> "CaughtUp":
    from reput.jobs.in_place.catch_up import catch_up_in_place
    from reput.jobs.opening.held import refuse_log_elsewhere
    from reput.jobs.opening.plan import make_plan, refuse_rocksdb
    from reput.store_format.discover.store import discover

    with _held(asked.store, asked.dry_run) as held:
        at = held.at(asked.rocketmq, asked.settings)
        refuse_rocksdb(at.folder)
        plan = make_plan(at, discover(at, CATCH_UP_IN_PLACE), CATCH_UP_IN_PLACE)
        refuse_log_elsewhere(plan.store, plan.segments, "catch-up without --output")
        return catch_up_in_place(held, plan, asked.shows, asked.confirm)


@alone(Follow)
def follow(asked: Follow) -> "CaughtUp | None":
    """Catch up with a local store's log while it is copied in; returns the last report.

    It may be killed at any point. every: between rounds. Raises as catch_up does.
    """
    from reput.jobs.in_place.follow import follow as going_on

    with _held(asked.store, False) as held:
        return going_on(asked, held, held.at(asked.rocketmq, asked.settings))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _HELP
    options.add_store(parser, in_place=True)
    options.add_timezone(parser)
    options.add_consent(parser)
    add_options(parser, CatchUp)
    parser.add_argument(
        "--follow", action="store_true", help="go on while the log is copied in, until it ends"
    )
    add_options(parser, Follow)
    parser.add_argument(
        "--checkpoint", metavar="DIR",
        help="with --follow: as a Structured Streaming query with this checkpoint",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Catch up, and report: 0 done, or nothing new; 1 with --dry-run if there are new messages, or
    if queues lack older messages of the log.
    """
    asked = options.asked_of(arguments, CatchUp)
    _check_words(arguments)
    lacking = False

    def say(about: "CaughtUp") -> None:
        nonlocal lacking
        lacking |= bool(about.lacking)
        options.show(arguments, asdict(about), about.text(), about.details(), not about.lacking)

    if arguments.follow:
        rounds = options.asked_of(arguments, Follow, said=say)
        if arguments.checkpoint:
            from reput.jobs.engines.session import command_session
            from reput.jobs.in_place.follow_stream import follow_stream

            with _held(asked.store, False) as held, command_session(arguments.master) as spark:
                at = held.at(asked.rocketmq, asked.settings)
                follow_stream(spark, arguments.checkpoint, rounds, held, at)
        else:
            follow(rounds)
        return options.DAMAGE if lacking else options.DONE
    about = catch_up(asked)
    say(about)
    return (
        options.DAMAGE
        if about.left_out or lacking or (about.needed and not about.done)
        else options.DONE
    )


def _check_words(arguments: argparse.Namespace) -> None:
    if arguments.output and (arguments.follow or arguments.dry_run):
        raise SettingError("--output writes a set once: not with --follow or --dry-run")
    if arguments.dry_run and arguments.follow:
        raise SettingError("--dry-run says what is new now: not with --follow")
    if arguments.checkpoint and not arguments.follow:
        raise SettingError("--checkpoint is that of --follow")
    if arguments.every <= 0 or (arguments.idle is not None and arguments.idle < 0):
        raise SettingError("--every and --idle are seconds, above 0")
