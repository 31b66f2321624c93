"""`reput delayed STORE`: what is due when, and what should have been delivered and never was."""

import argparse

from reput.jobs.console.rows import OutputColumn, add_listing, columns_of, run_listing
from reput.jobs.console.voice import duration

_EPILOG = """\
state: waiting; late (due before the log's last record); delivered, will be again (the broker's
offset was not saved after the delivery); never delivered (the broker has gone past it); not
delivered in this log (the same, but the log ends about then, or damage follows); with --all also
delivered, and deleted (a timer that was recalled). late: how long before the log's last record it
was due. docs/fate.md has how deliveries are found.

examples:
  reput delayed /data/store
  reput delayed s3://bucket/store --all --format csv
"""
_COLUMNS = columns_of(
    "state", "due@", OutputColumn("late", lambda row: row.late, shown=duration),
    OutputColumn("by", lambda row: f"level {row.level}" if row.level else "timer", True),
    "queueOffset=queue_offset#",
    OutputColumn("topic/queue", lambda row: f"{row.topic}/{row.queue_id}", True),
    "unique key=unique_key", "physicalOffset=physical_offset#",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    add_listing(parser)
    parser.add_argument("--all", action="store_true", help="those delivered too")


def run(arguments: argparse.Namespace) -> int:
    return run_listing(arguments, lambda store: store.delayed(everything=arguments.all), _COLUMNS)
