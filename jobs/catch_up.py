"""`reput catch-up`: extend a store's derived files up to its log's end."""

import argparse
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import TYPE_CHECKING

from reput.jobs.console.options import (
    DAMAGE,
    DONE,
    add_consent,
    add_store,
    add_timezone,
    consent,
    options_of_job,
    show,
)
from reput.store_format.discover.purpose import CATCH_UP, CATCH_UP_IN_PLACE
from reput.store_format.faults import StoreError
from reput.store_format.names import ABORT
from reput.store_format.notes import Progress
from reput.store_format.release.settings import SettingError

if TYPE_CHECKING:
    from reput.jobs.in_place.catch_up import CaughtUp
    from reput.jobs.opening.held import HeldStore
    from reput.store_format.discover.store import StoreAt
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


def catch_up(  # noqa: PLR0913 (a user's options)
    store: str,
    *,
    rocketmq: str | None = None,
    settings: Mapping[str, str] | None = None,
    output: str | None = None,
    replace: bool = False,
    dry_run: bool = False,
    storage: "Storage | None" = None,
    output_storage: "Storage | None" = None,
    progress: Progress | None = None,
    confirm: Callable[[str], None] = lambda _: None,
) -> "CaughtUp":
    """Add the entries that a store's queues and index lack.

    output: None: in place, in a local store. Else a folder or URL, absent or empty, or with
    `replace` a rebuilt set: it gets all derived files, and the store is only read.
    storage, output_storage: used instead of the storages of the paths or URLs.
    confirm: asked before the first change in place; raises StoreError to stop.

    Raises StoreError (StoreInUse, DamageFound, BadQueue, BadIndex), SettingError, UnknownRelease,
    OSError.
    """
    started = time.monotonic()
    shown = progress or Progress()
    if output is not None:
        from reput.store_format.discover.store import store_at
        from reput.store_format.files.by_url import storage_for

        write = output_storage or storage_for(output)
        source = store_at(store, rocketmq, settings, storage)
        about = _to_output(source, (write, write.resolve(output)), replace, shown)
    else:
        about = _in_place(store, rocketmq, settings or {}, dry_run, shown, confirm)
    about.seconds = time.monotonic() - started
    return about


def _to_output(
    source: "StoreAt", target: "tuple[Storage, str]", replace: bool, progress: Progress
) -> "CaughtUp":
    from reput.jobs.in_place.catch_up import catch_up_set
    from reput.jobs.opening.plan import make_plan, refuse_rocksdb
    from reput.jobs.outputs.output import REBUILT, Output, inputs_of
    from reput.store_format.discover.store import discover
    from reput.store_format.files.protocol import StoreInUse, listed
    from reput.store_format.log.groups import refuse_heads

    storage, store = source.storage, source.path
    refuse_rocksdb(storage, store)
    plan = make_plan(source, discover(source, CATCH_UP), CATCH_UP)
    refuse_heads(plan.segments, "catch-up")
    if plan.in_use:
        raise StoreInUse(f"{store}: is in use, so that its queues change; `reput rebuild` reads it")
    if any(name == ABORT for name, _ in listed(storage, store)):
        raise StoreError(f"{store}/{ABORT}: was not stopped cleanly; `reput rebuild` reads it")
    inputs = tuple(inputs_of(storage, store, source.settings))
    return catch_up_set(plan, Output(*target, REBUILT, replace, inputs), progress)


def _held(store: str, dry_run: bool) -> "AbstractContextManager[HeldStore]":
    from reput.jobs.opening.held import held_local_store

    instead = "; only a local store is changed in place: --output"
    return held_local_store(store, dry_run, instead)


def _in_place(
    store: str, rocketmq: str | None, settings: Mapping[str, str], dry_run: bool,
    progress: Progress, confirm: Callable[[str], None],
) -> "CaughtUp":  # fmt: skip
    from reput.jobs.in_place.catch_up import catch_up_in_place
    from reput.jobs.opening.held import refuse_log_elsewhere
    from reput.jobs.opening.plan import make_plan, refuse_rocksdb
    from reput.store_format.discover.store import discover

    with _held(store, dry_run) as held:
        at = held.at(rocketmq, settings)
        refuse_rocksdb(at.storage, at.path)
        plan = make_plan(at, discover(at, CATCH_UP_IN_PLACE), CATCH_UP_IN_PLACE)
        refuse_log_elsewhere(plan.store, plan.segments, "catch-up without --output")
        return catch_up_in_place(held, plan, progress, confirm)


