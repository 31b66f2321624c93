"""A check: read the whole log with every CRC, and compare the derived files with it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import BinaryIO

from reput.jobs.judging.check_report import CheckReport, report_of
from reput.jobs.judging.log_end import add_torn, past_the_end
from reput.jobs.judging.verdict import files_there, judge
from reput.jobs.opening.open_writer import read_checkpoint
from reput.jobs.opening.plan import check_unchanged, make_plan
from reput.jobs.outputs.publish import Temporary
from reput.jobs.pipeline.job import FoundStore
from reput.jobs.salvaging.damage_map import write_ranges
from reput.jobs.salvaging.damage_search import map_damage
from reput.store_format.discover.release import clues_of
from reput.store_format.discover.store import StoreAt, discover
from reput.store_format.files.protocol import Storage
from reput.store_format.release.profiles import RELEASES, Has, groups, left_by, same_files
from reput.store_format.rocksdb.queues import queues_folder


def check_store_of(
    found: FoundStore, staging_folder: str | None, storage: Storage | None, ranges: BinaryIO | None
) -> CheckReport:
    """Check a store that was found with `tolerant`; faults of its files become findings.

    staging_folder, storage: where files are derived for the comparison.
    ranges: gets every range and gap as JSON lines. Raises StoreError, StoreChanged, OSError.
    """
    report = _check(found, staging_folder, storage, ranges)
    if report.only_derived_differ:
        for other in _of_other_releases(found):
            another = _check(other, staging_folder, storage, None)
            if another.sound:
                if found.plan.discovered.others:  # the user has not named the release
                    report = another
                else:
                    report.looks_like = other.plan.profile.release
                break
    report.seconds = found.seconds()
    return report


def _check(
    found: FoundStore, staging_folder: str | None, storage: Storage | None, ranges: BinaryIO | None
) -> CheckReport:
    """Read the log and compare, by the rules of the plan's release."""
    plan = found.plan
    with found.temporarily(Temporary.CHECK, staging_folder, storage) as job:
        job.check_every_crc()
        damage = map_damage(job, gap_lines=ranges is not None)
        known = read_checkpoint(plan.storage, plan.store)
        if not plan.in_use:
            add_torn(job, damage, known)
        if ranges:
            write_ranges(job.staging, damage, ranges)
        report = report_of(plan, damage)
        # the checkpoint has a time of queue entries: the store had queues, even if none is left
        had_queues = known is not None and known.logics_msg_timestamp > 0 and not plan.in_use
        in_rocksdb = queues_folder(plan.storage, plan.store)
        if had_queues or in_rocksdb or any(True for _ in files_there(plan.storage, plan.store)):
            verdict = judge(job, damage.linked, plan.storage, plan.store)
            report.derived_files, report.in_rocksdb = verdict.files, verdict.in_rocksdb
            report.differences = verdict.differences
            report.behind, report.expired = verdict.behind, verdict.expired
            report.notes += verdict.notes()
        if not plan.in_use:
            report.findings += past_the_end(job, damage.linked, known, report.differences)
        check_unchanged(plan)
        return report


_TRIED_MOST = 3


def _of_other_releases(found: FoundStore) -> Iterator[FoundStore]:
    """The same store found by other releases that its files do not rule out, newest first.

    Of releases that derive the same files only one is tried. Releases that derive the same files
    as the given release are left out.
    """
    plan = found.plan
    clues = clues_of(
        plan.storage, plan.store, plan.segments, plan.settings, (plan.storage, plan.store)
    )
    has = Has(plan.settings.enable_multi_dispatch, not clues.has_keys)
    left = left_by(clues.hard) or list(RELEASES)
    other = [group[-1] for group in groups(left, has)]
    other = [each for each in other if not same_files(each, plan.profile.release, has)]
    for release in list(reversed(other))[:_TRIED_MOST]:
        at = StoreAt(plan.storage, plan.store, release, plan.discovered.settings)
        again = make_plan(
            at, discover(at, sweeps=True), found.engine.cores, found.cut.split_bytes,
            tolerant=True, even_rocksdb=True,
        )  # fmt: skip
        yield replace(found, plan=again)
