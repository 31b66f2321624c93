"""`reput export`: the messages of a log as Parquet files, JSON lines or a Delta table."""

import argparse
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from typing import TYPE_CHECKING

from reput.jobs.console.declared import OfLog, option, shown, timed
from reput.jobs.console.options import (
    DAMAGE,
    DONE,
    TIME_FORMS,
    add_job,
    asked_of,
    engine_for,
    milliseconds,
    show,
)
from reput.jobs.engines.choice import LOCAL, SPARK, on_engine
from reput.jobs.engines.engine import Engine
from reput.store_format.discover.purpose import READ
from reput.store_format.files.by_url import place_at
from reput.store_format.notes import Notes
from reput.store_format.release.settings import SettingError

if TYPE_CHECKING:
    from reput.jobs.exporting.files import ComparedExport, Exported
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
    return any(place_at(to).listed("messages/_delta_log"))


@dataclass(frozen=True)
class OfExport(OfLog):
    """What an export and its comparison are asked.

    delta_by: the writer of Delta tables: `local` (deltalake in this process), or `spark` (the
    session, which clusters them). output_storage: only writes.
    """

    to: str = field(metadata=shown("absent or empty folder, or its URL", "--output", metavar="DIR"))
    _: KW_ONLY
    output_storage: "Storage | None" = None
    delta_by: str = LOCAL


@dataclass(frozen=True)
class VerifyExport(OfExport):
    """What `reput export --verify` is asked. store: None to compare with the manifest alone."""

    store: str | None  # type: ignore[assignment]


@dataclass(frozen=True, kw_only=True)
class Export(OfExport):
    """What `reput export` is asked."""

    format: str = option(
        "what is written: files of Parquet (default) or JSON lines, Delta tables, a store",
        "parquet", "--as", dest="kind", choices=_FORMATS,
    )  # fmt: skip
    topics: Sequence[str] = option(
        "only this topic; may be repeated", (), "--topic", metavar="TOPIC"
    )
    tags: str | None = option("only messages with one of these tags", metavar="'A || B'")
    sql: str | None = option("only what a subscription would get", metavar="EXPRESSION")
    since: int | None = timed(f"stored then or later: {TIME_FORMS}", type=milliseconds)
    until: int | None = timed("stored before that", type=milliseconds)
    unconsumed_by: str | None = option(
        "only what this consumer group has not consumed: from its offset on", metavar="GROUP"
    )
    bodies: bool = option("leave out the bodies", True, "--no-bodies")
    decompress: bool = option("bodies as their producers gave them", False)
    on_damage: str = option(
        "fail (default) where live records may follow, skip the rest of that segment, or salvage: "
        "leave out what is damaged or stale",
        "fail", choices=_ON_DAMAGE,
    )  # fmt: skip
    redact: Sequence[str] = option(
        "body (leaves none), body:hash (its SHA-256 in its place), property:NAME (with each "
        "property that repeats its value); may be repeated",
        (), metavar="WHAT",
    )  # fmt: skip
    keep_repeats: bool = option(
        "with --redact: leave a body, topic or host that repeats a redacted value", False
    )
    system_topics: bool = option(
        "also a broker's own topics (delayed, half and timer messages, ...), which are left out, "
        "but not into a store: `reput convert` makes one in which they wait",
        False,
    )
    replace: bool = option("replace the export in DIR", False)


