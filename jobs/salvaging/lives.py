"""The segments of a log as each walk leaves them: which are damaged, what the whole log says of the
pieces of those, and which of their records are live.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Set
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from reput.jobs.engines.choice import engine_of
from reput.jobs.outputs.publish import Temporary
from reput.jobs.pipeline.job import find_store
from reput.jobs.pipeline.link import Scanned, SegmentWalk, runs_of
from reput.jobs.sources.opened_log import crc_before, parts_log
from reput.jobs.sources.options import Judgement, SourceOptions
from reput.store_format.damage.liveness import Given
from reput.store_format.damage.ranges import KINDS, DamageKind
from reput.store_format.damage.tolerant import MOST_RANGES
from reput.store_format.discover.purpose import READ
from reput.store_format.discover.store import store_at
from reput.store_format.faults import SALVAGE, Fault
from reput.udfs.damage.lives import SoundPart, suspect
from reput.udfs.damage.segments import DamagedSegment, MapSegments
from reput.udfs.range_files import range_rows
from reput.udfs.table.log_parts import LogParts, Stretches, live_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reput.jobs.engines.engine import Engine
    from reput.jobs.opening.plan import Plan
    from reput.jobs.pipeline.pipeline import Pipeline

Walks = dict[int, SegmentWalk]  # by the segment's number


def live_stretches(job: "Pipeline") -> dict[int, Stretches]:
    """The live stretches of each segment that has damage or an older life, by where it begins: what
    a rebuild salvages there.
    """
    job.check_property_crc()
    walks, broken, in_use = walked(job)
    found = {}
    for number, row in map_segments(job, walks, broken, in_use, MOST_RANGES).items():
        segment, lost = job.plan.segments[number], list[tuple[int, int]]()
        for rows in range_rows(job.staging, row["run"]):
            rows = rows[rows["kind"] != KINDS.index(DamageKind.CONTENT)]
            lost += zip(rows["offset"].tolist(), rows["end"].tolist(), strict=True)
        is_last = number == in_use - 1
        if not is_last and Fault(row["fault"]) == Fault.ZEROS:
            lost.append((row["next"], segment.end))
        found[segment.start] = live_of(segment, lost, row["live_end"], is_last)
    return found


def log_end(plan: "Plan") -> int:
    """Where the log of a plan ends, or its last segment."""
    return plan.segments[-1].end if plan.splits.limit is None else plan.splits.limit


def judged_log(job: "Pipeline", log: LogParts) -> LogParts:
    """The log of a job with what all of it says of its damaged segments, found by tasks."""
    return replace(log, live=live_stretches(job), judged_to=log_end(job.plan))


def judged(
    spark: "Engine | SparkSession", store: str, work: str | None = None, *,
    rocketmq: str | None = None, settings: Mapping[str, str] | None = None,
) -> str:  # fmt: skip
    """Find the live records of a damaged log by tasks: the value of the option `judged` of the
    source "commitlog", for `onDamage=salvage`.

    work: a folder or URL for temporary files that all workers see; None: this machine's. Raises
    StoreError, SettingError, UnknownRelease, OSError.
    """
    purpose = READ.asked(SALVAGE)
    found = find_store(engine_of(spark), store_at(store, rocketmq, settings or {}), purpose)
    log = parts_log(found.plan, SourceOptions(store, on_damage=SALVAGE), False, grows=False)
    end = log_end(found.plan)
    with found.temporarily(Temporary.JUDGED, work) as job:
        return Judgement(end, crc_before(log, end), live_stretches(job)).as_text()


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


def _damaged_segments(job: "Pipeline", walks: Walks, in_use: int) -> list[DamagedSegment]:
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


def map_segments(
    job: "Pipeline", walks: Walks, broken: list[int], in_use: int, most: int
) -> dict[int, Scanned]:
    """The MAPPED row of each segment that has damage or an older life, by its number."""
    rows = ((n, row) for n in range(in_use) if n in walks for row in walks[n].accepted)
    listed = suspect(rows) & set(range(in_use)) | set(broken)
    if not listed:
        return {}
    runs = tuple(runs_of(row for walk in walks.values() for row in walk.accepted).items())
    splits = job.plan.splits
    asked = _damaged_segments(job, walks, in_use)
    segments = {n: asked[n] for n in broken}
    task = MapSegments(
        job.plan.storage,
        job.staging,
        tuple(segments.values()),
        splits.segment_bytes,
        splits.in_segment,
        job.rules,
        runs,
        tuple(_unread(job, walks, in_use)),
        most,
    )
    found = job.map_segments(task) if broken else []
    mapped: dict[int, Scanned] = {row["segment"]: row for row in found}
    given = _judged_by_all(job, walks, asked, segments.keys(), listed)
    if given:
        again = tuple(replace(asked[n], given=tuple(mine)) for n, mine in given.items())
        mapped |= {row["segment"]: row for row in job.map_segments(replace(task, segments=again))}
    return mapped


def _unread(job: "Pipeline", walks: Walks, in_use: int) -> Iterator[tuple[int, int]]:
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


def _judged_by_all(
    job: "Pipeline", walks: Walks, asked: list[DamagedSegment], damaged: Set[int], listed: Set[int]
) -> dict[int, list[Given]]:
    """What the whole log says of the pieces of damaged segments, and of those without a break that
    are of an older life; none where no piece is. listed: whose pieces a task lists.
    """
    sound = [
        SoundPart(*(row[name] for name in SoundPart._fields))
        for number in range(len(asked)) if number not in listed
        for row in walks[number].accepted if row["records"]
    ]  # fmt: skip
    rows = job.judge_lives([(n, asked[n].segment) for n in sorted(listed)], sound)
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
