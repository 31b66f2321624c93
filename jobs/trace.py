"""`reput trace STORE ID`: one message's life, record by record, and who sent and consumed it."""

import argparse
import sys
from collections.abc import Sequence

from reput.jobs.console.rows import (
    OutputColumn,
    add_asked_store,
    add_message_id,
    at,
    message_id,
    run_listing,
    time_column,
    write_table,
)
from reput.store_format.fate.trace import Event
from reput.store_format.faults import StoreError
from reput.store_format.query.client_traces import TRACE_TOPIC

_EPILOG = """\
event: put, half, checked, committed, rolled back, op, discarded, delayed, timed, rolled, recalled,
delivered, retried, dead-lettered; state: how a transaction or a wait that began here stands where
the log ends. Records are found by the index, and by reading the log where it has gaps; --scan reads
the whole log.

clients told: sent, consuming, consumed (time: its end; ms: how long it took), ended, recall. Of
groups that told nothing: has passed it, has not reached it, by their offsets: weaker evidence.

examples:
  reput trace /data/store AC11000100002A9F0000000000000003
  reput trace /data/store AC11000100002A9F0000000000000003 --json
"""
_COLUMNS = (
    time_column("stored", lambda row: row.store_timestamp),
    OutputColumn("event", lambda row: row.event, True),
    OutputColumn("topic/queue", lambda row: f"{row.topic}/{row.queue_id}", True),
    OutputColumn("queueOffset", lambda row: row.queue_offset),
    OutputColumn("physicalOffset", lambda row: row.physical_offset),
    OutputColumn("", lambda row: _details(row), True),
)


_OF_CLIENTS = (
    time_column("client time", lambda row: row.client_timestamp),
    OutputColumn("group", lambda row: row.group, True),
    OutputColumn("event", lambda row: row.event, True),
    OutputColumn("host", lambda row: row.host, True),
    OutputColumn("ms", lambda row: row.cost_ms),
    OutputColumn("attempt", lambda row: row.reconsume_times),
    OutputColumn("", lambda row: _outcome(row), True),
)


def _outcome(row: Event) -> str:
    if row.consumer_offset is not None:
        where = f"{row.topic}/{row.queue_id}"
        return f"by its offset {row.consumer_offset:,} in {where}: weaker than a trace"
    more = row.returned if row.returned not in ("SUCCESS", "FAILED") else None
    return _joined({None: None, True: "success", False: "failed"}[row.success], more)


def _details(row: Event) -> str:
    """The fields that only some events have."""
    return _joined(
        row.real_topic is not None and f"to {row.real_topic}/{row.real_queue_id}",
        row.level is not None and f"level {row.level}",
        row.due is not None and f"due {at(row.due)}",
        row.checks and f"check {row.checks}",
        row.reconsume_times and f"attempt {row.reconsume_times}",
        row.state,
    )


def _joined(*parts: object) -> str:
    return ", ".join(str(part) for part in parts if part)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    add_asked_store(parser)
    add_message_id(parser)
    parser.add_argument(
        "--trace-topic", metavar="T", default=TRACE_TOPIC,
        help=f"where clients tell what they send and consume (default: {TRACE_TOPIC})",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """List on standard output; returns the exit code. Raises StoreError, SettingError, OSError."""
    asked = message_id(arguments)
    if asked is None:
        raise StoreError("name the message: `reput trace STORE ID`")
    how = {"scan": arguments.scan, "trace_topic": arguments.trace_topic}
    return run_listing(arguments, lambda store: store.trace(asked, **how), _COLUMNS, _two_tables)


def _two_tables(rows: Sequence[Event]) -> None:
    of_clients = [row for row in rows if row.group is not None or row.host is not None]
    records = [row for row in rows if row not in of_clients]
    for columns, listed in ((_COLUMNS, records), (_OF_CLIENTS, of_clients)):
        sys.stdout.write("\n" if records and listed is of_clients and listed else "")
        if listed:
            write_table(columns, listed)
