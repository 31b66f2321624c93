"""`reput groups STORE`: how far each consumer group has come in each queue, and its lag."""

import argparse
from typing import Any

from reput.jobs.console.asking import add_asked_store
from reput.jobs.console.listed import Shown, run_listing
from reput.jobs.engine.open_store import Store
from reput.store_format.query.listing import GroupRow

_COLUMNS = (
    Shown("group", lambda row: row.group, True),
    Shown("topic", lambda row: row.topic, True),
    Shown("queue", lambda row: row.queue_id),
    Shown("consumed", lambda row: row.consumer_offset),
    Shown("end", lambda row: row.max_offset),
    Shown("lag", lambda row: row.lag),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `reput groups`."""
    add_asked_store(parser)
    parser.add_argument("--group", metavar="G", help="only this group")


def run(arguments: argparse.Namespace) -> int:
    """List on standard output; returns the exit code. Raises StoreError, SettingError, OSError."""

    def rows(store: Store) -> list[GroupRow]:
        wanted = arguments.group
        found = store.groups(scan=arguments.scan)
        return [row for row in found if wanted is None or row.group == wanted]

    return run_listing(arguments, rows, _json, _COLUMNS)


def _json(row: GroupRow) -> dict[str, Any]:
    return {
        "group": row.group,
        "topic": row.topic,
        "queueId": row.queue_id,
        "consumerOffset": row.consumer_offset,
        "maxOffset": row.max_offset,
        "lag": row.lag,
    }
