"""Opens a log for the Spark source and exports, cuts it into parts, and finds its present end."""

import zlib
from contextlib import closing
from dataclasses import replace
from itertools import pairwise

import numpy as np

from reput.jobs.opening.plan import Plan, make_plan
from reput.jobs.sources.options import (
    EARLIEST,
    JUDGED,
    LATEST,
    MOST_JUDGED,
    OptionError,
    SourceOptions,
)
from reput.store_format.discover.purpose import READ
from reput.store_format.discover.store import discover, store_at
from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.faults import SALVAGE, StoreError
from reput.store_format.files.local import LocalStorage
from reput.store_format.log.groups import log_folders
from reput.store_format.log.rules import NO_HEADS
from reput.store_format.log.segments import find_segments, list_segments, may_grow
from reput.udfs.table.log_parts import LogPart, LogParts, PartReader

_PART_LEAST = 16 << 20  # bytes
_PARTS_A_CORE = 2  # few, as the task of a part also walks the segment's records before the part
_CUTS_MOST = 4  # parts of a segment at most, for the same reason
_BLOCK = 1 << 12
_KNOWN_BY = 1 << 8  # bytes: the end of a record, with the id that the client gave it


def plan_of(options: SourceOptions) -> Plan:
    """The plan of the store. Raises StoreError, SettingError, UnknownRelease, OSError."""
    at = store_at(options.path, options.rocketmq, options.settings)
    return make_plan(at, discover(at, READ), READ.asked(options.on_damage))


def parts_log(plan: Plan, options: SourceOptions, check_body: bool, grows: bool) -> LogParts:
    """The log of a plan, for tasks. grows: whether a broker may write to it meanwhile."""
    rules = scan_rules(plan.profile, plan.settings, plan.batch_topics, heads_from=plan.heads_from)
    if options.on_damage == SALVAGE:
        rules = replace(rules, check_property_crc=plan.profile.property_crc)
    segments = may_grow(plan.segments, -1) if grows else plan.segments
    agreed_to = None if plan.heads_from == NO_HEADS else plan.splits.limit
    return LogParts(
        plan.storage, tuple(segments), rules, options.on_damage, check_body, options.may_miss,
        agreed_to,
    )  # fmt: skip


def judged(plan: Plan, options: SourceOptions, log: LogParts, grows: bool) -> LogParts:
    """The log with which of its records are live, as option `judged` says, or found in this
    process. Raises OptionError for a longer log than that one may read, StoreError for another one.
    """
    if log.on_damage != SALVAGE:
        return log
    if options.judged is not None:
        found = options.judged
        if crc_before(log, found.end) != found.crc:
            raise StoreError(
                f"{plan.store}: is not the log of option {JUDGED}, or was cut: judge it again"
            )
        return replace(log, live=found.live, judged_to=found.end)
    if plan.log_bytes > options.most_judged:
        raise OptionError(
            f"{plan.store}: {SALVAGE} needs the whole log to be judged, and one process would read "
            f"{plan.log_bytes / 1e9:,.0f} GB for that: give option {JUDGED} what reput.judged("
            f"spark, path) returns, whose tasks read it, or {MOST_JUDGED}=BYTES"
        )
    return log.judged(end_of_log(log, log.segments[0].start) if grows else log.segments[-1].end)


def log_now(plan: Plan, log: LogParts) -> LogParts:
    """The log with its segments listed anew, and nothing else. Raises StoreError, OSError."""
    size = plan.settings.mapped_file_size_commit_log
    folders = log_folders(plan.folder, plan.settings)
    if log.on_damage == SALVAGE:
        segments = list_segments(plan.storage, folders, size).segments
    else:
        segments = find_segments(plan.storage, folders, size)
    return replace(log, segments=tuple(may_grow(segments, -1)))


