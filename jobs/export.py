"""`reput export`: the messages of a log as Parquet files, JSON lines or a Delta table."""

import argparse
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

from reput.jobs.console.options import (
    DAMAGE,
    DONE,
    TIME_FORMS,
    add_store,
    engine_for,
    milliseconds,
    options_of_job,
    show,
)
from reput.jobs.engines.choice import LOCAL, SPARK, on_engine
from reput.jobs.engines.engine import Engine
from reput.store_format.discover.purpose import READ
from reput.store_format.notes import Progress
from reput.store_format.release.settings import SettingError

if TYPE_CHECKING:
    from reput.jobs.exporting.files import ComparedExport, Exported
    from reput.jobs.pipeline.pipeline import Cut
    from reput.store_format.files.protocol import Storage

_DELTA, _STORE = "delta", "rocketmq"
_FORMATS = ("parquet", "jsonl", _DELTA, _STORE)
_ON_DAMAGE = ("fail", "skip", "salvage")
_EPILOG = """\
DIR/data/ gets part-00000000.parquet, ... in the log's order, with the columns of the Spark source
(docs/source.md), and a manifest.json. It appears whole or not at all. `reput append` puts what is
in it into another store; --verify compares it with the log.

  reput export /data/store --output /data/messages --topic Orders --no-bodies
  reput export /data/store --output s3://bucket/messages --as jsonl --since 2026-11-21T07:00:00Z
  reput export /data/store --output /data/messages --verify
  reput export --output /data/messages --verify      as it was written? no store is needed
  reput append /data/other --from /data/messages

--as rocketmq makes a store of the chosen messages, on which a broker starts.

--as delta makes two tables in DIR, messages and runs (docs/export.md); run again, it adds what
is new in the log, once, whatever was killed. It needs deltalake: pip install "reput[delta]"; with
--engine spark Spark writes them, clustered by topic and storeTimestamp: pip install "reput[spark]".
"""


def is_delta(to: str) -> bool:
    """Whether a folder, by path or URL, has a Delta table of messages."""
    from reput.store_format.files.by_url import storage_for
    from reput.store_format.files.protocol import listed

    storage = storage_for(to)
    return any(listed(storage, f"{storage.resolve(to)}/messages/_delta_log"))


