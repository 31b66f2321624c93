"""A recovery: examines a store, decides which derived files change, changes and reports it."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from reput.broker.change.compaction import settle
from reput.broker.change.expire import StagedFile, apply
from reput.broker.change.install import last_offset
from reput.broker.writer.recovery import LogEnd, LogRecovery
from reput.jobs.deriving.derive_set import delay_levels
from reput.jobs.deriving.kept import new_checkpoint
from reput.jobs.deriving.timers import Waits, lost_services, write_services
from reput.jobs.in_place.lost_entries import displaced, lost_pops, without_rows, wrong_compaction
from reput.jobs.judging.check import knows_more
from reput.jobs.judging.verdict import Verdict, judge
from reput.jobs.opening.held import HeldStore, refuse_linked
from reput.jobs.opening.open_writer import read_checkpoint
from reput.jobs.opening.plan import Plan, check_unchanged
from reput.jobs.outputs.publish import Built, Temporary, of_queues, remove_abandoned, staging_folder
from reput.jobs.outputs.report import counted, found_lines
from reput.jobs.pipeline.job import FoundStore
from reput.jobs.pipeline.link import Break, Linked
from reput.jobs.pipeline.pipeline import Pipeline
from reput.jobs.salvaging.damage_map import named_past_end
from reput.jobs.salvaging.judge_end import Crash, judge_end
from reput.store_format.derived.checkpoint import Checkpoint, decode, encode
from reput.store_format.faults import DamageFound, Fault, StoreError
from reput.store_format.log.there import derived_files, of_strangers
from reput.store_format.names import (
    BATCH_CONSUME_QUEUE,
    CHECKPOINT,
    COMPACTION,
    CONSUME_QUEUE,
    CUT,
    INDEX,
    POP_DB,
    STORE_DB,
    index_name,
    next_index_time,
    parse_index_name,
)
from reput.store_format.notes import Notes

# ---
# Decides which derived files of a store are rewritten or removed so that they match its log.


class Renewal(NamedTuple):
    """The files that get new content, and the files that are removed. Paths are below the store."""

    placed: list[StagedFile]
    removed: list[str]


class _Compared(NamedTuple):
    """A store's derived files and the verdict on them. Paths are below the store."""

    held: HeldStore
    log_start: int  # physical
    staging: str
    verdict: Verdict
    wrong: set[str]
    there: set[str]

    def placed(self, row: Built, path: str) -> StagedFile:
        return StagedFile(f"{self.staging}/{row['name']}", path)


def renewal(held: HeldStore, job: Pipeline, verdict: Verdict) -> Renewal:
    """The renewal that makes derived files match their log. Raises StoreError if none can."""
    compared = _Compared(
        held,
        job.plan.segments[0].start,
        job.staging.folder.removeprefix(held.path + "/"),
        verdict,
        {
            path.removeprefix(held.path + "/")
            for path in (
                *verdict.unused,
                *(e.path for e in (*verdict.differences, *verdict.behind)),
            )
        },
        set(derived_files(held.folder).files),
    )
    queues = _queues(compared)
    if not any(path.startswith(f"{INDEX}/") for path in compared.wrong):
        return queues
    index = _index(compared)
    return Renewal(queues.placed + index.placed, queues.removed + index.removed)


def _queues(compared: _Compared) -> Renewal:
    wrong = compared.wrong
    queues = {row["path"]: row for row in compared.verdict.named if row["folder"] != INDEX}
    renewed = _renewed(compared, queues)
    for path in sorted(wrong - queues.keys()):
        _refuse_expired(compared, path)
    placed = [
        compared.placed(row, path)
        for path, row in queues.items()
        if path in wrong or row["folder"] in renewed
    ]
    removed = [
        path
        for path in sorted(compared.there)
        if path not in queues
        and not path.startswith(f"{INDEX}/")
        and (path in wrong or path.rpartition("/")[0] in renewed)
    ]
    return Renewal(placed, removed)


