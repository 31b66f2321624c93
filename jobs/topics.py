"""`reput topics STORE`: what the log still has of each topic, from a store's files alone."""

import argparse

from reput.jobs.console.options import number
from reput.jobs.console.rows import OutputColumn, add_listing, columns_of, run_listing

_EPILOG = """\
kind: normal, retry (%RETRY%), dlq (%DLQ%), lmq (%LMQ%) or system; configured: it is in
config/topics.json. A topic that was deleted has no queues any more: --scan finds what the log
still has of it.

examples:
  reput topics /data/store
  reput topics /data/store --rates 24
"""
_COLUMNS = columns_of(
    "topic", "kind", "queues#", "messages#", "bytes#", "oldest=min_timestamp@",
    "newest=max_timestamp@",
    OutputColumn("", lambda row: "not configured" if row.configured is False else "", True),
)  # fmt: skip
_RATE_COLUMNS = columns_of(
    "topic", "from=begin@",
    OutputColumn("span s", lambda row: row.width / 1000, shown="{:g}".format),
    "messages in each span=messages",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    add_listing(parser)
    parser.add_argument(
        "--rates", type=number, metavar="N",
        help="show instead the messages of each topic in N equal spans of time",
    )  # fmt: skip
    parser.add_argument("--all", action="store_true", help="topics without a queue too")


def run(arguments: argparse.Namespace) -> int:
    if arguments.rates:
        return run_listing(arguments, lambda store: store.rates(arguments.rates), _RATE_COLUMNS)
    scan, everything = arguments.scan, arguments.all
    return run_listing(
        arguments, lambda store: store.topics(scan=scan, everything=everything), _COLUMNS
    )
