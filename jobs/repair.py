"""`reput repair`: a copy of a damaged store that a broker starts on and serves past the damage."""

import argparse
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING

from reput.jobs.console.declared import OfLog, assumed_names, option, shown
from reput.jobs.console.options import VERSIONS, add_job, answer, asked_of, asks_store, engine_for
from reput.jobs.engines.choice import on_engine
from reput.jobs.engines.engine import Engine
from reput.store_format.discover.purpose import REPAIR, REPAIRED
from reput.store_format.faults import REFUSE, SALVAGE, StoreError
from reput.store_format.files.folder import Place

if TYPE_CHECKING:
    from reput.jobs.pipeline.job import FoundStore
    from reput.jobs.salvaging.repair import RepairSummary
    from reput.store_format.files.protocol import Storage
    from reput.udfs.staging import Staging

_MOST_RANGES = 100_000  # of a segment: the bytes of each are saved, and described
_MOST_GAPS = 100_000

_HELP = f"""\
Copies the store to DIR. Each damaged range is replaced by filler records of the same length:
with the topic, queue and offset of the lost message where its neighbours tell them, and the tag
REPUT_LOST. Messages keep their offsets. What was replaced is in DIR/damaged, listed in
DIR/manifest.json. All derived files are made anew; the broker's configuration is copied.

examples:
  reput repair /data/store --output /data/repaired
  reput repair s3://bucket/store --output /data/repaired --put-back

{VERSIONS}"""


@dataclass(frozen=True)
class Repair(OfLog):
    """What `reput repair` is asked. output_storage: only writes."""

    output: str = field(metadata=shown("absent or empty folder", metavar="DIR"))
    _: KW_ONLY
    output_storage: "Storage | None" = None
    replace_output: bool = option(
        "replace the store in DIR, if it is a repaired one", False, "--replace"
    )
    put_back: bool = option(
        "put back damaged header fields that other files prove, and report each bit", False
    )
    assume_names: bool = assumed_names()


@on_engine(Repair)
def repair(engine: Engine, asked: Repair) -> "RepairSummary":
    """Copy a store, with fillers for what is damaged, and derive its files anew.

    The copy has commitlog/, config/ and what else is a broker's own, all derived files, `damaged/`
    with the bytes that fillers replaced, and a manifest.

    Raises StoreError (also if a broker has the store, or a range is too short for any record),
    SettingError, UnknownRelease; a failed run leaves nothing in `output`.
    """
    from reput.jobs.deriving.kept import StateCopy
    from reput.jobs.opening.plan import FILES, check_unchanged, kind_of_index, kind_of_queues
    from reput.jobs.outputs.output import REPAIRED
    from reput.jobs.outputs.publish import begin_set, end_set
    from reput.jobs.outputs.report import carried_names
    from reput.jobs.salvaging.damage_search import map_damage
    from reput.jobs.salvaging.repair import (
        RepairSummary,
        move_segments,
        repair_segments,
        restorations,
        restored,
    )
    from reput.store_format.log.groups import refuse_heads

    found = asked.found(engine, REPAIR)
    plan = found.plan
    refuse_heads(plan.segments, "repair")
    to = asked.output
    kinds = kind_of_queues(plan, None, to, of_both=FILES), kind_of_index(plan, None, to)
    if plan.in_use:
        raise StoreError(f"{plan.store}: a broker has it: a store is repaired when it is stopped")
    place = found.output(to, REPAIRED, asked.replace_output, asked.output_storage or asked.storage)
    with found.publishing(place) as (job, _):
        job.check_every_crc()
        damage = map_damage(job, _MOST_RANGES, _MOST_GAPS)
        patches = restorations(job, damage) if asked.put_back else []
        if patches:
            job.plan = restored(job.plan, damage, patches)
            damage = map_damage(job, _MOST_RANGES, _MOST_GAPS)
        summary = RepairSummary(
            plan.store, place.path, plan.profile.release, plan.segments[0].start,
            damage.linked.end, damage.as_json(),
            warnings=plan.notes + plan.warnings + damage.all_warnings(),
            discovered=plan.discovered.as_json(), releases=plan.discovered.releases,
            restored=[patch.as_json() for patch in patches],
        )  # fmt: skip
        summary.on_damage = SALVAGE if damage.renumberings else REFUSE
        rows = repair_segments(job, damage, summary)
        check_unchanged(plan)
        target = begin_set(job.staging, place)
        move_segments(job.staging, target, rows, summary)
        state = StateCopy(plan.storage, plan.store, place.storage, target, summary)
        state.copy(carried_names())
        todo = next(iter(plan.of_config), "")
        summary.first = todo.replace(f"{plan.store}/", f"{place.path}/")
        _derive(found, job.staging, Place(place.storage, target), summary, kinds)
        end_set(job.staging, summary.manifest(), place)
    summary.seconds = found.seconds()
    return summary


def _derive(
    found: "FoundStore",
    staging: "Staging",
    made: "Place",
    summary: "RepairSummary",
    kinds: tuple[str, str],
) -> None:
    """Derive the repaired log's files. Raises StoreError if damage is left in the log.

    If later queueOffsets outvote a queue's first one, its record keeps that queueOffset; the
    derived files have the message where salvage puts it, as only salvage knows that position.
    kinds: of queues and of index, FILES or ROCKSDB. With salvage, an index in RocksDB is left to
    the broker.
    """
    from reput.jobs.deriving.derive_set import ToDerive, derive_into
    from reput.jobs.opening.plan import FILES
    from reput.jobs.outputs.report import range_text, slash_in
    from reput.jobs.salvaging.damage_map import harms

    no_room = frozenset(
        (gap["topic"], gap["queue_id"], gap["before"]) for gap in summary.not_filled
    )
    index = FILES if summary.on_damage == SALVAGE else kinds[1]
    wanted = ToDerive(summary.on_damage, no_room=no_room, queues=kinds[0], index=index)
    built = derive_into(found, made, staging, REPAIRED.asked(summary.on_damage), wanted)
    left = [each for each in built.damage["ranges"] if harms(each)] if built.damage else []
    if left:
        raise StoreError(f"{made}: damage is left: {range_text(left[0])}")
    summary.derived, summary.messages = built.files, built.messages
    summary.first = summary.first or slash_in(built.files)
    written = {file.path for file in built.files}
    summary.copied = [path for path in summary.copied if path not in written]
    summary.waits = built.waits
    summary.left_out += [*built.left_out, *built.in_no_queue]
    # `made` is a place that goes; and what holds of the store that was read is said already.
    summary.warnings += [
        each.replace(made.path, summary.output) for each in built.warnings
        if each.replace(made.path, summary.store) not in summary.warnings
    ]  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_job(parser, Repair, _HELP, timezone=True)


def run(arguments: argparse.Namespace) -> int:
    """Repair, and say what was done: 0 done; 1 where lost positions could not be kept, messages are
    in no queue, files of the log were left out, queues name messages past the log's end, which the
    copy does not have, or no broker starts on the copy.
    """
    asked = asked_of(arguments, Repair)
    with engine_for(arguments, asks_store(asked, REPAIR)) as engine:
        summary = repair(engine, asked)
    damage = summary.damage
    lost = summary.not_filled or summary.left_out or damage["past_end"] or damage["left_out"]
    return answer(arguments, summary, not (lost or summary.first))
