"""Collects what a report shows of a store, each part by the function of another command.

If one part fails (a queue file is damaged, the release is not known), the report shows the reason
and all other parts: a store in any state has a report, as long as it has a log.
"""

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from reput.jobs.engines.engine import Engine
from reput.jobs.in_place.expire import Even, Expired, When, disk_used, expire_store, plan_expiry
from reput.jobs.judging.check import check_store_of, greatest_fall
from reput.jobs.judging.report import CheckReport
from reput.jobs.opening.held import held_local_store
from reput.jobs.opening.plan import Plan, make_plan
from reput.jobs.opening.questions import notes_with
from reput.jobs.outputs.output import inputs_of
from reput.jobs.page.model import Section
from reput.jobs.pipeline.job import FoundStore
from reput.jobs.pipeline.pipeline import Cut, Pipeline
from reput.jobs.salvaging.damage_map import DamageMap
from reput.jobs.salvaging.lives import log_end
from reput.store_format.derived.index_reader import BadIndex, IndexFileStats, index_stats
from reput.store_format.discover.config import batch_topics
from reput.store_format.discover.purpose import REPORT
from reput.store_format.discover.store import Discovered, discover, store_at
from reput.store_format.fate.delays import any_fate
from reput.store_format.fate.gather import Gathered
from reput.store_format.fate.rows import FateSums, fate_sums, gather_shown
from reput.store_format.faults import StoreChanged, StoreError
from reput.store_format.files.folder import Place
from reput.store_format.files.local import LocalStorage
from reput.store_format.log.there import strangers
from reput.store_format.names import ABORT
from reput.store_format.notes import Done, Notes, Progress
from reput.store_format.query.counts import PutSums, PutTimes
from reput.store_format.query.inventory import (
    GroupRow,
    QueueRow,
    TopicRow,
    groups_of,
    queues,
    topics_of,
)
from reput.store_format.query.reader import NEWEST, OpenedStore
from reput.store_format.release.profiles import UnknownRelease, span
from reput.store_format.release.settings import SettingError
from reput.udfs.rebuild.scan import all_sums
from reput.udfs.table.log_parts import live_behind

FATES_MOST = 2000  # messages listed that have not arrived
_NOTES_MOST = 50
_WALKS = 5
_NO_SPARK = "--no-check left the check of the log out"
_IN_USE = (
    "A broker was writing to the store. The log, and what queues have of it, is shown as it was "
    "when it ended at {end:,}; consumers' offsets and the disk were read a moment later."
)


class DiskPart(NamedTuple):
    """Files and bytes of one folder of a store, or of the files beside its folders."""

    name: str
    files: int
    bytes: int


@dataclass
class Facts:
    """The facts of a report. A part that is None is unknown, with the reason in `unknown`."""

    store: str
    now: int  # time of the report, milliseconds
    log_start: int  # physical offsets
    log_end: int
    segments: int
    release: str = ""  # whose rules hold; a range, if several write the same
    given: tuple[tuple[str, str], ...] = ()  # options that say how the store is read
    settings: tuple[str, ...] = ()  # such options of --set
    crashed: bool = False  # no broker has it open, and the last was not stopped cleanly
    put: PutTimes | None = None
    queues: list[QueueRow] | None = None
    topics: list[TopicRow] = field(default_factory=list)
    groups: list[GroupRow] = field(default_factory=list)
    index: list[IndexFileStats] | None = None
    fates: FateSums | None = None
    check: CheckReport | None = None
    expired: Expired | None = None
    disk: list[DiskPart] | None = None
    unknown: dict[str, str] = field(default_factory=dict)  # part -> reason
    notes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """The block collects a part; its error becomes the reason why the part is unknown."""
        try:
            yield
        except (StoreError, StoreChanged, SettingError, UnknownRelease, OSError) as error:
            self.unknown[name] = str(error)

    def not_known(self, name: str) -> str:
        return f"not known: {self.unknown[name]}"

    def note(self, name: str, lines: list[str]) -> None:
        """Add notes of a part, at most _NOTES_MOST of them."""
        more = len(lines) - _NOTES_MOST
        shown = lines[:_NOTES_MOST] + ([f"... and {more:,} more"] if more > 0 else [])
        self.notes[name] += [each for each in shown if each not in self.notes[name]]


