"""`reput convert`: a store written anew, with files of other sizes or for another release."""

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from reput.jobs.console import options
from reput.jobs.console.declared import OfLog, option, remade_lives
from reput.jobs.engines.choice import on_engine
from reput.jobs.engines.engine import Engine
from reput.store_format.discover.purpose import CONVERT
from reput.store_format.files.overlap import relation
from reput.store_format.release.profiles import profile, release_named
from reput.store_format.release.settings import SettingError, parse_assignments

if TYPE_CHECKING:
    from reput.jobs.converting.report import ConvertSummary
    from reput.jobs.pipeline.job import FoundStore
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
    + options.VERSIONS
)


@dataclass(frozen=True)
class Convert(OfLog):
    """What `reput convert` is asked. output_storage: only writes."""

    output: str = option("absent or empty folder, or its URL", "", metavar="DIR")
    _: KW_ONLY
    output_storage: "Storage | None" = None
    replace: bool = option("replace the store in DIR, if it is a converted one", False)
    dry_run: bool = option("write nothing; say what becomes of each topic", False)
    to_rocketmq: str | None = option(
        "the release that the new store is for (default: that of STORE)", metavar="VERSION"
    )
    to_settings: Mapping[str, str] | None = option(
        "what is other in the new store, by RocketMQ's name: mappedFileSizeCommitLog, "
        "mappedFileSizeConsumeQueue, maxIndexNum, ...; may be repeated",
        (), "--to-set", metavar="NAME=VALUE",
    )  # fmt: skip
    topics: Sequence[str] = option(
        "only this topic, and what waits, is retried or was given up of it; may be repeated",
        (), "--topic", metavar="TOPIC",
    )  # fmt: skip
    drop: Sequence[str] = option("all but this topic; may be repeated", (), metavar="TOPIC")
    rename: Mapping[str, str] | None = option(
        "a topic's new name; may be repeated", (), metavar="OLD=NEW"
    )
    merge: Sequence[str] = option(
        "further stores, whose messages join those of STORE by store time",
        (), nargs="+", metavar="STORE",
    )  # fmt: skip
    meet: str = option(
        "with --merge, queues that several stores have: refuse them (default), make one queue of "
        "them, or give those of later stores other ids",
        "refuse", choices=("refuse", "renumber", "apart"),
    )  # fmt: skip
    store_host: str | None = option(
        "the new broker's address, which message ids name", metavar="ADDRESS:PORT"
    )
    remade: str = remade_lives()


@on_engine(Convert)
def convert(engine: Engine, asked: Convert) -> "ConvertSummary":
    """Write a store anew.

    to_settings: as settings; rename: old topic -> new topic; dry_run: write nothing, and only
    report what would become of each topic. The others as for `reput.rebuild`, of the store that is
    read.

    Raises StoreError (also DamageFound if live records follow damage, and if a broker has the
    store), SettingError, UnknownRelease; a failed run leaves nothing in `output`.
    """
    from reput.jobs.converting.carried import MEETS, wanted_changes
    from reput.jobs.converting.convert import all_inputs, convert_store, look_at, wanted
    from reput.jobs.outputs.output import CONVERTED

    if asked.meet not in MEETS:
        raise SettingError(f"meet {asked.meet!r}: expected one of {', '.join(MEETS)}")
    stores = _each_once([
        dataclasses.replace(asked, store=each).found(engine, CONVERT)
        for each in (asked.store, *asked.merge)
    ])  # fmt: skip
    found = stores[0]
    release = profile(asked.to_rocketmq or found.plan.profile.release)
    changes = wanted_changes(
        asked.topics, asked.drop, asked.rename or {}, asked.store_host, release
    )
    changes = dataclasses.replace(changes, merges=bool(asked.merge))
    to = wanted(found, release.release, asked.to_settings or {}, changes)._replace(meet=asked.meet)
    if asked.dry_run:
        return look_at(stores, to)
    storage = asked.output_storage or asked.storage
    place = found.output(asked.output, CONVERTED, asked.replace, storage)
    return convert_store(stores, to, dataclasses.replace(place, inputs=all_inputs(stores)))


def _each_once(stores: "list[FoundStore]") -> "list[FoundStore]":
    """The stores, if each is named once. Raises SettingError."""
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
    options.add_job(parser, Convert, _HELP, timezone=True)


def run(arguments: argparse.Namespace) -> int:
    """Convert, and say what was done: 0 done; 1 where messages are in no queue, where entries are
    missing that the old store's group had agreed on, where no broker starts on an LMQ's queue, and
    for a dry run, which always has something to do.
    """
    from reput.jobs.converting.carried import parse_renames

    if bool(arguments.output) == arguments.dry_run:
        raise SettingError("--output DIR says where to write; --dry-run writes nothing: give one")
    if arguments.to_rocketmq:
        release_named(arguments.to_rocketmq)
    asked = options.asked_of(
        arguments,
        Convert,
        to_settings=parse_assignments(arguments.to_settings),
        rename=parse_renames(arguments.rename),
    )
    with options.engine_for(arguments, options.asks_store(asked, CONVERT)) as engine:
        summary = convert(engine, asked)
    whole = not (summary.lacks or summary.left_out or summary.first)
    code = options.answer(arguments, summary, whole)
    return options.DAMAGE if asked.dry_run else code
