"""One record of a log as a value: from a walk's window, or read alone, without compiled kernels."""

from typing import Any, NamedTuple

import numpy as np

from reput.store_format.faults import Fault
from reput.store_format.java import decode
from reput.store_format.layouts import (
    RECORD_HEAD,
    RECORD_HEAD_BYTES,
    RECORD_MIDDLE,
    RECORD_PREFIX_MAX,
    SYS_TRANSACTION_MASK,
    TIMESTAMP_BYTES,
    as_struct,
)
from reput.store_format.log.oversize import Read, read_oversize
from reput.store_format.log.record_rules import (
    RecordRules,
    Row,
    frame,
    read_record,
    store_timestamp_at,
)

_HEAD, _MIDDLE = as_struct(RECORD_HEAD), as_struct(RECORD_MIDDLE)


class Record(NamedTuple):
    """One record's fields; times in milliseconds, hosts and texts as their bytes."""

    topic_bytes: bytes
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
    body_at: int  # physical
    body_length: int
    properties: bytes  # name 01 value 02, as it stands
    body: bytes | None = None  # as it stands (it may be compressed), where it has been read

    @property
    def topic(self) -> str:
        """As Java decodes it."""
        return decode(self.topic_bytes)

    @property
    def transaction(self) -> int:
        return self.sys_flag & SYS_TRANSACTION_MASK


def record_from(window: Any, row: tuple[int, ...], rules: RecordRules) -> Record:
    """The record in `window`, a bytes-like object; row: the values of the record's RECORD_ROW."""
    (
        at, body_at, topic_at, properties_at, place, queue_offset, stored, size, queue_id, sys_flag,
        crc, body_length, topic_length, properties_length, _,
    ) = row  # fmt: skip
    _, magic, _, _, flag, _, _, _, born = _HEAD.unpack_from(window, at)
    born_end = at + store_timestamp_at(sys_flag, rules)
    middle_at = body_at - _MIDDLE.size
    reconsumed, prepared, _ = _MIDDLE.unpack_from(window, middle_at)
    fields = (
        bytes(window[topic_at : topic_at + topic_length]),
        queue_id,
        queue_offset,
        place,
        size,
        magic,
        crc,
        flag,
        sys_flag,
        born,
        bytes(window[at + RECORD_HEAD_BYTES : born_end]),
        stored,
        bytes(window[born_end + TIMESTAMP_BYTES : middle_at]),
        reconsumed,
        prepared,
        place + body_at - at,
        body_length,
        bytes(window[properties_at : properties_at + properties_length]),
        None,
    )
    return tuple.__new__(Record, fields)  # half the time of a call with so many arguments


def read_one(
    read: Read, place: int, end: int, rules: RecordRules, ahead: int
) -> tuple[Fault, Record | None]:
    """(NONE, the record) at a physical offset, or (its fault, None). No CRC is compared.

    end: where the segment ends; ahead: how many bytes are read at first, which often suffice. Of
    a longer record all but the body is read.
    """
    buffer = np.empty(min(max(ahead, RECORD_PREFIX_MAX), end - place), np.uint8)
    read(place, buffer)
    window, row = buffer.tobytes(), Row()
    code, size = frame(window, 0, len(window), end - place, rules)
    if code != Fault.NONE:
        return Fault(code), None
    if size > len(window):
        fault, around, rows = read_oversize(read, place, size, rules)
        window, values = around.tobytes(), rows[0].item()
    else:
        fault = Fault(read_record(window, 0, size, place, 0, rules, row))
        values = row.values() if fault == Fault.NONE else ()
    return (fault, None) if fault != Fault.NONE else (fault, record_from(window, values, rules))


def read_body(read: Read, record: Record) -> bytes:
    """A record's body, as it stands in the log (it may be compressed)."""
    body = np.empty(record.body_length, np.uint8)
    if len(body):
        read(record.body_at, body)
    return body.tobytes()
