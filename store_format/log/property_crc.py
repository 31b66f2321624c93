"""Checks the `__CRC32#` property, the CRC of a whole record (CommitLog, from 5.2.0 on).

With forceVerifyPropCRC RocketMQ checks it instead of the body's CRC.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from reput.store_format.kernels.crc import crc32
from reput.store_format.kernels.java_text import decode_at
from reput.store_format.kernels.jit import allocating, kernel
from reput.store_format.layouts import CRC_PROPERTY_BYTES
from reput.store_format.log.properties import CRC32, NAMES, ValueSpans, find_properties

Bytes = npt.NDArray[np.uint8]
Rows = npt.NDArray[Any]
Row = Any  # one RECORD_ROW, as a kernel sees it

_NAMES = len(NAMES)


@kernel
def property_crc_matches(buf: Bytes, row: Row, spans: ValueSpans, zero_counts: bool) -> bool:
    """Whether `__CRC32#` holds the record's CRC, written with its lowest digit first.

    zero_counts: a value of 0 is a CRC like any other (Profile.zero_property_crc).
    """
    if spans[CRC32, 0] < 0:
        return False
    expected, power = np.int32(0), np.int32(1)
    at, end = spans[CRC32]
    while at < end:
        point, at = decode_at(buf, at, end)
        expected = np.int32(expected + np.int32(point - 0x30) * power)
        power = np.int32(power * np.int32(10))
    actual: int
    if row.bodyElided:  # the walk has put the record's CRC into the row (Checks.seal)
        actual = row.bodyCRC
    else:
        actual = crc32(buf, row.at, row.at + row.size - CRC_PROPERTY_BYTES) & 0x7FFFFFFF
    return bool((expected > 0 or (expected == 0 and zero_counts)) and actual == expected)


@allocating
def first_bad_property_crc(
    buf: Bytes, rows: Rows, split_properties: bool, zero_counts: bool
) -> int:
    """The first row whose `__CRC32#` is missing or wrong; len(rows) if none is."""
    spans = np.empty((_NAMES, 2), np.int64)
    for i in range(len(rows)):
        row = rows[i]
        end = row.propertiesAt + row.propertiesLength
        find_properties(buf, row.propertiesAt, end, split_properties, spans)
        if not property_crc_matches(buf, row, spans, zero_counts):
            return i
    return len(rows)


@kernel
def _mark_bad_property_crcs(
    buf: Bytes, rows: Rows, split_properties: bool, spans: ValueSpans, bad: Any
) -> None:
    for i in range(len(rows)):
        row = rows[i]
        if row.propertiesLength >= CRC_PROPERTY_BYTES:
            end = row.propertiesAt + row.propertiesLength
            find_properties(buf, row.propertiesAt, end, split_properties, spans)
            if spans[CRC32, 0] >= 0:
                bad[i] = not property_crc_matches(buf, row, spans, True)


def bad_property_crcs(
    buf: Bytes, rows: Rows, split_properties: bool, spans: ValueSpans
) -> npt.NDArray[np.bool_]:
    """One bool for each row: whether the record has a `__CRC32#` that is wrong.

    Where a row's body is elided, its bodyCRC has to be the CRC of what `__CRC32#` covers.
    """
    bad = np.zeros(len(rows), np.bool_)
    _mark_bad_property_crcs(buf, rows, split_properties, spans, bad)
    return bad
