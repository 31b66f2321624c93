"""The segments of a log as each walk leaves them: which are damaged, and what the whole log says of
the pieces of those.
"""

from bisect import bisect_right
from collections.abc import Set
from typing import TYPE_CHECKING

from reput.jobs.pipeline.link import Scanned, SegmentWalk
from reput.store_format.damage.liveness import Given
from reput.store_format.faults import Fault
from reput.udfs.damage.lives import SoundPart
from reput.udfs.damage.segments import DamagedSegment

if TYPE_CHECKING:
    from reput.jobs.pipeline.pipeline import Pipeline

Walks = dict[int, SegmentWalk]  # by the segment's number


def older_lives(job: "Pipeline") -> tuple[Given, ...]:
    """What the whole log says of the pieces of its damaged segments, in order; to be read by tasks
    that take a segment each.
    """
    job.check_property_crc()
    walks, broken, in_use = walked(job)
    if not broken:
        return ()
    given = judged_by_all(job, walks, damaged_segments(job, walks, in_use), set(broken))
    return tuple(each for number in sorted(given) for each in given[number])


def walked(job: "Pipeline") -> tuple[Walks, list[int], int]:
    """(walks of segments, numbers of those with damage, how many are in use)."""
    walks, scanned = job.scan_segments()
    in_use = _in_use(job, walks, scanned)
    broken = [n for n in range(in_use) if n not in walks or _is_broken(walks[n])]
    if _ends_in_zeros(job, scanned, walks.get(in_use - 1), in_use - 1):
        broken.remove(in_use - 1)
    return walks, broken, in_use


def _in_use(job: "Pipeline", walks: Walks, scanned: dict[int, Scanned]) -> int:
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


def _is_broken(walk: SegmentWalk) -> bool:
    if walk.fault not in (Fault.NONE, Fault.BLANK):
        return True
    return bool(walk.accepted and walk.accepted[-1]["wrong_blank"] >= 0)


def damaged_segments(job: "Pipeline", walks: Walks, in_use: int) -> list[DamagedSegment]:
    """Each segment as one that is damaged, with when the last record before it was stored."""
    found = []
    times = {n: at for n in range(in_use) if (at := _last_time(walks.get(n))) is not None}
    last: int | None = None  # storeTimestamp of the last record before the segment
    for number, segment in enumerate(job.plan.segments[:in_use]):
        found.append(DamagedSegment(number, segment, last, number == in_use - 1))
        time = times.get(number)
        behind = next((times[n] for n in range(number + 1, in_use) if n in times), None)
        # a time later than that of the next segment, which agrees with the one before, has a
        # flipped bit; stale records never begin a segment (evidence.judge_stretch)
        if time is not None and (last is None or behind is None or not last <= behind < time):
            last = time
    return found


def judged_by_all(
    job: "Pipeline", walks: Walks, asked: list[DamagedSegment], damaged: Set[int]
) -> dict[int, list[Given]]:
    """What the whole log says of the pieces of segments, also of those without a break that are of
    an older life; none where no piece is.
    """
    sound = [
        SoundPart(
            row["split"], row["first"], row["next"], row["records"], row["last_timestamp"],
            row["run"],
        )
        for number in range(len(asked)) if number not in damaged
        for row in walks[number].accepted if row["records"]
    ]  # fmt: skip
    rows = job.judge_lives([(n, asked[n].segment) for n in sorted(damaged)], sound)
    pieces: dict[int, list[Given]] = {}
    for row in rows:
        number = bisect_right(asked, row["start"], key=lambda each: each.segment.start) - 1
        if number in damaged or not row["live"]:
            given = Given(row["start"], row["end"], row["live"], row["value"])
            pieces.setdefault(number, []).append(given)
    return pieces


def _last_time(walk: SegmentWalk | None) -> int | None:
    """The storeTimestamp of the last record of a segment's walk; None without a record."""
    accepted = walk.accepted if walk else []
    return next((r["last_timestamp"] for r in reversed(accepted) if r["records"]), None)
