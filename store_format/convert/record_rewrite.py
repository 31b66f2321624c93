"""Kernels that write records at new places, as they are or changed.

A record's physicalOffset and preparedTransactionOffset become those of the new places; a `__CRC32#`
at its end is made anew, as it covers these fields (CommitLog.DefaultAppendMessageCallback).
"""

from collections import namedtuple
from typing import Any

import numpy as np
import numpy.typing as npt

from reput.store_format.convert.selection import store_host_bytes
from reput.store_format.kernels.bytes import (
    copy_bytes,
    get_i32,
    get_i64,
    put_i32,
    put_i64,
    same_bytes,
)
from reput.store_format.kernels.jit import inlined, kernel, unlocked
from reput.store_format.layouts import (
    CRC_PROPERTY_BYTES,
    IPV6_HOST,
    MAGIC_V1,
    MAGIC_V2,
    MIDDLE_AT,
    PROPERTIES_LENGTH,
    PROPERTY_END,
    PROPERTY_NAME_END,
    RECORD_AT,
    RECORD_HEAD_BYTES,
    RECORD_MIDDLE_BYTES,
    SYS_STORE_HOST_V6,
)
from reput.store_format.log.properties import CRC_PROPERTY_NAME
from reput.store_format.log.records import Bytes, Rows, needs_v2
from reput.store_format.message.bulk import put_crc_property

Numbers = npt.NDArray[np.int64]

# What differs from record to record: its new place, queueOffset and preparedTransactionOffset.
To = namedtuple("To", "places queue_offsets prepared")
# What all records have in common: what was decided for names, the new names, the storeHost (empty:
# as it was), and whether hosts may be of IPv6.
Alike = namedtuple("Alike", "decided names host ipv6_hosts")

_CRC_NAME = np.frombuffer(CRC_PROPERTY_NAME, np.uint8)

_needs_v2 = inlined(needs_v2)


@kernel
def prepared_offsets(buf: Bytes, rows: Rows, prepared: Numbers) -> int:
    """Fill in each record's preparedTransactionOffset; returns how many are not 0."""
    count = 0
    for i in range(len(rows)):
        at = rows[i].bodyAt - RECORD_MIDDLE_BYTES + MIDDLE_AT.preparedTransactionOffset
        prepared[i] = get_i64(buf, at)
        count += prepared[i] != 0
    return count


@kernel
def _copy(out: Bytes, at: int, source: Bytes, start: int, end: int) -> int:
    """Copy source[start:end] to `at`; returns where that ends."""
    copy_bytes(out, at, source, start, end - start)
    return at + end - start


@kernel
def ends_in_crc(buf: Bytes, at: int, end: int) -> bool:
    """Whether properties at buf[at:end] end in a `__CRC32#` as RocketMQ appends it."""
    start = end - CRC_PROPERTY_BYTES
    name_end = start + len(_CRC_NAME)
    return (
        start >= at
        and buf[end - 1] == PROPERTY_END
        and buf[name_end] == PROPERTY_NAME_END
        and same_bytes(buf, start, _CRC_NAME, 0, len(_CRC_NAME))
    )


@unlocked
def stamp(out: Bytes, base: int, rows: Rows, places: Numbers, prepared: Numbers) -> None:
    """Put the new places into records that were copied to `out`, which begins at the place `base`.

    prepared: the new preparedTransactionOffsets; empty where none changes.
    """
    for i in range(len(rows)):
        row = rows[i]
        at = places[i] - base
        put_i64(out, at + RECORD_AT.physicalOffset, places[i])
        if len(prepared):
            middle = at + row.bodyAt - row.at - RECORD_MIDDLE_BYTES
            put_i64(out, middle + MIDDLE_AT.preparedTransactionOffset, prepared[i])
        end = at + row.size
        if ends_in_crc(out, end - row.propertiesLength, end):
            put_crc_property(out, at, end - CRC_PROPERTY_BYTES)


@kernel
def copy_rows(buf: Bytes, rows: Rows, places: Numbers, out: Bytes, base: int) -> None:
    """Copy records as they are to their new places."""
    for i in range(len(rows)):
        _copy(out, places[i] - base, buf, rows[i].at, rows[i].at + rows[i].size)


