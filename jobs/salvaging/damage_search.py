"""Search a log for ranges that are damaged, stale or missing, and for the messages lost in them.

The ordinary scan walks each segment by itself. A segment whose walk ends at a fault is scanned
again past its damage, in a task of its own (reput.store_format.damage.tolerant).
"""

import json
from collections.abc import Iterator
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from reput.jobs.pipeline.link import Linked, Scanned, SegmentWalk, runs_of
from reput.jobs.salvaging.damage_map import (
    RANGES_LISTED,
    DamageMap,
    add_range,
    all_ranges,
    count_ranges,
)
from reput.jobs.salvaging.queue_damage import add_queue_damage
from reput.store_format.damage.queue_ends import NO_LOSSES, Losses, SegmentLoss
from reput.store_format.damage.ranges import Damage, DamageKind
from reput.store_format.damage.tolerant import MOST_RANGES
from reput.store_format.faults import SALVAGE, Fault
from reput.store_format.log.segments import Segment
from reput.udfs.damage.segments import DamagedSegment, MapSegments

if TYPE_CHECKING:
    from reput.jobs.pipeline.pipeline import Pipeline

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
    walks, scanned = job.scan_segments()
    in_use = _in_use(job, walks, scanned)
    broken = [n for n in range(in_use) if n not in walks or _is_broken(job, walks, scanned, n)]
    if _ends_in_zeros(job, scanned, walks.get(in_use - 1), in_use - 1):
        broken.remove(in_use - 1)
    mapped = _map_segments(job, walks, broken, in_use, ranges_a_segment)
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
    _add_ranges(job, found)
    add_queue_damage(job, found, gaps_listed, gap_lines)
    if found.count:  # if the log is sound, a contradicting index file is what is wrong
        from reput.jobs.salvaging.index_witness import index_contradictions

        for damage in index_contradictions(job, found):
            add_range(found, damage)
    return found


def _in_use(job: "Pipeline", walks: dict[int, SegmentWalk], scanned: dict[int, Scanned]) -> int:
    """The number of segments, without those of zeros only at the log's end."""
    segments, limit = job.plan.segments, job.plan.splits.limit
    n = len(segments)
    while n > 1 and limit is not None and segments[n - 1].start >= limit:
        n -= 1  # a broker writes to it while the job runs
    while n > 1 and n - 1 in walks and walks[n - 1].end == segments[n - 1].start:
        if not _ends_in_zeros(job, scanned, walks[n - 1], n - 1):
            break
        n -= 1
    return n


def _ends_in_zeros(
    job: "Pipeline", scanned: dict[int, Scanned], walk: SegmentWalk | None, number: int
) -> bool:
    """Whether only zeros follow the last record of a segment's walk."""
    if walk is None or walk.fault != Fault.ZEROS or not walk.accepted[-1]["rest_is_zero"]:
        return False
    last = walk.accepted[-1]["split"]
    after = min((number + 1) * job.plan.splits.in_segment, job.plan.splits.total)
    return all(
        scanned[split]["first"] < 0 and scanned[split]["rest_is_zero"]
        for split in range(last + 1, after)
    )


def _is_broken(
    job: "Pipeline", walks: dict[int, SegmentWalk], scanned: dict[int, Scanned], number: int
) -> bool:
    walk = walks[number]
    if walk.fault not in (Fault.NONE, Fault.BLANK):
        return True
    return bool(walk.accepted and walk.accepted[-1]["wrong_blank"] >= 0)


def _map_segments(
    job: "Pipeline", walks: dict[int, SegmentWalk], broken: list[int], in_use: int, most: int
) -> dict[int, Scanned]:
    if not broken:
        return {}
    segments = []
    damaged = set(broken)
    times = {n: at for n in range(in_use) if (at := _last_time(walks.get(n))) is not None}
    last: int | None = None  # storeTimestamp of the last record before the segment
    for number in range(in_use):
        if number in damaged:
            segment = job.plan.segments[number]
            segments.append(DamagedSegment(number, segment, last, number == in_use - 1))
        time = times.get(number)
        behind = next((times[n] for n in range(number + 1, in_use) if n in times), None)
        # a time later than that of the next segment, which agrees with the one before, has a
        # flipped bit; stale records never begin a segment (evidence.judge_stretch)
        if time is not None and (last is None or behind is None or not last <= behind < time):
            last = time
    runs = tuple(runs_of(row for walk in walks.values() for row in walk.accepted).items())
    splits = job.plan.splits
    task = MapSegments(
        job.plan.storage,
        job.staging,
        tuple(segments),
        splits.segment_bytes,
        splits.in_segment,
        job.rules,
        runs,
        tuple(_unread(job, walks, in_use)),
        most,
    )
    return {row["segment"]: row for row in job.map_segments(task)}


def _last_time(walk: SegmentWalk | None) -> int | None:
    """The storeTimestamp of the last record of a segment's walk; None without a record."""
    accepted = walk.accepted if walk else []
    return next((r["last_timestamp"] for r in reversed(accepted) if r["records"]), None)


def _unread(
    job: "Pipeline", walks: dict[int, SegmentWalk], in_use: int
) -> Iterator[tuple[int, int]]:
    """(split, bytes) of the rest of each segment after its last accepted record."""
    segments, splits = job.plan.segments, job.plan.splits
    for n, (segment, following) in enumerate(pairwise(segments[:in_use])):
        walk = walks.get(n)
        end = walk.end if walk else segment.start
        if walk and walk.fault in (Fault.NONE, Fault.BLANK):
            end = segment.start + splits.segment_bytes
        split = walk.accepted[-1]["split"] if walk and walk.accepted else n * splits.in_segment
        if end < following.start:
            yield split, following.start - end


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
