"""Reads a record that is longer than a walk's window, without ever holding its body (`walk`)."""

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from reput.store_format.faults import Fault
from reput.store_format.layouts import (
    PROPERTIES_LENGTH,
    RECORD_HEAD,
    RECORD_MIDDLE,
    RECORD_PREFIX_MAX,
    TOPIC_LENGTH_V1,
    TOPIC_LENGTH_V2,
)
from reput.store_format.log.record_rules import (
    RECORD_ROW,
    RecordRules,
    Row,
    prefix_bytes,
    read_record,
)

Bytes = npt.NDArray[np.uint8]
# read(physical offset, buffer): fills the buffer from the segment; raises if it is too short.
Read = Callable[[int, Bytes], None]

# The most that follows a body: both lengths, a topic and properties of 32,767 bytes.
_TAIL_MAX = TOPIC_LENGTH_V2 + PROPERTIES_LENGTH + 2 * 0x7FFF
_PIECE_BYTES = 1 << 20


def read_oversize(
    read: Read, place: int, size: int, rules: RecordRules
) -> tuple[Fault, Bytes, Any]:
    """(fault, bytes around the body, RECORD_ROW of shape (1,)) of the record of `size` bytes that
    starts at the physical offset `place`.

    The body is not read; the caller compares its CRC (see crc_of).
    """
    row = np.zeros(1, RECORD_ROW)
    head = np.empty(RECORD_PREFIX_MAX, np.uint8)
    read(place, head)
    first = np.frombuffer(head, RECORD_HEAD, 1)[0]
    prefix = prefix_bytes(int(first["sysFlag"]), rules)
    middle = np.frombuffer(head, RECORD_MIDDLE, 1, prefix - RECORD_MIDDLE.itemsize)[0]
    body = max(int(middle["bodyLength"]), 0)
    tail = size - prefix - body
    if tail < TOPIC_LENGTH_V1 + PROPERTIES_LENGTH:
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
