"""`reput recover`: what a broker's recovery does after a crash, offline and in parallel."""

import argparse
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from reput.jobs.console.options import (
    DAMAGE,
    DONE,
    VERSIONS,
    add_consent,
    add_remade,
    add_store,
    add_timezone,
    asks_store,
    consent,
    engine_for,
    options_of_job,
    show,
)
from reput.jobs.engines.choice import on_engine
from reput.jobs.engines.engine import Engine
from reput.jobs.opening.held import refuse_group_log, refuse_shared_segments
from reput.store_format.discover.purpose import RECOVER, RECOVER_DRY_RUN
from reput.store_format.faults import REFUSE, StoreError
from reput.store_format.names import CUT
from reput.store_format.notes import Progress
from reput.store_format.release.settings import settings_from

if TYPE_CHECKING:
    from reput.jobs.in_place.recover import Recovered
    from reput.jobs.pipeline.pipeline import Cut


_HELP = f"""\
examples:
  reput recover /data/store --dry-run
  reput recover /data/store --yes

{VERSIONS}"""


@on_engine
def recover(  # noqa: PLR0913 (a user's options)
    engine: Engine,
    store: str,
    *,
    rocketmq: str | None = None,
    settings: Mapping[str, str] | None = None,
    on_damage: str = REFUSE,
    dry_run: bool = False,
    cut: "Cut | None" = None,
    progress: Progress | None = None,
    confirm: Callable[[str], None] = lambda _: None,
    remade: str = "",
) -> "Recovered":
    """Bring a local store into the state of a clean stop.

    Nothing is changed if the store was stopped cleanly and is sound.

    on_damage: `refuse` raises DamageFound if live records follow damage, `truncate` ends the log
    there, as RocketMQ does. confirm: asked before the first change; raises StoreError to stop.
    remade: `last` or `all` lives of a topic that was deleted and made again; by default those that
    the store's own queues have.
    Raises as rebuild does, and StoreInUse.
    """
    from reput.jobs.in_place.recover import change, examine, staged_job
    from reput.jobs.opening.held import complete_last, held_store
    from reput.jobs.opening.open_writer import read_checkpoint
    from reput.jobs.pipeline.job import find_store
    from reput.store_format.discover.index_eras import dispatched_again
    from reput.store_format.discover.store import discover
    from reput.store_format.files.local import LocalStorage

    started = time.monotonic()
    store = LocalStorage().resolve(store)
    _refuse(store)
    with held_store(store, dry_run) as held:
        at = held.at(rocketmq, settings)
        purpose = RECOVER_DRY_RUN if dry_run else RECOVER
        discovered = discover(at, purpose)
        sizes = settings_from(discovered.settings)
        held.spread(discovered.log_folders, sizes.mapped_file_size_commit_log)
        if held.crashed:
            complete_last(held, sizes, confirm)
            discovered = discovered.dispatched_from(
                dispatched_again(
                    held.storage, store, sizes,
                    read_checkpoint(held.storage, store),
                )
            )  # fmt: skip
        found = find_store(engine, at, purpose, cut=cut, progress=progress,
                           discovered=discovered, remade=remade)  # fmt: skip
        with staged_job(found, held) as job:
            recovery, about = examine(found, held, job, on_damage)
            if about.needed and not dry_run:
                confirm(f"change {store} in place: {about.steps()}")
                change(held, recovery, about)
                about.done = True
    about.seconds = time.monotonic() - started
    return about


def _refuse(store: str) -> None:
    if not os.path.isdir(store):
        raise StoreError(f"{store}: no such folder")
    if os.path.islink(f"{store}/{CUT}"):
        raise StoreError(f"{store}/{CUT}: is a link; recover keeps there what it cuts")
    refuse_group_log(store)
    refuse_shared_segments(store)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _HELP
    add_store(parser, on_damage=("refuse", "truncate"))
    add_remade(parser)
    add_timezone(parser)
    add_consent(parser)


def run(arguments: argparse.Namespace) -> int:
    """Recover, and say what was done: 0 done, or nothing to do; 1 with --dry-run where there is,
    where a queue that was written lacks messages, and where queues name messages that the log does
    not have.
    """
    options = options_of_job(arguments)
    asked = asks_store(arguments, options, RECOVER_DRY_RUN if arguments.dry_run else RECOVER)
    with engine_for(arguments, asked) as engine:
        about = recover(
            engine, arguments.store, on_damage=arguments.on_damage or REFUSE,
            dry_run=arguments.dry_run, confirm=consent(arguments.yes),
            remade=arguments.remade, **options,
        )  # fmt: skip
    whole = {"needed": about.needed, **asdict(about)}
    show(arguments, whole, about.text(), about.details() if about.needed else ())
    lost = about.left_out or about.lost_past_end
    return DAMAGE if lost or (about.needed and not about.done) else DONE
