"""`reput recover`: what a broker's recovery does after a crash, offline and in parallel."""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from reput.jobs.console.options import DAMAGE, DONE, add_consent, add_store, consent, told_to_jobs
from reput.jobs.engine.after_crash import read_checkpoint
from reput.jobs.engine.in_place import refuse_shared_segments
from reput.jobs.engine.index_names import names_after
from reput.jobs.engine.link import Break, Linked
from reput.jobs.engine.outputs import inputs_of
from reput.jobs.engine.pipeline import Cut, Pipeline, spark_cores
from reput.jobs.engine.plan import make_plan
from reput.jobs.engine.progress import Progress
from reput.jobs.engine.publish import Built
from reput.jobs.engine.staging import remove_abandoned, staging_folder, temporary_folder
from reput.jobs.engine.verdict import Verdict, files_there, judge
from reput.jobs.rebuild import REFUSE, Crash, check_unchanged, judge_end, new_checkpoint
from reput.store_format.change.install import last_offset
from reput.store_format.change.recover import CUT, Placed, apply
from reput.store_format.derived.checkpoint import Checkpoint, decode, encode
from reput.store_format.disk.files import DiskFiles, StoreInUse
from reput.store_format.disk.locks import holder_text
from reput.store_format.faults import DamageFound, Fault, StoreError
from reput.store_format.names import (
    ABORT,
    BATCH_CONSUME_QUEUE,
    COMMIT_LOG,
    CONSUME_QUEUE,
    INDEX,
    LOCK,
)
from reput.store_format.release.settings import settings_from
from reput.store_format.storage.local import LocalStorage
from reput.store_format.writer.recovery import LogEnd, LogRecovery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PREFIX = ".reput-recover"


@dataclass
class Recovered:
    """What a recovery did, or would do. Offsets are physical, sizes in bytes, times in seconds."""

    store: str
    rocketmq: str
    log_end: int
    end_reason: str
    done: bool = False
    crashed: bool = False  # abort was there
    cut_bytes: int = 0  # bytes after the end that were not zero
    cut_kept: str = ""  # the folder where they are kept
    written: list[str] = field(default_factory=list)  # derived files that were behind or wrong
    removed: list[str] = field(default_factory=list)  # derived files that the log gives none of
    checkpoint: bool = False  # it is written anew
    seconds: float = 0.0
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what is no fault
    expired: list[str] = field(default_factory=list)  # what RocketMQ's cleaning removes next

    @property
    def needed(self) -> bool:
        """Whether there is anything to do."""
        return bool(
            self.crashed or self.cut_bytes or self.written or self.removed or self.checkpoint
        )

    def text(self) -> str:
        """What a person reads at the end."""
        if not self.needed:
            return f"{self.store} was stopped cleanly and is undamaged: nothing to do"
        lines = [
            f"{'recovered' if self.done else 'would recover'} {self.store} "
            f"as RocketMQ {self.rocketmq}",
            f"  log       ends at {self.log_end:,} ({self.end_reason})",
            f"  cut       {self.cut_bytes:,} bytes that were not zero"
            + (f", kept in {self.cut_kept}" if self.cut_bytes else ""),
            f"  written   {len(self.written):,} derived files",
            f"  removed   {len(self.removed):,} derived files",
            f"  abort     {'removed' if self.crashed else 'was not there'}",
        ]
        lines += [f"  note      {note}" for note in self.notes]
        return "\n".join(lines + [f"  warning   {warning}" for warning in self.warnings])


def recover(
    spark: "SparkSession",
    store: str,
    *,
    rocketmq: str,
    settings: Mapping[str, str] | None = None,
    on_damage: str = REFUSE,
    dry_run: bool = False,
    cut: Cut | None = None,
    progress: Progress | None = None,
    confirm: Callable[[str], None] = lambda _: None,
) -> Recovered:
    """Bring a local store into the state of a clean stop.

    Nothing is changed where it was stopped cleanly and is sound. confirm: asked before the first
    change; raises StoreError to stop. Raises as rebuild does, and StoreInUse.
    """
    started = time.monotonic()
    store = LocalStorage().resolve(store)
    with ExitStack() as stack:
        job = _Recovery(
            spark, store, rocketmq, dict(settings or {}), cut or Cut(), stack, dry_run, confirm
        )
        about = job.examine(on_damage, progress or Progress())
        if about.needed and not dry_run:
            confirm(
                f"change {store} in place: cut {about.cut_bytes} bytes after {about.log_end}, "
                f"write {len(about.written)} and remove {len(about.removed)} derived files"
            )
            job.apply()
            about.done = True
    about.seconds = time.monotonic() - started
    return about


