"""`reput queues STORE`: what the log still has of each queue, from a store's files alone."""

import argparse

from reput.jobs.console.rows import OutputColumn, add_listing, run_listing, time_column

_EPILOG = """\
examples:
  reput queues /data/store
  reput queues /data/store --topic Orders --json
"""
_COLUMNS = (
    OutputColumn("topic", lambda row: row.topic, True),
    OutputColumn("queue", lambda row: row.queue_id),
    OutputColumn("first", lambda row: row.min_offset),
    OutputColumn("end", lambda row: row.max_offset),
    OutputColumn("messages", lambda row: row.messages),
    OutputColumn("bytes", lambda row: row.bytes),
    time_column("oldest", lambda row: row.min_timestamp),
    time_column("newest", lambda row: row.max_timestamp),
    OutputColumn("", lambda row: "batch" if row.batch else "", True),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    add_listing(parser)


def run(arguments: argparse.Namespace) -> int:
    """List on standard output; returns the exit code. Raises StoreError, SettingError, OSError."""
    return run_listing(arguments, lambda store: store.queues(scan=arguments.scan), _COLUMNS)