def cut(
    log: LogParts, start: int, stop: int, cores: int, wanted: int | None, known: bool = False
) -> list[LogPart]:
    """The parts of [start, stop), physical offsets. known: whether a record begins at `start`.

    wanted: least number of parts if the log is long enough; None: chosen by `cores`.
    """
    numbers = [
        n for n, segment in enumerate(log.segments) if segment.start < stop and segment.end > start
    ]
    while numbers and numbers[-1] == len(log.segments) - 1 and not log.is_written_from(numbers[-1]):
        numbers.pop()
    total = sum(min(log.segments[n].end, stop) - max(log.segments[n].start, start) for n in numbers)
    size = max(total // (wanted or cores * _PARTS_A_CORE), _PART_LEAST if wanted is None else 1)
    most = _CUTS_MOST if isinstance(log.storage, LocalStorage) else 1
    looks = numbers[-1:] if wanted is not None or most > 1 else []  # it may be partly zeros
    parts = []
    for n in numbers:
        segment = log.segments[n]
        begin, end = max(segment.start, start), min(segment.end, stop)
        first = begin if known and begin == start else segment.start
        written = _written_end(log, n, begin, end) if n in looks else end
        count = max(-(-(written - begin) // size), 1)
        count = count if wanted else min(count, most)
        edges = [begin + (written - begin) * i // count for i in range(count)] + [end]
        for a, b in pairwise(edges):
            if a < b:
                parts.append(LogPart(n, first, a, b))
    return parts


def _written_end(log: LogParts, number: int, begin: int, end: int) -> int:
    """Roughly where zeros begin in [begin, end), to give all tasks similar shares."""
    segment = log.segments[number]
    reader = log.storage.open(segment.path, segment.state)
    block = np.empty(_BLOCK, np.uint8)
    low, high = begin, end
    try:
        while high - low > _PART_LEAST // 4:
            middle = (low + high) // 2
            there = block[: max(min(segment.end - middle, _BLOCK), 0)]
            if len(there):
                reader.read_into(middle - segment.start, there)
            low, high = (middle, high) if there.any() else (low, middle)
    finally:
        reader.close()
    return high


def end_of_log(log: LogParts, start: int) -> int:
    """The end of the last whole record of a log that may be growing. start: begin of a record.

    A record that may still be being written does not count, and is left for the next call.
    Raises DamageFound if live records follow damage.
    """
    if log.agreed_to is not None:
        return log.agreed_to
    number = len(log.segments) - 1
    while number and not log.is_written_from(number):
        number -= 1
    segment = log.segments[number]
    at = start if segment.start <= start < segment.end else segment.start
    part = LogPart(number, at, at, segment.end)
    with closing(log.storage.open(segment.path, segment.state)) as reader:
        return PartReader(log, part, reader).live_end()


def offset_after(log: LogParts, start: int, rows: int, end: int) -> int:
    """The physical offset `rows` records after that at `start`, at most `end`."""
    for n, segment in enumerate(log.segments):
        if segment.end <= start or segment.start >= end:
            continue
        at = max(start, segment.start)
        part = LogPart(n, at, at, min(segment.end, end))
        for step in log.steps(part):
            if len(step.rows) > rows:
                return step.start(rows)
            rows -= len(step.rows)
            if rows == 0:
                return min(step.next, end)
    return end


def place_of(log: LogParts, said: int) -> int:
    """The physical offset of the first record at or after `startingOffsets`."""
    first = log.segments[0].start
    if said == EARLIEST:
        return first
    if said == LATEST:
        return end_of_log(log, first)
    if said < first:
        return checked_start(log, said)
    for n, segment in enumerate(log.segments):
        if said < segment.start:  # segments before it are missing
            return segment.start
        if said < segment.end:
            for step in log.steps(LogPart(n, segment.start, said, segment.end)):
                return step.start(0)
            return segment.end
    return log.segments[-1].end


def crc_before(log: LogParts, at: int) -> int | None:
    """The CRC-32 of the last bytes before an offset, by which a log is known; None: not there."""
    for segment in log.segments:
        if segment.start < at <= segment.end:
            last = np.empty(min(at - segment.start, _KNOWN_BY), np.uint8)
            with closing(log.storage.open(segment.path, segment.state)) as reader:
                reader.read_into(at - segment.start - len(last), last)
            return zlib.crc32(last)
    return None


def checked_start(log: LogParts, start: int) -> int:
    """The offset from which a stream at `start` goes on. Raises StoreError if the log lacks
    `start` and failOnDataLoss is true.
    """
    first, last = log.segments[0], log.segments[-1]
    if first.start <= start <= last.end:
        return start
    if start > last.end:
        why = f"the log ends before, at {last.end} or earlier: it is another log, or was cut"
        there = first.start
    else:
        lost = first.start - start
        why = f"the log begins at {first.start}: {lost:,} bytes were deleted before they were read"
        there = first.start
    if not log.may_miss:
        raise StoreError(
            f"{first.path}: reading was to go on at physical offset {start}, but {why}; option "
            f"failOnDataLoss=false goes on at {there}"
        )
    return there