def _refuse_expired(compared: _Compared, path: str) -> None:
    """Raise StoreError if a file to be removed holds entries of expired messages.

    The log has no records of these messages, so their entries may be the only ones to show the
    next position of their queue.
    """
    if not path.startswith(f"{CONSUME_QUEUE}/"):
        return
    last = last_offset(compared.held.files, path)
    if last is not None and last < compared.log_start:
        raise StoreError(
            f"{compared.held.path}/{path}: has another length than its setting says, and holds "
            f"expired messages, which recover cannot derive: give it its length, or move it away"
        )


def _renewed(compared: _Compared, queues: dict[str, Built]) -> set[str]:
    """Folders of the batch queues that must be written as a whole.

    If messages have expired, the derived entries stand at other places in the files.
    """
    if not compared.log_start:
        return set()
    folders = {row["folder"] for row in queues.values()}
    bad = {path.rpartition("/")[0] for path in compared.wrong}
    return {f for f in folders & bad if f.startswith(f"{BATCH_CONSUME_QUEUE}/")}


def _index(compared: _Compared) -> Renewal:
    """Renew the index files from the first wrong one on, as each depends on the file before it.

    Files with expired messages only stay.
    """
    verdict = compared.verdict
    rows = [row for row in verdict.named if row["folder"] == INDEX]
    index = [path for path in verdict.index if path in compared.there]
    expired, old = index[: verdict.expired_index], index[verdict.expired_index :]
    sound = 0
    while sound < min(len(old), len(rows)) and old[sound] not in compared.wrong:
        sound += 1
    names = _names_after(
        sorted(path.rpartition("/")[2] for path in (*expired, *old[:sound])),
        [row["path"].rpartition("/")[2] for row in rows[sound:]],
    )
    paths = [f"{INDEX}/{name}" for name in names]
    placed = [compared.placed(r, p) for r, p in zip(rows[sound:], paths, strict=True)]
    return Renewal(placed, [path for path in old[sound:] if path not in paths])