@kernel
def _properties(
    buf: Bytes, row: Any, spans: Any, named: Any, alike: Any, out: Bytes, at: int
) -> None:
    """Copy a record's properties to out[at:], with the new names of topics in them.

    spans, named: where the topics' names are in buf, and their numbers; -1 where there is none.
    """
    done, end = row.propertiesAt, row.propertiesAt + row.propertiesLength
    while True:
        next_one = -1  # the first value after what is done
        for k in range(len(named)):
            ahead = named[k] >= 0 and spans[k, 0] >= done
            if ahead and (next_one < 0 or spans[k, 0] < spans[next_one, 0]):
                next_one = k
        if next_one < 0:
            break
        decision = alike.decided[named[next_one]]
        length = decision.nameEnd - decision.nameAt
        stop = spans[next_one, 0] if length else spans[next_one, 1]
        at = _copy(out, at, buf, done, stop)
        if length:
            at = _copy(out, at, alike.names, decision.nameAt, decision.nameEnd)
        done = spans[next_one, 1]
    _copy(out, at, buf, done, end)


@unlocked
def rewrite(
    buf: Bytes, rows: Rows, looked: Any, to: Any, alike: Any, out: Bytes, base: int
) -> None:
    """Write records anew at their places, with all their changes.

    looked: what a look at these rows gave (Looked); to: a To of arrays, a value a row; alike: an
    Alike.
    """
    host = alike.host
    for i in range(len(rows)):
        row = rows[i]
        decision = alike.decided[looked.numbers[i]]
        start = at = to.places[i] - base
        _copy(out, at, buf, row.at, row.at + RECORD_HEAD_BYTES)
        length = decision.nameEnd - decision.nameAt
        two = get_i32(buf, row.at + RECORD_AT.magic) == MAGIC_V2
        if length:
            two = _needs_v2(length)
        put_i32(out, at + RECORD_AT.totalSize, looked.sizes[i])
        put_i32(out, at + RECORD_AT.magic, MAGIC_V2 if two else MAGIC_V1)
        put_i32(out, at + RECORD_AT.queueId, row.queueId + decision.queueShift)
        put_i64(out, at + RECORD_AT.queueOffset, to.queue_offsets[i])
        put_i64(out, at + RECORD_AT.physicalOffset, to.places[i])
        middle = row.bodyAt - RECORD_MIDDLE_BYTES
        host_at = middle - store_host_bytes(row.sysFlag, alike.ipv6_hosts)
        at = _copy(out, at + RECORD_HEAD_BYTES, buf, row.at + RECORD_HEAD_BYTES, host_at)
        if len(host):
            flag = row.sysFlag & ~SYS_STORE_HOST_V6
            if len(host) == IPV6_HOST:
                flag |= SYS_STORE_HOST_V6
            put_i32(out, start + RECORD_AT.sysFlag, flag)
            at = _copy(out, at, host, 0, len(host))
        else:
            at = _copy(out, at, buf, host_at, middle)
        put_middle = at
        at = _copy(out, at, buf, middle, row.bodyAt + row.bodyLength)
        put_i64(out, put_middle + MIDDLE_AT.preparedTransactionOffset, to.prepared[i])
        topic_bytes = length if length else row.topicLength
        if two:
            out[at], out[at + 1] = topic_bytes >> 8, topic_bytes & 0xFF
            at += 2
        else:
            out[at] = topic_bytes
            at += 1
        if length:
            at = _copy(out, at, alike.names, decision.nameAt, decision.nameEnd)
        else:
            at = _copy(out, at, buf, row.topicAt, row.topicAt + topic_bytes)
        properties_bytes = start + looked.sizes[i] - at - PROPERTIES_LENGTH
        out[at], out[at + 1] = properties_bytes >> 8, properties_bytes & 0xFF
        at += PROPERTIES_LENGTH
        if len(looked.named):
            _properties(buf, row, looked.spans[i], looked.named[i], alike, out, at)
        else:
            _copy(out, at, buf, row.propertiesAt, row.propertiesAt + row.propertiesLength)
        end = start + looked.sizes[i]
        if ends_in_crc(out, at, end):
            put_crc_property(out, start, end - CRC_PROPERTY_BYTES)
