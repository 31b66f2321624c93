"""`reput recover`: what a broker's recovery does after a crash, offline and in parallel."""

import argparse
import os
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from reput.jobs.console import options
from reput.jobs.console.declared import InPlace, OfLog, remade_lives
from reput.jobs.engines.choice import on_engine
from reput.jobs.engines.engine import Engine
from reput.jobs.opening.held import refuse_group_log, refuse_shared_segments
from reput.store_format.discover.purpose import RECOVER, RECOVER_DRY_RUN
from reput.store_format.faults import REFUSE, StoreError
from reput.store_format.names import CUT
from reput.store_format.release.settings import settings_from

if TYPE_CHECKING:
    from reput.jobs.in_place.recover import Recovered

_HELP = f"""\
examples:
  reput recover /data/store --dry-run
  reput recover /data/store --yes

{options.VERSIONS}"""


@dataclass(frozen=True, kw_only=True)
class Recover(InPlace, OfLog):
    """What `reput recover` is asked."""

    on_damage: str = REFUSE
    remade: str = remade_lives()


@on_engine(Recover)
def recover(engine: Engine, asked: Recover) -> "Recovered":
    """Bring a local store into the state of a clean stop.

    Nothing is changed if the store was stopped cleanly and is sound.

    on_damage: `refuse` raises DamageFound if live records follow damage, `truncate` ends the log
    there, as RocketMQ does. Raises as rebuild does, and StoreInUse.
    """
    from reput.jobs.in_place.recover import change, examine, staged_job
    from reput.jobs.opening.held import complete_last, held_store
    from reput.jobs.opening.open_writer import read_checkpoint
    from reput.store_format.discover.index_eras import dispatched_again
    from reput.store_format.discover.store import discover
    from reput.store_format.files.local import LocalStorage

    started = time.monotonic()
    store = LocalStorage().resolve(asked.store)
    _refuse(store)
    dry_run = asked.dry_run
    with held_store(store, dry_run) as held:
        at = held.at(asked.rocketmq, asked.settings)
        purpose = RECOVER_DRY_RUN if dry_run else RECOVER
        discovered = discover(at, purpose)
        sizes = settings_from(discovered.settings)
        held.spread(discovered.log_folders, sizes.mapped_file_size_commit_log)
        if held.crashed:
            complete_last(held, sizes, asked.confirm)
            discovered = discovered.dispatched_from(
                dispatched_again(held.folder, sizes, read_checkpoint(held.folder))
            )
        found = asked.found(engine, purpose, at=at, discovered=discovered)
        with staged_job(found, held) as job:
            recovery, about = examine(found, held, job, asked.on_damage)
            if about.needed and not dry_run:
                asked.confirm(f"change {store} in place: {about.steps()}")
                change(held, recovery, about, job.staging.folder.removeprefix(store + "/"))
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
    options.add_job(parser, Recover, _HELP, on_damage=("refuse", "truncate"), in_place=True)
    options.add_timezone(parser)
    options.add_consent(parser)


def run(arguments: argparse.Namespace) -> int:
    """Recover, and say what was done: 0 done, or nothing to do; 1 with --dry-run where there is,
    where a queue that was written lacks messages, where queues name messages that the log does not
    have, and where something else keeps a broker from its start.
    """
    asked = options.asked_of(arguments, Recover)
    purpose = RECOVER_DRY_RUN if asked.dry_run else RECOVER
    with options.engine_for(arguments, options.asks_store(asked, purpose)) as engine:
        about = recover(engine, asked)
    whole = {"needed": about.needed, **asdict(about)}
    options.show(arguments, whole, about.text(), about.details() if about.needed else ())
    lost = about.left_out or about.lost_past_end or about.in_the_way
    return options.DAMAGE if lost or (about.needed and not about.done) else options.DONE
