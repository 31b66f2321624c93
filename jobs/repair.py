"""Repair: a copy of a damaged store that a broker starts on and serves past the damage."""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from reput.jobs.engine.collect import collect, run_in_tasks
from reput.jobs.engine.damage import DamageMap, map_damage, range_text, segment_of
from reput.jobs.engine.outputs import Output, inputs_of
from reput.jobs.engine.pipeline import Cut, Pipeline, is_local, spark_cores
from reput.jobs.engine.plan import Plan, make_plan
from reput.jobs.engine.progress import Done, Progress
from reput.jobs.engine.sets import REPAIR_FORMAT
from reput.jobs.engine.sets import REPAIRED as REPAIRED_STORE
from reput.jobs.engine.staging import beside, remove_leftovers, staging_folder
from reput.jobs.engine.summary import OutputFile, damage_line
from reput.jobs.rebuild import REFUSE, SALVAGE, check_unchanged, rebuild
from reput.store_format.damage.filler import Position, least_bytes
from reput.store_format.damage.resync import Prover
from reput.store_format.derive.rules import record_rules
from reput.store_format.faults import Fault, StoreError
from reput.store_format.layouts import BLANK_BYTES
from reput.store_format.names import COMMIT_LOG, CONFIG, MANIFEST, segment_name
from reput.store_format.storage import storage_for
from reput.store_format.storage.protocol import Storage
from reput.udfs.damage import padded
from reput.udfs.lost import places_of
from reput.udfs.repair import REPAIRED, RepairSegments, SegmentRepair
from reput.udfs.staging import Staging

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAMAGED = "damaged"  # the folder for the damaged bytes
_LOG_PLACES = ("storePathCommitLog", "readOnlyCommitLogStorePaths")
_PIECE_BYTES = 1 << 20
_SHOWN = 20
_MOST_RANGES = 100_000  # a segment: each is kept beside, and described
_MOST_GAPS = 100_000


@dataclass
class RepairSummary:
    """What a repair did. Sizes in bytes, times in seconds, offsets physical."""

    store: str
    output: str
    rocketmq: str
    log_start: int
    log_end: int
    damage: dict[str, Any]  # see reput.jobs.engine.damage.DamageMap.as_json
    messages: int = 0  # in the repaired log, fillers that a queue takes included
    fillers: int = 0
    corrected: int = 0  # records that only failed a CRC and keep their place
    filled: list[dict[str, Any]] = field(default_factory=list)  # lost positions that fillers keep
    not_filled: list[dict[str, Any]] = field(default_factory=list)  # for which there was no room
    segments: list[OutputFile] = field(default_factory=list)
    saved: list[OutputFile] = field(default_factory=list)  # damaged bytes, and where they are
    derived: list[OutputFile] = field(default_factory=list)
    copied: list[str] = field(default_factory=list)  # the broker's configuration
    on_damage: str = REFUSE  # what the derived files need; `verify` of the copy reads it
    warnings: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def manifest(self) -> dict[str, Any]:
        """All of it, as manifest.json holds it; without the time it took."""
        whole = {"format": REPAIR_FORMAT, **asdict(self)}
        del whole["seconds"], whole["output"]
        whole["repaired"] = whole.pop("damage")  # of the store that was read, not of this one
        return whole

    def as_json(self) -> dict[str, Any]:
        """What --json prints: counts instead of the lists of files."""
        whole = asdict(self)
        for name in ("segments", "saved", "derived"):
            whole[name] = len(whole[name])
        return whole

    def text(self) -> str:
        """What a person reads at the end."""
        kept = sum(each["many"] for each in self.filled)
        lines = [
            f"repaired {self.store} -> {self.output} (RocketMQ {self.rocketmq})",
            f"  log       {self.log_start:,} to {self.log_end:,}, {self.messages:,} messages",
            f"  damage    {damage_line(self.damage)}",
            f"  fillers   {self.fillers:,} records; {kept:,} keep a lost message's position",
            f"  kept      {self.corrected:,} records that only failed a CRC",
            f"  saved     {sum(file.length for file in self.saved):,} bytes in {DAMAGED}/",
            f"  derived   {len(self.derived):,} files",
        ]
        lines += [f"  range     {range_text(told)}" for told in self.damage["ranges"][:_SHOWN]]
        lines += [f"  warning   {warning}" for warning in self.warnings]
        return "\n".join(lines)


