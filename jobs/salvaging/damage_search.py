"""The damage map: what of a log is sound, what is damaged, stale or missing, and what is lost.

The ordinary scan walks each segment for itself; those that do not end as they should are
scanned again, one task each, past their damage (reput.store_format.damage.tolerant).
"""

import json
from collections.abc import Iterator
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

from reput.jobs.pipeline.link import Linked, Scanned, SegmentWalk, runs_of
from reput.jobs.salvaging.damage_map import (
    RANGES_LISTED,
    DamageMap,
    add_range,
    all_ranges,
    count_ranges,
    segment_of,
)
from reput.jobs.salvaging.other_queues import ENTRIES_A_BREAK, explained_by_queues, known_elsewhere
from reput.store_format.damage.ranges import Damage, DamageKind
from reput.store_format.damage.restore import QueueWitness
from reput.store_format.damage.tolerant import MOST_RANGES
from reput.store_format.faults import SALVAGE, Fault
from reput.store_format.log.segments import Finding, Segment
from reput.udfs.damage.gaps import (
    GAP_TOLD,
    HOLE,
    IS_GAP,
    MOVED,
    OPENING,
    STRAY,
    TAGGED,
    TWICE,
    gap_order,
)
from reput.udfs.damage.kept_out import FindKeptOut, Missed
from reput.udfs.damage.segments import DamagedSegment, MapSegments
from reput.udfs.lost import LongestLost, Lost, LostPiece

if TYPE_CHECKING:
    from reput.jobs.pipeline.pipeline import Pipeline

GAPS_LISTED = 1000  # the report names so many
OPENINGS_LISTED = 100
_BROKEN = (STRAY, HOLE, MOVED)  # what makes a log without ranges suspect
_SURELY_MISSED = 10  # entries for each place where a queue does not go on, in a damaged log
_MISSED_ASKED = 1000  # messages missing where nothing is lost: so many are looked for


def map_damage(
    job: "Pipeline",
    ranges_a_segment: int = MOST_RANGES,
    gaps_listed: int = GAPS_LISTED,
    gap_lines: bool = False,
) -> DamageMap:
    """Scan a whole log, past all its damage.

    The driver keeps the first ranges and gaps, and sums by cause, however many there are; what is
    behind ranges_a_segment in a segment counts as damaged, with a warning. gap_lines: all gaps
    are kept in staging, for `write_ranges`.
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
    _add_gaps(job, found, gaps_listed, gap_lines)
    if found.count:  # of a sound log the index files themselves would be what is wrong
        from reput.jobs.salvaging.index_witness import unlike_index

        for damage in unlike_index(job, found):
            add_range(found, damage)
    return found


def _in_use(job: "Pipeline", walks: dict[int, SegmentWalk], scanned: dict[int, Scanned]) -> int:
    """How many segments there are before those of zeros only, with which a log may end."""
    segments, limit = job.plan.segments, job.plan.splits.limit
    n = len(segments)
    while n > 1 and limit is not None and segments[n - 1].start >= limit:
        n -= 1  # written to while the job runs
    while n > 1 and n - 1 in walks and walks[n - 1].end == segments[n - 1].start:
        if not _ends_in_zeros(job, scanned, walks[n - 1], n - 1):
            break
        n -= 1
    return n


def _ends_in_zeros(
    job: "Pipeline", scanned: dict[int, Scanned], walk: SegmentWalk | None, number: int
) -> bool:
    """Whether nothing but zeros follows the segment's walk."""
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
    last: int | None = None  # storeTimestamp of the last record before the segment
    for number in range(in_use):
        if number in damaged:
            segment = job.plan.segments[number]
            segments.append(DamagedSegment(number, segment, last, number == in_use - 1))
        accepted = walks[number].accepted if number in walks else []
        last = next((r["last_timestamp"] for r in reversed(accepted) if r["records"]), last)
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


