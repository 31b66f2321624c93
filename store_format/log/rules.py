"""Which bytes are a record: the rules as plain functions, and which CRCs a reader compares."""

from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np

from reput.store_format.faults import Fault
from reput.store_format.layouts import (
    BLANK_BYTES,
    DLEDGER_AT,
    DLEDGER_BLANK,
    DLEDGER_HEAD_BYTES,
    DLEDGER_NORMAL,
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
    SYS_TRANSACTION_COMMIT,
    SYS_TRANSACTION_MASK,
    SYS_TRANSACTION_ROLLBACK,
    TIMESTAMP_BYTES,
    TOPIC_LENGTH_V1,
    TOPIC_LENGTH_V2,
    V1_TOPIC_MAX,
)
from reput.store_format.release.profiles import Profile

# ---
# The rules by which bytes of a CommitLog are a record, as plain functions.
#
# They are those of CommitLog.checkMessageAndReturnSize. One is reput's own: a record that does not
# start at its physicalOffset is a fault. RocketMQ never compares the two.
#
# `records` compiles them for whole windows of a log. To read a single message they run as they
# stand (`record.read_one`): loading numba takes longer than that by far. So this module must not
# import a kernel; it reads numbers by the `get_` functions, which `records` replaces by kernels.

NO_HEADS = 1 << 62  # RecordRules.heads_from of a log without any

# What a release allows in its log, by the fields of profiles.Profile; and the log's shape:
# heads_from is the physical offset from which on each record follows a DLedger head. A
# store that was switched to DLedger has its old log, which has no heads, before that offset.
RecordRules = namedtuple(
    "RecordRules", "ipv6_hosts long_topics any_blank_size heads_from", defaults=(False, NO_HEADS)
)


def reaches_queue(sys_flag: int) -> bool:
    """Not prepared or rolled back: goes to its queue (CommitLogDispatcherBuildConsumeQueue)."""
    return sys_flag & SYS_TRANSACTION_MASK in (0, SYS_TRANSACTION_COMMIT)


def reaches_index(sys_flag: int) -> bool:
    """Whether the message's keys go to the index (IndexService.buildIndex): not if rolled back."""
    return sys_flag & SYS_TRANSACTION_MASK != SYS_TRANSACTION_ROLLBACK


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


class Row:
    """One RECORD_ROW as a Python object: what `read_record` fills where it runs as it stands."""

    __slots__ = RECORD_ROW.names or ()

    def values(self) -> tuple[int, ...]:
        return tuple(getattr(self, name) for name in self.__slots__)


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
_HEAD_MAGIC = int(Fault.HEAD_MAGIC)
_HEAD_SIZE = int(Fault.HEAD_SIZE)
_HEAD_PLACE = int(Fault.HEAD_PLACE)
_HEAD_INDEX = int(Fault.HEAD_INDEX)
_HEAD_TERM = int(Fault.HEAD_TERM)


def record_rules(profile: Profile, heads_from: int = NO_HEADS) -> RecordRules:
    return RecordRules(profile.ipv6_hosts, profile.long_topics, profile.any_blank_size, heads_from)


def head_bytes(segment_end: int, rules: RecordRules) -> int:
    """Bytes before each record of the segment that ends at this physical offset: 48, or 0.

    A segment is of one shape as a whole (DLedgerCommitLog.dividedCommitlogOffset).
    """
    return DLEDGER_HEAD_BYTES if segment_end > rules.heads_from else 0


# --- big-endian numbers in bytes ------------------------------------------------------------------


def get_i8(buf: Any, at: int) -> int:
    return int.from_bytes(buf[at : at + 1], "big", signed=True)


def get_i16(buf: Any, at: int) -> int:
    return int.from_bytes(buf[at : at + 2], "big", signed=True)


def get_i32(buf: Any, at: int) -> int:
    return int.from_bytes(buf[at : at + 4], "big", signed=True)


def get_i64(buf: Any, at: int) -> int:
    return int.from_bytes(buf[at : at + 8], "big", signed=True)


# --- the arithmetic of a record's lengths; whoever reads or makes records uses these functions --


def born_host_bytes(sys_flag: int, rules: RecordRules) -> int:
    """Bytes of bornHost, which follows a record's first fields: 8, or 20."""
    return IPV6_HOST if rules.ipv6_hosts and sys_flag & SYS_BORN_HOST_V6 else IPV4_HOST


def store_timestamp_at(sys_flag: int, rules: RecordRules) -> int:
    """Where storeTimestamp stands in a record; storeHost follows."""
    return RECORD_HEAD_BYTES + born_host_bytes(sys_flag, rules)


def prefix_bytes(sys_flag: int, rules: RecordRules) -> int:
    """Bytes before a record's body: fixed fields, and two hosts of 8 or 20 bytes."""
    store = IPV6_HOST if rules.ipv6_hosts and sys_flag & SYS_STORE_HOST_V6 else IPV4_HOST
    return store_timestamp_at(sys_flag, rules) + TIMESTAMP_BYTES + store + RECORD_MIDDLE_BYTES


