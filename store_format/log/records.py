"""Kernels that read and check the CommitLog's records, one after the other, with `__CRC32#`; `walk`
drives them.

The rules of one record are those of rules.py, compiled.
"""

import zlib
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from reput.store_format.faults import Fault
from reput.store_format.kernels.bytes import get_i16, get_i32, get_i64
from reput.store_format.kernels.crc import AVAILABLE, crc32
from reput.store_format.kernels.java_text import decode_at
from reput.store_format.kernels.jit import allocating, inlined, kernel
from reput.store_format.layouts import (
    CRC_PROPERTY_BYTES,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_AT,
    RECORD_HEAD_BYTES,
)
from reput.store_format.log import rules as record_rules
from reput.store_format.log.properties import CRC32, NAMES, ValueSpans, find_properties
from reput.store_format.log.rules import RECORD_ROW as RECORD_ROW
from reput.store_format.log.rules import RecordRules as RecordRules
from reput.store_format.log.rules import needs_v2 as needs_v2
from reput.store_format.log.rules import record_bytes as record_bytes

Bytes = npt.NDArray[np.uint8]
Rows = npt.NDArray[Any]

_NONE = int(Fault.NONE)
_NEED_MORE = int(Fault.NEED_MORE)


def _zlib_from() -> int:
    """A body of fewer bytes has its CRC computed in the kernel. For a longer one zlib may be
    faster, also with the cost of its call.
    """
    return 1 << 31 if AVAILABLE.made() else 2048


# --- the rules of one record, compiled ------------------------------------------------------------

Function = TypeVar("Function", bound=Callable[..., Any])


@inlined
def get_i8(buf: Bytes, at: int) -> int:
    return np.int64(np.int8(buf[at]))  # type: ignore[return-value]


def _compiled(rule: Function, by: Callable[[Any], Any], **kernels: Callable[..., Any]) -> Function:
    """Compile a rule, with these kernels in place of the plain functions of the same names."""
    names = {**rule.__globals__, **kernels}
    return by(FunctionType(rule.__code__, names, rule.__name__))  # type: ignore[no-any-return]


born_host_bytes = _compiled(record_rules.born_host_bytes, inlined)
store_timestamp_at = _compiled(
    record_rules.store_timestamp_at, inlined, born_host_bytes=born_host_bytes
)
prefix_bytes = _compiled(record_rules.prefix_bytes, inlined, store_timestamp_at=store_timestamp_at)
topic_length_bytes = _compiled(record_rules.topic_length_bytes, inlined)
head_bytes = _compiled(record_rules.head_bytes, inlined)
frame = _compiled(record_rules.frame, kernel, get_i32=get_i32)
entry = _compiled(record_rules.entry, kernel, get_i32=get_i32, get_i64=get_i64, frame=frame)
goes_on = _compiled(record_rules.goes_on, kernel, get_i64=get_i64)
read_record = _compiled(
    record_rules.read_record, kernel, get_i8=get_i8, get_i16=get_i16, get_i32=get_i32,
    get_i64=get_i64, prefix_bytes=prefix_bytes, topic_length_bytes=topic_length_bytes,
    store_timestamp_at=store_timestamp_at,
)  # fmt: skip


# --- the walk, and its checks -------------------------------------------------------------------


@kernel
def walk(  # noqa: PLR0913 (a kernel takes its arrays one by one)
    buf: Bytes,
    at: int,
    length: int,
    stop: int,
    file_end: int,
    base: int,
    rules: RecordRules,
    rows: Rows,
    sequence: Any,
) -> tuple[int, int, int]:
    """Go from record to record by their sizes, from `at` until one starts at or after `stop`.

    buf[:length] is at the physical offset `base`; `stop` and `file_end` count from buf's start, and
    the segment ends at `file_end`. In a DLedger log a record starts where its head does; sequence:
    int64 (4,), see `goes_on`.
    Fills rows and returns (rows filled, where the walk stopped, the fault there); the fault is
    NONE where the walk reached `stop` or filled all rows.
    """
    count = 0
    head = head_bytes(base + file_end, rules)
    while at < stop and count < len(rows):
        if head == 0:
            fault, size = frame(buf, at, length, file_end, rules)
        else:
            fault, size = entry(buf, at, length, file_end, base + at, rules)
        if fault != _NONE:
            return count, at, fault
        if at + head + size > length:
            return count, at, _NEED_MORE
        fault = read_record(buf, at + head, size, base + at + head, 0, rules, rows[count])
        if fault == _NONE and head != 0:
            fault = goes_on(buf, at, sequence)
        if fault != _NONE:
            return count, at, fault
        count += 1
        at += head + size
    return count, at, _NONE


@kernel
def _mark_bad_small_bodies(buf: Bytes, rows: Rows, zlib_from: int, bad: Any) -> bool:
    """Mark the rows whose small body is bad; returns whether one has a large body."""
    any_large = False
    for i in range(len(rows)):
        row = rows[i]
        if row.bodyLength >= zlib_from:
            any_large = True
        elif row.bodyLength > 0 and row.bodyElided == 0:
            crc = crc32(buf, row.bodyAt, row.bodyAt + row.bodyLength) & 0x7FFFFFFF
            bad[i] = crc != row.bodyCRC
    return any_large


def bad_bodies(buf: Bytes, rows: Rows) -> npt.NDArray[np.bool_]:
    """One bool for each row: whether the body does not match its CRC. Copies nothing.

    An empty body is not checked (as in RocketMQ), nor is an elided one.
    """
    bad = np.zeros(len(rows), np.bool_)
    zlib_from = _zlib_from()
    if _mark_bad_small_bodies(buf, rows, zlib_from, bad):
        large = (rows["bodyLength"] >= zlib_from) & (rows["bodyElided"] == 0)
        view = buf.data
        for i in np.flatnonzero(large).tolist():
            at = int(rows["bodyAt"][i])
            body = view[at : at + int(rows["bodyLength"][i])]
            bad[i] = zlib.crc32(body) & 0x7FFFFFFF != int(rows["bodyCRC"][i])
    return bad


@kernel
def find_record(buf: Bytes, at: int, length: int, base: int, rules: RecordRules) -> int:
    """The first index from `at` on at which a record may start: the magic number is there, and
    physicalOffset is right. Returns -1 where there is none.

    Only looks where a record's first fields would end within buf[:length]. In a DLedger log it is
    the index of the record's head; buf[at:] is in one segment.
    """
    head = head_bytes(base + at + 1, rules)
    at += head
    last = length - RECORD_HEAD_BYTES
    while at <= last:
        # Both magic numbers start with DA A3 20 and end in A7 or AB; DA is looked for, as it is
        # rare.
        if buf[at + RECORD_AT.magic] == 0xDA:
            magic = get_i32(buf, at + RECORD_AT.magic)
            if (magic == MAGIC_V1 or (rules.long_topics and magic == MAGIC_V2)) and get_i64(
                buf, at + RECORD_AT.physicalOffset
            ) == base + at:
                return at - head
        at += 1
    return -1


# ---
# Checks the `__CRC32#` property, the CRC of a whole record (CommitLog, from 5.2.0 on).
#
# With forceVerifyPropCRC RocketMQ checks it instead of the body's CRC.

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
