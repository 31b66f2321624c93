"""The comparison of stores (logs, messages, config/), and of a queue's own log with its file."""

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np

from reput.jobs.comparing.contents import compare_configs, find_messages, walks_of
from reput.jobs.comparing.logs import Parting, Side, Span, open_side, part, record_there
from reput.jobs.comparing.report import CompareReport, Comparison, Epochs
from reput.jobs.engines.engine import Engine
from reput.jobs.judging.report import MISSING, MISSING_AT_END, ONE_TOO_MANY, Difference, Report
from reput.jobs.opening.plan import Plan, check_unchanged, make_plan
from reput.jobs.outputs.output import inputs_of
from reput.jobs.outputs.publish import Temporary, temporary_folder
from reput.jobs.pipeline.pipeline import Cut, Pipeline
from reput.jobs.salvaging.lives import judged_log
from reput.store_format.derived.queue_files import decode_entries
from reput.store_format.discover.purpose import COMPARE
from reput.store_format.discover.store import StoreAt, discover
from reput.store_format.dispatch.scan import End, Runs, ScanRules, scan, scan_rules
from reput.store_format.faults import REASONS, Fault
from reput.store_format.files.by_url import storage_for
from reput.store_format.files.folder import Place
from reput.store_format.files.protocol import Storage
from reput.store_format.files.queue_logs import CompactedLog, QueueLog, TieredLog
from reput.store_format.layouts import BATCH_QUEUE_ENTRY, QUEUE_ENTRY_BYTES
from reput.store_format.log.groups import BadEpochs, Epoch, consistent_point, read_epochs
from reput.store_format.log.segments import Segment, Stretch
from reput.store_format.notes import Progress
from reput.udfs.compare.logs import BROKEN, FindBroken
from reput.udfs.staging import Staging, pieces_of

# ---
# A comparison: bytes of the logs, then records where bytes differ, then config/.


def compare_stores(
    engine: Engine, stores: Sequence[StoreAt], progress: Progress, staging: str | None,
    storage: Storage | None, lines: BinaryIO | None,
) -> CompareReport:  # fmt: skip
    """Compare each store with the first. staging: folder for fingerprints, None: a temporary one.
    lines: gets each message that only one store of a pair has, as a JSON line.

    Raises StoreError, SettingError, UnknownRelease, StoreChanged, OSError, EngineFailed.
    """
    started = time.monotonic()
    sides = [open_side(at) for at in stores]
    partings = part(engine, sides, progress)
    inputs = [each for at in stores for each in inputs_of(at.folder, at.settings)]
    folder = staging or tempfile.gettempdir()
    base = Place(storage or storage_for(folder), folder)
    with temporary_folder(base, Temporary.COMPARE, inputs) as room:
        spans = [parting.spans for parting in partings]
        asked = zip(sides, [list(chain(*spans)), *spans], strict=True)
        if any(_is_broken(engine, side, some) for side, some in asked):
            jobs = [Pipeline(engine, side.plan, room, Cut(), progress) for side in sides]
            sides = [replace(side, log=judged_log(job, side.log))
                     for side, job in zip(sides, jobs, strict=True)]  # fmt: skip
        pairs = [
            _compare(engine, room, (sides[0], side), parting, progress, lines)
            for side, parting in zip(sides[1:], partings, strict=True)
        ]
    for side in sides:
        check_unchanged(side.plan)
    return CompareReport(sides, pairs, time.monotonic() - started)


def _is_broken(engine: Engine, side: Side, spans: Sequence[Span]) -> bool:
    """Whether a segment of a side is damaged that has any of the spans."""
    numbers = tuple(walk.segment for walk in walks_of([side], spans))
    task = FindBroken(side.log, numbers)
    return bool(numbers and engine.numbers(range(len(numbers))).run(task, BROKEN).collect())


def _compare(
    engine: Engine, room: Staging, sides: tuple[Side, Side], parting: Parting, progress: Progress,
    lines: BinaryIO | None,
) -> Comparison:  # fmt: skip
    found = find_messages(engine, room, sides, parting.spans, progress, lines is not None)
    if lines is not None:
        for side in found:
            for name in side.lines:
                lines.writelines(pieces_of(room, name))
    first = parting.first
    there = None if first is None else (record_there(sides[0], first),
                                        record_there(sides[1], first))  # fmt: skip
    return Comparison(
        *sides, parting, there, found, compare_configs(*sides), _compare_epochs(*sides)
    )


def _compare_epochs(ours: Side, theirs: Side) -> Epochs:
    found = Epochs()
    both: list[tuple[Epoch, ...] | None] = []
    for side in (ours, theirs):
        try:
            both.append(read_epochs(side.plan.folder))
        except BadEpochs as error:
            found.notes.append(str(error))
            both.append(None)
    found.ours, found.theirs = both
    if found.ours is not None and found.theirs is not None:
        found.point = consistent_point(found.ours, ours.end, found.theirs, theirs.end)
    return found


# ---
# Compares a queue's own log (`compacted:`, `tiered:`) with the queue file beside it.
#
# The entries are derived from the log like those of a ConsumeQueue, and compared one by one.
# Messages that a compaction has removed are unknown, so entries missing in both cannot be found.

Entries = Any  # structured arrays
_NAMES = ("physicalOffset", "size", "tagsCode", "storeTimestamp", "baseOffset", "batchSize")


class _OfSegment(NamedTuple):
    """The entries of a segment's records (BATCH_QUEUE_ENTRY), and end and fault of its walk."""

    entries: Entries
    end: int
    fault: Fault


