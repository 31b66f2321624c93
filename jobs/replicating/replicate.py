"""A whole replication: open the source, hold the target, copy, and report."""

import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

from reput.broker.change.new_messages import Rules
from reput.broker.change.replica import NOTE
from reput.broker.wire.replication import ProtocolError
from reput.jobs.in_place.catch_up import rules_of
from reput.jobs.opening.held import held_store
from reput.jobs.opening.plan import index_zone, make_plan
from reput.jobs.outputs.output import inputs_of
from reput.jobs.replicating.from_folder import LogLimit, Replication, SourceLog, pieces
from reput.jobs.replicating.from_master import Asking, MasterSays, WireReplication
from reput.jobs.replicating.peers import Address
from reput.jobs.replicating.target import ReplicaTarget, Replicated, check_target, held_target
from reput.store_format.derived.index_header import listed_index
from reput.store_format.discover.purpose import REPLICATE
from reput.store_format.discover.store import StoreAt, discover
from reput.store_format.dispatch.scan import place_rules, scan_rules
from reput.store_format.faults import PeerFailed, StoreError
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.log.groups import refuse_heads
from reput.store_format.log.rules import NO_CHECKS, RecordRules
from reput.store_format.log.segments import commit_log_folders
from reput.store_format.names import COMMIT_LOG
from reput.store_format.release.profiles import RELEASES, profile
from reput.store_format.release.settings import SettingError, settings_from


def from_store(asked: Any, at: StoreAt, target: str) -> Replicated:
    """Replicate a store that is a folder or URL to a local folder. asked: as jobs/replicate.py
    declares it. Raises as `replicate` does.
    """
    storage, store = at.storage, at.path
    discovered = discover(at, REPLICATE)
    if not listed_index(Folder(LocalStorage(), target)):  # its first names are of the source's zone
        zone = index_zone(at.folder, settings_from(discovered.settings)).as_settings()
        discovered = replace(discovered, settings={**discovered.settings, **zone})
    plan = make_plan(at, discovered, REPLICATE)
    refuse_heads(plan.segments, "replicate")
    folders = commit_log_folders(store, plan.settings)
    log = SourceLog(storage, folders, plan.settings.mapped_file_size_commit_log)
    inputs = tuple(inputs_of(at.folder, discovered.settings))
    about = Replicated(store, target, dry_run=asked.dry_run, warnings=[*plan.warnings])
    rules = rules_of(plan)

    def live() -> bool:
        return storage.lock_holder(store) is not None

    try:
        if asked.dry_run:
            check_target(target, inputs)
            if os.path.isdir(target):
                with held_store(target, True) as held:
                    there = ReplicaTarget(held, rules, discovered.settings, store)
                    there.take_up(log.read, log.start, log.stop)
                    about.resumed_at = there.log.end
            else:
                about.resumed_at = log.start
            about.start, about.end = log.start, _end_of(log, rules.scan.records, asked.wanted)
            about.end = max(about.end, about.resumed_at)
            about.end_reason = "as far as is wanted and there now"
            return about
        _agree(target, asked.confirm)
        like = os.stat(store) if isinstance(storage, LocalStorage) else None
        with (
            held_target(target, inputs, like) as held,
            closing(ReplicaTarget(held, rules, discovered.settings, store)) as there,
        ):
            Replication(asked, log, at.folder, there, live, about).run()
            return about
    finally:
        log.close()


def from_master(asked: Any, address: Address, at: Address | None, target: str) -> Replicated:
    """Replicate a live master's log to a local folder. address: of its replication port; at: of the
    broker's own, for requests (`Asking`). Raises as `replicate_from` does.
    """
    name, settings, broker = "{}:{}".format(*address), asked.settings or {}, ""
    about = Replicated(name, target)
    asking, says = None, MasterSays()
    if at is not None:
        asking, broker = Asking(at), "{}:{}".format(*at)
        try:
            says = asking.says()
        except (OSError, ProtocolError, StoreError) as error:
            about.warnings.append(f"{broker} does not tell: {error}")
    start = says.start if asked.from_offset is None else asked.from_offset
    if start < 0:
        raise StoreError(
            f"{name}: nobody tells where the master's log begins: --from-offset, or --broker "
            f"with the broker's own address" + "".join(f"; {each}" for each in about.warnings)
        )
    rules = profile(asked.rocketmq or says.release or RELEASES[-1])
    known = {**says.settings, **settings}
    own = {name: value for name, value in says.settings.items() if name not in settings}
    try:
        settings_from(own, release=rules.release)
    except SettingError as error:  # values that no broker accepts
        raise PeerFailed(f"{broker}: says {error}") from None
    parsed = settings_from(known, release=rules.release)
    scanned = scan_rules(rules, parsed, ())
    _agree(target, asked.confirm)
    of_master = Rules(rules, parsed, scanned, place_rules(rules))
    with (
        held_target(target, (), None) as held,
        closing(ReplicaTarget(held, of_master, known, name)) as there,
    ):
        WireReplication(asked, address, (start, says.end), asking, there, about).run()
    return about


def _agree(target: str, confirm: Callable[[str], None]) -> None:
    """Ask before extending a store that no replication has made."""
    log = f"{target}/{COMMIT_LOG}"
    if os.path.isdir(log) and os.listdir(log) and not os.path.lexists(f"{target}/{NOTE}"):
        confirm(f"go on with {target}, which has a log already, as a replica")


def _end_of(log: SourceLog, rules: RecordRules, wanted: LogLimit) -> int:
    """The source's present log end, by reading its last segment with data, without checks."""
    used = log.written()
    if not used:
        return log.start
    if wanted.offset < used[-1]:
        used = used[:1]  # the limit is only found by reading the log from its start
    end = used[-1]
    for piece in pieces(log, used[-1], wanted, rules, NO_CHECKS):
        end = max(end, piece.whole)
    return end
