"""Records read back whole, field by field: a half message to be ended, messages to be copied."""

from typing import NamedTuple

from reput.store_format.derive.scan import Read
from reput.store_format.layouts import RECORD_HEAD_BYTES, SYS_TRANSACTION_MASK
from reput.store_format.log.one_record import Record, read_body, read_one
from reput.store_format.log.reader import LogReader
from reput.store_format.log.record_rules import RecordRules


class Stored(NamedTuple):
    """One record's fields; times in milliseconds, hosts as their bytes."""

    topic: bytes
    queue_id: int
    queue_offset: int
    physical_offset: int
    size: int
    magic: int
    body_crc: int
    flag: int
    sys_flag: int
    born_timestamp: int
    born_host: bytes
    store_timestamp: int
    store_host: bytes
    reconsume_times: int
    prepared_offset: int
    body: bytes
    properties: bytes

    @property
    def transaction(self) -> int:
        return self.sys_flag & SYS_TRANSACTION_MASK


def read_stored(read: Read, at: int, segment_end: int, rules: RecordRules) -> Stored | None:
    """The record at a physical offset; None where no sound record stands."""
    left = segment_end - at
    if left < RECORD_HEAD_BYTES:
        return None  # a BLANK at most
    _, record = read_one(read, at, segment_end, rules, RECORD_HEAD_BYTES)
    return None if record is None else with_body(record, read_body(read, record))


def stored_at(log: LogReader, place: int) -> Stored:
    """The record at a physical offset. Raises NoRecord, NotInLog."""
    record = log.record_at(place)
    return with_body(record, log.body(record))


def with_body(record: Record, body: bytes) -> Stored:
    """The record, and its body beside it."""
    fields = record._asdict()
    del fields["body_at"], fields["body_length"]
    return Stored(topic=fields.pop("topic_bytes"), body=body, **fields)
