"""Searches a log for ranges that are damaged, stale or missing, for the messages lost in them, and
for what this did to queues and index.

The ordinary scan walks each segment by itself. A segment whose walk ends at a fault is scanned
again past its damage, in a task of its own (reput.store_format.damage.tolerant).
"""

import json
from collections.abc import Iterator
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from reput.jobs.pipeline.link import Linked, Scanned
from reput.jobs.pipeline.pipeline import index_files
from reput.jobs.salvaging.damage_map import (
    KEPT_FROM,
    RANGES_LISTED,
    DamageMap,
    add_range,
    all_ranges,
    count_ranges,
    named_past_end,
    read_places,
    segment_of,
)
from reput.jobs.salvaging.lives import map_segments, walked
from reput.store_format.damage.queue_ends import NO_LOSSES, Losses, SegmentLoss
from reput.store_format.damage.queue_findings import (
    ENTRIES_A_BREAK,
    ContradictedRecord,
    Gap,
    QueueFindings,
    Renumbering,
    StrayRecord,
    TwinRecord,
    UnexplainedGap,
    claimed_records,
    displaced_records,
)
from reput.store_format.damage.ranges import Damage, DamageKind
from reput.store_format.damage.repair import Testimony
from reput.store_format.damage.tolerant import MOST_RANGES
from reput.store_format.derived.index_reader import BadIndex, IndexReader
from reput.store_format.derived.queues import entry_place
from reput.store_format.faults import SALVAGE, Fault
from reput.store_format.log.segments import Finding, Segment
from reput.udfs.damage.searches import FindFalseTransactions, Missed
from reput.udfs.damage.witnesses import CONTRADICTED, CompareIndex
from reput.udfs.range_files import loss_reader

if TYPE_CHECKING:
    from reput.jobs.pipeline.pipeline import Pipeline

# ---
# Records of a damaged log that contradict the store's own index files.


def odd_times(job: "Pipeline", linked: Linked) -> list[int]:
    """The places of records whose storeTimestamp index and neighbours contradict."""
    return sorted({row["place"] for row in _ask(job, linked) if row["odd"]})


def index_contradictions(job: "Pipeline", found: DamageMap) -> list[Damage]:
    """A range of kind CONTENT for each contradicted record, in the log's order."""
    if not job.plan.settings.builds_index or not job.plan.has_index:
        return []
    try:
        rows = _ask(job, found.linked)
    except BadIndex:
        return []  # a foreign file is among them; the comparison of index files reports it
    unlike = {row["place"]: row["fault"] for row in rows}
    for damage in all_ranges(job.staging, found) if unlike else ():
        unlike.pop(damage.offset, None)  # its range is known already
    return list(_ranges(job, found, unlike))


def _ask(job: "Pipeline", linked: Linked) -> list[dict[str, Any]]:
    """CONTRADICTED rows: the records that contradict the store's own index files."""
    plan = job.plan
    files = len(IndexReader(plan.folder, plan.settings).files)
    puts = index_files(plan, job.staging, linked, 1)
    # A run without records gets the first offset of the run before it.
    firsts = accumulate((row["first"] for row in linked.accepted), max, initial=-1)
    task = CompareIndex(plan.storage, plan.store, plan.settings, puts, tuple(firsts))
    with job.stages.by_tasks("asked what is missing", files, "index files"):
        return job.ids(files).run(task, CONTRADICTED).collect()


def _ranges(job: "Pipeline", found: DamageMap, unlike: dict[int, int]) -> Iterator[Damage]:
    raw = np.empty(4, np.uint8)
    for place, _, read in read_places(job.plan.storage, found, sorted(unlike)):
        read(place, raw)
        size, fault = int.from_bytes(raw.tobytes(), "big"), Fault(unlike[place])
        yield Damage(place, place + size, DamageKind.CONTENT, fault, size, None, "record")


# ---
# What damage did to queues: their lost positions, and the records that do not belong to them.

_RENUMBERINGS_LISTED = 100
_SURELY_MISSED = 10  # entries per break in a queue that make its gaps sure in a damaged log
_MISSED_ASKED = 1000  # messages missing where no bytes are lost; only so many are looked for


