"""The damage map: what of a log is sound, what is damaged, stale or missing, and what is lost.

The ordinary scan walks each segment for itself; those that do not end as they should are
scanned again, one task each, past their damage (store_format.tolerant).
"""

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from jobs.link import Linked, Scanned, SegmentWalk
from store_format.faults import REASONS, DamageFound, Fault
from store_format.segments import Finding, Segment
from store_format.tolerant import Damage, Kind
from udfs.damage import DamagedSegment, MapSegments, read_ranges
from udfs.gaps import Lost

if TYPE_CHECKING:
    from jobs.pipeline import Pipeline

RANGES_LISTED = 1000  # the report names so many, and counts the rest
RANGES_MOST = 1_000_000  # more are not passed over: the driver keeps each one's place
RANGES_SHOWN = 20
GAPS_MOST = 100_000
MISSING_SHOWN = 20  # gaps named at each range that they may belong to


@dataclass
class DamageMap:
    """What was found. Offsets are physical, lengths in bytes.

    linked: the live log, in pieces, and its end; mapped: the MAPPED rows of damaged segments.
    """

    linked: Linked
    mapped: dict[int, Scanned]
    segments: list[Segment]
    segment_bytes: int
    findings: list[Finding]
    in_use: int  # segments before those of zeros only, with which a log may end
    ranges: list[Damage] = field(default_factory=list)  # the first RANGES_LISTED
    count: int = 0
    bytes_lost: int = 0
    gaps: list[dict[str, Any]] = field(default_factory=list)
    gaps_unlisted: int = 0
    warnings: list[str] = field(default_factory=list)

    def all_warnings(self) -> list[str]:
        """What a person must read of it: findings, and the first ranges in a line each."""
        lines = [f"{each.path}: {each.reason}" for each in self.findings]
        lines += [range_text(describe(damage, self)) for damage in self.ranges[:RANGES_SHOWN]]
        if self.count > RANGES_SHOWN:
            lines.append(f"... and {self.count - RANGES_SHOWN:,} more ranges")
        return lines + self.warnings

    def as_json(self) -> dict[str, Any]:
        """What a manifest and --json have of it: ranges and gaps listed up to a bound."""
        return {
            "ranges": [describe(damage, self) for damage in self.ranges],
            "range_count": self.count,
            "bytes_lost": self.bytes_lost,
            "missing": self.gaps,
            "missing_unlisted": self.gaps_unlisted,
        }


def map_damage(job: "Pipeline") -> DamageMap:
    """Scan a whole log, past all its damage. Raises DamageFound where there is too much of it."""
    walks, scanned = job.scan_segments()
    in_use = _in_use(job, walks, scanned)
    broken = [n for n in range(in_use) if n not in walks or _is_broken(job, walks, scanned, n)]
    if _ends_in_zeros(job, scanned, walks.get(in_use - 1), in_use - 1):
        broken.remove(in_use - 1)
    mapped = _map_segments(job, walks, broken, in_use)
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
        Linked(accepted, end),
        mapped,
        splits.segments,
        splits.segment_bytes,
        job.plan.findings,
        in_use,
    )
    _add_ranges(job, found, in_use)
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
    job: "Pipeline", walks: dict[int, SegmentWalk], broken: list[int], in_use: int
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
    runs = tuple((row["split"], row["run"]) for walk in walks.values() for row in walk.accepted)
    splits = job.plan.splits
    task = MapSegments(
        job.plan.storage,
        job.staging,
        tuple(segments),
        splits.segment_bytes,
        splits.in_segment,
        job.rules,
        runs,
    )
    return {row["segment"]: row for row in job.map_segments(task)}


