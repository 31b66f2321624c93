"""One of the compared stores: its log, with start and end."""

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from reput.jobs.opening.plan import Plan, make_plan
from reput.jobs.sources.opened_log import discover_for_reading, end_of_log, parts_log
from reput.jobs.sources.options import SourceOptions
from reput.store_format.damage.resync import NOT_FOUND, Prover
from reput.store_format.discover.store import StoreAt
from reput.store_format.faults import SALVAGE
from reput.store_format.log.reader import LogReader
from reput.store_format.log.rules import NO_CHECKS
from reput.udfs.damage.segments import padded
from reput.udfs.table.log_parts import LogParts, new_walk

Span = tuple[int, int]  # [start, end), physical offsets


class Tail(NamedTuple):
    """The rest of a segment after a log's last live record; physical offsets."""

    end: int  # end of the last nonzero byte
    record: int  # begin of the first whole record at its own place; -1 for none


@dataclass(frozen=True)
class Side:
    """A store as found. start, end: physical offsets of its live records."""

    path: str
    plan: Plan
    log: LogParts
    end: int
    tail: Tail | None
    notes: list[str] = field(default_factory=list)

    @property
    def start(self) -> int:
        return self.log.segments[0].start

    @cached_property
    def spans(self) -> list[Span]:
        """The parts of [start, end) that each segment has, in order, not joined."""
        found = ((s.start, min(s.end, self.end)) for s in self.log.segments)
        return [(start, end) for start, end in found if start < end]

    @cached_property
    def _starts(self) -> list[int]:
        return [start for start, _ in self.spans]

    def has(self, place: int) -> bool:
        """Whether the log has the byte at a physical offset."""
        number = bisect_right(self._starts, place) - 1
        return number >= 0 and place < self.spans[number][1]

    def reader(self) -> LogReader:
        """A reader of single records that checks all CRCs."""
        rules = self.log.rules
        checks = NO_CHECKS._replace(
            body=True, property=self.plan.profile.property_crc,
            split_properties=rules.dispatch.split_properties,
        )  # fmt: skip
        return LogReader(self.log.storage, list(self.log.segments), rules.records, checks)


def open_side(at: StoreAt) -> Side:
    """Find a store's log and its end. Raises StoreError, SettingError, UnknownRelease, OSError."""
    plan = make_plan(at, discover_for_reading(at), tolerant=True, even_rocksdb=True)
    log = parts_log(plan, SourceOptions(plan.store, on_damage=SALVAGE), False, grows=False)
    notes = [*plan.warnings, *plan.notes[: 1 if plan.in_use else 0]]
    notes += [f"{finding.path}: {finding.reason}" for finding in plan.findings]
    limit = plan.splits.limit
    end = end_of_log(log, log.segments[0].start) if limit is None else limit
    tail = None if plan.in_use else _tail(log, end)
    return Side(plan.store, plan, log, end, tail, notes)


def _tail(log: LogParts, end: int) -> Tail | None:
    """The rest after the end; None if it is zeros, or a BLANK up to the segment's end."""
    segment = next((s for s in log.segments if s.start <= end < s.end), None)
    if segment is None:
        return None
    reader = log.storage.open(segment.path, segment.state)
    try:
        read, last = padded(reader, segment), end
        walk = new_walk(read, segment, log.rules, NO_CHECKS)
        for at, window in walk.windows(end, segment.end):
            if window.any():
                last = at + int(np.flatnonzero(window)[-1]) + 1
        if last == end:
            return None
        found = Prover(read, end, segment.end, log.rules.records).next_record(end)
        return Tail(last, -1 if found == NOT_FOUND else found)
    finally:
        reader.close()
