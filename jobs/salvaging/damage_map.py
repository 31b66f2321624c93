"""The damaged ranges of a log as reports show them: place, cause and witnesses of each range."""

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING, Any, BinaryIO

from reput.jobs.outputs.report import counted, range_text
from reput.jobs.pipeline.link import Linked, Scanned
from reput.store_format.damage.evidence import heard
from reput.store_format.damage.queue_findings import Gap
from reput.store_format.damage.ranges import Damage, DamageKind
from reput.store_format.damage.repair import Testimony
from reput.store_format.derived.index_header import NO_HEADER, IndexHeader, index_files
from reput.store_format.derived.queues import PastEnd
from reput.store_format.faults import CRC_FAULTS, REASONS, Fault, StoreError
from reput.store_format.files.folder import Folder
from reput.store_format.files.protocol import InputStorage
from reput.store_format.log.reader import LogReader
from reput.store_format.log.segments import Finding, Segment
from reput.store_format.log.walk import Read
from reput.store_format.names import INDEX, LMQ_PREFIX
from reput.store_format.rocksdb.queues import past_end_of
from reput.udfs.damage.segments import padded
from reput.udfs.range_files import read_ranges
from reput.udfs.staging import Staging, pieces_of

if TYPE_CHECKING:
    from reput.jobs.opening.plan import Plan

RANGES_LISTED = 1000  # ranges that the report names; it only counts the others by cause
RANGES_SHOWN = 20
KEPT_FROM = "kept from position"  # of findings about records whose queueOffset is wrong
_CAUSE = "kind", "field", "reason", "ranges", "bytes"
MISSING_SHOWN = 20  # gaps named for each range that may have held their messages


@dataclass
class DamageMap:
    """The damage of a log. Offsets are physical, lengths in bytes.

    linked: the pieces of the live log, and its end.
    mapped: the MAPPED row of each damaged segment, by the segment's number.
    """

    linked: Linked
    mapped: dict[int, Scanned]
    segments: list[Segment]
    segment_bytes: int
    findings: list[Finding]
    in_use: int  # number of segments, without those of zeros only at the log's end
    ranges: list[Damage] = field(default_factory=list)  # the first RANGES_LISTED
    more: list[Damage] = field(default_factory=list)  # ranges not in staging: holes, zeros, torn
    strays: list[Damage] = field(default_factory=list)  # records without a place in their queue
    testimony: list[Testimony] = field(default_factory=list)  # what queues know of single records
    count: int = 0
    bytes_lost: int = 0
    causes: dict[tuple[str, int], list[int]] = field(default_factory=dict)  # -> ranges, bytes
    gaps: list[Gap] = field(default_factory=list)  # the first ones
    gaps_unlisted: int = 0
    gap_lines: list[str] = field(default_factory=list)  # files of staging that list all gaps
    messages_missing: int = 0
    renumberings: int = 0  # queueOffsets outvoted by their neighbours, see damage/queue_ends, chain
    past_end: "NamedPastEnd" = field(default_factory=lambda: NamedPastEnd())
    warnings: list[str] = field(default_factory=list)

    def all_warnings(self) -> list[str]:
        """The lines that people must read: all findings, the first ranges, all warnings."""
        lines = [f"{each.path}: {each.reason}" for each in self.findings]
        lines += [range_text(describe(damage, self)) for damage in self.ranges[:RANGES_SHOWN]]
        if self.count > RANGES_SHOWN:
            lines.append(f"... and {self.count - RANGES_SHOWN:,} more ranges")
        return lines + self.warnings

    def as_json(self) -> dict[str, Any]:
        """The damage for a manifest and --json; the lists of ranges and gaps are bounded."""
        return {
            "ranges": [describe(damage, self) for damage in self.ranges],
            "range_count": self.count,
            "bytes_lost": self.bytes_lost,
            "causes": [
                dict(zip(_CAUSE, (kind, *field_of(kind, fault), *sums), strict=True))
                for (kind, fault), sums in sorted(self.causes.items())
            ],
            "missing": [vars(gap) for gap in self.gaps],
            "missing_unlisted": self.gaps_unlisted,
            "messages_missing": self.messages_missing,
            "past_end": [vars(each) for each in self.past_end.queues],
            "messages_past_end": self.past_end.messages,
            "left_out": [each.path for each in self.findings if each.left_out],
        }