class _Recovery:
    """One recovery: what is examined, then applied."""

    placed: list[Placed]
    removed: list[str]

    def __init__(
        self, spark: "SparkSession", store: str, rocketmq: str, settings: dict[str, str], cut: Cut,
        stack: ExitStack, dry_run: bool, confirm: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.spark, self.store, self.stack, self.dry_run = spark, store, stack, dry_run
        if not os.path.isdir(store):
            raise StoreError(f"{store}: no such folder")
        if settings_from(settings).store_path_commit_log:
            raise StoreError("storePathCommitLog: recover works on a log in STORE/commitlog only")
        if os.path.islink(f"{store}/{CUT}"):
            raise StoreError(f"{store}/{CUT}: is a link; recover keeps there what it cuts")
        refuse_shared_segments(store)
        about = os.lstat(store)
        self._times = about.st_atime_ns, about.st_mtime_ns
        self._changed = False
        stack.callback(self._restore_time)  # the last of all
        self.files = DiskFiles.as_owned_by(about, store)
        self.storage = _Ours(self.files.file_mode, self.files.folder_mode)
        self._locked = False
        self._lock(create=False)
        self.crashed = self.files.exists(ABORT)
        self.given = settings
        if self.crashed:
            self._complete_last(settings, confirm)
        self.cores, self.cut = spark_cores(spark), cut
        self.plan = make_plan(
            self.storage, store, rocketmq, settings, self.cores, cut.split_bytes
        )  # fmt: skip

    def _lock(self, create: bool) -> None:
        """Hold the store's lock; where there is no such file only once something is changed."""
        holder = LocalStorage().lock_holder(self.store)
        if not self._locked and holder is not None:
            raise StoreInUse(f"{self.store}: {holder_text(holder)} holds its lock; stop the broker")
        if not self._locked and not self.dry_run and (create or self.files.exists(LOCK)):
            self.stack.callback(self.files.lock(LOCK))
            self._locked = True

    def _complete_last(self, settings: dict[str, str], confirm: Callable[[str], None]) -> None:
        """A crash while a segment was made: its length is not there yet."""
        names, size = self.files.names(COMMIT_LOG), settings_from(settings)
        for name in names[-1:]:
            path = f"{COMMIT_LOG}/{name}"
            if not self.files.is_folder(path):
                file = self.files.open_read(path)
                length = file.length()
                file.close()
                if 0 < length < size.mapped_file_size_commit_log:
                    if self.dry_run:
                        raise StoreError(
                            f"{self.store}/{path}: has {length} bytes: a crash left it unfinished; "
                            f"recover gives it its length first"
                        )
                    confirm(
                        f"extend {self.store}/{path}, which a crash left unfinished, with zeros"
                    )
                    self._changed = True
                    file = self.files.open(path)
                    file.set_length(size.mapped_file_size_commit_log)
                    file.sync()
                    file.close()

    # --- looking -----------------------------------------------------------------------------

    def examine(self, on_damage: str, progress: Progress) -> Recovered:
        """Find the end, derive all files, and compare."""
        remove_abandoned(self.storage, self.store, _PREFIX)
        staging = self.stack.enter_context(
            temporary_folder(
                self.storage,
                tempfile.gettempdir(),
                _PREFIX[1:],
                inputs_of(self.storage, self.store, self.given),
            )
            if self.dry_run
            else staging_folder(self.storage, self.store, _PREFIX)
        )
        job = Pipeline(self.spark, self.plan, staging, self.cores, self.cut, progress)
        linked = job.scan()
        job, linked = self._without_torn(job, linked)
        try:
            crash = Crash(read_checkpoint(self.storage, self.store)) if self.crashed else None
            reason, warnings = judge_end(job, linked, on_damage, crash)
        except DamageFound as error:
            raise DamageFound(f"{error}; `reput repair` makes a copy that keeps them") from None
        self.linked, self.job = linked, job
        about = Recovered(self.store, self.plan.profile.release, linked.end, reason)
        about.warnings, about.crashed = self.plan.warnings + warnings, self.crashed
        self.end = self._log_end(linked)
        about.cut_bytes = self.log.to_cut(self.end)
        about.cut_kept = f"{self.store}/{CUT}" if about.cut_bytes else ""
        self._compare(about)
        old = read_checkpoint(self.storage, self.store)
        about.checkpoint = old is None or about.needed
        self.checkpoint = self._new_checkpoint(old)
        check_unchanged(self.plan)
        return about

    def _without_torn(self, job: Pipeline, linked: Linked) -> tuple[Pipeline, Linked]:
        """After a crash the log may end earlier: at a record that has lost a sector of its text.

        Its lengths and CRC are right, so that the scan takes it, and RocketMQ too.
        """
        found = read_checkpoint(self.storage, self.store) or Checkpoint()
        self.log = LogRecovery(
            self.files, self.plan.settings.mapped_file_size_commit_log, job.rules,
            found if self.crashed else None,
        )  # fmt: skip
        if not self.crashed:
            return job, linked
        end = self.log.find_end().end
        if end >= linked.end:
            return job, linked
        limited = replace(self.plan, splits=self.plan.splits._replace(limit=end))
        again = Pipeline(self.spark, limited, job.staging, self.cores, self.cut, job.progress)
        shorter = again.scan()
        splits = self.plan.splits
        split = (end - splits.segments[0].start) // splits.segments[0].state.size
        number = split * splits.in_segment
        number += (end - splits.segment(number).start) // splits.split_bytes
        shorter.broke = Break(number, end, Fault.LENGTHS, 0, False)
        # judged and built by a pipeline that sees all of the log
        return job, shorter

    def _log_end(self, linked: Linked) -> LogEnd:
        fault = Fault.ZEROS if linked.broke else Fault.BLANK
        start = self.plan.segments[0].start
        return LogEnd(start, linked.end, start if self.crashed else linked.end, fault=fault)

    def _compare(self, about: Recovered) -> None:
        """Which derived files are to be written or removed."""
        verdict = judge(self.spark, self.job, self.linked, self.storage, self.store)
        self.named = verdict.named
        about.notes, about.expired = self.plan.notes + verdict.notes(), verdict.expired
        wrong = {
            each.path.removeprefix(self.store + "/")
            for each in (*verdict.differences, *verdict.behind)
        }
        there = set(files_there(self.storage, self.store))
        placed, removed = self._queues(verdict, wrong, there)
        if any(path.startswith(f"{INDEX}/") for path in wrong):
            more_placed, more_removed = self._index(verdict, wrong, there)
            placed, removed = placed + more_placed, removed + more_removed
        self.placed, self.removed = placed, removed
        about.written, about.removed = [p.path for p in placed], removed

    def _queues(
        self, verdict: Verdict, wrong: set[str], there: set[str]
    ) -> tuple[list[Placed], list[str]]:
        queues = {row["path"]: row for row in verdict.named if row["folder"] != INDEX}
        renewed = self._renewed(queues, wrong)
        for path in sorted(wrong - queues.keys()):
            self._refuse_expired(path)
        placed = [
            self._placed(row, path)
            for path, row in queues.items()
            if path in wrong or row["folder"] in renewed
        ]
        removed = [
            path
            for path in sorted(there)
            if path not in queues
            and not path.startswith(f"{INDEX}/")
            and (path in wrong or path.rpartition("/")[0] in renewed)
        ]
        return placed, removed

    def _refuse_expired(self, path: str) -> None:
        """What is wrong with entries of expired messages no log can mend; their queue's next
        positions may stand in them alone.
        """
        if not path.startswith(f"{CONSUME_QUEUE}/"):
            return
        last = last_offset(self.files, path)
        if last is not None and last < self.plan.segments[0].start:
            raise StoreError(
                f"{self.store}/{path}: has another length than its setting says, and holds expired "
                f"messages, which recover cannot derive: give it its length, or move it away"
            )

    def _renewed(self, queues: dict[str, Built], wrong: set[str]) -> set[str]:
        """Batch queues to be written as a whole: after expiry ours stand at other places."""
        if not self.plan.segments[0].start:
            return set()
        folders = {row["folder"] for row in queues.values()}
        bad = {path.rpartition("/")[0] for path in wrong}
        return {f for f in folders & bad if f.startswith(f"{BATCH_CONSUME_QUEUE}/")}

    def _index(
        self, verdict: Verdict, wrong: set[str], there: set[str]
    ) -> tuple[list[Placed], list[str]]:
        """Index files from the first wrong one on: each file's numbers go on from the one before.

        Those that hold expired messages only stay.
        """
        rows = [row for row in verdict.named if row["folder"] == INDEX]
        index = sorted(path for path in there if path.startswith(f"{INDEX}/"))
        expired, old = index[: verdict.expired_index], index[verdict.expired_index :]
        sound = 0
        while sound < min(len(old), len(rows)) and old[sound] not in wrong:
            sound += 1
        names = names_after(
            [path.rpartition("/")[2] for path in (*expired, *old[:sound])],
            [row["path"].rpartition("/")[2] for row in rows[sound:]],
        )
        paths = [f"{INDEX}/{name}" for name in names]
        placed = [self._placed(r, p) for r, p in zip(rows[sound:], paths, strict=True)]
        return placed, [path for path in old[sound:] if path not in paths]

    def _placed(self, row: Built, path: str) -> Placed:
        folder = self.job.staging.folder.removeprefix(self.store + "/")
        return Placed(f"{folder}/{row['name']}", path)

    # --- the checkpoint ----------------------------------------------------------------------

    def _new_checkpoint(self, old: Checkpoint | None) -> bytes:
        new = decode(new_checkpoint(self.plan, self.linked, self.named))
        flushed = min(old.master_flushed_offset, self.linked.end) if old else 0
        return encode(new._replace(master_flushed_offset=flushed))

    # --- changing ----------------------------------------------------------------------------

    def apply(self) -> None:
        """Change the store; nothing has been before."""
        self._changed = True
        if not self._locked:
            self._lock(create=True)
            check_unchanged(self.plan)
        if self.files.owner is not None:
            for file in self.placed:
                os.chown(f"{self.store}/{file.staged}", *self.files.owner)
        process = str(os.getpid()).encode() if self.plan.profile.abort_process_id else b""
        apply(
            self.files, self.log, self.end, self.placed, self.removed, self.checkpoint, process
        )  # fmt: skip

    def _restore_time(self) -> None:
        """Staging came and went in the store's folder; where nothing else did, undo its trace."""
        if not self._changed and not self.dry_run:
            os.utime(self.store, ns=self._times)


class _Ours(LocalStorage):
    """The store's lock is held by this process: nobody else writes."""

    def lock_holder(self, store: str) -> int | None:
        return None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `reput recover` understands."""
    add_store(parser, on_damage=("refuse", "truncate"))
    add_consent(parser)


def run(arguments: argparse.Namespace) -> int:
    """Recover, and say what was done: 0 done, or nothing to do; 1 with --dry-run where there is."""
    from reput.jobs.spark.session import command_session

    told = told_to_jobs(arguments)
    with command_session(arguments.master) as spark:
        about = recover(
            spark, arguments.store, on_damage=arguments.on_damage or REFUSE,
            dry_run=arguments.dry_run, confirm=consent(arguments.yes), **told,
        )  # fmt: skip
    whole = {"needed": about.needed, **asdict(about)}
    sys.stdout.write((json.dumps(whole) if arguments.json else about.text()) + "\n")
    return DAMAGE if about.needed and not about.done else DONE
