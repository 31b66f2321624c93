"""`reput catch-up`: go on from what a store's derived files hold, up to its log's end."""

import argparse
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from reput.jobs.console.options import (
    DAMAGE,
    DONE,
    add_consent,
    add_store,
    consent,
    show,
    told_to_jobs,
)
from reput.jobs.engine.progress import Progress
from reput.store_format.faults import StoreError

if TYPE_CHECKING:
    from reput.jobs.engine.catch_up_report import CaughtUp

_HELP = """\
A broker that starts goes on where its queues end, as ReputMessageService does; so does this, without
a broker. The queues' last entries and the newest index file's must be of this log. What is there
already is not read: a small growth of a large store takes a moment, and no Spark.

  reput catch-up /data/store --dry-run      what is new
  reput catch-up /data/store --yes          write it, in place; can be killed at any step
"""


def catch_up(
    store: str,
    *,
    rocketmq: str | None = None,
    settings: Mapping[str, str] | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
    confirm: Callable[[str], None] = lambda _: None,
) -> "CaughtUp":
    """Write what a local store's queues and index lack of its log, in place.

    confirm: asked before the first change; raises StoreError to stop. Raises StoreError (StoreInUse,
    DamageFound, BadQueue, BadIndex), SettingError, UnknownRelease, OSError.
    """
    from reput.jobs.engine.catching_up import catch_up_in_place, refuse_other_log
    from reput.jobs.engine.held_store import held_store
    from reput.jobs.engine.in_place import refuse_what_is_no_store
    from reput.jobs.engine.plan import make_plan
    from reput.jobs.engine.told import tell
    from reput.store_format.storage.local import LocalStorage

    started = time.monotonic()
    store = LocalStorage().resolve(store)
    if not os.path.isdir(store):
        raise StoreError(f"{store}: no such folder")
    refuse_what_is_no_store(store)
    with held_store(store, dry_run) as held:
        told = tell(held.storage, store, rocketmq, settings or {})
        if told.torn:
            raise StoreError(told.torn)
        plan = make_plan(held.storage, store, told, 1, None)
        refuse_other_log(plan)
        about = catch_up_in_place(held, plan, progress or Progress(), confirm)
    about.seconds = time.monotonic() - started
    return about


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `reput catch-up` understands."""
    parser.epilog = _HELP
    add_store(parser, on_damage=())
    add_consent(parser)


def run(arguments: argparse.Namespace) -> int:
    """Catch up, and say what was done: 0 done, or nothing new; 1 with --dry-run where there is."""
    told = told_to_jobs(arguments)
    about = catch_up(
        arguments.store, dry_run=arguments.dry_run, confirm=consent(arguments.yes), **told
    )
    show(arguments, asdict(about), about.text())
    return DAMAGE if about.left_out or (about.needed and not about.done) else DONE