@on_engine(Export)
def export(engine: Engine, asked: Export) -> "Exported":
    """Write a log's messages to files, Delta tables or a new store, in a folder or at a URL.

    format: `delta` adds new messages to Delta tables; `rocketmq` makes a store on which a broker
    starts. This process writes these two.
    tags, sql: only what a consumer's subscription would get. since, until: milliseconds.
    redact: refused if something else repeats a value. system_topics: if no topics are named.

    Raises StoreError (also DamageFound), SettingError, UnknownRelease, WrongTags, WrongExpression;
    a failed run leaves nothing in `to`.
    """
    from reput.jobs.exporting.files import Chosen, export_set, redaction
    from reput.jobs.outputs.output import EXPORTED

    format_, on_damage, store = asked.format, asked.on_damage, asked.store
    if format_ not in _FORMATS:
        raise SettingError(f"format {format_!r}: expected one of {', '.join(_FORMATS)}")
    if on_damage not in _ON_DAMAGE:
        raise SettingError(f"on_damage {on_damage!r}: expected one of {', '.join(_ON_DAMAGE)}")
    if asked.decompress and not asked.bodies:
        raise SettingError("--decompress: there is nothing to decompress with --no-bodies")
    if asked.unconsumed_by is not None and format_ == _DELTA:
        raise SettingError("--unconsumed-by: not for a Delta table, as offsets move between runs")
    named = [each.name for each in fields(Chosen) if each.name != "offsets"]
    chosen = Chosen(**{name: getattr(asked, name) for name in named})
    chosen = replace(chosen, topics=tuple(asked.topics), redact=tuple(asked.redact),
                     offsets=_offsets(asked))  # fmt: skip
    redaction(asked.redact)  # wrong words are refused before anything is read
    settings, keep_repeats = asked.settings or {}, asked.keep_repeats
    if format_ == _STORE:
        from reput.jobs.exporting.to_store import export_store

        if not asked.bodies:
            raise SettingError("--no-bodies: not for a store; --redact body leaves none")
        if asked.system_topics:
            raise SettingError(
                "--system-topics: not for a store of messages, in which what waits, and what was "
                "delivered, would come again; `reput convert` makes a store that has it as it was"
            )
        return export_store(
            store, asked.to, chosen, asked.rocketmq, settings, keep_repeats, asked.replace, engine
        )  # fmt: skip
    if format_ == _DELTA:
        from reput.jobs.exporting.delta import export_delta, writer_of

        if asked.replace:
            raise SettingError("--replace: a Delta table is only added to")
        writer = writer_of(asked.delta_by, engine)
        return export_delta(
            writer, store, asked.to, chosen, asked.rocketmq, settings, keep_repeats, engine
        )
    found = asked.found(engine, READ.asked(on_damage))
    to = asked.output_storage or asked.storage
    target = found.output(asked.to, EXPORTED, asked.replace, to)
    return export_set(found, target, format_, chosen, keep_repeats)


def _offsets(asked: Export) -> tuple[tuple[str, int, int], ...]:
    """(topic, queue, offset from which on the group has consumed nothing). Raises StoreError."""
    if asked.unconsumed_by is None:
        return ()
    from reput.store_format.query.inventory import unconsumed

    found = unconsumed(asked.named().folder, asked.unconsumed_by, Notes())
    return tuple((*queue, offset) for queue, offset in sorted(found.items()))


@on_engine(VerifyExport)
def verify_export(engine: Engine, asked: VerifyExport) -> "ComparedExport":
    """Read an export back and compare it with the log: counts, sums and CRCs.

    The files must be as the export's manifest says, too: length, SHA-256, messages. The options are
    read from the export. Raises StoreError, SettingError, UnknownRelease.
    """
    from reput.jobs.exporting.files import check_set, chosen_of, compare_set, export_manifest

    store, to = asked.store, asked.to
    if is_delta(to):
        if store is None:
            raise SettingError("--verify of Delta tables needs STORE, whose log it compares")
        from reput.jobs.exporting.delta import compare_delta, writer_of

        writer = writer_of(asked.delta_by, engine)
        return compare_delta(writer, store, to, asked.rocketmq, asked.settings or {}, engine)
    folder = place_at(to, asked.output_storage or asked.storage)
    if store is None:
        return check_set(folder)
    purpose = READ.asked(chosen_of(export_manifest(folder), folder.path).on_damage)
    return compare_set(asked.found(engine, purpose), folder)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_job(parser, Export, _EPILOG, optional=True, times=True)
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
    delta = is_delta(arguments.to) if arguments.verify else arguments.kind == _DELTA
    delta_by = arguments.engine or LOCAL  # a session of spark-submit may lack Delta
    alone = delta_by != SPARK if delta else arguments.kind == _STORE or arguments.store is None
    options: type[OfExport] = VerifyExport if arguments.verify else Export
    asked = asked_of(arguments, options, store=arguments.store, delta_by=delta_by)
    with nullcontext() if alone else engine_for(arguments, settings=_settings(delta)) as engine:
        if isinstance(asked, VerifyExport):
            compared = verify_export(engine, asked)
            show(arguments, compared.as_json(), compared.text(), good=compared.same)
            return DONE if compared.same else DAMAGE
        assert isinstance(asked, Export)
        done = export(engine, asked)
    show(arguments, done.as_json(), done.text(), good=done.complete)
    return DONE if done.complete else DAMAGE