def verify_queue_log(at: StoreAt) -> Report:
    """Compare a queue's log with its queue file. Raises StoreError, SettingError, OSError."""
    plan = make_plan(at, discover(at, COMPARE), COMPARE)
    rules = replace(scan_rules(plan.profile, plan.settings, ()), times=True)
    storage = cast(QueueLog, plan.storage)
    found = [_entries_of(plan, segment, rules) for segment in plan.segments]
    report = Report(plan.store, plan.store, plan.profile.release, found[-1].end, "")
    report.discovered, report.releases = plan.discovered.as_json(), plan.discovered.releases
    report.warnings = [f"{each.path}: {each.reason}" for each in plan.findings]
    report.differences = list(_breaks(plan, found))
    if isinstance(storage, CompactedLog):
        for segment, derived in zip(plan.segments, found, strict=True):
            report.files += storage.is_there(segment.state)
            report.differences += _compare_compacted(storage, segment, derived.entries)
    else:
        assert isinstance(storage, TieredLog)
        entries = np.concatenate([each.entries for each in found])
        report.files, differences = _compare_tiered(storage, plan.store, entries)
        report.differences += differences
    report.differences.sort(key=lambda each: each.path)
    return report


def _entries_of(plan: Plan, segment: Segment, rules: ScanRules) -> _OfSegment:
    reader = plan.storage.open(segment.path, segment.state)
    stretch = Stretch(segment.start, segment.end, segment.start, segment.end, segment.start)
    parts, end = [np.zeros(0, BATCH_QUEUE_ENTRY)], End()
    try:
        for part in scan(segment.read_by(reader), stretch, rules):
            if isinstance(part, Runs):
                parts += _batch_entries(part)
            elif isinstance(part, End):
                end = part
    finally:
        reader.close()
    entries = np.concatenate(parts)
    return _OfSegment(entries[np.argsort(entries["physicalOffset"])], end.next, end.fault)


def _batch_entries(part: Runs) -> Iterator[Entries]:
    runs = part.runs
    times_at = np.cumsum(runs.count) - runs.count
    for i in range(len(part.queues)):
        count, at = int(runs.count[i]), int(runs.entries_at[i])
        some = decode_entries(runs.entries[at : at + count * QUEUE_ENTRY_BYTES])
        entries = np.zeros(count, BATCH_QUEUE_ENTRY)
        for name in some.dtype.names or ():
            entries[name] = some[name]
        where = int(runs.offsets_at[i])
        entries["baseOffset"] = (
            runs.first[i] + np.arange(count) if where < 0 else runs.offsets[where : where + count]
        )
        entries["storeTimestamp"] = runs.times[times_at[i] : times_at[i] + count]
        entries["batchSize"] = 1
        yield entries


def _breaks(plan: Plan, found: list[_OfSegment]) -> Iterator[Difference]:
    """A difference for each segment whose records end at a fault although more must follow."""
    sound = (Fault.NONE, Fault.BLANK)
    tiered = isinstance(plan.storage, TieredLog)
    for number, (segment, each) in enumerate(zip(plan.segments, found, strict=True)):
        whole = tiered and each.end == segment.end
        last = number == len(found) - 1 and each.fault == Fault.ZEROS and not tiered
        if each.fault in sound or whole or last:
            continue
        name, reason = REASONS[each.fault]
        yield Difference(segment.path, each.end - segment.start, f"{name}: {reason}", None, None)


def _compare_compacted(
    storage: CompactedLog, segment: Segment, wanted: Entries
) -> Iterator[Difference]:
    path, raw = storage.queue_file(segment.path)
    if raw is None:
        if len(wanted):
            yield Difference(path, 0, MISSING, None, None)
        return
    there = decode_entries(raw, batch=True)
    there = there[(there["size"] > 0) & (there["batchSize"] > 0)]
    yield from _first_difference(path, there, wanted, _NAMES, BATCH_QUEUE_ENTRY.itemsize, 0)


def _compare_tiered(
    storage: TieredLog, store: str, wanted: Entries
) -> tuple[int, list[Difference]]:
    files = storage.queue_files(store)
    found: list[Difference] = []
    for (_, start, size), (_, after, _) in pairwise(files):
        if start + size != after:
            found.append(Difference(files[0][0], 0, f"a hole before {after}", start + size, after))
    for path, start, _ in files:
        there = decode_entries(storage.storage.read_bytes(path))
        first = start // QUEUE_ENTRY_BYTES
        within = (wanted["baseOffset"] >= first) & (wanted["baseOffset"] < first + len(there))
        names = ("physicalOffset", "size", "tagsCode")
        mine = there[np.isin(first + np.arange(len(there)), wanted["baseOffset"])]
        found += _first_difference(path, mine, wanted[within], names, QUEUE_ENTRY_BYTES, 0)
        if len(there) > len(mine):
            found.append(Difference(path, 0, ONE_TOO_MANY, len(there), len(mine)))
    last = files[-1][1] + files[-1][2] if files else 0
    if len(wanted) and int(wanted["baseOffset"][-1]) >= last // QUEUE_ENTRY_BYTES:
        path = files[-1][0] if files else store
        found.append(Difference(path, 0, MISSING_AT_END, None, None))
    return len(files), found


def _first_difference(
    path: str, there: Entries, wanted: Entries, names: tuple[str, ...], size: int, start: int
) -> Iterator[Difference]:
    common = min(len(there), len(wanted))
    for number in range(common):
        for name in names:
            if there[name][number] != wanted[name][number]:
                values = int(there[name][number]), int(wanted[name][number])
                yield Difference(path, start + number * size, f"entry {number} {name}", *values)
                return
    if len(there) != len(wanted):
        what = MISSING_AT_END if len(there) < len(wanted) else ONE_TOO_MANY
        yield Difference(path, common * size, what, len(there), len(wanted))