def topic_length_bytes(magic: int) -> int:
    """Bytes of topicLength, which follows the body: 1, or 2 in a V2 record."""
    return TOPIC_LENGTH_V2 if magic == MAGIC_V2 else TOPIC_LENGTH_V1


def needs_v2(topic_bytes: int) -> bool:
    """Whether a topic of `topic_bytes` bytes is too long for a V1 record."""
    return topic_bytes > V1_TOPIC_MAX


def record_bytes(hosts: int, body: Any, topic: Any, properties: Any) -> Any:
    """The totalSize of records whose parts have these lengths; hosts: both hosts together.

    Whole numbers, or arrays of them (int64) for many records.
    """
    least = RECORD_FIXED_BYTES - 2 * IPV4_HOST + hosts
    v2 = np.greater(topic, V1_TOPIC_MAX) * (TOPIC_LENGTH_V2 - TOPIC_LENGTH_V1)
    return least + v2 + body + topic + properties


# --- one record ----------------------------------------------------------------------------------


def frame(buf: Any, at: int, length: int, file_end: int, rules: RecordRules) -> tuple[int, int]:
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


def entry(
    buf: Any, at: int, length: int, file_end: int, place: int, rules: RecordRules
) -> tuple[int, int]:
    """Check the frame of a DLedger entry: a head, and a record of the size that is returned.

    place: the physical offset of `at`. The checks are those of DLedgerMmapFileStore.recover; and
    head and record must have the same size.
    """
    if file_end - at < BLANK_BYTES:  # MmapFileList.preAppend leaves room for a blank
        return _SHORT_TAIL, 0
    if length - at < BLANK_BYTES:
        return _NEED_MORE, 0
    magic = get_i32(buf, at + DLEDGER_AT.magic)
    size = get_i32(buf, at + DLEDGER_AT.size)
    if size == 0 and magic == 0:
        return _ZEROS, 0
    if magic == DLEDGER_BLANK:
        return _BLANK, size
    if magic != DLEDGER_NORMAL:
        return _HEAD_MAGIC, size
    if at + size > file_end:
        return _SIZE_PAST_END, size
    if size < DLEDGER_HEAD_BYTES + RECORD_FIXED_BYTES:
        return _HEAD_SIZE, size
    if length - at < DLEDGER_HEAD_BYTES + BLANK_BYTES:
        return _NEED_MORE, 0
    if get_i64(buf, at + DLEDGER_AT.pos) != place:
        return _HEAD_PLACE, size
    fault, record = frame(buf, at + DLEDGER_HEAD_BYTES, length, file_end, rules)
    if fault == _BLANK or fault == _ZEROS:  # noqa: SIM109 (`in` loads more of numba)
        return _BAD_MAGIC, size
    if fault != _NONE:
        return fault, record
    body = size - DLEDGER_HEAD_BYTES
    if record != body or get_i32(buf, at + DLEDGER_AT.bodyLength) != body:
        return _HEAD_SIZE, size
    return _NONE, record


def goes_on(buf: Any, at: int, sequence: Any) -> int:
    """NONE if the DLedger entry at `at` continues the entries of `sequence`, else the fault.

    sequence: index and term of the first entry, then of the last, -1 without any; is updated.
    """
    index, term = get_i64(buf, at + DLEDGER_AT.index), get_i64(buf, at + DLEDGER_AT.term)
    if sequence[2] < 0:
        sequence[0], sequence[1] = index, term
    elif index != sequence[2] + 1:
        return _HEAD_INDEX
    elif term < sequence[3]:
        return _HEAD_TERM
    sequence[2], sequence[3] = index, term
    return _NONE


def read_record(
    buf: Any, at: int, size: int, place: int, elided: int, rules: RecordRules, row: Any
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
        topic_length = get_i16(buf, topic_at - 2)
    else:
        topic_length = get_i8(buf, topic_at - 1)
    if topic_length < 0 or topic_length > left:
        return _TOPIC_LENGTH
    left -= topic_length
    properties_at = topic_at + topic_length + PROPERTIES_LENGTH
    properties_length = max(get_i16(buf, properties_at - 2), 0)
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


# ---
# Which CRCs a reader of a log compares.


class Checks(NamedTuple):
    """What a walk compares besides lengths and physicalOffsets."""

    body: bool = False  # each body with its bodyCRC
    property: bool = False  # a `__CRC32#` with its record, where a record has one
    split_properties: bool = False  # properties are separated as up to 4.9.0 (Profile)
    # The row of a record longer than a window gets, as its bodyCRC, the CRC of all but the record's
    # last 20 bytes. A caller that compares each `__CRC32#` itself (records.py) needs this.
    seal: bool = False


NO_CHECKS = Checks()
