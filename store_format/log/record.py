"""One record as a value, however long: from a walk's window, or read alone, without kernels."""

import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format import layouts
from reput.store_format.faults import Fault
from reput.store_format.java import decode
from reput.store_format.log.rules import (
    RECORD_ROW,
    RecordRules,
    Row,
    frame,
    prefix_bytes,
    read_record,
    store_timestamp_at,
)

# ---
# Reads a record that is longer than a walk's window, without ever holding its body (`walk`).

Bytes = npt.NDArray[np.uint8]
# read(physical offset, buffer): fills the buffer from the segment; raises if it is too short.
Read = Callable[[int, Bytes], None]

# The most that follows a body: both lengths, a topic and properties of 32,767 bytes.
_TAIL_MAX = layouts.TOPIC_LENGTH_V2 + layouts.PROPERTIES_LENGTH + 2 * 0x7FFF
_PIECE_BYTES = 1 << 20


def read_oversize(
    read: Read, place: int, size: int, rules: RecordRules
) -> tuple[Fault, Bytes, Any]:
    """(fault, bytes around the body, RECORD_ROW of shape (1,)) of the record of `size` bytes that
    starts at the physical offset `place`.

    The body is not read; the caller compares its CRC (see crc_of).
    """
    row = np.zeros(1, RECORD_ROW)
    head = np.empty(layouts.RECORD_PREFIX_MAX, np.uint8)
    read(place, head)
    first = np.frombuffer(head, layouts.RECORD_HEAD, 1)[0]
    prefix = prefix_bytes(int(first["sysFlag"]), rules)
    middle = np.frombuffer(head, layouts.RECORD_MIDDLE, 1, prefix - layouts.RECORD_MIDDLE.itemsize)[
        0
    ]
    body = max(int(middle["bodyLength"]), 0)
    tail = size - prefix - body
    if tail < layouts.TOPIC_LENGTH_V1 + layouts.PROPERTIES_LENGTH:
        return Fault.BODY_LENGTH, head, row
    # no tail has more than _TAIL_MAX bytes: if more are left, a length is wrong, and this many
    # bytes suffice to say which one
    around = np.empty(prefix + min(tail, _TAIL_MAX), np.uint8)
    around[:prefix] = head[:prefix]
    read(place + prefix + body, around[prefix:])
    found = Row()
    fault = Fault(read_record(around, 0, size, place, body, rules, found))
    if fault == Fault.NONE:
        row[0] = found.values()
    return fault, around, row


def crc_of(read: Read, at: int, length: int) -> int:
    """CRC-32 of the bytes at [at, at + length) without its highest bit, read piece by piece."""
    piece = np.empty(min(_PIECE_BYTES, length), np.uint8)
    crc = 0
    end = at + length
    while at < end:
        part = piece[: min(len(piece), end - at)]
        read(at, part)
        crc = zlib.crc32(part.data, crc)
        at += len(part)
    return crc & 0x7FFFFFFF


# ---
# One record of a log as a value: from a walk's window, or read alone, without compiled kernels.

_HEAD, _MIDDLE = layouts.as_struct(layouts.RECORD_HEAD), layouts.as_struct(layouts.RECORD_MIDDLE)


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
        """The topic's name as Java decodes it."""
        return decode(self.topic_bytes)

    @property
    def transaction(self) -> int:
        return self.sys_flag & layouts.SYS_TRANSACTION_MASK


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
        bytes(window[at + layouts.RECORD_HEAD_BYTES : born_end]),
        stored,
        bytes(window[born_end + layouts.TIMESTAMP_BYTES : middle_at]),
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
    buffer = np.empty(min(max(ahead, layouts.RECORD_PREFIX_MAX), end - place), np.uint8)
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
