"""`reput stats STORE`: what was put into a log, as a broker counts it while it runs."""

import argparse
import io
from collections.abc import Sequence
from typing import Any

from reput.jobs.console.options import DAMAGE, DONE, new_file
from reput.jobs.console.rows import (
    RowWriter,
    add_asked_store,
    add_limit,
    asked_store,
    at,
    for_programs,
    write_table,
)
from reput.jobs.console.voice import camel_case, in_zone, remark, shown_zone
from reput.jobs.outputs.output import NewFile
from reput.jobs.outputs.report import counted
from reput.store_format.faults import StoreError

_BY = ("topic", "day", "hour", "group", "size")
_TIMES = ("day", "hour")
_EPILOG = """\
StoreStatsService and BrokerStatsManager count puts, bytes and rates while a broker runs, and forget
them when it ends; this counts the log. Each record counts by its own topic, so a delayed message in
SCHEDULE_TOPIC_XXXX and again when it is delivered; a record that holds several messages counts as
so many messages. Bytes are those of the records. group: the consumers' of %RETRY% and %DLQ% topics,
the producers' of half messages. size: a record has so many bytes or more, less than twice as many.
Rates are over the whole hour or day, without these from the first message to the last.

  reput stats /data/store --by topic
  reput stats /data/store --by day --tz Asia/Shanghai
  reput stats s3://bucket/store --by topic,hour --output puts.parquet
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    add_asked_store(parser, scan=False)
    parser.add_argument(
        "--by", type=_ways, default=("topic",), metavar="topic,day|hour|group|size",
        help="what is counted apart, one or several (default: topic)",
    )  # fmt: skip
    parser.add_argument("--topic", metavar="T", help="with --by topic: only rows of this topic")
    add_limit(parser)
    parser.add_argument(
        "--output", metavar="FILE.parquet", help="write a new Parquet file, and no table"
    )


def _ways(text: str) -> tuple[str, ...]:
    ways = tuple(text.split(","))
    if not set(ways) <= set(_BY) or len(set(ways)) < len(ways):
        raise argparse.ArgumentTypeError(f"{text!r}: some of {', '.join(_BY)} are wanted")
    return ways


def run(arguments: argparse.Namespace) -> int:
    """Count, and show it: 0, or 1 where something could not be counted."""
    file, by, limit = new_file(arguments, "output", {}), arguments.by, arguments.limit
    if arguments.topic is not None and "topic" not in by:
        raise StoreError("--topic goes with --by topic, or topic and others")
    with asked_store(arguments) as store:
        found = [
            each
            for each in store.stats(by, zone=shown_zone())
            if arguments.topic in (None, each.topic)
        ]
    rows = found[:limit]
    if len(found) > len(rows):
        remark(f"{len(found) - len(rows):,} more: --limit {limit} leaves them out")
    if file is not None:
        _write(file, by, rows)
        remark(f"{arguments.output}: {counted(len(rows), 'row')}")
    elif for_programs(arguments):
        writer = RowWriter(arguments)
        for row in rows:
            writer.write(camel_case(_plain(by, row)))
    else:
        keys = [in_zone(name) if name in _TIMES else name for name in by]
        names = [*keys, "messages", "records", "bytes", in_zone("first"), in_zone("last"),
                 "messages/s", "bytes/s"]  # fmt: skip
        write_table(names, [_cells(by, row) for row in rows], {"topic", "group"})
    return DAMAGE if store.lacking else DONE


def _plain(by: Sequence[str], row: Any) -> dict[str, Any]:
    """A row with the columns that were asked for, and its rates."""
    whole = row._asdict()
    return {
        **{name: whole[name] for name in by},
        **{name: whole[name] for name in ("records", "messages", "bytes", "first", "last")},
        "messages_per_second": row.messages_per_second,
        "bytes_per_second": row.bytes_per_second,
    }


def _cells(by: Sequence[str], row: Any) -> list[Any]:
    whole = row._asdict()
    keys = [at(whole[name]) if name in _TIMES else whole[name] for name in by]
    return [
        *keys, f"{row.messages:,}", f"{row.records:,}", f"{row.bytes:,}", at(row.first),
        at(row.last), f"{row.messages_per_second:,.1f}", f"{row.bytes_per_second:,.0f}",
    ]  # fmt: skip


def _write(file: NewFile, by: Sequence[str], rows: Sequence[Any]) -> None:
    """Write the rows as Parquet; times as timestamps, hostile text made valid UTF-8."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds: dict[str, Any] = {
        "topic": pa.string(), "group": pa.string(),
        "day": pa.timestamp("ms", "UTC"), "hour": pa.timestamp("ms", "UTC"),
        "first": pa.timestamp("ms", "UTC"), "last": pa.timestamp("ms", "UTC"),
        "messages_per_second": pa.float64(), "bytes_per_second": pa.float64(),
    }  # fmt: skip
    columns = [*by, "records", "messages", "bytes", "first", "last", "messages_per_second",
               "bytes_per_second"]  # fmt: skip
    plain = [_plain(by, row) for row in rows]
    arrays = {
        name: pa.array([_utf8(each[name]) for each in plain], kinds.get(name, pa.int64()))
        for name in columns
    }
    sink = io.BytesIO()
    pq.write_table(pa.table(arrays), sink)
    file.write(sink.getvalue())


def _utf8(value: Any) -> Any:
    """Java's text may hold half of a surrogate pair, which Parquet cannot."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