@dataclass
class NamedPastEnd:
    """What queues name past a log's end; the log itself does not show that it was longer."""

    queues: list[PastEnd] = field(default_factory=list)  # the first RANGES_LISTED
    queue_count: int = 0
    messages: int = 0  # without those of light queues (LMQ), which are in their own queues too

    def text(self) -> str:
        """How many messages of how many queues, and the queue that has most of them."""
        most = max(self.queues, key=lambda each: each.count)
        return (
            f"{counted(self.messages, 'message')} of {counted(self.queue_count, 'queue')}, most of "
            f"topic {most.topic!r}, queue {most.queue_id} (queueOffset {most.first} to "
            f"{most.first + most.count - 1})"
        )


def named_past_end(store: Folder, end: int) -> NamedPastEnd:
    """What the queues at `store` name past the log's end, of files or else of RocksDB."""
    return _counted_past(past_end_of(store, end))


def _counted_past(queues: Iterable[PastEnd]) -> NamedPastEnd:
    found = NamedPastEnd()
    for each in queues:
        found.queue_count += 1
        if not each.topic.startswith(LMQ_PREFIX):
            found.messages += each.count
        if len(found.queues) < RANGES_LISTED:
            found.queues.append(each)
    return found


PointingIndex = tuple[str, IndexHeader]  # the path of a file, and its header


def index_past_end(store: Folder, end: int) -> PointingIndex | None:
    """Path and header of the last index file, if its last message is past the log's end."""
    about, head = next(iter(index_files(store)[-1:]), (None, NO_HEADER))
    if about is None or head == NO_HEADER or head.end_offset < end:
        return None
    return f"{store}/{INDEX}/{about.name}", head


def index_of_older_log(plan: "Plan", header: IndexHeader) -> str:
    """What a broker does with an index that is of an earlier log, which was removed (#8041); '' if
    the index is of this log. header: as of `index_past_end`.

    Its last message was stored before this log's first one.
    """
    first = _first_time(plan)
    return "" if first is None or header.end_timestamp >= first else (
        "the index is of an older log, as its last message was stored before this log's first; a "
        f"broker indexes no message before physical {header.end_offset:,}, and says nothing of it"
    )  # fmt: skip


def _first_time(plan: "Plan") -> int | None:
    """The storeTimestamp of the first record that is whole where a segment begins."""
    with LogReader(plan.storage, plan.segments, plan.record_rules) as log:
        for segment in plan.segments:
            with suppress(StoreError):
                return log.record_at(segment.start).store_timestamp
    return None


def lost_end(plan: "Plan", end: int, takes: Callable[[str], bool] | None = None) -> list[str]:
    """A line on messages past the log's end that queues name, or else the last index file.

    takes: which topics count, None: all; an index does not name them.
    """
    queues = iter(()) if plan.in_use else past_end_of(plan.folder, end)
    if (first := next(queues, None)) is None:
        return lost_by_index(plan, end)
    every = chain((first,), queues)
    past = _counted_past(each for each in every if takes is None or takes(each.topic))
    named = f"queues name {past.text()} past the log's end at {end:,}" if past.queue_count else ""
    return [named] if named else []


def lost_by_index(plan: "Plan", end: int) -> list[str]:
    """A line on an index whose last message this log, and no earlier one, has lost."""
    pointing = None if plan.in_use else index_past_end(plan.folder, end)
    if pointing is None or index_of_older_log(plan, pointing[1]):
        return []
    path, header = pointing
    return [
        f"messages up to {header.end_offset:,}, to which {path} points: the log ends at {end:,}"
    ]


def count_ranges(found: DamageMap, kind: DamageKind, fault: int, count: int, length: int) -> None:
    """Count ranges of one cause, and their bytes."""
    counted = found.causes.setdefault((str(kind), fault), [0, 0])
    counted[0] += count
    counted[1] += length
    found.count += count