def _unread(
    job: "Pipeline", walks: dict[int, SegmentWalk], in_use: int
) -> Iterator[tuple[int, int]]:
    """(split, bytes) of what stands behind the accepted records of a segment, up to the next."""
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
    """Fill in the ranges, and what is lost; one after the live log's end loses nothing."""
    segments = job.plan.segments
    pieces: list[LostPiece] = []
    for n in range(found.in_use):
        for damage in _hole(segments, n, found.segment_bytes):
            _add_piece(found, pieces, damage.offset, None, [damage])
        row = found.mapped.get(n)
        if row is not None:
            rest = _zeros(segments[n], row, found)
            _add_piece(found, pieces, segments[n].start, row, rest)
            if row["given_up"]:
                found.warnings.append(f"{segments[n].path}: too much damage: its rest was left out")
    found.ranges = list(islice(all_ranges(job.staging, found), RANGES_LISTED))
    found.linked.lost = Lost(tuple(pieces), segments[0].start == 0) if pieces else None


def _add_piece(
    found: DamageMap, pieces: list[LostPiece], start: int, row: Scanned | None, more: list[Damage]
) -> None:
    """Count a segment's ranges by cause, and note what is lost in it."""
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
        pieces.append(LostPiece(start, end, row["run"] if row else "", places, lost))


def _add_gaps(job: "Pipeline", found: DamageMap, listed: int, lines: bool) -> None:
    """Fill in the lost positions of queues, and the findings of queueOffsets that cannot be.

    A record that has no place in the queue that it names counts as lost: its bytes may be those of
    a message that another queue misses. So the gaps are asked for again then. The store's own queue
    files are asked only of a log that is suspect without them.
    """
    rows = job.find_gaps(found.linked, listed, lines)
    if job.plan.has_queues and (found.count or any(row["what"] in _BROKEN for row in rows)):
        rows = job.find_gaps(found.linked, listed, lines, ask_queues=True)
    explained = explained_by_queues(rows, LongestLost(found.linked.lost, job.staging))
    strays = [row for row in rows if row["what"] == STRAY] + [row for row, _ in explained]
    found.queue_witnesses += [
        QueueWitness(row["before"], "the queue that misses it", hole["topic"], hole["queue_id"])
        for row, hole in explained
    ]
    known = {row["before"] for row in strays}
    elsewhere = [each for each in known_elsewhere(rows) if each[0]["before"] not in known]
    found.queue_witnesses += [
        QueueWitness(r["before"], "its ConsumeQueue entry", c["topic"], c["queue_id"], c["first"])
        for r, c in elsewhere
    ]
    found.strays = [
        *(_one_record(row["before"], row["count"], Fault.STRAY, row["value"]) for row in strays),
        *(_one_record(r["before"], r["count"], Fault.ELSEWHERE, r["first"]) for r, _ in elsewhere),
        *_kept_out(job, found, rows),
    ]
    for row in rows:
        if row["what"] == TAGGED and found.count:
            place, size = row["before"], row["count"]
            kind, fault = DamageKind.CONTENT, Fault.TAG
            add_range(found, Damage(place, place + size, kind, fault, size, None, "record"))
    if found.strays:
        found.strays.sort()
        found.linked.strays = frozenset(stray.offset for stray in found.strays)
        found.linked.twice = frozenset(r["before"] for r, _ in explained if r["what"] == TWICE)
        lose(found, found.strays)
        rows = job.find_gaps(found.linked, listed, lines)
    found.linked.no_room = frozenset(
        (row["topic"], row["queue_id"], row["before"])
        for row in rows if row["what"] == HOLE
        and found.count and row["value"] >= _SURELY_MISSED
    )  # fmt: skip
    if found.linked.no_room:
        rows = job.find_gaps(found.linked, listed, lines)
    found.gap_lines = [row["lines"] for row in rows if row["lines"]]
    gaps = sorted((row for row in rows if row["what"] == IS_GAP), key=gap_order)
    more = sum(row["more"] for row in rows)
    found.messages_missing = sum(gap["count"] for gap in gaps)
    found.messages_missing += sum(row["more_positions"] for row in rows)
    found.gaps = [{name: gap[name] for name in GAP_TOLD} for gap in gaps[:listed]]
    found.gaps_unlisted = more + len(gaps) - len(found.gaps)
    openings = sorted(
        (row for row in rows if row["what"] in (OPENING, MOVED)), key=lambda row: row["before"]
    )
    found.openings = len(openings)
    found.queue_witnesses += [
        QueueWitness(row["before"], "the queueOffsets around it", queue_offset=row["first"])
        for row in openings
        if row["count"] == 1 and row["first"] >= 0
    ]
    found.findings = found.findings + [_opening(found, row) for row in openings[:OPENINGS_LISTED]]


