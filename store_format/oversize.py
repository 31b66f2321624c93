"""Records longer than a scan's window: checked without ever holding their body."""

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from store_format.faults import Fault
from store_format.layouts import (
    CRC_PROPERTY_BYTES,
    PROPERTIES_LENGTH,
    RECORD_HEAD,
    RECORD_MIDDLE,
    RECORD_PREFIX_MAX,
    TOPIC_LENGTH_V1,
    TOPIC_LENGTH_V2,
)
from store_format.records import RECORD_ROW, RecordRules, prefix_bytes, read_record

Bytes = npt.NDArray[np.uint8]
Read = Callable[[int, Bytes], None]

# The most that follows a body: both lengths, a topic and properties of 32,767 bytes.
_TAIL_MAX = TOPIC_LENGTH_V2 + PROPERTIES_LENGTH + 2 * 0x7FFF
_PIECE_BYTES = 1 << 20


def read_oversize(
    read: Read, place: int, size: int, rules: RecordRules, check_body: bool, property_crc: bool
) -> tuple[Fault, Bytes, Any]:
    """(fault, bytes around the body, RECORD_ROW of shape (1,)) of a framed record at `place`.

    The body is read in pieces, and only where a CRC asks for it. Where `property_crc` is, the
    row's bodyCRC holds the CRC of the record less its last 20 bytes, for `dispatch` to compare.
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
    # where more than a tail can have is left, these bytes still tell which length is wrong
    around = np.empty(prefix + min(tail, _TAIL_MAX), np.uint8)
    around[:prefix] = head[:prefix]
    read(place + prefix + body, around[prefix:])
    fault = Fault(read_record(around, 0, size, place, body, rules, row[0]))
    if fault != Fault.NONE:
        return fault, around, row
    if property_crc:
        row["bodyCRC"] = _crc_of(read, place, size - CRC_PROPERTY_BYTES)
    elif check_body and body and _crc_of(read, place + prefix, body) != row["bodyCRC"][0]:
        return Fault.BODY_CRC, around, row
    return Fault.NONE, around, row


def _crc_of(read: Read, at: int, length: int) -> int:
    piece = np.empty(min(_PIECE_BYTES, length), np.uint8)
    crc = 0
    end = at + length
    while at < end:
        part = piece[: min(len(piece), end - at)]
        read(at, part)
        crc = zlib.crc32(part.data, crc)
        at += len(part)
    return crc & 0x7FFFFFFF
