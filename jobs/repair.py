"""`reput repair`: a copy of a damaged store that a broker starts on and serves past the damage."""

import argparse
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from reput.jobs.console.options import (
    DAMAGE,
    DONE,
    VERSIONS,
    add_assume_names,
    add_store,
    add_timezone,
    asks_store,
    engine_for,
    options_of_job,
    show,
)
from reput.jobs.engines.choice import on_engine
from reput.jobs.engines.engine import Engine
from reput.store_format.discover.purpose import REPAIR, REPAIRED
from reput.store_format.faults import REFUSE, SALVAGE, StoreError
from reput.store_format.names import COMPACTION, CONFIG
from reput.store_format.notes import Progress

if TYPE_CHECKING:
    from reput.jobs.pipeline.job import FoundStore
    from reput.jobs.pipeline.pipeline import Cut
    from reput.jobs.salvaging.repair import RepairSummary
    from reput.store_format.files.protocol import Storage
    from reput.udfs.staging import Staging

_LOG_PLACES = ("storePathCommitLog", "readOnlyCommitLogStorePaths")
_MOST_RANGES = 100_000  # of a segment: the bytes of each are saved, and described
_MOST_GAPS = 100_000

_HELP = f"""\
Copies the store to DIR. Each damaged range is replaced by filler records of the same length:
with the topic, queue and offset of the lost message where its neighbours tell them, and the tag
REPUT_LOST. Messages keep their offsets. What was replaced is in DIR/damaged, listed in
DIR/manifest.json. All derived files are made anew; the broker's configuration is copied.

examples:
  reput repair /data/store --output /data/repaired
  reput repair s3://bucket/store --output /data/repaired --restore

{VERSIONS}"""


@on_engine
def repair(  # noqa: PLR0913 (a user's options)
    engine: Engine,
    store: str,
    output: str,
    *,
    rocketmq: str | None = None,
    settings: Mapping[str, str] | None = None,
    replace_output: bool = False,
    cut: "Cut | None" = None,
    storage: "Storage | None" = None,
    output_storage: "Storage | None" = None,
    progress: Progress | None = None,
    assume_names: bool = False,
    restore: bool = False,
) -> "RepairSummary":
    """Copy a store, with fillers for what is damaged, and derive its files anew.

    The copy has commitlog/, config/, all derived files, `damaged/` with the bytes that fillers
    replaced, and a manifest.

    replace_output: whether an older repaired store in `output` may be replaced.
    assume_names: segments have the names that their records show.
    restore: whether to put back damaged header fields that other files prove.

    Raises StoreError (also if a broker has the store, or a range is too short for any record),
    SettingError, UnknownRelease; a failed run leaves nothing in `output`.
    """
    from reput.jobs.opening.plan import FILES, check_unchanged, kind_of_index, kind_of_queues
    from reput.jobs.outputs.output import REPAIRED
    from reput.jobs.outputs.publish import begin_set, end_set
    from reput.jobs.pipeline.job import find_store
    from reput.jobs.salvaging.damage_search import map_damage
    from reput.jobs.salvaging.repair import (
        RepairSummary,
        copy_folder,
        move_segments,
        repair_segments,
        restorations,
        restored,
        settle_copy,
    )
    from reput.store_format.discover.config import config_faults
    from reput.store_format.discover.store import store_at
    from reput.store_format.log.groups import refuse_heads

    found = find_store(
        engine, store_at(store, rocketmq, settings, storage), REPAIR, cut=cut,
        progress=progress, assume_names=assume_names,
    )  # fmt: skip
    plan = found.plan
    refuse_heads(plan.segments, "repair")
    kinds = kind_of_queues(plan, None, output, of_both=FILES), kind_of_index(plan, None, output)
    if plan.in_use:
        raise StoreError(f"{plan.store}: a broker has it: a store is repaired when it is stopped")
    place = found.output(output, REPAIRED, replace_output, output_storage or storage)
    with found.publishing(place) as (job, _):
        job.check_every_crc()
        damage = map_damage(job, _MOST_RANGES, _MOST_GAPS)
        patches = restorations(job, damage) if restore else []
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
        for folder in (CONFIG, COMPACTION):
            copy_folder(plan, place.storage, target, folder, summary)
        faults = config_faults(plan.storage, plan.store)
        todo = next((each.todo for each in faults if each.todo), "")
        summary.first = todo.replace(f"{plan.store}/", f"{place.path}/")
        _derive(found, job.staging, place.storage, target, summary, kinds)
        settle_copy(plan, place.storage, target, summary)
        end_set(job.staging, summary.manifest(), place)
    summary.seconds = found.seconds()
    return summary


