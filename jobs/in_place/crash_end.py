"""Where a log ends that a crash may have torn."""

from dataclasses import replace

from reput.broker.writer.log_recovery import LogEnd, LogRecovery
from reput.jobs.opening.broker_start import read_checkpoint
from reput.jobs.opening.held_store import HeldStore
from reput.jobs.pipeline.job import FoundStore
from reput.jobs.pipeline.link import Break, Linked
from reput.jobs.pipeline.pipeline import Pipeline
from reput.store_format.derived.checkpoint import Checkpoint
from reput.store_format.faults import Fault


def scan_to_end(found: FoundStore, held: HeldStore, job: Pipeline) -> tuple[Linked, LogRecovery]:
    """Scan the log up to its end; also returns the LogRecovery that can cut its segments there."""
    known = read_checkpoint(held.storage, held.path) or Checkpoint()
    linked = job.scan()
    log = LogRecovery(
        held.files, job.plan.settings.mapped_file_size_commit_log, job.rules,
        known if held.crashed else None,
    )  # fmt: skip
    return (_without_torn(found, job, linked, log) if held.crashed else linked), log


def _without_torn(found: FoundStore, job: Pipeline, linked: Linked, log: LogRecovery) -> Linked:
    """After a crash the log may end earlier: at a record that has lost a sector of its text.

    Its lengths and CRC are right, so that the scan takes it, and RocketMQ too. What is left is
    still judged and built by a pipeline that sees all of the log.
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


def log_end(job: Pipeline, linked: Linked, crashed: bool) -> LogEnd:
    """The end of the scanned log, in the form that LogRecovery.cut takes."""
    fault = Fault.ZEROS if linked.broke else Fault.BLANK
    start = job.plan.segments[0].start
    return LogEnd(start, linked.end, start if crashed else linked.end, fault=fault)