def follow(
    store: str,
    *,
    rocketmq: str | None = None,
    settings: Mapping[str, str] | None = None,
    every: float = 5.0,
    idle: float | None = None,
    progress: Progress | None = None,
    confirm: Callable[[str], None] = lambda _: None,
    said: Callable[["CaughtUp"], None] = lambda _: None,
) -> "CaughtUp | None":
    """Catch up with a local store's log while it is copied in; returns the last report.

    It may be killed at any point. every: seconds between rounds.
    idle: seconds without growth of the log after which to end (None: never).
    said: called with each round's report. Raises as catch_up does.
    """
    from reput.jobs.in_place.follow import Rounds
    from reput.jobs.in_place.follow import follow as going_on

    with _held(store, False) as held:
        return going_on(
            held, held.at(rocketmq, settings), progress or Progress(), confirm,
            Rounds(every, idle, said),
        )  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _HELP
    add_store(parser, on_damage=())
    add_timezone(parser)
    add_consent(parser)
    parser.add_argument(
        "--output", metavar="DIR", help="write all derived files there, path or URL, as a new set"
    )
    parser.add_argument(
        "--replace", action="store_true", help="replace the set in DIR, if it is a rebuilt one"
    )
    parser.add_argument(
        "--follow", action="store_true", help="go on while the log is copied in, until it ends"
    )
    parser.add_argument(
        "--every", type=float, default=5.0, metavar="SECONDS", help="with --follow: how often (5)"
    )
    parser.add_argument(
        "--idle", type=float, metavar="SECONDS",
        help="with --follow: end when nothing new has come for so long",
    )  # fmt: skip
    parser.add_argument(
        "--checkpoint", metavar="DIR",
        help="with --follow: as a Structured Streaming query with this checkpoint",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Catch up, and report: 0 done, or nothing new; 1 with --dry-run if there are new messages, or
    if queues lack older messages of the log.
    """
    options = options_of_job(arguments)
    agree = consent(arguments.yes)
    _check_words(arguments)

    lacking = False

    def say(about: "CaughtUp") -> None:
        nonlocal lacking
        lacking |= bool(about.lacking)
        show(arguments, asdict(about), about.text(), about.details(), not about.lacking)

    if arguments.follow:
        if arguments.checkpoint:
            from reput.jobs.engines.session import command_session
            from reput.jobs.in_place.follow import Rounds
            from reput.jobs.in_place.follow_stream import follow_stream

            with _held(arguments.store, False) as held, command_session(arguments.master) as spark:
                follow_stream(
                    spark, arguments.checkpoint, held,
                    held.at(options["rocketmq"], options["settings"]), options["progress"], agree,
                    Rounds(arguments.every, arguments.idle, say),
                )  # fmt: skip
        else:
            follow(
                arguments.store, every=arguments.every, idle=arguments.idle, confirm=agree,
                said=say, **options,
            )  # fmt: skip
        return DAMAGE if lacking else DONE
    about = catch_up(
        arguments.store, output=arguments.output, replace=arguments.replace,
        dry_run=arguments.dry_run, confirm=agree, **options,
    )  # fmt: skip
    say(about)
    return DAMAGE if about.left_out or lacking or (about.needed and not about.done) else DONE


def _check_words(arguments: argparse.Namespace) -> None:
    """Raise SettingError for options that contradict each other."""
    if arguments.output and (arguments.follow or arguments.dry_run):
        raise SettingError("--output writes a set once: not with --follow or --dry-run")
    if arguments.dry_run and arguments.follow:
        raise SettingError("--dry-run says what is new now: not with --follow")
    if arguments.checkpoint and not arguments.follow:
        raise SettingError("--checkpoint is that of --follow")
    if arguments.every <= 0 or (arguments.idle is not None and arguments.idle < 0):
        raise SettingError("--every and --idle are seconds, above 0")
