"""`reput convert`: a store written anew, with files of other sizes or for another release."""

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from reput.jobs.console.options import (
    DAMAGE,
    DONE,
    VERSIONS,
    add_remade,
    add_store,
    add_timezone,
    asks_store,
    engine_for,
    options_of_job,
    show,
)
from reput.jobs.engines.choice import on_engine
from reput.jobs.engines.engine import Engine
from reput.store_format.discover.purpose import CONVERT
from reput.store_format.notes import Progress

if TYPE_CHECKING:
    from reput.jobs.converting.report import ConvertSummary
    from reput.jobs.pipeline.job import FoundStore
    from reput.jobs.pipeline.pipeline import Cut
    from reput.store_format.files.protocol import Storage

_HELP = (
    """\
Writes a new store to DIR: the log anew, record by record, all derived files, and the configuration
with topics, groups and offsets. Messages keep their queueOffsets, bodies, properties and times;
their places in the log become others, and what points to a place points to the new one. Where
only some topics are taken, those in queues that several share (delayed, retried) move up. STORE is
only read. A damaged log is refused: `reput repair` makes a sound copy first.

examples:
  reput convert /data/store --dry-run
  reput convert /data/store --output /data/new --to-set mappedFileSizeCommitLog=536870912
  reput convert /data/store --output /data/orders --topic Orders --rename Orders=OrdersOld
  reput convert /data/store --output /data/new --to-rocketmq 5.3.3 --store-host 10.0.0.7:10911

"""
    + VERSIONS
)


@on_engine
def convert(  # noqa: PLR0913 (a user's options)
    engine: Engine,
    store: str,
    output: str,
    *,
    to_rocketmq: str | None = None,
    to_settings: Mapping[str, str] | None = None,
    topics: Sequence[str] = (),
    drop: Sequence[str] = (),
    rename: Mapping[str, str] | None = None,
    store_host: str | None = None,
    merge: Sequence[str] = (),
    meet: str = "refuse",
    dry_run: bool = False,
    replace: bool = False,
    rocketmq: str | None = None,
    settings: Mapping[str, str] | None = None,
    cut: "Cut | None" = None,
    storage: "Storage | None" = None,
    output_storage: "Storage | None" = None,
    progress: Progress | None = None,
    remade: str = "",
) -> "ConvertSummary":
    """Write a store anew.

    store: a folder that holds `commitlog/`.
    output: a folder that is absent or empty, or with `replace` a store that was converted before.
    to_rocketmq: the release for which the new store is; by default the old store's release.
    to_settings: settings that change, by RocketMQ's names
    (`{"mappedFileSizeCommitLog": "536870912"}`).
    topics: only these topics, with their messages that wait, are retried or were given up; drop:
    all topics but these; rename: old topic -> new topic.
    store_host: `address:port`, the storeHost of each record, which is part of message ids.
    merge: further stores, whose records join those of `store` by store time.
    meet: for queues that several stores have: `refuse`, `renumber` (join them) or `apart` (queues
    of later stores get other ids).
    remade: `last` or `all` lives of a topic that was deleted and made again; by default those that
    the store's own queues have.
    dry_run: write nothing, and only report what would become of each topic.
    The others as for `reput.rebuild`, of the store that is read.

    Raises StoreError (also DamageFound if live records follow damage, and if a broker has the
    store), SettingError, UnknownRelease; a failed run leaves nothing in `output`.
    """
    from reput.jobs.converting.carried import MEETS, wanted_changes
    from reput.jobs.converting.convert import all_inputs, convert_store, look_at, wanted
    from reput.jobs.outputs.output import CONVERTED
    from reput.jobs.pipeline.job import find_store
    from reput.store_format.discover.store import store_at
    from reput.store_format.release.profiles import profile
    from reput.store_format.release.setting_table import SettingError

    if meet not in MEETS:
        raise SettingError(f"meet {meet!r}: expected one of {', '.join(MEETS)}")
    stores = _each_once([
        find_store(
            engine, store_at(each, rocketmq, settings, storage), CONVERT, cut=cut,
            progress=progress, remade=remade,
        )
        for each in (store, *merge)
    ])  # fmt: skip
    found = stores[0]
    release = profile(to_rocketmq or found.plan.profile.release)
    changes = wanted_changes(topics, drop, rename or {}, store_host, release)
    changes = dataclasses.replace(changes, merges=bool(merge))
    to = wanted(found, release.release, to_settings or {}, changes)._replace(meet=meet)
    if dry_run:
        return look_at(stores, to)
    place = found.output(output, CONVERTED, replace, output_storage or storage)
    return convert_store(stores, to, dataclasses.replace(place, inputs=all_inputs(stores)))


