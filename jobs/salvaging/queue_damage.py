"""What damage did to queues: their lost positions, and the records that do not belong to them."""

from typing import TYPE_CHECKING

from reput.jobs.salvaging.damage_map import DamageMap, add_range, segment_of
from reput.store_format.damage.queue_ends import Losses, SegmentLoss
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
from reput.store_format.faults import Fault
from reput.store_format.log.segments import Finding
from reput.udfs.damage.searches import FindFalseTransactions, Missed
from reput.udfs.range_files import loss_reader

if TYPE_CHECKING:
    from reput.jobs.pipeline.pipeline import Pipeline

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

    In a log without other damage only a long queue with few breaks is a witness.
    """
    missed = tuple(
        Missed(gap.topic, gap.queue_id, offset, gap.after, gap.before)
        for gap in findings.of(UnexplainedGap)
        if found.count or gap.entries_a_break >= ENTRIES_A_BREAK
        for offset in range(gap.first, gap.first + gap.count)
    )[:_MISSED_ASKED]
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
    counts = [f"{kept:,} kept from position {each.first + left_out}"] if kept else []
    counts += [f"{left_out:,} without a position"] if left_out else []
    where = f"offset {each.place - segment.start} (physical {each.place}): queueOffset {each.said}"
    queue = f"topic {each.topic!r}, queue {each.queue_id}"
    then = (
        f"cannot begin {queue}: by those that follow, of its first {each.count:,} messages"
        if each.opens
        else f"is outvoted by its neighbours in {queue}:"
    )
    return Finding(segment.path, f"{where} {then} {', '.join(counts)}")