def repair(
    spark: "SparkSession",
    store: str,
    output: str,
    *,
    rocketmq: str,
    settings: Mapping[str, str] | None = None,
    replace_output: bool = False,
    cut: Cut | None = None,
    storage: Storage | None = None,
    output_storage: Storage | None = None,
    progress: Progress | None = None,
) -> RepairSummary:
    """Copy a store, with fillers for what is damaged, and derive its files anew.

    The copy has commitlog/, config/, all derived files, `damaged/` with the bytes that fillers
    replaced, and a manifest. store, output, settings and storages are as for rebuild. Raises
    StoreError (also where a broker has the store, or a range is too short for any record),
    SettingError, UnknownRelease; nothing is left behind in `output` then.
    """
    started = time.monotonic()
    output_storage = output_storage or storage or storage_for(output, not is_local(spark))
    storage = storage or storage_for(store)
    progress, cut, cores = progress or Progress(), cut or Cut(), spark_cores(spark)
    store, output = storage.resolve(store), output_storage.resolve(output)
    plan = make_plan(storage, store, rocketmq, settings or {}, cores, cut.split_bytes, True)
    if plan.in_use:
        raise StoreError(f"{store}: a broker has it: a store is repaired when it is stopped")
    inputs = inputs_of(storage, store, settings or {})
    place = Output(output_storage, output, REPAIRED_STORE, replace_output, tuple(inputs))
    place.check()
    remove_leftovers(output_storage, output, inputs)
    with staging_folder(output_storage, *beside(output_storage, output)) as staging:
        job = Pipeline(spark, plan, staging, cores, cut, progress)
        job.check_every_crc()
        found = map_damage(job, _MOST_RANGES, _MOST_GAPS)
        summary = RepairSummary(
            store, output, plan.profile.release, plan.segments[0].start, found.linked.end,
            found.as_json(), warnings=plan.notes + plan.warnings + found.all_warnings(),
        )  # fmt: skip
        summary.on_damage = SALVAGE if found.openings else REFUSE
        crc_property = uses_crc_property(plan, found)
        spare_crc = crc_property and not plan.settings.force_verify_prop_crc
        lost = place_lost(staging, found, summary, crc_property, spare_crc)
        task = _task(job, found, lost, crc_property)
        ids = spark.range(0, len(task.segments), 1, len(task.segments))
        with progress.stage("copied", lambda: Done(None, "segments")):
            rows = collect(run_in_tasks(ids, task, REPAIRED))
        check_unchanged(plan)
        folder = staging.path("set")
        target = output_storage.begin_set(folder, output, place.may_go)
        _move_segments(staging, target, sorted(rows, key=lambda row: row["start"]), summary)
        _copy_folder(plan, output_storage, target, CONFIG, summary)
        _derive(spark, staging, target, plan, settings or {}, summary, cut, progress)
        raw = (json.dumps(summary.manifest(), indent=1, sort_keys=True) + "\n").encode()
        output_storage.publish(folder, output, place.may_go, (MANIFEST, raw))
    summary.seconds = time.monotonic() - started
    return summary


