"""`reput stats STORE`: what was put into a log, as a broker counts it while it runs."""

import argparse
import io
from collections.abc import Sequence
from functools import partial
from typing import Any

from reput.jobs.console.options import new_file
from reput.jobs.console.rows import OutputColumn, add_listing, run_listing, time_column
from reput.jobs.console.voice import TABLE, remark, shown_zone
from reput.jobs.outputs.output import NewFile
from reput.jobs.outputs.report import counted
from reput.store_format.faults import StoreError

_COLUMNS = (
    OutputColumn("topic", lambda row: row.topic, True),
    time_column("day", lambda row: row.day),
    time_column("hour", lambda row: row.hour),
    OutputColumn("group", lambda row: row.group, True),
    OutputColumn("size", lambda row: row.size),
    OutputColumn("messages", lambda row: row.messages, shown="{:,}".format),
    OutputColumn("records", lambda row: row.records, shown="{:,}".format),
    OutputColumn("bytes", lambda row: row.bytes, shown="{:,}".format),
    time_column("first", lambda row: row.first),
    time_column("last", lambda row: row.last),
    OutputColumn("messages/s", lambda row: row.messages_per_second, shown="{:,.1f}".format),
    OutputColumn("bytes/s", lambda row: row.bytes_per_second, shown="{:,.0f}".format),
)
BY = ("topic", "day", "hour", "group", "size")  # counts.BY, which is not imported for --help
_SUMS = ("records", "messages", "bytes", "first", "last")
_RATES = ("messages_per_second", "bytes_per_second")
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
    add_listing(parser, scan=False)
    parser.add_argument(
        "--by", type=_ways, default=("topic",), metavar="topic,day|hour|group|size",
        help="what is counted apart, one or several (default: topic)",
    )  # fmt: skip
    parser.add_argument(
        "--output", metavar="FILE.parquet", help="write a new Parquet file, and no table"
    )


def _ways(text: str) -> tuple[str, ...]:
    ways = tuple(text.split(","))
    if not set(ways) <= set(BY) or len(set(ways)) < len(ways):
        raise argparse.ArgumentTypeError(f"{text!r}: expected some of {', '.join(BY)}")
    return ways


def run(arguments: argparse.Namespace) -> int:
    """Count, and show it: 0, or 1 where something could not be counted."""
    file, by = new_file(arguments, "output", {}), arguments.by
    if arguments.topic is not None and "topic" not in by:
        raise StoreError("--topic goes with --by topic, or topic and others")
    columns = [each for each in _COLUMNS if each.name in by or each.name not in BY]
    columns.sort(key=lambda each: by.index(each.name) if each.name in by else len(by))
    if file is not None:
        arguments.format, arguments.json = TABLE, False  # the file is what is asked for
    return run_listing(
        arguments, lambda store: store.stats(by, zone=shown_zone()), columns,
        None if file is None else partial(_write, file, by), partial(_plain, by),
    )  # fmt: skip


def _plain(by: Sequence[str], row: Any) -> dict[str, Any]:
    """A row with the columns that were asked for, and its rates."""
    return {name: getattr(row, name) for name in (*by, *_SUMS, *_RATES)}


def _write(file: NewFile, by: Sequence[str], rows: Sequence[Any]) -> None:
    """Write the rows as Parquet; times as timestamps, hostile text made valid UTF-8."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds: dict[str, Any] = dict.fromkeys(("topic", "group"), pa.string())
    kinds |= dict.fromkeys(("day", "hour", "first", "last"), pa.timestamp("ms", "UTC"))
    kinds |= dict.fromkeys(_RATES, pa.float64())
    schema = pa.schema([(name, kinds.get(name, pa.int64())) for name in (*by, *_SUMS, *_RATES)])
    plain = [{name: _utf8(value) for name, value in _plain(by, row).items()} for row in rows]
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(plain, schema), sink)
    file.write(sink.getvalue())
    remark(f"{file.path}: {counted(len(rows), 'row')}")


def _utf8(value: Any) -> Any:
    """Java's text may hold half of a surrogate pair, which Parquet cannot."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
