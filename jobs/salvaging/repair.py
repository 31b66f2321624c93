"""A repaired copy of a store: fields restored from witnesses, fillers in place of damaged ranges,
lost positions kept.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from operator import attrgetter
from typing import Any

import numpy as np

from reput.jobs.opening.plan import Plan
from reput.jobs.outputs import report
from reput.jobs.outputs.output import REPAIR_FORMAT
from reput.jobs.pipeline.pipeline import Pipeline
from reput.jobs.salvaging.damage_map import DamageMap, all_ranges, read_places, segment_of
from reput.store_format.damage import repair
from reput.store_format.damage.queue_findings import Gap
from reput.store_format.damage.ranges import Damage, DamageKind
from reput.store_format.damage.resync import Parts, Prover
from reput.store_format.faults import REFUSE, Fault
from reput.store_format.files.adapters import Overlay, Patched
from reput.store_format.layouts import BLANK_BYTES, PROPERTIES_LENGTH, RECORD_AT
from reput.store_format.log.records import topic_length_bytes
from reput.store_format.log.segments import Segment
from reput.store_format.names import COMMIT_LOG, segment_name
from reput.udfs.damage.repair import REPAIRED, RepairSegments, SegmentRepair
from reput.udfs.range_files import places_in
from reput.udfs.staging import Staging

# ---
# Restores fields of damaged records from witnesses, and reads the store with these fields.

_MOST_RESTORED = 10_000  # records examined
_MOST_BYTES = 1 << 16  # of a record, as each of its bits is flipped and the checksum tried
_BY_LOG = (Fault.PROPERTY_CRC, Fault.BAD_MAGIC, Fault.PLACE)


def restorations(job: "Pipeline", found: DamageMap) -> list[repair.Patch]:
    """A patch for each field that a witness knows, in the log's order."""
    by_place: dict[int, Damage | repair.Testimony] = {}
    for damage in (*all_ranges(job.staging, found), *found.strays):
        by_log = damage.fault in _BY_LOG and damage.kind != DamageKind.CONTENT
        if (by_log or damage.fault == Fault.KEPT_OUT) and len(by_place) < _MOST_RESTORED:
            by_place[damage.offset] = damage
    for each in found.testimony[:_MOST_RESTORED]:
        by_place[each.place] = each
    return list(_patches(job, found, by_place))


def _patches(
    job: "Pipeline", found: DamageMap, by_place: dict[int, Damage | repair.Testimony]
) -> Iterator[repair.Patch]:
    held: Segment | None = None
    for place, segment, read in read_places(job.plan.storage, found, sorted(by_place)):
        if segment != held:
            end, held = segment.start + found.segment_bytes, segment
            prover = Prover(read, segment.start, end, job.rules.records)
        parts = prover.lengths(place)
        if parts is not None and parts.size <= _MOST_BYTES:
            record = prover.bytes_at(place, parts.size)
            behind = prover.bytes_at(place + parts.size, RECORD_AT.sysFlag)
            yield from _of(by_place[place], record, parts, behind)


def _of(
    said: Damage | repair.Testimony, record: bytes, parts: Parts, behind: bytes
) -> list[repair.Patch]:
    if isinstance(said, repair.Testimony):
        at = parts.body_at - said.place + parts.body_length + topic_length_bytes(parts.magic)
        end = len(record) - parts.properties_length - PROPERTIES_LENGTH
        return repair.by_testimony(said, record, at, record[at:end])
    place = said.offset
    if said.fault == Fault.PROPERTY_CRC:
        patch = repair.by_checksum(place, record, parts.body_at - place, parts.body_length)
    elif said.fault == Fault.BAD_MAGIC:
        patch = repair.magic(place, record[RECORD_AT.magic : RECORD_AT.magic + 4])
    elif said.fault == Fault.PLACE:
        raw = record[RECORD_AT.physicalOffset : RECORD_AT.sysFlag]
        patch = repair.own_place(place, raw, parts.size, behind[RECORD_AT.physicalOffset :])
    else:
        raw = record[RECORD_AT.sysFlag : RECORD_AT.bornTimestamp]
        patch = repair.plain(place, raw, "the queue that misses it")
    return [patch] if patch else []