def add_queue_damage(job: "Pipeline", found: DamageMap, listed: int, lines: bool) -> None:
    """Fill in the lost positions of queues, and the findings about impossible queueOffsets.

    A record without a place in the queue that it names counts as lost, as it may be the message
    that another queue misses; the queues are then searched again. The store's own queue files are
    asked only if the log looks damaged without them.
    """

    def search(ask_queues: bool = False) -> QueueFindings:
        return job.search_queues(found.linked, listed, lines, ask_queues)

    findings = search()
    if job.plan.has_queues and (found.count or _is_suspect(findings)):
        findings = search(ask_queues=True)
    _add_strays(job, found, findings)
    if found.strays:
        findings = search()
    damage = found.linked.queue_damage
    if found.count:
        surely = [g for g in findings.of(UnexplainedGap) if g.entries_a_break >= _SURELY_MISSED]
        damage = damage._replace(
            no_room=frozenset((gap.topic, gap.queue_id, gap.before) for gap in surely)
        )
    found.linked.queue_damage = damage
    if damage.no_room:
        findings = search()
    _list_gaps(found, findings, listed)
    _list_renumberings(found, findings.of(Renumbering))


def _is_suspect(findings: QueueFindings) -> bool:
    """Whether the queues of a log without damaged ranges show that a record is wrong."""
    outvoted = any(not each.opens for each in findings.of(Renumbering))
    return bool(outvoted or findings.of(StrayRecord) or findings.of(UnexplainedGap))


def _add_strays(job: "Pipeline", found: DamageMap, findings: QueueFindings) -> None:
    """Add the records without a place in the queue they name, and testimony of their true queue."""
    displaced = displaced_records(findings, loss_reader(found.linked.lost, job.staging))
    displaced = list({record.place: (record, gap) for record, gap in displaced}.values())
    # several findings may be about one record, which is lost only once
    lost = {r.place: r for r in (*findings.of(StrayRecord), *(r for r, _ in displaced))}
    claims = {r.place: (r, c) for r, c in claimed_records(findings) if r.place not in lost}
    claimed = list(claims.values())
    found.testimony += [
        Testimony(record.place, "the queue that misses it", gap.topic, gap.queue_id)
        for record, gap in displaced
    ]
    found.testimony += [
        Testimony(r.place, "its ConsumeQueue entry", c.topic, c.queue_id, c.queue_offset)
        for r, c in claimed
    ]
    found.strays = sorted([
        *(_one_record(r.place, r.size, Fault.STRAY, r.queue_offset) for r in lost.values()),
        *(_one_record(r.place, r.size, Fault.ELSEWHERE, r.queue_offset) for r, _ in claimed),
        *_false_transactions(job, found, findings),
    ])  # fmt: skip
    if found.count:  # if the log is otherwise sound, the queue file may be what is wrong
        for record in findings.of(ContradictedRecord):
            if record.tag_only:
                tag = _one_record(record.place, record.size, Fault.TAG, None)
                add_range(found, tag._replace(kind=DamageKind.CONTENT))
    if found.strays:
        found.linked.queue_damage = found.linked.queue_damage._replace(
            strays=frozenset(stray.offset for stray in found.strays),
            twins=frozenset(r.place for r, _ in displaced if isinstance(r, TwinRecord)),
        )
        _lose(found, found.strays)


def _one_record(place: int, size: int, fault: Fault, value: int | None) -> Damage:
    return Damage(place, place + size, DamageKind.DAMAGED, fault, size, value, "record")


def _false_transactions(job: "Pipeline", found: DamageMap, findings: QueueFindings) -> list[Damage]:
    """The records that a queue misses, as their transaction type keeps them out of it.

    In a log without other damage only a long queue with few breaks is a witness, or the queue's own
    entry of the record.
    """
    missed = tuple(islice(_missed(job, found, findings), _MISSED_ASKED))
    size = found.segment_bytes
    segments = tuple(
        segment for segment in found.segments
        if any(m.after < segment.start + size and m.before > segment.start for m in missed)
    )  # fmt: skip
    if not segments:
        return []
    task = FindFalseTransactions(job.plan.storage, segments, size, job.rules.records, missed)
    return [
        _one_record(row["place"], row["size"], Fault.KEPT_OUT, row["sys_flag"])
        for row in job.find_false_transactions(task)
    ]


