"""A check: reads a log with every CRC, judges its end, compares the derived files with it."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from reput.jobs.console.voice import EPOCH, shown_zone
from reput.jobs.judging.report import LEFT, TAIL_LOST, CheckReport, Difference, report_of
from reput.jobs.judging.verdict import judge
from reput.jobs.opening.open_writer import left_open, read_checkpoint
from reput.jobs.opening.plan import Plan, check_unchanged, make_plan
from reput.jobs.outputs.publish import Temporary
from reput.jobs.outputs.report import SLASH
from reput.jobs.pipeline.job import FoundStore
from reput.jobs.pipeline.link import Linked
from reput.jobs.salvaging import damage_map
from reput.jobs.salvaging.damage_search import map_damage, odd_times
from reput.store_format import layouts
from reput.store_format.damage.contradictions import SURE_MS
from reput.store_format.damage.ranges import Damage, DamageKind
from reput.store_format.derived.checkpoint import Checkpoint
from reput.store_format.derived.index_header import read_header
from reput.store_format.discover.purpose import CHECK_AGAIN
from reput.store_format.discover.release import clues_of
from reput.store_format.discover.store import StoreAt, discover
from reput.store_format.faults import Fault, StoreError
from reput.store_format.files.backups import BackedUp
from reput.store_format.files.folder import slash_queue
from reput.store_format.files.protocol import Storage
from reput.store_format.log.segments import Finding
from reput.store_format.log.there import derived_files, of_strangers
from reput.store_format.names import CHECKPOINT, CONSUME_QUEUE, DELAY_OFFSETS, INDEX, POP_DB
from reput.store_format.notes import Notes
from reput.store_format.query.reader import OpenedStore
from reput.store_format.release.profiles import RELEASES, Has, groups, left_by, same_files
from reput.store_format.release.setting_table import SettingError
from reput.store_format.rocksdb.queues import queues_folder
from reput.store_format.state.judge import past_the_queues, state_faults, unknown_files
from reput.store_format.state_table import LAST
from reput.udfs.damage.searches import NEWEST, TORN, FindNewest, FindTorn

if TYPE_CHECKING:
    from reput.jobs.pipeline.pipeline import Pipeline

# ---
# The log's end: whether its last records are whole, and whether other files point past it.


def add_torn(job: "Pipeline", found: damage_map.DamageMap, known: Checkpoint | None) -> None:
    """Add the records of the last segment whose topic or properties a crash has torn.

    Lengths and body CRC of such a record are right, so RocketMQ and a rebuild accept it. `recover`
    and the writer end the log before the first torn record.
    """
    segment, end = job.plan.segments[found.in_use - 1], found.linked.end
    row = found.mapped.get(found.in_use - 1)
    start = segment.start if row is None else max(segment.start, row["lost_end"])
    if not start < end <= segment.end:
        return
    crashed = left_open(job.plan).crashed
    task = FindTorn(
        job.plan.storage, segment, start, end, job.rules.records, known or Checkpoint(),
        job.plan.store if crashed else None,
    )  # fmt: skip
    for torn in job.ids(1).run(task, TORN).collect():
        at = torn["offset"]
        if all(d.offset != at for d in found.ranges):
            follows = "record" if at + torn["size"] < end else "the log's end"
            size = torn["size"]
            kind, fault = DamageKind.CONTENT, Fault.TORN
            damage_map.add_range(found, Damage(at, at + size, kind, fault, size, None, follows))


def past_the_end(
    job: "Pipeline", found: damage_map.DamageMap, known: Checkpoint | None,
    index: damage_map.PointingIndex | None, older: str,
) -> list[Finding]:  # fmt: skip
    """Findings of what points past the log's end: queues, index, checkpoint, consumer offsets.

    If the last segment of a log is gone, nothing in the log itself shows the loss. index, older:
    what `index_past_end` and `index_of_older_log` say.
    """
    store, storage = job.plan.store, job.plan.storage
    is_later = isinstance(storage, BackedUp) and storage.has_later_state(store)
    left: Iterable[Finding] = () if is_later else (
        each._replace(reason=f"{each.reason}: {older or TAIL_LOST}"
                      f"{'' if each.path.endswith((DELAY_OFFSETS, POP_DB)) else LEFT}")
        for each in past_the_queues(
            job.plan.folder, job.queue_ends(found.linked), job.plan.segments[0].start
        )
    )  # fmt: skip
    pointing = [
        Finding(path, f"{said}: {older or TAIL_LOST}")
        for path, said in (
            *_derived(store, found, index),
            *((f"{store}/{CHECKPOINT}", said) for said in knows_more(job, found.linked, known)),
        )
    ]
    return [*pointing, *left]


def fall_of_time(linked: Linked) -> str:
    """A line about the greatest fall of storeTimestamp in a log; '' if that is a mere correction.

    A broker that was restarted on a log cut at a fork, or a slave's own old records that fit after
    those of a new master (#10666), show in nothing else: RocketMQ compares no times.
    """
    by, at = greatest_fall(linked)
    return "" if by <= SURE_MS else (
        f"storeTimestamp falls by {by / 1000:,.1f} s at physical {at:,}: a clock was set back "
        "there, or the records from there on are of an older log"
    )  # fmt: skip


def greatest_fall(linked: Linked) -> tuple[int, int]:
    """(milliseconds by which storeTimestamp falls at most, where); (0, -1) where it never does."""
    falls = [(0, -1)]
    last: int | None = None
    for row in (row for row in linked.accepted if row["records"]):
        falls.append((row["fell_by"], row["fell_at"]))
        falls.append((0 if last is None else last - row["first_timestamp"], row["first"]))
        last = row["last_timestamp"]
    return max(falls)


def _derived(
    store: str, found: damage_map.DamageMap, index: damage_map.PointingIndex | None
) -> Iterator[tuple[str, str]]:
    """(path, text) of the queues, and of the last index file that points past the end."""
    end = found.linked.end
    if found.past_end.queue_count:
        text = f"name {found.past_end.text()} past the log's end; the log ends at {end:,}"
        yield f"{store}/{CONSUME_QUEUE}", text
    if index is not None:
        yield index[0], f"points to {index[1].end_offset:,}, the log ends at {end:,}"


def knows_more(job: "Pipeline", linked: Linked, known: Checkpoint | None) -> Iterator[str]:
    """What a checkpoint claims that the log does not have: a later time, or a place past its end.

    `check` reports it, and `recover` writes the checkpoint anew.
    """
    if known is None:
        return
    last = max((row["last_timestamp"] for row in linked.accepted if row["records"]), default=0)
    stored = max(known.physic_msg_timestamp, known.logics_msg_timestamp)
    if stored > last and stored > (last := max(last, _newest(job, linked, stored))):
        of = _time(last) if last else "none"
        yield f"knows of a message of {_time(stored)}, the log's last one is of {of}"
    place = max(known.confirm_phy_offset, known.logics_physical_offset)
    if place > linked.end:
        yield f"knows of a message at {place:,}, the log ends at {linked.end:,}"


def _newest(job: "Pipeline", linked: Linked, wanted: int) -> int:
    """The greatest storeTimestamp in the last segment in use, and where that is less than `wanted`
    also in those within which a clock was set back.

    It is searched only if the last record of every split is older than the checkpoint: then a
    clock was set back, or records are gone.
    """
    segments, newest = job.plan.segments, 0
    last = next((n for n in reversed(range(len(segments))) if segments[n].start < linked.end), 0)
    for number in sorted({last, *_set_back(job, linked)}, reverse=True):
        segment, end = segments[number], min(linked.end, segments[number].end)
        rules, none = job.rules.records, Checkpoint()
        look = FindTorn(job.plan.storage, segment, segment.start, end, rules, none)
        rows = job.ids(1).run(FindNewest(look), NEWEST).collect()
        newest = max([newest, *(row["timestamp"] for row in rows)])
        if newest >= wanted:
            break
    return newest


def _set_back(job: "Pipeline", linked: Linked) -> Iterator[int]:
    """The first segment, and those with a split that ends earlier in time than the one before."""
    yield 0
    rows = [row for row in linked.accepted if row["records"]]
    for before, row in pairwise(rows):
        if row["last_timestamp"] < before["last_timestamp"]:
            yield row["split"] // job.plan.splits.in_segment


def _time(milliseconds: int) -> str:
    try:
        return str((EPOCH + timedelta(milliseconds=milliseconds)).astimezone(shown_zone()))
    except OverflowError:
        return f"{milliseconds} ms"


def _of_state(job: "Pipeline", linked: Linked, crashed: bool) -> list[Finding]:
    """Findings of timers and compacted topics; none where the store cannot be opened for them."""
    plan = job.plan
    try:
        with OpenedStore(
            plan.folder, plan.profile.release, plan.discovered.settings, Notes()
        ) as opened:
            times = (row["last_timestamp"] for row in linked.accepted if row["records"])
            return list(state_faults(opened, linked.end, max(times, default=0), crashed))
    except (StoreError, SettingError):
        return []  # the damage that is in the way is a finding already


# ---
# A check: read the whole log with every CRC, and compare the derived files with it.


Seen = Callable[["Pipeline", damage_map.DamageMap], None]


def check_store_of(
    found: FoundStore, staging_folder: str | None, storage: Storage | None, ranges: BinaryIO | None,
    seen: Seen | None = None,
) -> CheckReport:  # fmt: skip
    """Check a store that was found with `tolerant`; faults of its files become findings.

    staging_folder, storage: where files are derived for the comparison.
    ranges: gets every range and gap as JSON lines. seen: is called once the log is read, which
    then has `all_sums`. Raises StoreError, StoreChanged, OSError.
    """
    report = _check(found, staging_folder, storage, ranges, seen)
    if report.only_derived_differ:
        for other in _of_other_releases(found):
            another = _check(other, staging_folder, storage, None)
            if another.undamaged:
                if found.plan.discovered.others:  # the user has not named the release
                    report = another
                else:
                    report.looks_like = other.plan.profile.release
                break
    report.seconds = found.seconds()
    return report


def _check(
    found: FoundStore, staging_folder: str | None, storage: Storage | None, ranges: BinaryIO | None,
    seen: Seen | None = None,
) -> CheckReport:  # fmt: skip
    """Read the log and compare, by the rules of the plan's release."""
    plan = found.plan
    with found.temporarily(Temporary.CHECK, staging_folder, storage) as job:
        job.check_every_crc()
        job.sums = seen is not None
        damage = map_damage(job, gap_lines=ranges is not None)
        if seen is not None:
            seen(job, damage)
        known = read_checkpoint(plan.folder)
        if not plan.in_use:
            add_torn(job, damage, known)
        if ranges:
            damage_map.write_ranges(job.staging, damage, ranges)
        report = report_of(plan, damage)
        report.crashed, report.lock_unknown = left_open(plan)
        report.fall_of_time = fall_of_time(damage.linked)
        if report.crashed and not any(known or ()):
            lost = "is missing, or says nothing: a broker that recovers reads the whole log"
            report.notes.append(f"{plan.store}/{CHECKPOINT}: {lost}")
        # the checkpoint has a time of queue entries: the store had queues, even if none is left
        had_queues = known is not None and known.logics_msg_timestamp > 0 and not plan.in_use
        in_rocksdb = queues_folder(plan.folder)
        if had_queues or in_rocksdb or derived_files(plan.folder).files:
            verdict = judge(job, damage.linked, plan.folder)
            report.derived_files, report.in_rocksdb = verdict.files, verdict.in_rocksdb
            report.two_kinds = verdict.two_kinds
            report.differences = verdict.differences
            report.behind, report.expired = verdict.behind, verdict.expired
            report.notes += verdict.notes()
            said, in_the_way = of_strangers(verdict.strangers, plan.profile)
            report.warnings += [*said, *verdict.of_queues.left_out]
            report.findings = report.findings + in_the_way
        if any(each.path.startswith(f"{plan.store}/{INDEX}/") for each in report.differences):
            _blame_records(report, plan, odd_times(job, damage.linked))
        slash = slash_queue(plan.folder)
        if slash is not None:
            report.findings.append(Finding(f"{plan.store}/{slash}", SLASH))
        if not plan.in_use:
            index = damage_map.index_past_end(plan.folder, damage.linked.end)
            older = damage_map.index_of_older_log(plan, index[1]) if index else ""
            report.findings += _of_state(job, damage.linked, report.crashed)
            report.findings += past_the_end(job, damage, known, index, older)
            report.index_of_older_log = bool(older)
        report.notes += [
            f"{plan.store}/{name}: is not a file of a broker up to {LAST}; it is left as it is"
            for name in unknown_files(plan.folder)
        ]
        check_unchanged(plan)
        return report


def _blame_records(report: CheckReport, plan: Plan, places: list[int]) -> None:
    """Report records with a wrong storeTimestamp in place of the index files that have the right
    one. places: of these records. A rebuild would take their times over.
    """
    report.differences = [
        each for each in report.differences if _entry_of(each, plan) not in places
    ]
    for place in places:
        segment = next(each for each in plan.segments if each.start <= place < each.end)
        report.findings.append(
            Finding(
                segment.path, f"offset {place - segment.start} (physical {place}): the record's "
                f"storeTimestamp is not between its neighbours', and that of its index entry is",
                todo="leave the index as it is: a rebuild would take the wrong time over",
            )
        )  # fmt: skip


def _entry_of(difference: Difference, plan: Plan) -> int:
    """The physicalOffset in the entry, or half header, in which an index file differs; else -1."""
    if difference.there is None or not difference.path.startswith(f"{plan.store}/{INDEX}/"):
        return -1  # no file of the index, or one that is missing
    with closing(plan.storage.open(difference.path)) as file:
        head, first = (
            read_header(file),
            layouts.INDEX_HEADER_BYTES
            + layouts.INDEX_SLOT_BYTES * (plan.settings.max_hash_slot_num),
        )
        if difference.offset < layouts.INDEX_HEADER_BYTES:
            return head.end_offset if difference.offset == _END_AT else head.begin_offset
        number = (difference.offset - first) // layouts.INDEX_ENTRY_BYTES
        raw = np.zeros(layouts.INDEX_ENTRY_BYTES, np.uint8)
        if number > 0 and first + (number + 1) * layouts.INDEX_ENTRY_BYTES <= file.state.size:
            file.read_into(first + number * layouts.INDEX_ENTRY_BYTES, raw)
        return int(raw.view(layouts.INDEX_ENTRY)[0]["physicalOffset"])


_END_AT = 8  # endTimestamp in an index header
_TRIED_MOST = 3


def _of_other_releases(found: FoundStore) -> Iterator[FoundStore]:
    """A found store as other releases that its files do not rule out find it, newest first.

    Of releases that derive the same files only one is tried. Releases that derive the same files
    as the given release are left out.
    """
    plan = found.plan
    clues = clues_of(plan.folder, plan.segments, plan.settings, plan.folder)
    has = Has(plan.settings.enable_multi_dispatch, not clues.has_keys)
    left = left_by(clues.hard) or list(RELEASES)
    other = [group[-1] for group in groups(left, has)]
    other = [each for each in other if not same_files(each, plan.profile.release, has)]
    for release in list(reversed(other))[:_TRIED_MOST]:
        at = StoreAt(plan.storage, plan.store, release, plan.discovered.settings)
        again = make_plan(
            at, discover(at, CHECK_AGAIN), CHECK_AGAIN, found.engine.cores, found.cut.split_bytes,
        )  # fmt: skip
        yield replace(found, plan=replace(again, remade=plan.remade))
