"""`reput verify`: derive a store's files again and compare them with those that are there."""

import argparse
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING

from reput.jobs.console import options
from reput.jobs.console.declared import OfLog, option, remade_lives, staging
from reput.jobs.console.store_there import check_folder
from reput.jobs.engines.choice import on_engine
from reput.jobs.engines.engine import Engine
from reput.store_format.discover.purpose import VERIFY
from reput.store_format.faults import REFUSE, DamageFound
from reput.store_format.files.by_url import place_at
from reput.store_format.files.queue_logs import QueueLog

if TYPE_CHECKING:
    from reput.jobs.judging.report import Report

_HELP = f"""\
examples:
  reput verify /data/store
  reput verify /data/store --against /data/rebuilt

{options.VERSIONS}"""


@dataclass(frozen=True)
class Verify(OfLog):
    """What `reput verify` is asked. This folder, `store` and `against` are paths or URLs, each of
    any storage; `storage`, if given, stands for all of them.
    """

    against: str | None = option("where the derived files are (default: STORE)", metavar="DIR")
    _: KW_ONLY
    on_damage: str | None = None
    remade: str = remade_lives()
    staging_folder: str | None = staging()


@on_engine(Verify)
def verify(engine: Engine, asked: Verify) -> "Report":
    """Compare the derived files in `against` with those that the log of the store gives.

    on_damage: as for rebuild; None: by the manifest in `against`, else refuse. Raises as rebuild
    does.

    Unused tails of files and a segment of zeros only do not count. Index files are compared in the
    order of the log. A queue's own log (compacted:, tiered:) is compared with its queue file.
    """
    from reput.jobs.comparing.compare import verify_queue_log
    from reput.jobs.judging.report import Report, manifest_differences
    from reput.jobs.judging.verdict import judge
    from reput.jobs.opening.plan import check_unchanged
    from reput.jobs.outputs.output import inputs_of, read_manifest, refuse_unfinished
    from reput.jobs.outputs.publish import Temporary
    from reput.jobs.outputs.report import MANIFEST_FORMAT, SHARDED_FORMAT
    from reput.jobs.salvaging.judge_end import read_log
    from reput.store_format.discover.store import discover
    from reput.store_format.log.there import said_of_strangers

    at = asked.named()
    if isinstance(at.storage, QueueLog):
        return verify_queue_log(at)
    at_set = place_at(asked.against or asked.store, asked.storage)
    refuse_unfinished(at_set)
    manifest = read_manifest(at_set)
    on_damage = asked.on_damage or manifest.get("on_damage", REFUSE)
    purpose = VERIFY.asked(on_damage)
    # else a store, on which a broker may go on
    of_set = manifest.get("format") in (MANIFEST_FORMAT, SHARDED_FORMAT)

    def verified(release: str | None) -> tuple[Report, tuple[str, ...]]:
        """The report by a release's rules, and the releases that may be meant instead."""
        by = replace(asked, rocketmq=release)
        discovered = discover(by.named(), purpose, derived=at_set, manifest=manifest)
        found = by.found(engine, purpose, discovered=discovered)
        plan, also = found.plan, inputs_of(at_set, {})
        with found.temporarily(Temporary.VERIFY, asked.staging_folder, asked.storage, also) as job:
            linked, reason, warnings, damage = read_log(job, on_damage)
            report = Report(plan.store, at_set.path, plan.profile.release, linked.end, reason)
            report.warnings, report.discovered = plan.warnings + warnings, discovered.as_json()
            report.releases = discovered.releases
            report.differences = manifest_differences(at_set.path, manifest, damage)
            verdict = judge(job, linked, at_set, of_set)
            report.files, report.in_rocksdb = verdict.files, verdict.in_rocksdb
            report.notes = plan.notes + verdict.notes()
            report.warnings += said_of_strangers(verdict.strangers, plan.profile)
            report.behind, report.expired = verdict.behind, verdict.expired
            report.differences += verdict.differences
            report.differences.sort(key=lambda difference: difference.path)
            check_unchanged(plan)
            report.seconds = found.seconds()
            return report, discovered.others

    report, others = verified(asked.rocketmq)
    for release in others if report.differences else ():
        try:
            another, _ = verified(release)
        except DamageFound:  # by that release's rules: it did not write the store
            continue
        if another.same:
            return another
    return report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_job(parser, Verify, _HELP, on_damage=options.ANY_DAMAGE)


def run(arguments: argparse.Namespace) -> int:
    """Verify, and say what was found: 0 the same; 1 there are differences."""
    if arguments.against:
        check_folder("--against", arguments.against)
    asked = options.asked_of(arguments, Verify)
    asks = options.asks_store(asked, VERIFY, asked.against or asked.store)
    with options.engine_for(arguments, asks) as engine:
        report = verify(engine, asked)
    return options.answer(arguments, report, report.same)