def _names_after(kept: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """The wanted names, raised where needed so that each is above the name before it.

    kept: names of files that stay; all names of the result are above the last kept name.
    """
    before = parse_index_name(kept[-1]) if kept else None
    names = []
    for name in wanted:
        before = next_index_time(parse_index_name(name), before)
        names.append(index_name(before))
    return names


# ---
# The report of a recovery, for the console and --json.


@dataclass
class Recovered:
    """What a recovery did or would do. Offsets are physical, sizes in bytes, times in seconds."""

    store: str
    rocketmq: str
    log_end: int
    end_reason: str
    done: bool = False
    crashed: bool = False  # whether the file `abort` was there
    cut_bytes: int = 0  # after the log's end, up to the last byte that is not zero
    cut_kept: str = ""  # the folder that keeps the cut bytes
    lost_past_end: int = 0  # messages that queues name and the log does not have
    written: list[str] = field(default_factory=list)  # derived files that were incomplete or wrong
    removed: list[str] = field(default_factory=list)  # derived files that the log does not give
    checkpoint: bool = False  # whether the checkpoint is written anew
    waits: list[str] = field(default_factory=list)  # timers and delays: files written for them
    compaction: list[str] = field(default_factory=list)  # what is wrong in it, against the log
    pops: int = 0  # rows of pop's RocksDB whose messages the log does not have
    discovered: dict[str, Any] = field(default_factory=dict)  # what store_format/discover found
    releases: str = ""  # text that names the releases which write the same
    seconds: float = 0.0
    left_out: list[str] = field(default_factory=list)  # messages that written queues lack
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # remarks that are no faults
    expired: list[str] = field(default_factory=list)  # files that RocketMQ's cleaning removes next
    in_the_way: list[str] = field(default_factory=list)  # what to do before a broker starts

    @property
    def needed(self) -> bool:
        return bool(
            self.crashed
            or self.cut_bytes
            or self.written
            or self.removed
            or self.checkpoint
            or self.compaction
            or self.pops
            or self.waits
        )

    def text(self) -> str:
        said = [f"  warning   {warning}" for warning in self.warnings]
        said += [f"  next      {todo}" for todo in self.in_the_way]
        if not self.needed:
            nothing = f"{self.store} was stopped cleanly and is undamaged: nothing to do"
            return "\n".join([nothing, *said])
        lines = [
            f"{'recovered' if self.done else 'would recover'} {self.store} "
            f"as RocketMQ {self.releases or self.rocketmq}",
            f"  log       ends at {self.log_end:,} ({self.end_reason})",
            f"  change    {self.steps() or 'none in the log and what is derived from it'}",
        ]
        if self.cut_kept:
            lines.append(f"  kept      what is cut, in {self.cut_kept}")
        lines += [f"  waits     {line}" for line in self.waits]
        lines += [f"  compacted {line}" for line in self.compaction]
        lines += [f"  left out  {line}" for line in self.left_out]
        said += [] if self.done else ["  next      the same without --dry-run does it"]
        return "\n".join(lines + said)

    def steps(self) -> str:
        """The changes in their order, as a text; empty if there are none."""
        steps = (
            (self.cut_bytes, f"cut {counted(self.cut_bytes, 'byte')} after {self.log_end:,}"),
            (self.written, f"write {counted(len(self.written), 'derived file')}"),
            (self.removed, f"remove {counted(len(self.removed), 'derived file')}"),
            (self.compaction, f"bring {COMPACTION}/ to the log"),
            (self.pops, f"remove {counted(self.pops, 'row')} of lost messages from {POP_DB}/"),
            (self.checkpoint, "write checkpoint"),
            (self.waits, "write what timers and delays wait for"),
            (self.crashed, "remove abort"),
        )
        return ", ".join(text for needed, text in steps if needed)

    def details(self) -> list[str]:
        return [
            *(f"  written   {path}" for path in self.written),
            *(f"  removed   {path}" for path in self.removed),
            *found_lines(self.discovered),
            *(f"  note      {note}" for note in self.notes),
        ]


# ---
# A recovery: examine a store, and make the change that follows.

_PREFIX = f".{Temporary.RECOVER}"


@dataclass(frozen=True)
class Recovery:
    """The change that makes a store as if cleanly stopped; the new files are in staging."""

    plan: Plan
    log: LogRecovery
    end: LogEnd
    renewal: Renewal
    checkpoint: bytes
    waits: Waits
    pops: set[bytes]  # keys of rows in POP_DB that go
    databases: list[str]  # those of which rows go


@contextmanager
def staged_job(found: FoundStore, held: HeldStore) -> Iterator[Pipeline]:
    """Yield the job with staging inside the store, or for a dry run outside it."""
    remove_abandoned(held.folder, _PREFIX)
    if held.dry_run:
        with found.temporarily(Temporary.RECOVER, storage=held.storage) as job:
            yield job
        return
    with staging_folder(held.folder, _PREFIX) as staging:
        yield found.job(staging)


def examine(
    found: FoundStore, held: HeldStore, job: Pipeline, on_damage: str
) -> tuple[Recovery, Recovered]:
    """Find the log's end, derive all files and compare: (the change, its report).

    Raises DamageFound, StoreChanged, StoreError.
    """
    plan = found.plan
    linked, log = _scan_to_end(found, held, job)
    old = read_checkpoint(held.folder)
    try:
        crash = Crash(old) if held.crashed else None
        reason, warnings = judge_end(job, linked, on_damage, crash, salvages=False)
    except DamageFound as error:
        more = "`reput repair` makes a copy that keeps the messages behind it"
        raise DamageFound(f"{error}; {more}", f"{error.plain} {more}.") from None
    end = _log_end(job, linked, held.crashed)
    cut_bytes = log.to_cut(end)
    verdict = judge(job, linked, held.folder)
    renewed = renewal(held, job, verdict)
    placed = {file.path for file in renewed.placed}
    said, strangers = of_strangers(verdict.strangers, plan.profile)
    about = Recovered(
        held.path, plan.profile.release, linked.end, reason, crashed=held.crashed,
        cut_bytes=cut_bytes,
        written=[file.path for file in renewed.placed], removed=renewed.removed,
        warnings=plan.warnings + warnings + said
        + [f"{each.path}: {each.reason}" for each in strangers],
        notes=plan.notes + verdict.notes(),
        left_out=[
            *of_queues(job.staging, verdict.named, job.queue_bytes, placed).left_out,
            *displaced(plan, linked.end, verdict, placed),
        ],
        expired=verdict.expired, discovered=plan.discovered.as_json(),
        releases=plan.discovered.releases,
        in_the_way=[
            *plan.in_the_way, *filter(None, (each.todo for each in strangers)),
            *plan.of_config,
        ],
    )  # fmt: skip
    refuse_linked(held.path, (*about.written, *about.removed))
    written = [row for row in verdict.named if row["path"] in placed]
    about.warnings += plan.assumed_delays(delay_levels(written))
    claims = list(knows_more(job, linked, old))
    about.warnings += [f"{CHECKPOINT}: {said}; it is written anew" for said in claims]
    past = named_past_end(held.folder, linked.end)
    if past.queue_count:
        about.lost_past_end = past.messages
        about.warnings.append(
            f"queues name {past.text()} past the log's end: they are cut back to the log; if a "
            f"segment is missing, or the end of the last, put it back first"
        )
    waits = lost_services(job, linked, about.warnings)
    about.compaction = wrong_compaction(plan, held, linked.end)
    pops = lost_pops(job, linked, held, about.warnings)
    databases = [name for name, go in ((POP_DB, pops), (STORE_DB, waits.rows_go)) if go]
    refuse_linked(held.path, databases)
    about.pops, about.cut_kept = len(pops), f"{held.path}/{CUT}" if cut_bytes or databases else ""
    about.checkpoint = old is None or about.needed or bool(claims)
    about.waits = waits.said()
    new = decode(new_checkpoint(plan, linked, verdict.named))
    flushed = min(old.master_flushed_offset, linked.end) if old else 0
    checkpoint = encode(new._replace(master_flushed_offset=flushed))
    check_unchanged(plan)
    return Recovery(plan, log, end, renewed, checkpoint, waits, pops, databases), about


def change(held: HeldStore, recovery: Recovery, about: Recovered, staging: str) -> None:
    """Change the store; nothing was changed before. staging: a folder in it, as a path below it.

    Raises StoreInUse, StoreChanged, OSError.
    """
    plan, files = recovery.plan, held.files
    held.changed = True
    if held.lock_at_last():
        check_unchanged(plan)
    for file in recovery.renewal.placed:
        files.give(file.staged)
    process = str(os.getpid()).encode() if plan.profile.abort_process_id else b""
    notes, about.compaction = Notes(), []

    def settled() -> None:
        given, release = plan.discovered.settings, plan.profile.release
        done = settle(files, held.folder, release, given, notes)
        about.compaction += done.lines
        write_services(files, recovery.waits, plan.profile)
        for name in recovery.databases:
            without_rows(held, name, recovery.pops, staging)

    apply(
        files, recovery.log, recovery.end, *recovery.renewal, recovery.checkpoint, process, settled
    )
    about.warnings += notes.lines


def _scan_to_end(found: FoundStore, held: HeldStore, job: Pipeline) -> tuple[Linked, LogRecovery]:
    """(the log scanned up to its end, the LogRecovery that can cut its segments there)."""
    known = read_checkpoint(held.folder) or Checkpoint()
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
