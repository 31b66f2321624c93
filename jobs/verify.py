"""`reput verify`: derive a store's files again and compare them with those that are there."""

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING

from reput.jobs.console.options import (
    DAMAGE,
    DONE,
    VERSIONS,
    add_remade,
    add_staging,
    add_store,
    asks_store,
    engine_for,
    options_of_job,
    show,
)
from reput.jobs.console.store_there import check_folder
from reput.jobs.engines.choice import on_engine
from reput.jobs.engines.engine import Engine
from reput.store_format.discover.purpose import VERIFY
from reput.store_format.faults import REFUSE, DamageFound
from reput.store_format.notes import Progress

if TYPE_CHECKING:
    from reput.jobs.judging.report import Report
    from reput.jobs.pipeline.pipeline import Cut
    from reput.store_format.files.protocol import Storage


_HELP = f"""\
examples:
  reput verify /data/store
  reput verify /data/store --against /data/rebuilt

{VERSIONS}"""


@on_engine
def verify(  # noqa: PLR0913 (a user's options)
    engine: Engine,
    store: str,
    against: str | None = None,
    *,
    rocketmq: str | None = None,
    settings: Mapping[str, str] | None = None,
    on_damage: str | None = None,
    cut: "Cut | None" = None,
    staging_folder: str | None = None,
    storage: "Storage | None" = None,
    progress: Progress | None = None,
    remade: str = "",
) -> "Report":
    """Compare the derived files in `against` with those that the log of the store gives.

    against: a store or a rebuilt set, by default the store itself.
    staging_folder: where files are derived, by default a temporary folder; on a cluster it must be
    one that all machines see. This folder, `store` and `against` are paths or URLs, each of any
    storage; `storage`, if given, stands for all of them.
    on_damage: as for rebuild; None: by the manifest in `against`, else refuse. Raises as rebuild
    does.

    remade: `last` or `all` lives of a topic that was deleted and made again; by default those that
    the store's own queues have.

    Unused tails of files and a segment of zeros only do not count. Index files are compared in the
    order of the log. A queue's own log (compacted:, tiered:) is compared with its queue file.
    """
    from reput.jobs.comparing.compare import verify_queue_log
    from reput.jobs.judging.report import Report, manifest_differences
    from reput.jobs.judging.verdict import judge
    from reput.jobs.opening.plan import check_unchanged
    from reput.jobs.outputs.output import inputs_of, read_manifest, refuse_unfinished
    from reput.jobs.outputs.publish import Temporary
    from reput.jobs.pipeline.job import find_store
    from reput.jobs.salvaging.judge_end import read_log
    from reput.store_format.discover.store import discover, store_at
    from reput.store_format.files.by_url import storage_for
    from reput.store_format.files.queue_logs import QueueLog
    from reput.store_format.log.there import said_of_strangers

    at = store_at(store, rocketmq, settings, storage)
    if isinstance(at.storage, QueueLog):
        return verify_queue_log(at)
    there = storage or storage_for(against or store)
    against = there.resolve(against or store)
    refuse_unfinished(there, against)
    manifest = read_manifest(there, against)
    on_damage = on_damage or manifest.get("on_damage", REFUSE)
    purpose = VERIFY.asked(on_damage)

    def verified(release: str | None) -> tuple[Report, tuple[str, ...]]:
        """The report by a release's rules, and the releases that may be meant instead."""
        at = store_at(store, release, settings, storage)
        discovered = discover(at, purpose, derived=(there, against), manifest=manifest)
        found = find_store(
            engine, at, purpose, cut=cut, progress=progress, discovered=discovered, remade=remade
        )  # fmt: skip
        plan, also = found.plan, inputs_of(there, against, {})
        with found.temporarily(Temporary.VERIFY, staging_folder, storage, also) as job:
            linked, reason, warnings, damage = read_log(job, on_damage)
            report = Report(plan.store, against, plan.profile.release, linked.end, reason)
            report.warnings, report.discovered = plan.warnings + warnings, discovered.as_json()
            report.releases = discovered.releases
            report.differences = manifest_differences(against, manifest, damage)
            verdict = judge(job, linked, there, against, bool(manifest))
            report.files, report.in_rocksdb = verdict.files, verdict.in_rocksdb
            report.notes = plan.notes + verdict.notes()
            report.warnings += said_of_strangers(verdict.strangers, plan.profile)
            report.behind, report.expired = verdict.behind, verdict.expired
            report.differences += verdict.differences
            report.differences.sort(key=lambda difference: difference.path)
            check_unchanged(plan)
            report.seconds = found.seconds()
            return report, discovered.others

    report, others = verified(rocketmq)
    for release in others if report.differences else ():
        try:
            another, _ = verified(release)
        except DamageFound:  # by that release's rules: it did not write the store
            continue
        if another.same:
            return another
    return report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _HELP
    add_store(parser)
    parser.add_argument(
        "--against", metavar="DIR", help="where the derived files are (default: STORE)"
    )
    add_remade(parser)
    add_staging(parser)


def run(arguments: argparse.Namespace) -> int:
    """Verify, and say what was found: 0 the same; 1 there are differences."""
    if arguments.against:
        check_folder("--against", arguments.against)
    options = options_of_job(arguments)
    asked = asks_store(arguments, options, VERIFY, arguments.against or arguments.store)
    with engine_for(arguments, asked) as engine:
        report = verify(
            engine,
            arguments.store,
            against=arguments.against,
            staging_folder=arguments.staging,
            on_damage=arguments.on_damage,
            remade=arguments.remade,
            **options,
        )
    show(arguments, report.as_json(), report.text(), report.details(), report.same)
    return DONE if report.same else DAMAGE