def section_of(
    name: str, title: str, part: str = "", noted: bool = True
) -> Callable[[Callable[..., None]], Callable[[Facts], Section]]:
    """What makes a section of the page of a function that fills it in. part: which the function
    gets; unless that is known, the section says why it is not. noted: whether it has its notes.
    """

    def made(fill: Callable[..., None]) -> Callable[[Facts], Section]:
        def section(facts: Facts) -> Section:
            new = Section(name, title, notes=list(facts.notes[part]) if noted else [])
            if part and getattr(facts, part) is None:
                new.notes.append(facts.not_known(part))
            else:
                fill(new, facts, *([getattr(facts, part)] if part else []))
            return new

        return section

    return made


def look_at(
    store: str,
    *,
    engine: Engine | None,
    rocketmq: str | None,
    settings: Mapping[str, str],
    staging_folder: str | None,
    now: int,
    progress: Progress,
) -> Facts:
    """Collect all that a report shows of a store, which is given by path or URL.

    engine: checks the log; None: no check. staging_folder: as for a check. now: milliseconds.
    Raises StoreError if there is no log, SettingError, UnknownRelease, OSError.
    """
    found = _find(store, rocketmq, settings, 1 if engine is None else engine.cores)
    store_at, plan = found.store, found.plan
    notes = Notes()
    opened = OpenedStore(store_at, rocketmq or NEWEST, settings, notes, end=found.end)
    with opened:
        log = opened.log
        if plan is not None:
            opened.behind = live_behind(
                plan.storage, plan.segments, plan.profile, plan.settings, plan.batch_topics,
                plan.splits.limit,
            )  # fmt: skip
        facts = Facts(store_at.path, now, log.start, log.end, len(log.segments))
        if (seen := found.discovered) is not None:  # a range, if several releases write the same
            facts.release = span(list(seen.left)) if len(seen.left) > 1 else seen.release
        facts.given = (("--rocketmq", rocketmq),) if rocketmq else ()
        facts.settings = tuple(f"{name}={value}" for name, value in settings.items())
        facts.crashed = found.end is None and ABORT in dict(store_at.storage.list(store_at.path))
        walked = None
        with facts.part("check"):
            if engine is None:
                raise StoreError(_NO_SPARK)
            if plan is None:
                raise found.why
            inputs = tuple(inputs_of(store_at, settings))
            whole = FoundStore(engine, plan, inputs, Cut(), progress, time.monotonic())
            facts.check, walked = _checked(whole, opened, staging_folder)
        _ask(facts, opened, walked, progress)
    facts.note("store", notes.lines)
    if found.end is not None:
        facts.note("store", [_IN_USE.format(end=found.end)])
    with facts.part("disk"):
        for left in reversed(range(_WALKS)):
            try:
                facts.disk = _disk(store_at)
                break
            except FileNotFoundError:  # a broker has removed what was just listed
                if not left:
                    raise
    with facts.part("expired"):
        facts.expired = _expired(found, rocketmq, settings, now, progress)
    if "check" in facts.unknown:
        facts.unknown["check"] = facts.unknown.pop("check")  # as the last
    return facts


class _Found(NamedTuple):
    """A store as all parts of a report see it.

    plan: None if none can be made; `why` is the error. end: if a broker is writing to the store,
    the log's end at the first look; all parts show the log up to there.
    """

    store: Place
    discovered: Discovered | None
    plan: Plan | None
    why: Exception

    @property
    def end(self) -> int | None:
        return None if self.plan is None else self.plan.splits.limit


def _find(store: str, rocketmq: str | None, settings: Mapping[str, str], cores: int) -> _Found:
    at, discovered = store_at(store, rocketmq, settings), None
    try:
        discovered = discover(at, REPORT)
        plan = make_plan(at, discovered, REPORT, cores)
    except (StoreError, SettingError, UnknownRelease) as error:
        return _Found(at.folder, discovered, None, error)
    return _Found(at.folder, discovered, plan, StoreError(""))