def _missed(job: "Pipeline", found: DamageMap, findings: QueueFindings) -> Iterator[Missed]:
    for gap in findings.of(UnexplainedGap):
        sure = found.count or gap.entries_a_break >= ENTRIES_A_BREAK
        for offset in range(gap.first, gap.first + gap.count):
            missed = Missed(gap.topic, gap.queue_id, offset, gap.after, gap.before)
            if sure:
                yield missed
            elif gap.count <= _MISSED_ASKED and not gap.batch:
                place = entry_place(job.plan.queues_at, gap.topic, gap.queue_id, offset)
                if gap.after < place < gap.before:
                    yield missed._replace(before=place + 1)


def _lose(found: DamageMap, ranges: list[Damage]) -> None:
    """Add ranges that no segment's scan has found, and count them as lost bytes, which explain
    missing messages of queues.
    """
    places: dict[int, list[tuple[int, int]]] = {}  # by segment
    for damage in ranges:
        add_range(found, damage)
        found.bytes_lost += damage.length
        start = damage.offset // found.segment_bytes * found.segment_bytes
        places.setdefault(start, []).append((damage.offset, damage.length))
    losses = {each.start: each for each in found.linked.lost.segments}
    for start, more in places.items():
        loss = losses.get(start) or SegmentLoss(start, found.linked.end, "", (), 0)
        total = loss.total + sum(length for _, length in more)
        losses[start] = loss._replace(more=(*loss.more, *more), total=total)
    in_order = tuple(losses[start] for start in sorted(losses))
    found.linked.lost = Losses(in_order, found.segments[0].start == 0)


def _list_gaps(found: DamageMap, findings: QueueFindings, listed: int) -> None:
    gaps = sorted(findings.of(Gap), key=lambda g: (g.after, g.topic, g.queue_id, g.first))
    found.gap_lines = list(findings.gap_lines)
    found.messages_missing = sum(gap.count for gap in gaps) + findings.positions_unlisted
    found.gaps = gaps[:listed]
    found.gaps_unlisted = findings.gaps_unlisted + len(gaps) - len(found.gaps)


def _list_renumberings(found: DamageMap, renumberings: list[Renumbering]) -> None:
    found.renumberings = len(renumberings)
    in_order = sorted(renumberings, key=lambda each: each.place)
    found.testimony += [
        Testimony(each.place, "the queueOffsets around it", queue_offset=each.first)
        for each in in_order
        if each.count == 1 and each.first >= 0
    ]
    listed = [_renumbering(found, each) for each in in_order[:_RENUMBERINGS_LISTED]]
    found.findings = found.findings + listed


def _renumbering(found: DamageMap, each: Renumbering) -> Finding:
    segment = segment_of(found.segments, found.segment_bytes, each.place)
    assert segment is not None
    left_out = min(max(-each.first, 0), each.count)
    kept = each.count - left_out
    counts = [f"{kept:,} {KEPT_FROM} {each.first + left_out}"] if kept else []
    counts += [f"{left_out:,} without a position"] if left_out else []
    where = f"offset {each.place - segment.start} (physical {each.place}): queueOffset {each.said}"
    queue = f"topic {each.topic!r}, queue {each.queue_id}"
    then = (
        f"cannot begin {queue}: by those that follow, of its first {each.count:,} messages"
        if each.opens
        else f"is outvoted by its neighbours in {queue}:"
    )
    return Finding(segment.path, f"{where} {then} {', '.join(counts)}")


GAPS_LISTED = 1000  # that the report names