def _one_record(place: int, size: int, fault: Fault, value: int) -> Damage:
    return Damage(place, place + size, DamageKind.DAMAGED, fault, size, value, "record")


def _kept_out(job: "Pipeline", found: DamageMap, rows: list[dict[str, Any]]) -> list[Damage]:
    """The records whose transaction type keeps them out of a queue that misses just them.

    In a log without other damage only a long queue that goes on everywhere else is believed.
    """
    missed = tuple(
        Missed(row["topic"], row["queue_id"], offset, row["after"], row["before"])
        for row in rows if row["what"] == HOLE and (found.count or row["value"] >= ENTRIES_A_BREAK)
        for offset in range(row["first"], row["first"] + row["count"])
    )[:_MISSED_ASKED]  # fmt: skip
    size = found.segment_bytes
    segments = tuple(
        segment for segment in found.segments
        if any(m.after < segment.start + size and m.before > segment.start for m in missed)
    )  # fmt: skip
    if not segments:
        return []
    task = FindKeptOut(job.plan.storage, segments, size, job.rules.records, missed)
    return [
        _one_record(row["place"], row["size"], Fault.KEPT_OUT, row["value"])
        for row in job.find_kept_out(task)
    ]


def lose(found: DamageMap, ranges: list[Damage]) -> None:
    """Count ranges that no segment's scan has found as lost, so that queues may miss messages."""
    places: dict[int, list[tuple[int, int]]] = {}  # by segment
    for damage in ranges:
        add_range(found, damage)
        found.bytes_lost += damage.length
        start = damage.offset // found.segment_bytes * found.segment_bytes
        places.setdefault(start, []).append((damage.offset, damage.length))
    known = found.linked.lost.pieces if found.linked.lost else ()
    pieces = {piece.start: piece for piece in known}
    for start, more in places.items():
        piece = pieces.get(start) or LostPiece(start, found.linked.end, "", (), 0)
        total = piece.total + sum(length for _, length in more)
        pieces[start] = piece._replace(more=(*piece.more, *more), total=total)
    in_order = tuple(pieces[start] for start in sorted(pieces))
    found.linked.lost = Lost(in_order, found.segments[0].start == 0)


def _opening(found: DamageMap, row: dict[str, Any]) -> Finding:
    segment = segment_of(found.segments, found.segment_bytes, row["before"])
    assert segment is not None
    left_out = min(max(-row["first"], 0), row["count"])
    kept = row["count"] - left_out
    parts = [f"{kept:,} kept from position {row['first'] + left_out}"] if kept else []
    parts += [f"{left_out:,} without a position"] if left_out else []
    where = f"offset {row['before'] - segment.start} (physical {row['before']}): queueOffset "
    if row["what"] == MOVED:
        of = f"topic {row['topic']!r}, queue {row['queue_id']}"
        return Finding(
            segment.path,
            f"{where}{row['value']} is outvoted by its neighbours in {of}: {', '.join(parts)}",
        )
    return Finding(
        segment.path,
        f"{where}{row['value']} cannot begin topic {row['topic']!r}, queue {row['queue_id']}: by "
        f"those that follow, of its first {row['count']:,} messages {', '.join(parts)}",
    )


def _zeros(segment: Segment, row: Scanned, found: DamageMap) -> list[Damage]:
    """The zeros to a segment's end that live records in a later one follow."""
    start, end = row["next"], min(segment.start + found.segment_bytes, segment.end)
    if Fault(row["fault"]) != Fault.ZEROS or start >= min(end, found.linked.end):
        return []
    return [Damage(start, end, DamageKind.DAMAGED, Fault.ZEROS, 0, None, "segment's end")]


def _hole(segments: list[Segment], n: int, segment_bytes: int) -> list[Damage]:
    """The segments that are missing before number `n`, as one range."""
    if n == 0:
        return []
    start, end = segments[n - 1].start + segment_bytes, segments[n].start
    missing = Damage(start, end, DamageKind.MISSING, Fault.MISSING, 0, None, "record")
    return [missing] if start < end else []
