"""A kernel that makes the records of many messages from columns (used by writer/bulk)."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format.kernels.bytes import put_i32, put_i64
from reput.store_format.kernels.crc import crc32
from reput.store_format.kernels.jit import allocating, inlined, unlocked
from reput.store_format.layouts import (
    MAGIC_V1,
    MAGIC_V2,
    MIDDLE_AT,
    PROPERTIES_LENGTH,
    PROPERTY_END,
    PROPERTY_NAME_END,
    RECORD_AT,
    RECORD_HEAD_BYTES,
    RECORD_MIDDLE_BYTES,
    TIMESTAMP_BYTES,
)
from reput.store_format.log import rules

Bytes = npt.NDArray[np.uint8]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

_needs_v2 = inlined(rules.needs_v2)

_UNIQ, _KEYS, _TAGS = range(3)
NAMES = (b"UNIQ_KEY", b"KEYS", b"TAGS")
_NAME_BYTES = np.frombuffer(b"".join(NAMES), np.uint8)
_NAME_ENDS = np.cumsum([len(name) for name in NAMES])
_CRC_NAME = np.frombuffer(b"__CRC32#", np.uint8)
_HEX = np.frombuffer(b"0123456789ABCDEF", np.uint8)


class Texts(NamedTuple):
    """One text or binary column: value i is data[ends[i]:ends[i + 1]]; empty for none."""

    ends: Int64s  # one item more than values
    data: Bytes

    def lengths(self) -> Int64s:
        return np.diff(self.ends)


class BulkRows(NamedTuple):
    """The fields that differ by message, one value for each. Times in milliseconds."""

    topic: Int32s  # its number among the topics
    queue_id: Int32s
    flag: Int32s
    born: Int64s  # 0: now
    body: Texts
    tags: Texts
    keys: Texts
    properties: Texts  # complete, as in a record; empty: made from tags and keys
    size: Int64s  # bytes of the record
    queue: Int64s  # its queue's number in Destination.next_offsets


class Alike(NamedTuple):
    """The fields that all records of a writer have in common."""

    host: Bytes
    sys_flag: int
    unique_prefix: Bytes  # of UNIQ_KEY, as text
    order: Int64s  # the numbers of NAMES as a HashMap yields them
    text_ends: bool  # Profile.property_text_ends
    crc: bool  # `__CRC32#` is appended


class Destination(NamedTuple):
    """Place and time of the records of one write."""

    physical: int
    now: int  # milliseconds
    next_offsets: Int64s  # of each queue; advanced
    time_part: int  # of UNIQ_KEY
    number: int  # of the first UNIQ_KEY


@allocating
def _copy(out: Bytes, at: int, source: Bytes, start: int, end: int) -> int:
    out[at : at + end - start] = source[start:end]
    return at + end - start


@allocating
def _put_hex(out: Bytes, at: int, value: int, digits: int) -> int:
    for i in range(digits):
        out[at + i] = _HEX[(value >> (4 * (digits - 1 - i))) & 0xF]
    return at + digits


@allocating
def _put_name(out: Bytes, at: int, number: int) -> int:
    start = _NAME_ENDS[number - 1] if number else 0
    at = _copy(out, at, _NAME_BYTES, start, _NAME_ENDS[number])
    out[at] = PROPERTY_NAME_END
    return at + 1


@allocating
def put_crc_property(out: Bytes, start: int, at: int) -> int:
    """Put the `__CRC32#` of out[start:at] at `at`: ten digits, least significant first."""
    crc = crc32(out, start, at) & 0x7FFFFFFF
    at = _copy(out, at, _CRC_NAME, 0, len(_CRC_NAME))
    out[at] = PROPERTY_NAME_END
    for i in range(10):
        out[at + 1 + i] = 0x30 + crc % 10
        crc //= 10
    out[at + 11] = PROPERTY_END
    return at + 12


@unlocked
def encode_rows(
    first: int, stop: int, rows: BulkRows, topics: Texts, alike: Alike, to: Destination, out: Bytes
) -> int:
    """Write rows [first, stop) as records into `out`, from its start. Returns the bytes used."""
    host = alike.host
    at = 0
    for i in range(first, stop):
        start = at
        size = rows.size[i]
        topic_at, topic_end = topics.ends[rows.topic[i]], topics.ends[rows.topic[i] + 1]
        two = _needs_v2(topic_end - topic_at)
        body_at, body_end = rows.body.ends[i], rows.body.ends[i + 1]
        queue = rows.queue[i]
        put_i32(out, at + RECORD_AT.totalSize, size)
        put_i32(out, at + RECORD_AT.magic, MAGIC_V2 if two else MAGIC_V1)
        body_crc = crc32(rows.body.data, body_at, body_end) & 0x7FFFFFFF
        put_i32(out, at + RECORD_AT.bodyCRC, body_crc)
        put_i32(out, at + RECORD_AT.queueId, rows.queue_id[i])
        put_i32(out, at + RECORD_AT.flag, rows.flag[i])
        put_i64(out, at + RECORD_AT.queueOffset, to.next_offsets[queue])
        put_i64(out, at + RECORD_AT.physicalOffset, to.physical + at)
        put_i32(out, at + RECORD_AT.sysFlag, alike.sys_flag)
        born = rows.born[i] if rows.born[i] > 0 else to.now
        put_i64(out, at + RECORD_AT.bornTimestamp, born)
        to.next_offsets[queue] += 1
        at = _copy(out, at + RECORD_HEAD_BYTES, host, 0, len(host))
        put_i64(out, at, to.now)
        at = _copy(out, at + TIMESTAMP_BYTES, host, 0, len(host))
        put_i32(out, at + MIDDLE_AT.reconsumeTimes, 0)
        put_i64(out, at + MIDDLE_AT.preparedTransactionOffset, 0)
        put_i32(out, at + MIDDLE_AT.bodyLength, body_end - body_at)
        at = _copy(out, at + RECORD_MIDDLE_BYTES, rows.body.data, body_at, body_end)
        if two:
            out[at] = (topic_end - topic_at) >> 8
            at += 1
        out[at] = (topic_end - topic_at) & 0xFF
        at = _copy(out, at + 1, topics.data, topic_at, topic_end)
        length = start + size - at - PROPERTIES_LENGTH
        out[at] = length >> 8
        out[at + 1] = length & 0xFF
        at += PROPERTIES_LENGTH
        raw_at, raw_end = rows.properties.ends[i], rows.properties.ends[i + 1]
        if raw_end > raw_at:
            at = _copy(out, at, rows.properties.data, raw_at, raw_end)
        else:
            for name in alike.order:
                if name == _UNIQ:
                    at = _put_name(out, at, _UNIQ)
                    at = _copy(out, at, alike.unique_prefix, 0, len(alike.unique_prefix))
                    at = _put_hex(out, at, to.time_part, 8)
                    at = _put_hex(out, at, to.number + i - first, 4)
                else:
                    texts = rows.keys if name == _KEYS else rows.tags
                    value_at, value_end = texts.ends[i], texts.ends[i + 1]
                    if value_end == value_at:
                        continue
                    at = _put_name(out, at, name)
                    at = _copy(out, at, texts.data, value_at, value_end)
                out[at] = PROPERTY_END
                at += 1
            if not alike.text_ends:
                at -= 1
        if alike.crc:
            at = put_crc_property(out, start, at)
    return at
