"""`reput rebuild`: derive a store's queues and index from its CommitLog."""

import argparse
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, BinaryIO

from reput.jobs.console import declared, options
from reput.jobs.engines.choice import on_engine
from reput.jobs.engines.engine import Engine
from reput.store_format import faults
from reput.store_format.discover.purpose import REBUILD
from reput.store_format.release.settings import SettingError

if TYPE_CHECKING:
    from reput.jobs.outputs.report import Summary
    from reput.store_format.files.protocol import Storage

REFUSE, TRUNCATE, SALVAGE = faults.REFUSE, faults.TRUNCATE, faults.SALVAGE

_HELP = f"""\
{options.VERSIONS}
STORE and DIR are paths or URLs (docs/storage.md; credentials come from the environment):
  reput rebuild s3://bucket/store --output s3://bucket/rebuilt --rocketmq 5.3.3
  reput rebuild /data/store --output webhdfs://namenode:9870/rebuilt --rocketmq 5.3.3
"""


@dataclass(frozen=True)
class Rebuild(declared.OfLog):
    """What `reput rebuild` is asked. output_storage: only writes."""

    output: str = field(
        metadata=declared.shown("absent or empty folder, or its URL", metavar="DIR")
    )
    _: KW_ONLY
    output_storage: "Storage | None" = None
    on_damage: str = REFUSE
    replace: bool = declared.option("replace the set in DIR, if it is a rebuilt one", False)
    index_start_name: str | None = declared.option(
        "name of the first index file (default: its first message's store time)",
        metavar="yyyyMMddHHmmssSSS",
    )
    queues: str | None = declared.option(
        "what queues are built (default: as STORE has them)", choices=("files", "rocksdb")
    )
    index: str | None = declared.option(
        "what index is built (default: files, unless indexFileWriteEnable=false)",
        choices=("files", "rocksdb"),
    )
    remade: str = declared.remade_lives()
    ranges: "BinaryIO | None" = declared.all_ranges(" (with --on-damage salvage)")
    assume_names: bool = declared.assumed_names(" (with --on-damage salvage)")


@on_engine(Rebuild)
def rebuild(engine: Engine, asked: Rebuild) -> "Summary":
    """Derive ConsumeQueue and Index files from a store's CommitLog, as RocketMQ would.

    on_damage: `refuse` raises DamageFound if live records follow damage; `truncate` ends the log
    there as RocketMQ's recovery does, but also at a record whose physicalOffset is not its place,
    where RocketMQ goes on; `salvage` goes on at the next intact record (docs/damage.md).
    ranges: with `salvage`, a file that gets every range and every gap as JSON lines, however many.

    Raises StoreError (also DamageFound), SettingError, UnknownRelease; a failed run leaves nothing
    in `output`.
    """
    from reput.jobs.deriving.derive_set import ToDerive, derive_set
    from reput.jobs.opening.plan import FILES, INDEX_SETTING, ROCKSDB, kind_of_index, kind_of_queues
    from reput.jobs.outputs.output import REBUILT

    if asked.assume_names and asked.on_damage != SALVAGE:
        raise SettingError("--assume-names: only with --on-damage salvage")
    found = asked.found(engine, REBUILD.asked(asked.on_damage))
    kind = kind_of_queues(found.plan, asked.queues, asked.output)
    index_kind = kind_of_index(found.plan, asked.index, asked.output)
    if index_kind == ROCKSDB and asked.on_damage == SALVAGE:
        raise SettingError("--index rocksdb: not with --on-damage salvage; reput repair first")
    if index_kind == FILES and found.plan.discovered.settings.get(INDEX_SETTING) == "true":
        found.plan.warnings.append(
            f"{INDEX_SETTING}=true: index files alone are built (--index rocksdb builds the other)"
        )
    to = asked.output_storage or asked.storage
    target = found.output(asked.output, REBUILT, asked.replace, to)
    how = ToDerive(
        asked.on_damage, asked.index_start_name, asked.ranges, queues=kind, index=index_kind,
        in_shards=True,
    )  # fmt: skip
    return derive_set(found, target, how)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_job(parser, Rebuild, _HELP, timezone=True, on_damage=options.ANY_DAMAGE)


def run(arguments: argparse.Namespace) -> int:
    """Rebuild, and say what was done: 0 done; 1 where something is left out that nobody named."""
    asked = options.asked_of(arguments, Rebuild)
    with (
        options.new_ranges(arguments, asked.settings) as ranges,
        options.engine_for(arguments, options.asks_store(asked, REBUILD)) as engine,
    ):
        summary = rebuild(engine, replace(asked, ranges=ranges))
    unread = summary.damage and summary.damage["left_out"]
    whole = not (summary.left_out or summary.in_no_queue or unread)
    return options.answer(arguments, summary, whole)