def restored(plan: "Plan", found: DamageMap, patches: list[repair.Patch]) -> "Plan":
    """The plan with a storage that reads the patched fields."""
    overlays: dict[str, list[Overlay]] = {}
    for patch in patches:
        segment = segment_of(found.segments, found.segment_bytes, patch.at)
        assert segment is not None
        overlay = Overlay(patch.at - segment.start, patch.now)
        overlays.setdefault(segment.path, []).append(overlay)
    return replace(plan, storage=Patched(plan.storage, overlays))


# ---
# The summary of a repair: for the console, --json and the copy's manifest.

DAMAGED = "damaged"  # the folder for the damaged bytes
_SHORT, _SHOWN = 2, 20  # without -v and with it


@dataclass
class RepairSummary:
    """The result of a repair. Sizes in bytes, times in seconds, offsets physical."""

    store: str
    output: str
    rocketmq: str
    log_start: int
    log_end: int
    damage: dict[str, Any]  # see reput.jobs.salvaging.damage_search.DamageMap.as_json
    messages: int = 0  # in the repaired log, with the fillers that have a queue entry
    fillers: int = 0
    corrected: int = 0  # records with only a wrong CRC, which stay where they are
    restored: list[dict[str, Any]] = field(default_factory=list)  # see restore.Patch.as_json
    filled: list[dict[str, Any]] = field(default_factory=list)  # lost positions with a filler
    not_filled: list[dict[str, Any]] = field(default_factory=list)  # gaps without room for fillers
    segments: list[report.OutputFile] = field(default_factory=list)
    saved: list[report.OutputFile] = field(default_factory=list)  # files with the damaged bytes
    derived: list[report.OutputFile] = field(default_factory=list)
    copied: list[str] = field(default_factory=list)  # the broker's configuration
    waits: list[str] = field(default_factory=list)  # timers and delays: files written for them
    on_damage: str = REFUSE  # by which the files were derived; `verify` of the copy needs it
    warnings: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)  # messages that are in no queue
    discovered: dict[str, Any] = field(default_factory=dict)  # what store_format/discover found
    first: str = ""  # what a person does before a broker starts on the copy
    releases: str = ""  # text that names the releases which write the same
    seconds: float = 0.0

    def manifest(self) -> dict[str, Any]:
        """The content of manifest.json: all fields but the time, the output and `releases`."""
        whole = {"format": REPAIR_FORMAT, **asdict(self)}
        del whole["seconds"], whole["output"], whole["releases"], whole["first"]
        whole["repaired"] = whole.pop("damage")  # damage of the store that was read, not the copy
        return whole

    def as_json(self) -> dict[str, Any]:
        """The content of --json: counts instead of the lists of files."""
        whole = asdict(self)
        for name in ("segments", "saved", "derived"):
            whole[name] = len(whole[name])
        return whole

    def text(self) -> str:
        kept, files = sum(each["many"] for each in self.filled), (f.path for f in self.derived)
        lines = [
            f"repaired {self.store} -> {self.output} (RocketMQ {self.releases or self.rocketmq})",
            f"  log       {self.log_start:,} to {self.log_end:,}, "
            f"{report.counted(self.messages, 'message')}, {report.files_text(files)}",
            f"  damage    {report.damage_line(self.damage)}",
            *(f"  range     {report.short_range(each)}" for each in self.damage["ranges"][:_SHORT]),
        ]
        if self.fillers:
            lines.append(
                f"  fillers   {report.counted(self.fillers, 'record')}, of which {kept:,} "
                f"{'keeps' if kept == 1 else 'keep'} a lost message's position"
            )
        if self.corrected:
            lines.append(
                f"  kept      {report.counted(self.corrected, 'record')} whose checksum is wrong: "
                "the copy's is made anew"
            )
        if self.saved:
            saved = sum(file.length for file in self.saved)
            lines.append(f"  saved     {report.counted(saved, 'damaged byte')} in {DAMAGED}/")
        lines += [
            f"  put back  {each['field']} of the record at {each['record']}: "
            f"{', '.join(each['bits'])}; by {each['by']}"
            for each in self.restored[:_SHOWN]
        ]
        ranges = {report.range_text(each) for each in self.damage["ranges"]}  # -v shows these
        lines += [f"  waits     {line}" for line in self.waits]
        lines += [f"  warning   {each}" for each in self.warnings if each not in ranges]
        lines += [f"  left out  {line}" for line in self.left_out]
        left = self.damage.get("left_out")
        if left:
            lines.append(
                f"  next      {left[0]} holds messages that the copy lacks: give it its name, and "
                "repair again"
            )
        elif self.first:
            lines.append(f"  next      {self.first}")
        else:
            lines.append(f"  next      start a broker on {self.output}")
        return "\n".join(lines)

    def details(self) -> list[str]:
        return [
            *(f"  range     {report.range_text(each)}" for each in self.damage["ranges"][:_SHOWN]),
            *report.found_lines(self.discovered),
        ]


