"""`reput trace STORE ID`: one message's life, record by record."""

import argparse

from reput.jobs.console.rows import (
    OutputColumn,
    add_asked_store,
    add_message_id,
    at,
    message_id,
    run_listing,
)
from reput.store_format.fate.trace import Event
from reput.store_format.faults import StoreError

_EPILOG = """\
event: put, half, checked, committed, rolled back, op, discarded, delayed, timed, rolled, recalled,
delivered, retried, dead-lettered; state: how a transaction or a wait that began here stands where
the log ends. Records are found by the index, and by reading the log where it has gaps; --scan reads
the whole log.

examples:
  reput trace /data/store AC11000100002A9F0000000000000003
  reput trace /data/store AC11000100002A9F0000000000000003 --json
"""
_COLUMNS = (
    OutputColumn("stored (UTC)", lambda row: at(row.store_timestamp), True),
    OutputColumn("event", lambda row: row.event, True),
    OutputColumn("topic/queue", lambda row: f"{row.topic}/{row.queue_id}", True),
    OutputColumn("queueOffset", lambda row: row.queue_offset),
    OutputColumn("physicalOffset", lambda row: row.physical_offset),
    OutputColumn("", lambda row: _details(row), True),
)


def _details(row: Event) -> str:
    """The fields that only some events have."""
    words = []
    if row.real_topic is not None:
        words.append(f"to {row.real_topic}/{row.real_queue_id}")
    if row.level is not None:
        words.append(f"level {row.level}")
    if row.due is not None:
        words.append(f"due {at(row.due)}")
    if row.checks:
        words.append(f"check {row.checks}")
    if row.reconsume_times:
        words.append(f"attempt {row.reconsume_times}")
    if row.state is not None:
        words.append(row.state)
    return ", ".join(words)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    add_asked_store(parser)
    add_message_id(parser)


def run(arguments: argparse.Namespace) -> int:
    """List on standard output; returns the exit code. Raises StoreError, SettingError, OSError."""
    asked = message_id(arguments)
    if asked is None:
        raise StoreError("name the message: `reput trace STORE ID`")
    return run_listing(arguments, lambda store: store.trace(asked, scan=arguments.scan), _COLUMNS)
