"""`reput transactions STORE`: which half messages are pending, and what became of the others."""

import argparse

from reput.jobs.console.rows import OutputColumn, add_listing, columns_of, run_listing
from reput.jobs.console.voice import duration

_EPILOG = """\
state: pending; discarded (checked too often, moved to TRANS_CHECK_MAX_TIME_TOPIC); abandoned (the
broker has gone past it and will not check it); with --all also committed and rolled back. age: from
bornTimestamp to the log's last record. checks: TRANSACTION_CHECK_TIMES; copies: how often the
broker has appended the half message again. docs/fate.md has what the log tells, and what not.

examples:
  reput transactions /data/store
  reput transactions /data/store --all --json
"""
_COLUMNS = columns_of(
    "state", "born=born_timestamp@", OutputColumn("age", lambda row: row.age, shown=duration),
    "checks#", "copies#",
    OutputColumn("topic/queue", lambda row: f"{row.topic}/{row.queue_id}", True),
    "producer group=producer_group", "unique key=unique_key", "physicalOffset=physical_offset#",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    add_listing(parser)
    parser.add_argument("--all", action="store_true", help="those committed and rolled back too")


def run(arguments: argparse.Namespace) -> int:
    return run_listing(
        arguments, lambda store: store.transactions(everything=arguments.all), _COLUMNS
    )
