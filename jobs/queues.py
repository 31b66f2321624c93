"""`reput queues STORE`: what the log still has of each queue, from a store's files alone."""

import argparse

from reput.jobs.console.rows import OutputColumn, add_listing, columns_of, run_listing

_EPILOG = """\
examples:
  reput queues /data/store
  reput queues /data/store --topic Orders --json
"""
_COLUMNS = columns_of(
    "topic", "queue=queue_id#", "first=min_offset#", "end=max_offset#", "messages#", "bytes#",
    "oldest=min_timestamp@", "newest=max_timestamp@",
    OutputColumn("", lambda row: "batch" if row.batch else "", True),
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    add_listing(parser)


def run(arguments: argparse.Namespace) -> int:
    return run_listing(arguments, lambda store: store.queues(scan=arguments.scan), _COLUMNS)