def map_damage(
    job: "Pipeline",
    ranges_a_segment: int = MOST_RANGES,
    gaps_listed: int = GAPS_LISTED,
    gap_lines: bool = False,
) -> DamageMap:
    """Scan a whole log past all its damage.

    However many ranges and gaps there are, the driver keeps the first ones and sums by cause.
    ranges_a_segment: the rest of a segment after this many ranges counts as damaged (a warning).
    gap_lines: whether all gaps are kept in staging, for `write_ranges`.
    """
    walks, broken, in_use = walked(job)
    mapped = map_segments(job, walks, broken, in_use, ranges_a_segment)
    accepted: list[Scanned] = []
    end = job.plan.segments[0].start
    for n in range(in_use):
        rows = [mapped[n]] if n in mapped else walks[n].accepted
        accepted += rows
        if n not in mapped:
            end = walks[n].end if any(row["records"] for row in rows) else end
        elif mapped[n]["records"]:
            end = mapped[n]["live_end"]
    splits = job.plan.splits
    found = DamageMap(
        Linked(accepted, end, firsts=SALVAGE),
        mapped,
        splits.segments,
        splits.segment_bytes,
        job.plan.findings,
        in_use,
    )
    if not job.plan.in_use and job.plan.splits.limit is None:
        found.past_end = named_past_end(job.plan.folder, end)
    _add_ranges(job, found)
    add_queue_damage(job, found, gaps_listed, gap_lines)
    if found.count:  # if the log is sound, a contradicting index file is what is wrong
        for damage in index_contradictions(job, found):
            add_range(found, damage)
    return found


def _add_ranges(job: "Pipeline", found: DamageMap) -> None:
    """Fill in the ranges and the losses; a range after the live log's end loses nothing."""
    segments = job.plan.segments
    losses: list[SegmentLoss] = []
    for n in range(found.in_use):
        for damage in _hole(segments, n, found.segment_bytes):
            _add_loss(found, losses, damage.offset, None, [damage])
        row = found.mapped.get(n)
        if row is not None:
            rest = _zeros(segments[n], row, found)
            _add_loss(found, losses, segments[n].start, row, rest)
            if row["given_up"]:
                found.warnings.append(f"{segments[n].path}: too much damage: its rest was left out")
    found.ranges = list(islice(all_ranges(job.staging, found), RANGES_LISTED))
    found.linked.lost = Losses(tuple(losses), segments[0].start == 0) if losses else NO_LOSSES


def _add_loss(
    found: DamageMap, losses: list[SegmentLoss], start: int, row: Scanned | None, more: list[Damage]
) -> None:
    """Count a segment's ranges by cause, and note the bytes lost in it.

    row: MAPPED row of the segment; more: its ranges that are not in that row.
    """
    end = found.linked.end
    lost = 0
    live_end = row["live_end"] if row else -1
    for kind, fault, in_tail, count, length in json.loads(row["causes"]) if row else ():
        count_ranges(found, DamageKind(kind), fault, count, length)
        if kind != DamageKind.CONTENT and start < end and not (in_tail and live_end >= end):
            lost += length
    for damage in more:
        count_ranges(found, damage.kind, int(damage.fault), 1, damage.length)
        found.more.append(damage)
        lost += damage.length if damage.offset < end else 0
    if lost:
        found.bytes_lost += lost
        places = tuple((d.offset, d.length) for d in more if d.offset < end)
        losses.append(SegmentLoss(start, end, row["run"] if row else "", places, lost))


def _zeros(segment: Segment, row: Scanned, found: DamageMap) -> list[Damage]:
    """The zeros up to a segment's end, if live records follow in a later segment."""
    start, end = row["next"], min(segment.start + found.segment_bytes, segment.end)
    if Fault(row["fault"]) != Fault.ZEROS or start >= min(end, found.linked.end):
        return []
    return [Damage(start, end, DamageKind.DAMAGED, Fault.ZEROS, 0, None, "segment's end")]


def _hole(segments: list[Segment], n: int, segment_bytes: int) -> list[Damage]:
    """The missing segments before segment `n`, as one range."""
    if n == 0:
        return []
    start, end = segments[n - 1].start + segment_bytes, segments[n].start
    missing = Damage(start, end, DamageKind.MISSING, Fault.MISSING, 0, None, "record")
    return [missing] if start < end else []