# ---
# Assigns the lost positions of queues to the damaged ranges whose fillers keep them.


def place_lost(
    staging: Staging, found: DamageMap, summary: RepairSummary, crc_property: bool, spare_crc: bool
) -> dict[int, list[repair.LostPositions]]:
    """The lost positions that each range keeps: range offset -> positions, in queue order.

    spare_crc: whether fillers may lack the `__CRC32#` property if room is short.

    If several ranges lie between two messages of a queue, nothing shows which range held the lost
    messages between them. Any range will do, as positions only show a queue's order.
    """
    pieces = list(_pieces(staging, found))
    placed, left = _place(pieces, found.gaps, crc_property)
    if left and spare_crc:  # a position is worth more than a checksum, see repair.fill
        crc_property = False
        placed, left = _place(pieces, found.gaps, crc_property)
    if left:  # gaps before a queue's first message need no fillers, so they come last
        inner = [gap for gap in found.gaps if not _begins(gap)]
        begins = [gap for gap in found.gaps if _begins(gap)]
        placed, left = _place(pieces, inner, crc_property, begins)
    for at, positions in placed.items():
        summary.filled += [{**position._asdict(), "range": at} for position in positions]
    for gap in left:
        summary.not_filled.append(vars(gap))
        summary.warnings.append(
            f"topic {gap.topic!r}, queue {gap.queue_id}: no room for {gap.count:,} lost "
            f"positions from {gap.first} on: {_without_fillers(gap)}"
        )
    return placed


def _without_fillers(gap: Gap) -> str:
    """What becomes of the queue's later positions."""
    if _begins(gap):
        return "the queue begins behind them"
    return "each batch keeps its own" if gap.batch else "only the queue files keep them"


def _begins(gap: Gap) -> bool:
    """Whether a gap precedes its queue's first message. RocketMQ accepts any first queueOffset, so
    such a gap needs no fillers; if it gets some, they are those at the gap's end.
    """
    return gap.after < 0