def _derive(
    found: "FoundStore",
    staging: "Staging",
    storage: "Storage",
    target: str,
    summary: "RepairSummary",
    kinds: tuple[str, str],
) -> None:
    """Derive the repaired log's files. Raises StoreError if damage is left in the log.

    If later queueOffsets outvote a queue's first one, its record keeps that queueOffset; the
    derived files have the message where salvage puts it, as only salvage knows that position.
    kinds: of queues and of index, FILES or ROCKSDB. With salvage, an index in RocksDB is left to
    the broker.
    """
    from reput.jobs.deriving.derive_set import derive_set, move_derived
    from reput.jobs.opening.plan import FILES
    from reput.jobs.outputs.output import REBUILT
    from reput.jobs.outputs.report import range_text
    from reput.jobs.pipeline.job import find_store
    from reput.jobs.salvaging.damage_map import harms
    from reput.store_format.discover.store import StoreAt

    derived = staging.path("derived")
    known = found.plan.discovered.settings  # the copy has only a log, which does not show them
    settings = {name: value for name, value in known.items() if name not in _LOG_PLACES}
    settings |= found.plan.index_zone.as_settings()
    repaired = find_store(
        found.engine,
        StoreAt(storage, target, found.plan.profile.release, settings),
        REPAIRED.asked(summary.on_damage),
        cut=found.cut,
        progress=found.progress,
    )
    of_store = replace(repaired.plan, queues_of=(found.plan.storage, found.plan.store))
    repaired = replace(repaired, plan=of_store)
    output = repaired.output(derived, REBUILT, False, storage)
    no_room = frozenset(
        (gap["topic"], gap["queue_id"], gap["before"]) for gap in summary.not_filled
    )
    built = derive_set(
        repaired, output, on_damage=summary.on_damage, no_room=no_room, queues=kinds[0],
        index=FILES if summary.on_damage == SALVAGE else kinds[1],
    )  # fmt: skip
    left = [each for each in built.damage["ranges"] if harms(each)] if built.damage else []
    if left:
        raise StoreError(f"{target}: damage is left: {range_text(left[0])}")
    move_derived(built, storage, derived, target)
    summary.derived, summary.messages = built.files, built.messages
    written = {file.path for file in built.files}
    summary.copied = [path for path in summary.copied if path not in written]
    summary.waits = built.waits
    summary.warnings += built.warnings
    summary.left_out += [*built.left_out, *built.in_no_queue]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _HELP
    add_store(parser, on_damage=())
    add_timezone(parser)
    parser.add_argument("--output", required=True, metavar="DIR", help="absent or empty folder")
    parser.add_argument(
        "--replace", action="store_true", help="replace the store in DIR, if it is a repaired one"
    )
    parser.add_argument(
        "--restore",
        action="store_true",
        help="put back damaged header fields that other files prove, and report each bit",
    )
    add_assume_names(parser)


def run(arguments: argparse.Namespace) -> int:
    """Repair, and say what was done: 0 done; 1 where lost positions could not be kept, messages are
    in no queue, files of the log were left out, queues name messages past the log's end, which the
    copy does not have, or no broker starts on the configuration.
    """
    options = options_of_job(arguments)
    with engine_for(arguments, asks_store(arguments, options, REPAIR)) as engine:
        summary = repair(
            engine,
            arguments.store,
            arguments.output,
            replace_output=arguments.replace,
            assume_names=arguments.assume_names,
            restore=arguments.restore,
            **options,
        )
    damage = summary.damage
    lost = summary.not_filled or summary.left_out or damage["past_end"] or damage["left_out"]
    whole = not (lost or summary.first)
    show(arguments, summary.as_json(), summary.text(), summary.details(), whole)
    return DONE if whole else DAMAGE
