"""Kernels that read and check the CommitLog's records, one after the other; `walk` drives them.

The rules are those of CommitLog.checkMessageAndReturnSize. One is reput's own: a record that does
not start at its physicalOffset is a fault. RocketMQ never compares the two.
"""

import zlib
from collections import namedtuple
from typing import Any

import numpy as np
import numpy.typing as npt

from reput.store_format.faults import Fault
from reput.store_format.kernels.carryless import AVAILABLE
from reput.store_format.kernels.crc32 import crc32
from reput.store_format.kernels.ints import get_i16, get_i32, get_i64
from reput.store_format.kernels.jit import inlined, kernel
from reput.store_format.layouts import (
    BLANK_BYTES,
    IPV4_HOST,
    IPV6_HOST,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    MIDDLE_AT,
    PROPERTIES_LENGTH,
    RECORD_AT,
    RECORD_FIXED_BYTES,
    RECORD_HEAD_BYTES,
    RECORD_MIDDLE_BYTES,
    SYS_BORN_HOST_V6,
    SYS_STORE_HOST_V6,
    TIMESTAMP_BYTES,
    TOPIC_LENGTH_V1,
    TOPIC_LENGTH_V2,
    V1_TOPIC_MAX,
)

Bytes = npt.NDArray[np.uint8]
Rows = npt.NDArray[Any]

# Where the parts of one checked record are, as indices into the buffer that was walked.
RECORD_ROW = np.dtype(
    [
        ("at", "<i8"),
        ("bodyAt", "<i8"),
        ("topicAt", "<i8"),
        ("propertiesAt", "<i8"),
        ("physicalOffset", "<i8"),
        ("queueOffset", "<i8"),
        ("storeTimestamp", "<i8"),  # milliseconds
        ("size", "<i4"),
        ("queueId", "<i4"),
        ("sysFlag", "<i4"),
        ("bodyCRC", "<i4"),
        ("bodyLength", "<i4"),  # 0 where it is negative on disk
        ("topicLength", "<i4"),
        ("propertiesLength", "<i4"),  # 0 where it is negative on disk
        ("bodyElided", "<i4"),  # 1: the body was checked elsewhere and is not in the buffer
    ]
)
assert RECORD_ROW.itemsize == 88

# What a release allows in its log; the fields are those of profiles.Profile.
RecordRules = namedtuple("RecordRules", "ipv6_hosts long_topics any_blank_size", defaults=(False,))

_BLANK_LEAST = -(1 << 31) + 4
_NONE = int(Fault.NONE)
_NEED_MORE = int(Fault.NEED_MORE)
_BLANK = int(Fault.BLANK)
_ZEROS = int(Fault.ZEROS)
_SHORT_TAIL = int(Fault.SHORT_TAIL)
_BAD_MAGIC = int(Fault.BAD_MAGIC)
_BAD_SIZE = int(Fault.BAD_SIZE)
_SIZE_PAST_END = int(Fault.SIZE_PAST_END)
_BODY_LENGTH = int(Fault.BODY_LENGTH)
_TOPIC_LENGTH = int(Fault.TOPIC_LENGTH)
_LENGTHS = int(Fault.LENGTHS)
_PLACE = int(Fault.PLACE)

# A body of fewer bytes has its CRC computed in the kernel. For a longer one zlib may be faster,
# also with the cost of its call.
_ZLIB_FROM = 1 << 31 if AVAILABLE else 2048


# --- the arithmetic of a record's lengths; whoever reads or makes records uses these functions --


@inlined
def born_host_bytes(sys_flag: int, rules: RecordRules) -> int:
    """Bytes of bornHost, which stands behind a record's first fields: 8, or 20."""
    return IPV6_HOST if rules.ipv6_hosts and sys_flag & SYS_BORN_HOST_V6 else IPV4_HOST


@inlined
def store_timestamp_at(sys_flag: int, rules: RecordRules) -> int:
    """Where storeTimestamp stands in a record; storeHost follows."""
    return RECORD_HEAD_BYTES + born_host_bytes(sys_flag, rules)


@inlined
def prefix_bytes(sys_flag: int, rules: RecordRules) -> int:
    """Bytes before a record's body: fixed fields, and two hosts of 8 or 20 bytes."""
    store = IPV6_HOST if rules.ipv6_hosts and sys_flag & SYS_STORE_HOST_V6 else IPV4_HOST
    return store_timestamp_at(sys_flag, rules) + TIMESTAMP_BYTES + store + RECORD_MIDDLE_BYTES


@inlined
def topic_length_bytes(magic: int) -> int:
    """Bytes of topicLength, which stands behind the body: 1, or 2 in a V2 record."""
    return TOPIC_LENGTH_V2 if magic == MAGIC_V2 else TOPIC_LENGTH_V1


def needs_v2(topic_bytes: int) -> bool:
    """Whether a topic of so many bytes is too long for a V1 record."""
    return topic_bytes > V1_TOPIC_MAX


def record_bytes(hosts: int, body: Any, topic: Any, properties: Any) -> Any:
    """The totalSize of records with so many bytes of each part; hosts: of both together.

    Whole numbers, or arrays of them (int64) for many records.
    """
    least = RECORD_FIXED_BYTES - 2 * IPV4_HOST + hosts
    v2 = np.greater(topic, V1_TOPIC_MAX) * (TOPIC_LENGTH_V2 - TOPIC_LENGTH_V1)
    return least + v2 + body + topic + properties


# --- the walk, and its checks -------------------------------------------------------------------


