"""A broker's service run as a job: planned read-only, confirmed, then done by a writer."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Generic, NamedTuple, TypeVar

from reput.broker.writer.recovery import LogEnd, LogRecovery
from reput.broker.writer.writer import CommitLogWriter
from reput.jobs.console.declared import OfService
from reput.jobs.deriving.timers import mend_written
from reput.jobs.engines.signals import Stopped, StopSignals
from reput.jobs.opening.held import refuse_group_log, refuse_shared_files, refuse_what_is_no_store
from reput.jobs.opening.open_writer import local_store_at, open_writer
from reput.jobs.opening.questions import notes_with
from reput.store_format.discover.purpose import APPEND
from reput.store_format.discover.store import discover
from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.fate.gather import Gathered
from reput.store_format.faults import StoreError
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.protocol import StoreInUse
from reput.store_format.files.system import holder_text
from reput.store_format.log.reader import segment_files
from reput.store_format.names import COMMIT_LOG, CONFIG
from reput.store_format.notes import Done, Notes, Progress
from reput.store_format.query.reader import OpenedStore

Planned = TypeVar("Planned")


class Look(NamedTuple):
    """An opened store from which a service makes its plan."""

    store: OpenedStore
    notes: Notes
    # Whether the store was stopped cleanly, if a writer of this job has it open and so `abort`
    # does not show it; else None.
    stopped: bool | None


class Service(NamedTuple, Generic[Planned]):
    """plan: only reads; question: asked before the change, "" for no change; act: changes."""

    plan: Callable[[Look], Planned]
    question: Callable[[Planned], str]
    act: Callable[[CommitLogWriter, OpenedStore, Planned], None]


def run_service(service: Service[Planned], asked: OfService) -> Planned:
    """The plan of what a service does, and has done by then, but in a dry run.

    The plan is made without the store's lock, so that nothing changes before the user's answer.
    If the store changed before the lock was held, as by the recovery after a crash, the plan is
    made again.
    Raises StoreError (StoreInUse), SettingError, UnknownRelease, OSError.
    """
    at, tell = local_store_at(asked.store, asked.rocketmq, asked.settings), asked.tell
    store, settings = at.path, at.settings
    _refuse(store)
    of_store = discover(at, APPEND)
    release = of_store.release
    if len(of_store.left) > 1:
        tell(f"as RocketMQ {release} would: {of_store.releases} write the same")

    def look(stopped: bool | None) -> tuple[OpenedStore, Planned]:
        notes = notes_with(asked.shows, tell)
        opened = OpenedStore(at.folder, release, settings, notes)
        try:
            return opened, service.plan(Look(opened, notes, stopped))
        except BaseException:
            opened.close()
            raise

    before = _states(store)
    opened, planned = look(None)
    try:
        question = service.question(planned)
        if not question or asked.dry_run:
            return planned
        asked.confirm(f"{question} in {store}")
        warnings: list[str] = []
        writer = open_writer(store, rocketmq=release, settings=settings, warnings=warnings)
        for warning in warnings:
            tell(warning)
        with writer:
            if writer.recovered is not None:  # `abort` will go, and then nobody else does it
                for line in mend_written(writer, store, settings):
                    tell(line)
            if _states(store) != before:
                opened.close()
                opened, planned = look(writer.recovered is None)
            service.act(writer, opened, planned)
        return planned
    finally:
        opened.close()


class OneByOne:
    """Work on many items, one after the other; a signal ends the work between two items."""

    def __init__(self, signals: StopSignals, many: int, what: str) -> None:
        """many: number of items; what: their noun in the plural."""
        self.stopped = 0  # exit code of the signal that ended the work early
        self._signals, self._many, self._what = signals, many, what
        self._count = 0

    def go_on(self) -> bool:
        """To be called after each item; whether to begin the next item."""
        self._count += 1
        try:
            self._signals.check()
        except Stopped as error:
            self.stopped = error.exit_code if self._count < self._many else 0
        return not self.stopped

    def done(self) -> Done:
        """The share of items done."""
        share = self._count / self._many if self._many else None
        return Done(share, f"{self._count:,} of {self._many:,} {self._what}")


@contextmanager
def one_by_one(progress: Progress, stage: str, many: int, what: str) -> Iterator[OneByOne]:
    """Show the progress of a stage; a signal ends it after the current item."""
    with StopSignals() as signals:
        work = OneByOne(signals, many, what)
        with progress.stage(stage, work.done):
            yield work


def refuse_damage(gathered: Gathered, opened: OpenedStore) -> None:
    """Raise StoreError if a part of the log was not read, as it may show work done already.

    A fault that no live record follows is the log's end, left by a crash or by a broker that cut
    its log. The writer appends there.
    """
    log, rules = opened.log, opened.profile
    for error in gathered.breaks:
        if log.is_zero_from(log.segment_at(error.place).end):
            size = opened.settings.mapped_file_size_commit_log
            files = segment_files(opened.storage, log.segments, size)
            scanned = scan_rules(rules, opened.settings, ())
            recovery = LogRecovery(files, size, scanned, None)
            last = gathered.last_timestamp
            recovery.refuse_damage(LogEnd(log.start, error.place, log.start, last, error.fault))
            continue
        raise StoreError(
            f"{error}; what follows it may tell what was done already: mend {opened.path} first "
            "(reput check, reput repair)"
        )


def _refuse(store: str) -> None:
    refuse_group_log(store)
    if not os.path.isdir(f"{store}/{COMMIT_LOG}"):
        raise StoreError(f"{store}: no such store: there is no folder {COMMIT_LOG} in it")
    refuse_what_is_no_store(store)
    refuse_shared_files(store)
    holder = LocalStorage().lock_holder(store)
    if holder is not None:
        raise StoreInUse(f"{store}: {holder_text(holder)} holds its lock; stop the broker")


def _states(store: str) -> dict[str, tuple[int, int, int]]:
    """Path -> (size, mtime in ns, inode) of all files from which a plan is made."""
    return {
        path: (about.st_size, about.st_mtime_ns, about.st_ino)
        for folder in (COMMIT_LOG, CONFIG)
        for path in _files(f"{store}/{folder}")
        if (about := os.lstat(path))
    }


def _files(folder: str) -> Iterable[str]:
    try:
        return [f"{folder}/{name}" for name in os.listdir(folder)]
    except (FileNotFoundError, NotADirectoryError):
        return []
