"""Reads records back with their bodies: a half message to be ended, messages to be copied."""

from reput.store_format.dispatch.scan import Read
from reput.store_format.layouts import RECORD_HEAD_BYTES
from reput.store_format.log.reader import LogReader
from reput.store_format.log.record import Record, read_body, read_one
from reput.store_format.log.rules import RecordRules


def read_stored(read: Read, at: int, segment_end: int, rules: RecordRules) -> Record | None:
    """The record at a physical offset with its body; None where no sound record is."""
    left = segment_end - at
    if left < RECORD_HEAD_BYTES:
        return None  # a BLANK at most
    _, record = read_one(read, at, segment_end, rules, RECORD_HEAD_BYTES)
    return None if record is None else record._replace(body=read_body(read, record))


def stored_at(log: LogReader, place: int) -> Record:
    """The record at a physical offset with its body. Raises NoRecord, NotInLog."""
    record = log.record_at(place)
    return record._replace(body=log.body(record))