@kernel
def frame(buf: Bytes, at: int, length: int, file_end: int, rules: RecordRules) -> tuple[int, int]:
    """(fault, size) of what stands at `at`: a BLANK, a record's first fields, or neither.

    buf[:length] has been read; the segment goes on to `file_end`, counted from buf's start. The
    fault NONE says only that size and magic number may be those of a record.
    """
    if file_end - at <= 4:
        return _SHORT_TAIL, 0
    if file_end - at < BLANK_BYTES:
        return _BAD_MAGIC, 0
    if length - at < BLANK_BYTES:
        return _NEED_MORE, 0
    size = get_i32(buf, at + RECORD_AT.totalSize)
    magic = get_i32(buf, at + RECORD_AT.magic)
    if size == 0 and magic == 0:
        return _ZEROS, 0
    past_end = at + size > file_end
    if magic == MAGIC_BLANK:
        # RocketMQ compares size - 4 in 32 bits, in which the four lowest sizes wrap to the greatest
        fits = not past_end and size >= _BLANK_LEAST
        return _BLANK if rules.any_blank_size or fits else _SIZE_PAST_END, size
    if past_end:
        return _SIZE_PAST_END, size
    if magic != MAGIC_V1 and not (rules.long_topics and magic == MAGIC_V2):
        return _BAD_MAGIC, size
    if size < RECORD_FIXED_BYTES:
        return _BAD_SIZE, size
    return _NONE, size


@kernel
def read_record(
    buf: Bytes, at: int, size: int, place: int, elided: int, rules: RecordRules, row: Any
) -> int:
    """Read the record at `at`, for which `frame` gave `size`. It is whole in buf, except that
    `elided` bytes of its body are left out.

    place: its physical offset. Fills `row`, one RECORD_ROW, and returns a fault.
    """
    sys_flag = get_i32(buf, at + RECORD_AT.sysFlag)
    prefix = prefix_bytes(sys_flag, rules)
    length_bytes = topic_length_bytes(get_i32(buf, at + RECORD_AT.magic))
    left = size - prefix - length_bytes - PROPERTIES_LENGTH
    middle = at + prefix - RECORD_MIDDLE_BYTES
    if left < 0:
        return _LENGTHS
    body_length = max(get_i32(buf, middle + MIDDLE_AT.bodyLength), 0)
    if body_length > left:
        return _BODY_LENGTH
    left -= body_length
    topic_at = at + prefix + body_length - elided + length_bytes
    if length_bytes == TOPIC_LENGTH_V2:
        topic_length: Any = get_i16(buf, topic_at - 2)
    else:
        topic_length = np.int64(np.int8(buf[topic_at - 1]))
    if topic_length < 0 or topic_length > left:
        return _TOPIC_LENGTH
    left -= topic_length
    properties_at = topic_at + topic_length + PROPERTIES_LENGTH
    properties_length: Any = max(get_i16(buf, properties_at - 2), 0)
    if properties_length != left:
        return _LENGTHS
    if get_i64(buf, at + RECORD_AT.physicalOffset) != place:
        return _PLACE
    row.at = at
    row.bodyAt = at + prefix
    row.topicAt = topic_at
    row.propertiesAt = properties_at
    row.physicalOffset = place
    row.queueOffset = get_i64(buf, at + RECORD_AT.queueOffset)
    row.storeTimestamp = get_i64(buf, at + store_timestamp_at(sys_flag, rules))
    row.size = size
    row.queueId = get_i32(buf, at + RECORD_AT.queueId)
    row.sysFlag = sys_flag
    row.bodyCRC = get_i32(buf, at + RECORD_AT.bodyCRC)
    row.bodyLength = body_length
    row.topicLength = topic_length
    row.propertiesLength = properties_length
    row.bodyElided = 1 if elided > 0 else 0
    return _NONE


@kernel
def walk(
    buf: Bytes,
    at: int,
    length: int,
    stop: int,
    file_end: int,
    base: int,
    rules: RecordRules,
    rows: Rows,
) -> tuple[int, int, int]:
    """Go from record to record by their sizes, from `at` until one starts at or after `stop`.

    buf[:length] is at the physical offset `base`; `stop` and `file_end` count from buf's start.
    Fills rows and returns (rows filled, where the walk stopped, the fault there); the fault is
    NONE where the walk reached `stop` or filled all rows.
    """
    count = 0
    while at < stop and count < len(rows):
        fault, size = frame(buf, at, length, file_end, rules)
        if fault != _NONE:
            return count, at, fault
        if at + size > length:
            return count, at, _NEED_MORE
        fault = read_record(buf, at, size, base + at, 0, rules, rows[count])
        if fault != _NONE:
            return count, at, fault
        count += 1
        at += size
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
    if _mark_bad_small_bodies(buf, rows, _ZLIB_FROM, bad):
        large = (rows["bodyLength"] >= _ZLIB_FROM) & (rows["bodyElided"] == 0)
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

    Only looks where a record's first fields would end within buf[:length].
    """
    last = length - RECORD_HEAD_BYTES
    while at <= last:
        # Both magic numbers start with DA A3 20 and end in A7 or AB; DA is looked for, as it is
        # rare.
        if buf[at + RECORD_AT.magic] == 0xDA:
            magic = get_i32(buf, at + RECORD_AT.magic)
            if (magic == MAGIC_V1 or (rules.long_topics and magic == MAGIC_V2)) and get_i64(
                buf, at + RECORD_AT.physicalOffset
            ) == base + at:
                return at
        at += 1
    return -1