def add_range(found: DamageMap, damage: Damage) -> None:
    """Add a range that no segment's scan has found; its bytes are not counted as lost."""
    count_ranges(found, damage.kind, int(damage.fault), 1, damage.length)
    found.more.append(damage)
    found.ranges = sorted([*found.ranges, damage])[:RANGES_LISTED]


def all_ranges(staging: Staging, found: DamageMap) -> Iterator[Damage]:
    """Every range, in the log's order; staging is read piece by piece."""
    more = sorted(found.more)
    for n in range(found.in_use):
        run = found.mapped[n]["run"] if n in found.mapped else ""
        for damage in read_ranges(staging, run):
            while more and more[0].offset < damage.offset:
                yield more.pop(0)
            yield damage
    yield from more


def write_ranges(staging: Staging, found: DamageMap, output: BinaryIO) -> None:
    """Write every range and gap as JSON lines, for `--ranges`; few are in memory at a time."""
    for damage in all_ranges(staging, found):
        output.write(json.dumps({"type": "range", **_describe(damage, found)}).encode() + b"\n")
    for name in found.gap_lines:
        output.writelines(pieces_of(staging, name))


def field_of(kind: str, fault: int) -> tuple[str, str]:
    """(the field at fault, what is wrong with it)."""
    if kind == DamageKind.STALE and fault == Fault.NONE:
        return "storeTimestamp/queueOffset", "is of an earlier time: stale"
    return REASONS.get(Fault(fault), ("", ""))


def describe(damage: Damage, found: DamageMap) -> dict[str, Any]:
    """A range as a dict with the names that reports use."""
    missing = (vars(gap) for gap in found.gaps if gap.after < damage.offset < gap.before)
    return {**_describe(damage, found), "missing": list(islice(missing, MISSING_SHOWN))}


def _describe(damage: Damage, found: DamageMap) -> dict[str, Any]:
    segment = segment_of(found.segments, found.segment_bytes, damage.offset)
    field_name, reason = field_of(damage.kind, damage.fault)
    said = heard(damage)
    is_stale = damage.kind == DamageKind.STALE and damage.fault == Fault.NONE
    return {
        "file": segment.path if segment else None,
        "offset": damage.offset - segment.start if segment else 0,
        "physical_offset": damage.offset,
        "length": damage.length,
        "kind": str(damage.kind),
        "field": field_name,
        "value": None if is_stale else damage.value,
        "reason": reason,
        "witnesses": list(said.witnesses),
        "against": list(said.against),
        "sureness": str(said.sureness),
        "follows": "nothing live" if is_tail(damage, found) else damage.follows,
    }


def harms(shown: dict[str, Any]) -> bool:
    """Whether a range stops a broker, or makes it lose other messages.

    A record that has no place in its queue is whole, and harms no other record. Neither does a
    record with a doubtful field that no CRC and no queue depends on.
    """
    if shown["kind"] == DamageKind.CONTENT:
        return shown["field"] in {REASONS[fault][0] for fault in CRC_FAULTS}
    return shown["field"] not in {REASONS[each][0] for each in (Fault.STRAY, Fault.KEPT_OUT)}


def segment_of(segments: list[Segment], segment_bytes: int, offset: int) -> Segment | None:
    """The segment that holds a physical offset, None in a hole or before the first segment."""
    at = bisect_right([segment.start for segment in segments], offset) - 1
    return segments[at] if at >= 0 and offset < segments[at].start + segment_bytes else None


def read_places(
    storage: InputStorage, found: DamageMap, places: Iterable[int]
) -> Iterator[tuple[int, Segment, Read]]:
    """(place, its segment, reader of that segment) of each place that lies in a segment.

    The reader pads bytes after the file's end. places: ascending physical offsets. One segment is
    open at a time. Raises StoreChanged.
    """
    held = groupby(places, lambda at: segment_of(found.segments, found.segment_bytes, at))
    for segment, there in held:
        if segment is None:
            continue
        with closing(storage.open(segment.path, segment.state)) as reader:
            read = padded(reader, segment)
            for place in there:
                yield place, segment, read


def is_tail(damage: Damage, found: DamageMap) -> bool:
    """Whether a range lies after the log's end, so that nothing live follows it."""
    return damage.offset >= found.linked.end