def place_lost(
    staging: Staging, found: DamageMap, summary: RepairSummary, crc_property: bool, spare_crc: bool
) -> dict[int, list[Position]]:
    """Which lost positions which range keeps: range's offset -> positions, in order of queues.

    spare_crc: where room is short, fillers may do without the `__CRC32#` that others have.

    Where several ranges lie between two messages of a queue nothing tells which of them took
    the messages between; any will do, as a queue's order is all that its positions show.
    """
    placed, left = _place(staging, found, crc_property)
    if left and spare_crc:  # a position is worth more than a checksum, see filler.fill
        placed, left = _place(staging, found, False)
    for at, positions in placed.items():
        summary.filled += [{**position._asdict(), "range": at} for position in positions]
    for gap in left:
        summary.not_filled.append(gap)
        summary.warnings.append(
            f"topic {gap['topic']!r}, queue {gap['queue_id']}: no room for {gap['count']:,} lost "
            f"positions from {gap['first']} on: later messages move up"
        )
    return placed


def _place(
    staging: Staging, found: DamageMap, crc_property: bool
) -> tuple[dict[int, list[Position]], list[dict[str, Any]]]:
    """The positions by the range that has room for them, and the gaps that are left."""
    pieces = list(_pieces(staging, found))
    starts = np.array([start for start, _ in pieces], np.int64)
    room = [length for _, length in pieces]
    placed: dict[int, list[Position]] = {}
    over = []
    for gap in found.gaps:
        low, high = np.searchsorted(starts, (gap["after"], gap["before"]))
        first, left = gap["first"], gap["count"]
        need = least_bytes(gap["topic"], crc_property)
        for at in range(int(low), int(high)):
            many = min(left, room[at] // need)
            if many:
                position = Position(gap["topic"], gap["queue_id"], first, many)
                placed.setdefault(int(starts[at]), []).append(position)
                room[at] -= many * need
                first, left = first + many, left - many
        if left:
            over.append({**gap, "first": first, "count": left})
    return placed, over


def _pieces(staging: Staging, found: DamageMap) -> Iterator[tuple[int, int]]:
    """(offset, room) of each range that is lost; a hole of several segments one by one."""
    size = found.segment_bytes
    lost = found.linked.lost
    if lost is None:
        return
    places = (place for piece in lost.pieces for place in places_of(staging, piece).tolist())
    for start, length in places:
        end = start + length
        while start < end:
            stop = min(end, (start // size + 1) * size)
            yield start, stop - start - (BLANK_BYTES if stop % size == 0 else 0)
            start = stop


def uses_crc_property(plan: Plan, found: DamageMap) -> bool:
    """Whether fillers need a `__CRC32#`: by the settings, or because the last record has one."""
    settings = plan.settings
    if not plan.profile.property_crc:
        return False
    if settings.force_verify_prop_crc or settings.enabled_append_prop_crc:
        return True
    last = max((row["last_record"] for row in found.linked.accepted), default=-1)
    segment = segment_of(found.segments, found.segment_bytes, last) if last >= 0 else None
    if segment is None:
        return False
    reader = plan.storage.open(segment.path, segment.state)
    end = segment.start + found.segment_bytes
    prover = Prover(padded(reader, segment), segment.start, end, record_rules(plan.profile))
    parts = prover.lengths(last)
    found_one = parts is not None and prover.property_crc(last, parts) is not None
    reader.close()
    return found_one


def _task(
    job: Pipeline, found: DamageMap, lost: dict[int, list[Position]], crc_property: bool
) -> RepairSegments:
    plan, size = job.plan, found.segment_bytes
    sources = {segment.start: n for n, segment in enumerate(plan.segments[: found.in_use])}
    last = 0
    times: dict[int, int] = {}
    for scanned in found.linked.accepted:
        if scanned["records"]:
            times[scanned["split"] // plan.splits.in_segment] = scanned["last_timestamp"]
    by_segment: dict[int, dict[int, tuple[Position, ...]]] = {}
    for at, positions in lost.items():
        by_segment.setdefault(at // size * size, {})[at] = tuple(positions)
    segments = []
    for start in range(plan.segments[0].start, plan.segments[found.in_use - 1].start + 1, size):
        n = sources.get(start, -1)
        row = found.mapped.get(n)
        last = times.get(n, last)
        zeros = row is not None and Fault(row["fault"]) == Fault.ZEROS
        zeros_from = row["next"] if row and zeros and row["next"] < found.linked.end else -1
        if n >= 0 and zeros_from >= plan.segments[n].end:
            zeros_from = -1
        segments.append(
            SegmentRepair(
                start,
                plan.segments[n] if n >= 0 else None,
                row["run"] if row else None,
                zeros_from,
                by_segment.get(start, {}),
                last,
            )
        )
    return RepairSegments(
        plan.storage, job.staging, tuple(segments), size, record_rules(plan.profile),
        found.linked.end, crc_property,
    )  # fmt: skip


def _move_segments(
    staging: Staging, target: str, rows: list[dict[str, Any]], summary: RepairSummary
) -> None:
    storage = staging.storage
    for folder in (COMMIT_LOG, DAMAGED):
        storage.make_folders(f"{target}/{folder}")
    moves = []
    for row in rows:
        name = segment_name(row["start"])
        if row["start"] < summary.log_end or row is rows[0]:
            path = f"{COMMIT_LOG}/{name}"
            moves.append((staging.path(row["name"]), f"{target}/{path}"))
            summary.segments.append(OutputFile(path, row["length"], row["sha256"]))
        for column, suffix in (("saved", ""), ("listing", ".json")):
            if row[column]:
                path = f"{DAMAGED}/{name}{suffix}"
                moves.append((staging.path(row[column]), f"{target}/{path}"))
                length = row["saved_bytes"] if column == "saved" else 0
                summary.saved.append(OutputFile(path, length, ""))
        summary.fillers += row["fillers"]
        summary.corrected += row["corrected"]
    storage.move_all(moves)


def _copy_folder(
    plan: Plan, storage: Storage, target: str, folder: str, summary: RepairSummary
) -> None:
    """Copy a folder's regular files; anything else is said and left out."""
    try:
        listed = plan.storage.list(f"{plan.store}/{folder}")
    except (FileNotFoundError, NotADirectoryError):
        return
    storage.make_folders(f"{target}/{folder}")
    for name, state in listed:
        path = f"{folder}/{name}"
        if state is None:
            summary.warnings.append(f"{plan.store}/{path}: is not a regular file: not copied")
            continue
        reader = plan.storage.open(f"{plan.store}/{path}", state)
        output = storage.create(f"{target}/{path}")
        for at in range(0, state.size, _PIECE_BYTES):
            piece = np.empty(min(_PIECE_BYTES, state.size - at), np.uint8)
            reader.read_into(at, piece)
            output.write(piece)
        output.finish(state.size)
        reader.close()
        summary.copied.append(path)


def _derive(
    spark: "SparkSession", staging: Staging, target: str, plan: Plan,
    settings: Mapping[str, str], summary: RepairSummary, cut: Cut, progress: Progress,
) -> None:  # fmt: skip
    """Derive the repaired log's files. Raises StoreError where damage is left in it.

    A queue's first queueOffset that those behind it outvote stays in its record: the derived
    files have the message where salvage puts it, as nothing but salvage knows that place.
    """
    storage = staging.storage
    derived = staging.path("derived")
    built = rebuild(
        spark, target, derived, rocketmq=plan.profile.release,
        settings={name: value for name, value in settings.items() if name not in _LOG_PLACES},
        on_damage=summary.on_damage, cut=cut, storage=storage, output_storage=storage,
        progress=progress,
    )  # fmt: skip
    if built.damage and built.damage["range_count"]:
        raise StoreError(f"{target}: damage is left: {range_text(built.damage['ranges'][0])}")
    for folder in dict.fromkeys(file.path.rpartition("/")[0] for file in built.files):
        if folder:
            storage.make_folders(f"{target}/{folder}")
    storage.move_all((f"{derived}/{f.path}", f"{target}/{f.path}") for f in built.files)
    summary.derived, summary.messages = built.files, built.messages
    summary.warnings += [*built.warnings, *built.left_out]
