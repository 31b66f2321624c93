"""The logs of compared stores: where they begin and end, where they part, the record there."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from reput.jobs.engines.engine import Engine, Row
from reput.jobs.opening.plan import Plan, make_plan
from reput.jobs.pipeline.stages import guided, stage_by_tasks
from reput.jobs.sources.opened_log import end_of_log, parts_log
from reput.jobs.sources.options import SourceOptions
from reput.store_format.damage.resync import NOT_FOUND, Prover
from reput.store_format.discover.purpose import COMPARE
from reput.store_format.discover.store import StoreAt, discover
from reput.store_format.faults import SALVAGE
from reput.store_format.log.reader import LogReader, NoRecord
from reput.store_format.log.rules import NO_CHECKS
from reput.store_format.notes import Progress
from reput.store_format.query.reader import StoredMessage
from reput.udfs.compare.logs import UNLIKE, ComparedPiece, CompareRanges, message_line
from reput.udfs.damage.segments import padded
from reput.udfs.table.log_parts import LogParts, new_walk

# ---
# One of the compared stores: its log, with start and end.

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
    plan = make_plan(at, discover(at, COMPARE), COMPARE)
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


# ---
# Compares the bytes of logs, piece by piece, on an engine.

_PIECE_BYTES = 64 << 20


class Parting(NamedTuple):
    """The spans in which two logs differ, in physical offsets; `ours` is the first store.

    unlike: spans with different bytes, from the first such byte on.
    ours, theirs: spans that only one log has, after the starts of both logs.
    """

    unlike: tuple[Span, ...]
    ours: tuple[Span, ...]
    theirs: tuple[Span, ...]

    @property
    def spans(self) -> list[Span]:
        """All spans in order, joined where they meet."""
        found: list[Span] = []
        for start, end in sorted((*self.unlike, *self.ours, *self.theirs)):
            if found and start <= found[-1][1]:
                found[-1] = found[-1][0], max(found[-1][1], end)
            else:
                found.append((start, end))
        return found

    @property
    def first(self) -> int | None:
        return min((start for start, _ in self.spans), default=None)


def part(engine: Engine, sides: Sequence[Side], progress: Progress) -> list[Parting]:
    """Compare each side with the first side: a Parting for each but the first, in order.

    Raises StoreChanged, OSError, EngineFailed.
    """
    pieces = tuple(_pieces(sides))
    found: dict[int, list[Row]] = {number: [] for number in range(1, len(sides))}
    if pieces:
        groups = guided(len(pieces), engine.most_cores)
        task = CompareRanges(tuple(side.log for side in sides), pieces, groups)
        total = sum((piece.end - piece.start) * (1 + len(piece.logs)) for piece in pieces)
        with stage_by_tasks(engine, progress, "compared", total, "bytes"):
            rows = engine.numbers(range(len(groups))).run(task, UNLIKE).collect()
        for row in sorted(rows, key=lambda row: row["start"]):
            found[row["log"]].append(row)
    return [_parting(sides[0], sides[number], rows) for number, rows in found.items()]


def _pieces(sides: Sequence[Side]) -> Iterable[ComparedPiece]:
    for start, end in _between_edges(sides):
        logs = tuple(n for n, side in enumerate(sides) if n and side.has(start))
        if logs and sides[0].has(start):
            for at in range(start, end, _PIECE_BYTES):
                yield ComparedPiece(at, min(at + _PIECE_BYTES, end), logs)


def _between_edges(sides: Sequence[Side]) -> Iterable[Span]:
    """The spans between neighbouring starts or ends of segments of any log."""
    return pairwise(sorted({edge for side in sides for span in side.spans for edge in span}))


def _parting(ours: Side, theirs: Side, rows: Iterable[Row]) -> Parting:
    begun = max(ours.start, theirs.start)
    unlike = tuple((row["first"], row["last"]) for row in rows)
    spans = [(a, b) for a, b in _between_edges((ours, theirs)) if a >= begun]
    only = tuple(span for span in spans if ours.has(span[0]) and not theirs.has(span[0]))
    theirs_only = tuple(span for span in spans if theirs.has(span[0]) and not ours.has(span[0]))
    if unlike and ours.plan.splits.segment_bytes != theirs.plan.splits.segment_bytes:
        # after the first BLANK the same records have other physical offsets
        unlike = ((unlike[0][0], max(ours.end, theirs.end)),)
    return Parting(unlike, only, theirs_only)


# ---
# Finds the record that covers a physical offset of a log.


class There(NamedTuple):
    """The record of one store at the first offset at which it differs from the other store."""

    physical_offset: int  # begin of the record, or the offset itself if there is no record
    message: dict[str, Any] | None  # as from message_line; None if there is no record
    reason: str  # fault of the record; '' if it is sound


def record_there(side: Side, place: int) -> There:
    """The record of a side that covers a physical offset, with its CRCs checked.

    It walks the segment from its first record, so it finds the record that a broker would read.
    """
    segment = next((s for s in side.log.segments if s.start <= place < s.end), None)
    if segment is None or place >= side.end:
        return There(place, None, "the log has ended")
    at = _start_of_record(side, place)
    with side.reader() as log:
        try:
            record = log.record_at(at)
        except NoRecord as error:
            return There(at, _as_it_stands(side, at), f"{error.field}: {error.reason}")
        split = side.log.rules.dispatch.split_properties
        return There(at, message_line(StoredMessage(record, split, log.body)), "")


def _as_it_stands(side: Side, at: int) -> dict[str, Any] | None:
    """The record at an offset without a check of CRCs; None if it has another fault too."""
    log = side.reader()
    log.checks = NO_CHECKS
    with log:
        try:
            split = side.log.rules.dispatch.split_properties
            return message_line(StoredMessage(log.record_at(at), split, log.body))
        except NoRecord:
            return None


def _start_of_record(side: Side, place: int) -> int:
    """The begin of the record that covers a place; the place itself if there is no record."""
    segment = next(s for s in side.log.segments if s.start <= place < s.end)
    reader = side.log.storage.open(segment.path, segment.state)
    try:
        walk = new_walk(padded(reader, segment), segment, side.log.rules, NO_CHECKS)
        start = segment.start
        for step in walk.steps(segment.start, place + 1):
            if len(step.rows):
                last = step.rows[-1]
                start = int(last["physicalOffset"])
                if start + int(last["size"]) > place:
                    return start
            start = step.next
        return start if start <= place else place
    finally:
        reader.close()