def _place(
    pieces: list[tuple[int, int]], gaps: list[Gap], crc_property: bool, last: Sequence[Gap] = ()
) -> tuple[dict[int, list[repair.LostPositions]], list[Gap]]:
    """(range offset -> the positions that it has room for, the gaps without room).

    The gap that ends first takes the first range between its neighbours, as gaps that end later
    can still use later ranges. last: gaps that only get the room which the others leave.
    """
    starts = np.array([start for start, _ in pieces], np.int64)
    room = [length for _, length in pieces]
    placed: dict[int, list[repair.LostPositions]] = {}
    over = []
    for gap in (gap for some in (gaps, last) for gap in sorted(some, key=attrgetter("before"))):
        low, high = map(int, np.searchsorted(starts, (gap.after, gap.before)))
        first, left = gap.first, gap.count
        need = repair.least_bytes(gap.topic, crc_property)
        short = max(left - sum(each // need for each in room[low:high]), 0)
        if short and _begins(gap):
            over.append(replace(gap, count=short))
            first, left, short = first + short, left - short, 0
        for at in range(low, high):
            many = min(left, room[at] // need)
            if many:
                position = repair.LostPositions(gap.topic, gap.queue_id, first, many)
                placed.setdefault(int(starts[at]), []).append(position)
                room[at] -= many * need
                first, left = first + many, left - many
        if short:
            over.append(replace(gap, first=first, count=left))
    return placed, over


def _pieces(staging: Staging, found: DamageMap) -> Iterator[tuple[int, int]]:
    """(offset, room in bytes) of each lost range, split where a segment ends.

    Ranges that touch are one, as they are for the task that fills them: the last bytes of a
    segment may be a range too short for the BLANK, which then takes of the range before it.
    """
    size = found.segment_bytes
    read = places_in(staging)
    losses = found.linked.lost.segments
    at = end = 0
    for start, length in (place for loss in losses for place in read(loss).tolist()):
        if start != end or start % size == 0:
            yield from _cut(at, end, size)
            at = start
        end = start + length
    yield from _cut(at, end, size)


def _cut(at: int, end: int, size: int) -> Iterator[tuple[int, int]]:
    while at < end:
        stop = min(end, (at // size + 1) * size)
        yield at, max(stop - at - (BLANK_BYTES if stop % size == 0 else 0), 0)
        at = stop


# ---
# Copy a store's log with fillers in place of damaged ranges, and copy its configuration.

_PIECE_BYTES = 1 << 20


def repair_segments(
    job: Pipeline, found: DamageMap, summary: RepairSummary
) -> list[dict[str, Any]]:
    """Write the repaired segments in staging; their REPAIRED rows, in the log's order."""
    crc_property = uses_crc_property(job.plan, found)
    spare_crc = crc_property and not job.plan.settings.force_verify_prop_crc
    lost = place_lost(job.staging, found, summary, crc_property, spare_crc)
    task = _task(job, found, lost, crc_property)
    with job.stages.by_tasks("copied", job.plan.log_bytes, "bytes"):
        rows = job.ids(len(task.segments)).run(task, REPAIRED).collect()
    return sorted(rows, key=lambda row: row["start"])


def uses_crc_property(plan: Plan, found: DamageMap) -> bool:
    """Whether fillers need a `__CRC32#`: the settings ask for it, or the last record has it."""
    settings = plan.settings
    if not plan.profile.property_crc:
        return False
    if settings.force_verify_prop_crc or settings.enabled_append_prop_crc:
        return True
    last = max((row["last_record"] for row in found.linked.accepted), default=-1)
    for _, segment, read in read_places(plan.storage, found, [last]):
        end = segment.start + found.segment_bytes
        prover = Prover(read, segment.start, end, plan.record_rules)
        parts = prover.lengths(last)
        return parts is not None and prover.property_crc(last, parts) is not None
    return False


def _task(
    job: Pipeline, found: DamageMap, lost: dict[int, list[repair.LostPositions]], crc_property: bool
) -> RepairSegments:
    plan, size = job.plan, found.segment_bytes
    sources = {segment.start: n for n, segment in enumerate(plan.segments[: found.in_use])}
    last = 0
    times: dict[int, int] = {}
    for scanned in found.linked.accepted:
        if scanned["records"]:
            times[scanned["split"] // plan.splits.in_segment] = scanned["last_timestamp"]
    by_segment: dict[int, dict[int, tuple[repair.LostPositions, ...]]] = {}
    for at, positions in lost.items():
        by_segment.setdefault(at // size * size, {})[at] = tuple(positions)
    segments = []
    for start in range(plan.segments[0].start, plan.segments[found.in_use - 1].start + 1, size):
        n = sources.get(start, -1)
        row = found.mapped.get(n)
        last = times.get(n, last)
        source = plan.segments[n] if n >= 0 else None
        at = row["next"] if row and Fault(row["fault"]) == Fault.ZEROS else -1
        zeros_from = at if source and at < min(found.linked.end, source.end) else -1
        strays = tuple(each for each in found.strays if start <= each.offset < start + size)
        run, mine = row["run"] if row else None, by_segment.get(start, {})
        segments.append(SegmentRepair(start, source, run, zeros_from, mine, last, strays))
    return RepairSegments(
        plan.storage, job.staging, tuple(segments), size, plan.record_rules,
        found.linked.end, crc_property,
    )  # fmt: skip


def move_segments(
    staging: Staging, target: str, rows: list[dict[str, Any]], summary: RepairSummary
) -> None:
    """Move segments and damaged bytes to their names below `target`; adds them to the summary."""
    storage = staging.storage
    for folder in (COMMIT_LOG, DAMAGED):
        storage.make_folders(f"{target}/{folder}")
    moves = []
    for row in rows:
        name = segment_name(row["start"])
        if row["start"] < summary.log_end or row is rows[0]:
            path = f"{COMMIT_LOG}/{name}"
            moves.append((staging.path(row["name"]), f"{target}/{path}"))
            summary.segments.append(
                report.OutputFile(path, row["length"], row["sha256"], 0, row["used"])
            )
        for column, suffix in (("saved", ""), ("listing", ".json")):
            if row[column]:
                path = f"{DAMAGED}/{name}{suffix}"
                moves.append((staging.path(row[column]), f"{target}/{path}"))
                length = row["saved_bytes"] if column == "saved" else 0
                summary.saved.append(report.OutputFile(path, length, ""))
        summary.fillers += row["fillers"]
        summary.corrected += row["corrected"]
    storage.move_all(moves)