def _ask(facts: Facts, opened: OpenedStore, walked: "Walked | None", progress: Progress) -> None:
    """Collect the parts that need no engine; the log is walked once, if the check has not."""
    with facts.part("put"):
        _put_and_fates(facts, opened, walked, notes_with(progress, None))
    if facts.fates is None and "put" in facts.unknown:  # neither was asked
        facts.unknown.setdefault("fates", facts.unknown["put"])
    with facts.part("queues"):
        notes = notes_with(progress, None)
        rows = queues(opened, False, notes)
        facts.topics = topics_of(opened, rows, True, notes)
        facts.groups = groups_of(opened, rows, notes)
        facts.queues = rows
        facts.note("queues", notes.lines)
    with facts.part("index"):
        facts.index = _index(facts, opened, progress)


Walked = tuple[PutSums, Gathered]


def _checked(
    whole: FoundStore, opened: OpenedStore, staging_folder: str | None
) -> tuple[CheckReport, Walked | None]:
    """The check, and what its scan has counted; None where that is not what a walk of the opened
    log counts: where the log is damaged, or its times fall, which may be of an older life.
    """
    found, log, split = list[Walked](), opened.log, opened.profile.split_properties

    def seen(job: Pipeline, damage: DamageMap) -> None:
        linked, plan, rules = damage.linked, job.plan, job.rules
        if (
            not (damage.count or damage.mapped or greatest_fall(linked)[0])
            and (log.segments, log.end) == (plan.segments, log_end(plan))
            and (log.rules, split) == (rules.records, rules.dispatch.split_properties)
            and tuple(sorted(plan.batch_topics)) == rules.batch_topics
        ):
            put, marks = all_sums(job.staging, linked.runs.values(), rules)
            found.append((put, marks._replace(unread_to=log.hole_end())))

    return check_store_of(whole, staging_folder, None, None, seen), next(iter(found), None)


def _put_and_fates(facts: Facts, opened: OpenedStore, walked: Walked | None, notes: Notes) -> None:
    of_put = Notes()
    batch = batch_topics(opened.folder, of_put)
    if walked is None:
        put = PutSums(opened.profile.split_properties, batch)
        walked = put, gather_shown(opened, any_fate, notes, also=put.count)
    put, marks = walked
    with facts.part("fates"):
        facts.fates = fate_sums(opened, FATES_MOST, notes, marks)
        facts.note("fates", notes.lines)
    for error in marks.breaks:
        opened.note_break(of_put, error)
    facts.put = put.times()
    facts.note("put", of_put.lines)


def _index(facts: Facts, opened: OpenedStore, progress: Progress) -> list[IndexFileStats]:
    """The statistics of each index file, oldest first; a note for what cannot be read."""
    others = strangers(opened.folder, ())
    facts.note("index", [f"{each.path}: {each.text(opened.profile)}" for each in others])
    reader, found = opened.index(), []
    many = len(reader.files)
    read = 0

    def done() -> Done:
        return Done(read / many, f"{read:,} of {many:,} files read")

    with progress.stage("index", done):
        for number in reversed(range(many)):
            try:
                with reader.open(number) as file:
                    found.append(index_stats(file))
            except (BadIndex, StoreChanged) as error:
                facts.note("index", [str(error)])
            read += 1
    return found


def _disk(store: Place) -> list[DiskPart]:
    parts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for each in store.storage.walk(store.path):
        if each.state is not None:
            name, below, _ = each.name.partition("/")
            counted = parts[f"{name}/" if below else "other files"]
            counted[0] += 1
            counted[1] += each.state.size
    rows = [DiskPart(name, files, size) for name, (files, size) in parts.items()]
    return sorted(rows, key=lambda row: (-row.bytes, row.name))


def _expired(
    found: _Found, rocketmq: str | None, settings: Mapping[str, str], now: int, progress: Progress
) -> Expired:
    """The result of `reput expire --any-hour --dry-run`."""
    if not isinstance(found.store.storage, LocalStorage) or not os.path.isdir(found.store.path):
        raise StoreError("that is known of local stores only")
    nothing: Callable[[str], None] = lambda _: None  # noqa: E731 (it is never asked)
    with held_local_store(found.store.path, True) as held:
        return expire_store(
            held, plan_expiry(held, held.at(rocketmq, settings), found.discovered), Even(), None,
            When(True, now, disk_used), progress, nothing,
        )  # fmt: skip