@on_engine
def export(  # noqa: PLR0913 (a user's options)
    engine: Engine,
    store: str,
    to: str,
    *,
    format: str = "parquet",  # noqa: A002 (Spark's word for it)
    topics: Sequence[str] = (),
    tags: str | None = None,
    sql: str | None = None,
    since: int | None = None,
    until: int | None = None,
    bodies: bool = True,
    decompress: bool = False,
    on_damage: str = "fail",
    redact: Sequence[str] = (),
    keep_repeats: bool = False,
    system_topics: bool = False,
    delta_by: str = LOCAL,
    replace: bool = False,
    rocketmq: str | None = None,
    settings: Mapping[str, str] | None = None,
    cut: "Cut | None" = None,
    storage: "Storage | None" = None,
    output_storage: "Storage | None" = None,
    progress: Progress | None = None,
) -> "Exported":
    """Write a log's messages to files, Delta tables or a new store, in a folder or at a URL.

    to: a folder or URL.
    format: `parquet` or `jsonl` files; `delta` adds new messages to Delta tables; `rocketmq` makes
    a store on which a broker starts. This process writes the last two.
    topics: only these; tags, sql: only what a consumer's subscription would get.
    since, until: storeTimestamps in milliseconds, `until` is exclusive.
    bodies: whether to export bodies; decompress: whether to decompress them.
    on_damage: `fail` raises DamageFound, `skip` leaves out the rest of a damaged segment, `salvage`
    only what is damaged or stale.
    redact: `body`, `body:hash`, `property:NAME`; refused if something else repeats a value.
    keep_repeats: whether such repeats are left, with a warning.
    system_topics: whether to export a broker's own topics too, if no topics are named.
    delta_by: the writer of Delta tables: `local` (deltalake in this process), or `spark` (the
    session, which clusters them). replace: whether to replace an older export.
    The others as for `reput.rebuild`.

    Raises StoreError (also DamageFound), SettingError, UnknownRelease, WrongTags, WrongExpression;
    a failed run leaves nothing in `to`.
    """
    from reput.jobs.exporting.files import Chosen, export_set, redaction
    from reput.jobs.outputs.output import EXPORTED
    from reput.jobs.pipeline.job import find_store
    from reput.store_format.discover.store import store_at

    if format not in _FORMATS:
        raise SettingError(f"format {format!r}: expected one of {', '.join(_FORMATS)}")
    if on_damage not in _ON_DAMAGE:
        raise SettingError(f"on_damage {on_damage!r}: expected one of {', '.join(_ON_DAMAGE)}")
    if decompress and not bodies:
        raise SettingError("--decompress: there is nothing to decompress with --no-bodies")
    chosen = Chosen(
        tuple(topics), tags, sql, since, until, bodies, decompress, on_damage, system_topics,
        tuple(redact),
    )  # fmt: skip
    redaction(redact)  # wrong words are refused before anything is read
    if format == _STORE:
        from reput.jobs.exporting.to_store import export_store

        if not bodies:
            raise SettingError("--no-bodies: not for a store; --redact body leaves none")
        if system_topics:
            raise SettingError(
                "--system-topics: not for a store of messages, in which what waits, and what was "
                "delivered, would come again; `reput convert` makes a store that has it as it was"
            )
        return export_store(
            store, to, chosen, rocketmq, settings or {}, keep_repeats, replace
        )  # fmt: skip
    if format == _DELTA:
        from reput.jobs.exporting.delta import export_delta, writer_of

        if replace:
            raise SettingError("--replace: a Delta table is only added to")
        return export_delta(
            writer_of(delta_by, engine), store, to, chosen, rocketmq, settings or {}, keep_repeats
        )
    at = store_at(store, rocketmq, settings, storage)
    found = find_store(engine, at, READ.asked(on_damage), cut=cut, progress=progress)
    target = found.output(to, EXPORTED, replace, output_storage or storage)
    return export_set(found, target, format, chosen, keep_repeats)


