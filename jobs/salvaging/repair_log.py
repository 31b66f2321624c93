"""Copy a store's log with fillers in place of damaged ranges, and copy its configuration."""

from typing import Any

import numpy as np

from reput.jobs.opening.plan import Plan
from reput.jobs.outputs.report import OutputFile
from reput.jobs.pipeline.pipeline import Pipeline
from reput.jobs.salvaging.damage_map import DamageMap, segment_of
from reput.jobs.salvaging.lost_places import place_lost
from reput.jobs.salvaging.repair_summary import DAMAGED, RepairSummary
from reput.store_format.damage.repair import LostPositions
from reput.store_format.damage.resync import Prover
from reput.store_format.discover.config import has_database
from reput.store_format.faults import Fault
from reput.store_format.files.protocol import StagingStorage
from reput.store_format.names import COMMIT_LOG, segment_name
from reput.udfs.damage.repair import REPAIRED, RepairSegments, SegmentRepair
from reput.udfs.damage.segments import padded
from reput.udfs.staging import Staging

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
    segment = segment_of(found.segments, found.segment_bytes, last) if last >= 0 else None
    if segment is None:
        return False
    reader = plan.storage.open(segment.path, segment.state)
    end = segment.start + found.segment_bytes
    prover = Prover(padded(reader, segment), segment.start, end, plan.record_rules)
    parts = prover.lengths(last)
    found_one = parts is not None and prover.property_crc(last, parts) is not None
    reader.close()
    return found_one


def _task(
    job: Pipeline, found: DamageMap, lost: dict[int, list[LostPositions]], crc_property: bool
) -> RepairSegments:
    plan, size = job.plan, found.segment_bytes
    sources = {segment.start: n for n, segment in enumerate(plan.segments[: found.in_use])}
    last = 0
    times: dict[int, int] = {}
    for scanned in found.linked.accepted:
        if scanned["records"]:
            times[scanned["split"] // plan.splits.in_segment] = scanned["last_timestamp"]
    by_segment: dict[int, dict[int, tuple[LostPositions, ...]]] = {}
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
                tuple(each for each in found.strays if start <= each.offset < start + size),
            )
        )
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


def copy_folder(
    plan: Plan, storage: StagingStorage, target: str, folder: str, summary: RepairSummary
) -> None:
    """Copy a folder's regular files and RocksDBs; anything else is left out, with a warning."""
    try:
        listed = plan.storage.list(f"{plan.store}/{folder}")
    except (FileNotFoundError, NotADirectoryError):
        return
    storage.make_folders(f"{target}/{folder}")
    for name, state in listed:
        path = f"{folder}/{name}"
        if state is None and has_database(plan.storage, f"{plan.store}/{path}"):
            copy_folder(plan, storage, target, path, summary)
            continue
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
