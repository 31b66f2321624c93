"""Records read back whole, field by field: a half message to be ended, messages to be copied."""

from typing import NamedTuple

import numpy as np

from reput.store_format.derive.scan import Read
from reput.store_format.faults import Fault
from reput.store_format.layouts import (
    RECORD_HEAD,
    RECORD_HEAD_BYTES,
    RECORD_MIDDLE,
    RECORD_MIDDLE_BYTES,
    SYS_TRANSACTION_MASK,
    TIMESTAMP_BYTES,
)
from reput.store_format.log.records import (
    RECORD_ROW,
    Bytes,
    RecordRules,
    frame,
    prefix_bytes,
    read_record,
    store_timestamp_at,
)


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
    head = np.zeros(min(RECORD_HEAD_BYTES, left), np.uint8)
    read(at, head)
    fault, size = frame(head, 0, len(head), left, rules)
    if fault != Fault.NONE:
        return None
    record = np.empty(size, np.uint8)
    read(at, record)
    return parse_stored(record, at, rules)


def parse_stored(record: Bytes, at: int, rules: RecordRules) -> Stored | None:
    """One record that is whole in `record` and stands at `at`; None if it is not sound."""
    row = np.zeros(1, RECORD_ROW)
    if read_record(record, 0, len(record), at, 0, rules, row[0]) != Fault.NONE:
        return None
    where = row[0]
    head = np.frombuffer(record, RECORD_HEAD, 1)[0]
    sys_flag = int(head["sysFlag"])
    born_end = int(store_timestamp_at(sys_flag, rules))
    middle_at = prefix_bytes(sys_flag, rules) - RECORD_MIDDLE_BYTES
    middle = np.frombuffer(record, RECORD_MIDDLE, 1, middle_at)[0]

    def part(name: str) -> bytes:
        start = int(where[f"{name}At"])
        return record[start : start + int(where[f"{name}Length"])].tobytes()

    return Stored(
        topic=part("topic"),
        queue_id=int(head["queueId"]),
        queue_offset=int(head["queueOffset"]),
        physical_offset=at,
        size=len(record),
        magic=int(head["magic"]),
        body_crc=int(head["bodyCRC"]),
        flag=int(head["flag"]),
        sys_flag=sys_flag,
        born_timestamp=int(head["bornTimestamp"]),
        born_host=record[RECORD_HEAD_BYTES:born_end].tobytes(),
        store_timestamp=int(where["storeTimestamp"]),
        store_host=record[born_end + TIMESTAMP_BYTES : middle_at].tobytes(),
        reconsume_times=int(middle["reconsumeTimes"]),
        prepared_offset=int(middle["preparedTransactionOffset"]),
        body=part("body"),
        properties=part("properties"),
    )