def _each_once(stores: "list[FoundStore]") -> "list[FoundStore]":
    """The stores, if each is named once. Raises SettingError."""
    from reput.store_format.files.overlap import relation
    from reput.store_format.release.setting_table import SettingError

    for n, each in enumerate(stores):
        here = each.plan.storage.whereabouts(each.plan.store)
        for other in stores[:n]:
            if relation(here, other.plan.storage.whereabouts(other.plan.store)) is not None:
                raise SettingError(
                    f"--merge {each.plan.store}: is, holds or lies in {other.plan.store}, which is "
                    "given too: each message would be there twice"
                )
    return stores


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _HELP
    add_store(parser, on_damage=())
    add_timezone(parser)
    parser.add_argument("--output", metavar="DIR", help="absent or empty folder, or its URL")
    parser.add_argument(
        "--replace", action="store_true", help="replace the store in DIR, if it is a converted one"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="write nothing; say what becomes of each topic"
    )
    parser.add_argument(
        "--to-rocketmq", metavar="VERSION",
        help="the release that the new store is for (default: that of STORE)",
    )  # fmt: skip
    parser.add_argument(
        "--to-set", action="append", default=[], metavar="NAME=VALUE", dest="to_assignments",
        help="what is other in the new store, by RocketMQ's name: mappedFileSizeCommitLog, "
        "mappedFileSizeConsumeQueue, maxIndexNum, ...; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--topic", action="append", default=[], metavar="TOPIC",
        help="only this topic, and what waits, is retried or was given up of it; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--drop", action="append", default=[], metavar="TOPIC",
        help="all but this topic; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--rename", action="append", default=[], metavar="OLD=NEW",
        help="a topic's new name; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--merge", nargs="+", default=[], metavar="STORE",
        help="further stores, whose messages join those of STORE by store time",
    )  # fmt: skip
    parser.add_argument(
        "--meet", choices=("refuse", "renumber", "apart"), default="refuse",
        help="with --merge, queues that several stores have: refuse them (default), make one queue "
        "of them, or give those of later stores other ids",
    )  # fmt: skip
    parser.add_argument(
        "--store-host", metavar="ADDRESS:PORT",
        help="the new broker's address, which message ids name",
    )  # fmt: skip
    add_remade(parser)


def run(arguments: argparse.Namespace) -> int:
    """Convert, and say what was done: 0 done; 1 where messages are in no queue, where entries are
    missing that the old store's group had agreed on, and for a dry run, which always has something
    to do.
    """
    from reput.jobs.converting.carried import parse_renames
    from reput.store_format.release.profiles import release_named
    from reput.store_format.release.settings import SettingError, parse_assignments

    if bool(arguments.output) == arguments.dry_run:
        raise SettingError("--output DIR says where to write; --dry-run writes nothing: give one")
    if arguments.to_rocketmq:
        release_named(arguments.to_rocketmq)
    to_settings = parse_assignments(arguments.to_assignments)
    rename = parse_renames(arguments.rename)
    options = options_of_job(arguments)
    with engine_for(arguments, asks_store(arguments, options, CONVERT)) as engine:
        summary = convert(
            engine,
            arguments.store,
            arguments.output or "",
            to_rocketmq=arguments.to_rocketmq,
            to_settings=to_settings,
            topics=arguments.topic,
            drop=arguments.drop,
            rename=rename,
            store_host=arguments.store_host,
            merge=arguments.merge,
            meet=arguments.meet,
            dry_run=arguments.dry_run,
            remade=arguments.remade,
            replace=arguments.replace,
            **options,
        )
    whole = not (summary.lacks or summary.left_out)
    show(arguments, summary.as_json(), summary.text(), summary.details(), whole)
    return DONE if whole and not arguments.dry_run else DAMAGE
