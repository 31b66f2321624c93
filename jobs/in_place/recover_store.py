"""A recovery: examine a store, and make the change that follows."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from reput.broker.change.expire import CUT, apply
from reput.broker.writer.recovery import LogEnd, LogRecovery
from reput.jobs.deriving.kept import new_checkpoint
from reput.jobs.in_place.recover_report import Recovered
from reput.jobs.in_place.renewal import Renewal, renewal
from reput.jobs.judging.verdict import judge
from reput.jobs.opening.held import HeldStore
from reput.jobs.opening.open_writer import read_checkpoint
from reput.jobs.opening.plan import Plan, check_unchanged
from reput.jobs.outputs.publish import Temporary, remove_abandoned, staging_folder
from reput.jobs.pipeline.job import FoundStore
from reput.jobs.pipeline.link import Break, Linked
from reput.jobs.pipeline.pipeline import Pipeline
from reput.jobs.salvaging.judge_end import Crash, judge_end
from reput.store_format.derived.checkpoint import Checkpoint, decode, encode
from reput.store_format.faults import DamageFound, Fault

_PREFIX = f".{Temporary.RECOVER}"


@dataclass(frozen=True)
class Recovery:
    """The change that makes a store as if cleanly stopped; the new files are in staging."""

    plan: Plan
    log: LogRecovery
    end: LogEnd
    renewal: Renewal
    checkpoint: bytes


@contextmanager
def staged_job(found: FoundStore, held: HeldStore) -> Iterator[Pipeline]:
    """Yield the job with staging inside the store, or for a dry run outside it."""
    remove_abandoned(held.storage, held.path, _PREFIX)
    if held.dry_run:
        with found.temporarily(Temporary.RECOVER, storage=held.storage) as job:
            yield job
        return
    with staging_folder(held.storage, held.path, _PREFIX) as staging:
        yield found.job(staging)


def examine(
    found: FoundStore, held: HeldStore, job: Pipeline, on_damage: str
) -> tuple[Recovery, Recovered]:
    """Find the log's end, derive all files and compare: (the change, its report).

    Raises DamageFound, StoreChanged, StoreError.
    """
    plan = found.plan
    linked, log = _scan_to_end(found, held, job)
    old = read_checkpoint(held.storage, held.path)
    try:
        crash = Crash(old) if held.crashed else None
        reason, warnings = judge_end(job, linked, on_damage, crash, salvages=False)
    except DamageFound as error:
        more = "`reput repair` makes a copy that keeps the messages behind it"
        raise DamageFound(f"{error}; {more}", f"{error.plain} {more}.") from None
    end = _log_end(job, linked, held.crashed)
    cut_bytes = log.to_cut(end)
    verdict = judge(job, linked, held.storage, held.path)
    renewed = renewal(held, job, verdict)
    about = Recovered(
        held.path, plan.profile.release, linked.end, reason, crashed=held.crashed,
        cut_bytes=cut_bytes, cut_kept=f"{held.path}/{CUT}" if cut_bytes else "",
        written=[file.path for file in renewed.placed], removed=renewed.removed,
        warnings=plan.warnings + warnings, notes=plan.notes + verdict.notes(),
        expired=verdict.expired, discovered=plan.discovered.as_json(),
        releases=plan.discovered.releases,
    )  # fmt: skip
    about.checkpoint = old is None or about.needed
    new = decode(new_checkpoint(plan, linked, verdict.named))
    checkpoint = encode(new._replace(master_flushed_offset=_flushed(old, linked.end)))
    check_unchanged(plan)
    return Recovery(plan, log, end, renewed, checkpoint), about


def _flushed(old: Checkpoint | None, log_end: int) -> int:
    return min(old.master_flushed_offset, log_end) if old else 0


def change(held: HeldStore, recovery: Recovery) -> None:
    """Change the store; nothing was changed before. Raises StoreInUse, StoreChanged, OSError."""
    plan, files = recovery.plan, held.files
    held.changed = True
    if held.lock_at_last():
        check_unchanged(plan)
    if files.owner is not None:
        for file in recovery.renewal.placed:
            os.chown(f"{held.path}/{file.staged}", *files.owner)
    process = str(os.getpid()).encode() if plan.profile.abort_process_id else b""
    apply(files, recovery.log, recovery.end, *recovery.renewal, recovery.checkpoint, process)


def _scan_to_end(found: FoundStore, held: HeldStore, job: Pipeline) -> tuple[Linked, LogRecovery]:
    """(the log scanned up to its end, the LogRecovery that can cut its segments there)."""
    known = read_checkpoint(held.storage, held.path) or Checkpoint()
    linked = job.scan()
    log = LogRecovery(
        held.files, job.plan.settings.mapped_file_size_commit_log, job.rules,
        known if held.crashed else None,
    )  # fmt: skip
    return (_without_torn(found, job, linked, log) if held.crashed else linked), log


def _without_torn(found: FoundStore, job: Pipeline, linked: Linked, log: LogRecovery) -> Linked:
    """The log without torn records: after a crash it may end at a record that lost a sector.

    Lengths and body CRC of such a record are right, so that the scan and RocketMQ accept it. The
    shorter log is still judged and built by the pipeline of the whole log.
    """
    end = log.find_end().end
    if end >= linked.end:
        return linked
    splits = found.plan.splits
    limited = replace(found.plan, splits=splits._replace(limit=end))
    shorter = replace(found, plan=limited).job(job.staging).scan()
    segment = (end - splits.segments[0].start) // splits.segments[0].state.size
    number = segment * splits.in_segment
    number += (end - splits.segment(number).start) // splits.split_bytes
    shorter.broke = Break(number, end, Fault.LENGTHS, 0, False)
    return shorter


def _log_end(job: Pipeline, linked: Linked, crashed: bool) -> LogEnd:
    """The end of the scanned log, in the form that LogRecovery.cut takes."""
    fault = Fault.ZEROS if linked.broke else Fault.BLANK
    start = job.plan.segments[0].start
    return LogEnd(start, linked.end, start if crashed else linked.end, fault=fault)
