"""`reput rebuild`: derive a store's queues and index from its CommitLog."""

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, BinaryIO

from reput.jobs.console.options import (
    DAMAGE,
    DONE,
    VERSIONS,
    add_assume_names,
    add_ranges,
    add_remade,
    add_store,
    add_timezone,
    asks_store,
    engine_for,
    new_ranges,
    options_of_job,
    show,
)
from reput.jobs.engines.choice import on_engine
from reput.jobs.engines.engine import Engine
from reput.store_format import faults
from reput.store_format.discover.purpose import REBUILD
from reput.store_format.notes import Progress

if TYPE_CHECKING:
    from reput.jobs.outputs.report import Summary
    from reput.jobs.pipeline.pipeline import Cut
    from reput.store_format.files.protocol import Storage

REFUSE, TRUNCATE, SALVAGE = faults.REFUSE, faults.TRUNCATE, faults.SALVAGE

_HELP = f"""\
{VERSIONS}
STORE and DIR are paths or URLs (docs/storage.md; credentials come from the environment):
  reput rebuild s3://bucket/store --output s3://bucket/rebuilt --rocketmq 5.3.3
  reput rebuild /data/store --output webhdfs://namenode:9870/rebuilt --rocketmq 5.3.3
"""


@on_engine
def rebuild(  # noqa: PLR0913 (a user's options)
    engine: Engine,
    store: str,
    output: str,
    *,
    rocketmq: str | None = None,
    settings: Mapping[str, str] | None = None,
    on_damage: str = REFUSE,
    replace: bool = False,
    index_start_name: str | None = None,
    cut: "Cut | None" = None,
    ranges: BinaryIO | None = None,
    storage: "Storage | None" = None,
    output_storage: "Storage | None" = None,
    progress: Progress | None = None,
    assume_names: bool = False,
    queues: str | None = None,
    index: str | None = None,
    remade: str = "",
) -> "Summary":
    """Derive ConsumeQueue and Index files from a store's CommitLog, as RocketMQ would.

    store: a folder that holds `commitlog/`, as path or URL (store_format/files).
    output: path or URL of a folder that is absent or empty, or with `replace` a rebuilt set.
    rocketmq: the release whose bytes are wanted. settings: by RocketMQ's names, as text
    (`{"maxIndexNum": "400"}`). What these two lack comes from the store
    (reput.store_format.discover.store).
    storage: reads and writes instead of the URLs' storages; output_storage: only writes.
    on_damage: `refuse` raises DamageFound if live records follow damage; `truncate` ends the log
    there as RocketMQ's recovery does, but also at a record whose physicalOffset is not its place,
    where RocketMQ goes on; `salvage` goes on at the next intact record (docs/damage.md).
    ranges: with `salvage`, gets every range and every gap as JSON lines, however many.
    assume_names: with `salvage`, segments have the names that their records show.
    remade: `last` or `all` lives of a topic that was deleted and made again; by default those that
    the store's own queues have.
    queues, index: `files` or `rocksdb`; by default queues as in the store, index by the settings.

    Raises StoreError (also DamageFound), SettingError, UnknownRelease; a failed run leaves nothing
    in `output`.
    """
    from reput.jobs.deriving.derive_set import derive_set
    from reput.jobs.opening.plan import FILES, INDEX_SETTING, ROCKSDB, kind_of_index, kind_of_queues
    from reput.jobs.outputs.output import REBUILT
    from reput.jobs.pipeline.job import find_store
    from reput.store_format.discover.store import store_at
    from reput.store_format.release.settings import SettingError

    if assume_names and on_damage != SALVAGE:
        raise SettingError("--assume-names: only with --on-damage salvage")
    found = find_store(
        engine, store_at(store, rocketmq, settings, storage), REBUILD.asked(on_damage), cut=cut,
        progress=progress, assume_names=assume_names, remade=remade,
    )  # fmt: skip
    kind = kind_of_queues(found.plan, queues, output)
    index_kind = kind_of_index(found.plan, index, output)
    if index_kind == ROCKSDB and on_damage == SALVAGE:
        raise SettingError(
            "--index rocksdb: not with --on-damage salvage; reput repair comes first"
        )
    if index_kind == FILES and found.plan.discovered.settings.get(INDEX_SETTING) == "true":
        found.plan.warnings.append(
            f"{INDEX_SETTING}=true: index files alone are built (--index rocksdb builds the other)"
        )
    target = found.output(output, REBUILT, replace, output_storage or storage)
    return derive_set(
        found, target, on_damage=on_damage, index_start_name=index_start_name, ranges=ranges,
        queues=kind, index=index_kind,
    )  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _HELP
    add_store(parser)
    add_timezone(parser)
    parser.add_argument(
        "--output", required=True, metavar="DIR", help="absent or empty folder, or its URL"
    )
    parser.add_argument(
        "--replace", action="store_true", help="replace the set in DIR, if it is a rebuilt one"
    )
    parser.add_argument(
        "--index-start-name",
        metavar="yyyyMMddHHmmssSSS",
        help="name of the first index file (default: its first message's store time)",
    )
    parser.add_argument(
        "--queues", choices=("files", "rocksdb"),
        help="what queues are built (default: as STORE has them)",
    )  # fmt: skip
    parser.add_argument(
        "--index", choices=("files", "rocksdb"),
        help="what index is built (default: files, unless indexFileWriteEnable=false)",
    )  # fmt: skip
    add_remade(parser)
    add_ranges(parser, " (with --on-damage salvage)")
    add_assume_names(parser, " (with --on-damage salvage)")


def run(arguments: argparse.Namespace) -> int:
    """Rebuild, and say what was done: 0 done; 1 where something is left out that nobody named."""
    options = options_of_job(arguments)
    with (
        new_ranges(arguments, options["settings"]) as ranges,
        engine_for(arguments, asks_store(arguments, options, REBUILD)) as engine,
    ):
        summary = rebuild(
            engine,
            arguments.store,
            arguments.output,
            on_damage=arguments.on_damage or REFUSE,
            replace=arguments.replace,
            index_start_name=arguments.index_start_name,
            ranges=ranges,
            assume_names=arguments.assume_names,
            queues=arguments.queues,
            index=arguments.index,
            remade=arguments.remade,
            **options,
        )
    unread = summary.damage and summary.damage["left_out"]
    whole = not (summary.left_out or summary.in_no_queue or unread)
    show(arguments, summary.as_json(), summary.text(), summary.details(), whole)
    return DONE if whole else DAMAGE