def _add_ranges(job: "Pipeline", found: DamageMap, in_use: int) -> None:
    """Fill in the ranges, and what is lost; one after the live log's end loses nothing."""
    places: list[int] = []
    lengths: list[int] = []
    segments = job.plan.segments
    end = found.linked.end
    for n in range(in_use):
        if n:
            for damage in _hole(segments, n, job.plan.splits.segment_bytes):
                _add(found, damage, places, lengths)
        row = found.mapped.get(n)
        if row is None:
            continue
        if found.count + row["ranges"] > RANGES_MOST:
            raise DamageFound(
                f"{job.plan.store}: more than {RANGES_MOST:,} damaged ranges, the last in "
                f"{segments[n].path}"
            )
        ranges = read_ranges(job.staging, row["run"])
        zeros = row["next"], min(segments[n].start + job.plan.splits.segment_bytes, segments[n].end)
        if Fault(row["fault"]) == Fault.ZEROS and zeros[0] < min(zeros[1], end):
            # to the segment's end, and live records in a later one
            rest = Damage(*zeros, Kind.DAMAGED, Fault.ZEROS, 0, None, "segment's end")
            ranges = sorted([*ranges, rest])
        for damage in ranges:
            _add(found, damage, places, lengths)
        if row["given_up"]:
            found.warnings.append(f"{segments[n].path}: too much damage: its rest was left out")
    if places:
        lost = Lost(np.array(places, np.int64), np.array(lengths, np.int64), segments[0].start == 0)
        found.linked.lost = lost
        gaps = sorted(
            job.find_gaps(found.linked, lost),
            key=lambda gap: (gap["after"], gap["topic"], gap["queue_id"]),
        )
        found.gaps = gaps[:GAPS_MOST]
        found.gaps_unlisted = sum(gap["more"] for gap in gaps) + len(gaps) - len(found.gaps)


def _hole(segments: list[Segment], n: int, segment_bytes: int) -> list[Damage]:
    """The segments that are missing before number `n`, as one range."""
    start, end = segments[n - 1].start + segment_bytes, segments[n].start
    return (
        [Damage(start, end, Kind.MISSING, Fault.MISSING, 0, None, "record")] if start < end else []
    )


def _add(found: DamageMap, damage: Damage, places: list[int], lengths: list[int]) -> None:
    found.count += 1
    if len(found.ranges) < RANGES_LISTED:
        found.ranges.append(damage)
    if damage.kind != Kind.CONTENT and damage.offset < found.linked.end:
        found.bytes_lost += damage.length
        places.append(damage.offset)
        lengths.append(damage.length)


def describe(damage: Damage, found: DamageMap) -> dict[str, Any]:
    """A range with the names that reports use: where it is, what is wrong, what follows."""
    segment = segment_of(found.segments, found.segment_bytes, damage.offset)
    field_name, reason = REASONS.get(damage.fault, ("", ""))
    if damage.kind == Kind.STALE and damage.fault == Fault.NONE:
        field_name, reason = "storeTimestamp/queueOffset", "is of an earlier time: stale"
    return {
        "file": segment.path if segment else None,
        "offset": damage.offset - segment.start if segment else 0,
        "physical_offset": damage.offset,
        "length": damage.length,
        "kind": str(damage.kind),
        "field": field_name,
        "value": damage.value,
        "reason": reason,
        "follows": "nothing live" if is_tail(damage, found) else damage.follows,
        "missing": [gap for gap in found.gaps if gap["after"] < damage.offset < gap["before"]][
            :MISSING_SHOWN
        ],
    }


def range_text(told: dict[str, Any]) -> str:
    """One line about a range: file, offset, length, field, reason, and what comes after."""
    where = f"{told['file']}: offset {told['offset']}, " if told["file"] else ""
    value = f" (it says {told['value']})" if told["value"] is not None else ""
    missing = ", ".join(
        f"{gap['topic']}/{gap['queue_id']}: {_positions(gap)}" for gap in told["missing"]
    )
    return (
        f"{where}physical {told['physical_offset']}, {told['length']:,} bytes {told['kind']}: "
        f"{told['field']} {told['reason']}{value}; then {told['follows']}"
        + (f"; missing {missing}" if missing else "")
    )


def _positions(gap: dict[str, Any]) -> str:
    last = gap["first"] + gap["count"] - 1
    return str(last) if gap["count"] == 1 else f"{gap['first']}..{last}"


def segment_of(segments: list[Segment], segment_bytes: int, offset: int) -> Segment | None:
    """The segment that holds a physical offset, None in a hole."""
    at = bisect_right([segment.start for segment in segments], offset) - 1
    return segments[at] if offset < segments[at].start + segment_bytes else None


def is_tail(damage: Damage, found: DamageMap) -> bool:
    """Whether nothing live follows: the log ends before it."""
    return damage.offset >= found.linked.end