@on_engine
def verify_export(  # noqa: PLR0913 (a user's options)
    engine: Engine,
    store: str | None,
    to: str,
    *,
    delta_by: str = LOCAL,
    rocketmq: str | None = None,
    settings: Mapping[str, str] | None = None,
    storage: "Storage | None" = None,
    output_storage: "Storage | None" = None,
    progress: Progress | None = None,
) -> "ComparedExport":
    """Read an export back and compare it with the log: counts, sums and CRCs.

    The files must be as the export's manifest says, too: length, SHA-256, messages. store: None to
    compare with the manifest alone. The options are read from the export. to: the export; delta_by:
    as for `export`.
    Raises StoreError, SettingError, UnknownRelease.
    """
    from reput.jobs.exporting.files import check_set, chosen_of, compare_set, export_manifest
    from reput.jobs.pipeline.job import find_store
    from reput.store_format.discover.store import store_at
    from reput.store_format.files.by_url import storage_for

    if is_delta(to):
        if store is None:
            raise SettingError("--verify of Delta tables needs STORE, whose log it compares")
        from reput.jobs.exporting.delta import compare_delta, writer_of

        return compare_delta(writer_of(delta_by, engine), store, to, rocketmq, settings or {})
    there = output_storage or storage or storage_for(to)
    folder = there.resolve(to)
    if store is None:
        return check_set(there, folder)
    purpose = READ.asked(chosen_of(export_manifest(there, folder), folder).on_damage)
    at = store_at(store, rocketmq, settings, storage)
    found = find_store(engine, at, purpose, progress=progress)
    return compare_set(found, there, folder)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    add_store(parser, on_damage=(), optional=True)
    parser.add_argument(
        "--output",
        dest="to",
        metavar="DIR",
        required=True,
        help="absent or empty folder, or its URL",
    )
    parser.add_argument(
        "--as", dest="kind", choices=_FORMATS, default="parquet",
        help="what is written: files of Parquet (default) or JSON lines, Delta tables, a store",
    )  # fmt: skip
    parser.add_argument(
        "--topic", action="append", default=[], help="only this topic; may be repeated"
    )
    parser.add_argument("--tags", metavar="'A || B'", help="only messages with one of these tags")
    parser.add_argument("--sql", metavar="EXPRESSION", help="only what a subscription would get")
    parser.add_argument(
        "--since", type=milliseconds, metavar="TIME", help=f"stored then or later: {TIME_FORMS}"
    )
    parser.add_argument("--until", type=milliseconds, metavar="TIME", help="stored before that")
    parser.add_argument("--no-bodies", action="store_true", help="leave out the bodies")
    parser.add_argument(
        "--decompress", action="store_true", help="bodies as their producers gave them"
    )
    parser.add_argument(
        "--on-damage", choices=_ON_DAMAGE, default="fail",
        help="fail (default) where live records may follow, skip the rest of that segment, or "
        "salvage: leave out what is damaged or stale",
    )  # fmt: skip
    parser.add_argument(
        "--redact", action="append", default=[], metavar="WHAT",
        help="body (leaves none), body:hash (its SHA-256 in its place), property:NAME (with each "
        "property that repeats its value); may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--keep-repeats", action="store_true",
        help="with --redact: leave a body, topic or host that repeats a redacted value",
    )  # fmt: skip
    parser.add_argument(
        "--system-topics", action="store_true",
        help="also a broker's own topics (delayed, half and timer messages, ...), which are left "
        "out, but not into a store: `reput convert` makes one in which they wait",
    )  # fmt: skip
    parser.add_argument("--replace", action="store_true", help="replace the export in DIR")
    parser.add_argument(
        "--verify",
        action="store_true",
        help="write nothing: compare the export in DIR with its manifest, and with the log where "
        "STORE is given",
    )


def _settings(delta: bool) -> Mapping[str, str] | None:
    """Further settings that a local Spark session needs for Delta tables."""
    if not delta:
        return None
    from reput.jobs.exporting.delta_writers import LOCAL_SETTINGS

    return LOCAL_SETTINGS


def run(arguments: argparse.Namespace) -> int:
    """Export, or compare: 0 done; 1 where something was left out, differs, or no message is of the
    topics that were named.
    """
    if arguments.store is None and not arguments.verify:
        raise SettingError("STORE is missing: only --verify works without it")
    options = options_of_job(arguments)
    delta = is_delta(arguments.to) if arguments.verify else arguments.kind == _DELTA
    delta_by = arguments.engine or LOCAL  # a session of spark-submit may lack Delta
    alone = delta_by != SPARK if delta else arguments.kind == _STORE or arguments.store is None
    with nullcontext() if alone else engine_for(arguments, settings=_settings(delta)) as engine:
        if arguments.verify:
            compared = verify_export(
                engine, arguments.store, arguments.to, delta_by=delta_by, **options
            )
            show(arguments, compared.as_json(), compared.text(), good=compared.same)
            return DONE if compared.same else DAMAGE
        done = export(
            engine, arguments.store, arguments.to, format=arguments.kind,
            topics=arguments.topic, tags=arguments.tags, sql=arguments.sql,
            since=arguments.since, until=arguments.until, bodies=not arguments.no_bodies,
            decompress=arguments.decompress, on_damage=arguments.on_damage,
            redact=arguments.redact, keep_repeats=arguments.keep_repeats,
            system_topics=arguments.system_topics, delta_by=delta_by,
            replace=arguments.replace, **options,
        )  # fmt: skip
    show(arguments, done.as_json(), done.text(), good=done.complete)
    return DONE if done.complete else DAMAGE
