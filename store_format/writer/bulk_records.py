"""The records of many messages, from columns to bytes, by one kernel (see bulk)."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from store_format.binary import put_i32, put_i64
from store_format.crc import crc32
from store_format.kernels import allocating, unlocked
from store_format.layouts import (
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
    V1_TOPIC_MAX,
)

Bytes = npt.NDArray[np.uint8]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

_UNIQ, _KEYS, _TAGS = range(3)
NAMES = (b"UNIQ_KEY", b"KEYS", b"TAGS")
_NAME_BYTES = np.frombuffer(b"".join(NAMES), np.uint8)
_NAME_ENDS = np.cumsum([len(name) for name in NAMES])
_CRC_NAME = np.frombuffer(b"__CRC32#", np.uint8)
_HEX = np.frombuffer(b"0123456789ABCDEF", np.uint8)


class Texts(NamedTuple):
    """One text or binary column: value i is data[ends[i]:ends[i + 1]]; empty for none."""

    ends: Int64s  # one more than there are values
    data: Bytes

    def lengths(self) -> Int64s:
        return np.diff(self.ends)


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
def _put_crc(out: Bytes, start: int, at: int) -> int:
    """`__CRC32#` of out[start:at]: ten digits, the least significant first."""
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
    first: int, stop: int, physical: int, now: int, next_offsets: Int64s, queue_of: Int64s,
    sizes: Int64s, topic: Int32s, topic_ends: Int64s, topic_data: Bytes, queue_id: Int32s,
    flag: Int32s, born: Int64s, body: Texts, tags: Texts, keys: Texts, properties: Texts,
    host: Bytes, sys_flag: int, unique_prefix: Bytes, time_part: int, number: int, order: Int64s,
    crc: bool, out: Bytes,
) -> int:  # fmt: skip
    """Write rows [first, stop) to out as records from `physical` on; returns the bytes used.

    body, tags, keys, properties: Texts; next_offsets: int64 a queue, advanced.
    """
    at = 0
    for i in range(first, stop):
        start = at
        size = sizes[i]
        topic_at, topic_end = topic_ends[topic[i]], topic_ends[topic[i] + 1]
        two = topic_end - topic_at > V1_TOPIC_MAX
        body_at, body_end = body.ends[i], body.ends[i + 1]
        queue = queue_of[i]
        put_i32(out, at + RECORD_AT.totalSize, size)
        put_i32(out, at + RECORD_AT.magic, MAGIC_V2 if two else MAGIC_V1)
        put_i32(out, at + RECORD_AT.bodyCRC, crc32(body.data, body_at, body_end) & 0x7FFFFFFF)
        put_i32(out, at + RECORD_AT.queueId, queue_id[i])
        put_i32(out, at + RECORD_AT.flag, flag[i])
        put_i64(out, at + RECORD_AT.queueOffset, next_offsets[queue])
        put_i64(out, at + RECORD_AT.physicalOffset, physical + at)
        put_i32(out, at + RECORD_AT.sysFlag, sys_flag)
        put_i64(out, at + RECORD_AT.bornTimestamp, born[i] if born[i] > 0 else now)
        next_offsets[queue] += 1
        at = _copy(out, at + RECORD_HEAD_BYTES, host, 0, len(host))
        put_i64(out, at, now)
        at = _copy(out, at + TIMESTAMP_BYTES, host, 0, len(host))
        put_i32(out, at + MIDDLE_AT.reconsumeTimes, 0)
        put_i64(out, at + MIDDLE_AT.preparedTransactionOffset, 0)
        put_i32(out, at + MIDDLE_AT.bodyLength, body_end - body_at)
        at = _copy(out, at + RECORD_MIDDLE_BYTES, body.data, body_at, body_end)
        if two:
            out[at] = (topic_end - topic_at) >> 8
            at += 1
        out[at] = (topic_end - topic_at) & 0xFF
        at = _copy(out, at + 1, topic_data, topic_at, topic_end)
        length = start + size - at - PROPERTIES_LENGTH
        out[at] = length >> 8
        out[at + 1] = length & 0xFF
        at += PROPERTIES_LENGTH
        raw_at, raw_end = properties.ends[i], properties.ends[i + 1]
        if raw_end > raw_at:
            at = _copy(out, at, properties.data, raw_at, raw_end)
        else:
            for name in order:
                if name == _UNIQ:
                    at = _put_name(out, at, _UNIQ)
                    at = _copy(out, at, unique_prefix, 0, len(unique_prefix))
                    at = _put_hex(out, at, time_part, 8)
                    at = _put_hex(out, at, number + i - first, 4)
                else:
                    texts = keys if name == _KEYS else tags
                    value_at, value_end = texts.ends[i], texts.ends[i + 1]
                    if value_end == value_at:
                        continue
                    at = _put_name(out, at, name)
                    at = _copy(out, at, texts.data, value_at, value_end)
                out[at] = PROPERTY_END
                at += 1
        if crc:
            at = _put_crc(out, start, at)
    return at
