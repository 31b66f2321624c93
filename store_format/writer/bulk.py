"""Many messages at once, from columns: the same records as `append` makes, by one kernel.

Columns are numpy arrays: a text or binary column is its bytes one after the other and where each
value ends, as Arrow has it (`udfs.append` makes them from a table).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from store_format.binary import put_i32, put_i64
from store_format.crc import crc32
from store_format.layouts import (
    BLANK_BYTES,
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
    SYS_BORN_HOST_V6,
    SYS_STORE_HOST_V6,
    TIMESTAMP_BYTES,
    TOPIC_LENGTH_V1,
    TOPIC_LENGTH_V2,
)
from store_format.writer.encode import Encoder
from store_format.writer.errors import (
    BodyTooLarge,
    MessageTooLarge,
    PropertiesTooLarge,
    TopicTooLong,
)
from store_format.writer.java_map import hash_map_order
from store_format.writer.message import check_property, check_sendable, check_topic, encode_host
from store_format.writer.writer import CommitLogWriter

Bytes = npt.NDArray[np.uint8]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

CHUNK_BYTES = 1 << 20  # written at once, under one storeTimestamp
_UNIQ, _KEYS, _TAGS = range(3)
_NAMES = (b"UNIQ_KEY", b"KEYS", b"TAGS")
_NAME_BYTES = np.frombuffer(b"".join(_NAMES), np.uint8)
_NAME_ENDS = np.cumsum([len(name) for name in _NAMES])
_CRC_NAME = np.frombuffer(b"__CRC32#", np.uint8)
_HEX = np.frombuffer(b"0123456789ABCDEF", np.uint8)
_V1_TOPIC_MAX = 127
_PROPERTIES_MAX = 0x7FFF
_SPARE_BYTES = 64 << 10


class Texts(NamedTuple):
    """One text or binary column: value i is data[ends[i]:ends[i + 1]]; empty for none."""

    ends: Int64s  # one more than there are values
    data: Bytes

    def lengths(self) -> Int64s:
        return np.diff(self.ends)


@dataclass(frozen=True)
class Columns:
    """Messages by column, all of the same length. Times in milliseconds."""

    topics: tuple[str, ...]  # the topics there are
    topic: Int32s  # each message's number in `topics`
    queue_id: Int32s
    body: Texts
    tags: Texts
    keys: Texts
    properties: Texts  # as in a record, with all that belongs there; empty: from tags and keys
    flag: Int32s
    born_timestamp: Int64s  # 0: now

    def __len__(self) -> int:
        return len(self.topic)


class BulkResult(NamedTuple):
    """What was appended: how many messages, and where the log stood before and after."""

    messages: int
    start: int
    end: int


def append_columns(writer: CommitLogWriter, columns: Columns) -> BulkResult:
    """Append all messages, in order; in SYNC_FLUSH it returns when they are durable.

    All are checked before the first is written. Raises as `append` does.
    """
    return _Bulk(writer, columns).run()


class _Bulk:
    def __init__(self, writer: CommitLogWriter, columns: Columns) -> None:
        self.writer, self.columns = writer, columns
        encoder = writer.encoder
        topics = [_checked_topic(topic, encoder) for topic in columns.topics]
        self.topic_data = np.frombuffer(b"".join(topics) or b"\0", np.uint8)
        self.topic_ends = np.concatenate(
            [np.zeros(1, np.int64), np.cumsum([len(topic) for topic in topics], dtype=np.int64)]
        )
        self.host = np.frombuffer(encode_host(encoder.host), np.uint8)
        fixed = encoder.unique_ids.fixed
        self.unique_prefix = np.frombuffer(fixed.hex().upper().encode(), np.uint8)
        self.crc = bool(encoder.profile.property_crc and encoder.settings.enabled_append_prop_crc)
        names = tuple(name.decode() for name in _NAMES)
        self.order = np.array(hash_map_order(names, encoder.profile.property_map_capacity))
        self.sizes = self._sizes()

    def run(self) -> BulkResult:
        writer, count = self.writer, len(self.columns)
        writer.check_usable()
        queues, queue_of = self._queues()
        biggest = int(self.sizes.max(initial=0))
        out = np.empty(max(CHUNK_BYTES, biggest), np.uint8)
        ends = np.cumsum(self.sizes)
        done = 0
        start = -1
        while done < count:
            with writer.appending() as now:
                # offsets are taken anew each time: others may append between two chunks
                next_offsets = np.array([writer.next_offset(key) for key in queues], np.int64)
                log = writer.log
                before = int(ends[done] - self.sizes[done])
                log.make_room(int(self.sizes[done]))
                room = min(log.room - BLANK_BYTES, len(out))
                stop = int(np.searchsorted(ends, before + room, side="right"))
                used = self._encode(done, stop, log.end, now, next_offsets, queue_of, out)
                start = log.end if start < 0 else start
                log.write(memoryview(out)[:used])
                for number, key in enumerate(queues):
                    writer.set_next_offset(key, int(next_offsets[number]))
            done = stop
        end = writer.log.end
        writer.wait_durable(end)
        return BulkResult(count, max(start, 0), end)

    def _sizes(self) -> Int64s:
        """Each record's size, after all checks."""
        c, encoder = self.columns, self.writer.encoder
        settings = encoder.settings
        body = c.body.lengths()
        over = np.flatnonzero(body > settings.max_message_size)
        if len(over):
            raise BodyTooLarge(
                f"message {over[0]}: a body of {body[over[0]]} bytes; maxMessageSize is "
                f"{settings.max_message_size}"
            )
        for name, texts in (("TAGS", c.tags), ("KEYS", c.keys)):
            if len(texts.data) and int(texts.data.min()) <= PROPERTY_END:
                _name_the_separator(name, texts)
        properties = self._property_lengths()
        over = np.flatnonzero(properties > _PROPERTIES_MAX)
        if len(over):
            raise PropertiesTooLarge(
                f"message {over[0]}: {properties[over[0]]} bytes of properties; at most "
                f"{_PROPERTIES_MAX}"
            )
        topic = np.diff(self.topic_ends)[c.topic]
        long = topic > _V1_TOPIC_MAX
        sizes: Int64s = (
            RECORD_HEAD_BYTES + TIMESTAMP_BYTES + 2 * len(self.host) + RECORD_MIDDLE_BYTES
            + PROPERTIES_LENGTH + np.where(long, TOPIC_LENGTH_V2, TOPIC_LENGTH_V1)
            + body + topic + properties
        )  # fmt: skip
        most = min(
            settings.mapped_file_size_commit_log - BLANK_BYTES,
            settings.max_message_size + _SPARE_BYTES,
        )
        over = np.flatnonzero(sizes > most)
        if len(over):
            raise MessageTooLarge(
                f"message {over[0]}: a record of {sizes[over[0]]} bytes; at most {most}"
            )
        return sizes

    def _property_lengths(self) -> Int64s:
        c = self.columns
        unique = len(b"UNIQ_KEY") + 2 + len(self.unique_prefix) + 12
        made = np.full(len(c), unique, np.int64)
        for name, texts in ((b"TAGS", c.tags), (b"KEYS", c.keys)):
            lengths = texts.lengths()
            made += np.where(lengths > 0, lengths + len(name) + 2, 0)
        raw = c.properties.lengths()
        lengths = np.where(raw > 0, raw, made)
        return lengths + CRC_PROPERTY_BYTES if self.crc else lengths

    def _queues(self) -> tuple[list[tuple[str, int]], Int64s]:
        """The queues that are met, and each message's number among them."""
        c = self.columns
        packed = c.topic.astype(np.int64) << 32 | c.queue_id.astype(np.int64) & 0xFFFFFFFF
        distinct, queue_of = np.unique(packed, return_inverse=True)
        queues = [
            (c.topics[int(key) >> 32], int(np.int32(np.uint32(int(key) & 0xFFFFFFFF))))
            for key in distinct
        ]
        return queues, queue_of.astype(np.int64)

    def _encode(
        self, first: int, stop: int, at: int, now: int, next_offsets: Int64s, queue_of: Int64s,
        out: Bytes,
    ) -> int:  # fmt: skip
        c, ids = self.columns, self.writer.encoder.unique_ids
        v6 = len(self.host) == IPV6_HOST
        return _encode_rows(
            first, stop, at, now, next_offsets, queue_of, self.sizes, c.topic,
            self.topic_ends, self.topic_data, c.queue_id, c.flag, c.born_timestamp,
            c.body, c.tags, c.keys, c.properties, self.host,
            SYS_BORN_HOST_V6 | SYS_STORE_HOST_V6 if v6 else 0, self.unique_prefix,
            ids.time_part(), ids.take(stop - first), self.order, self.crc, out,
        )  # fmt: skip


def _checked_topic(topic: str, encoder: Encoder) -> bytes:
    check_sendable(topic)
    raw = check_topic(topic, encoder.settings.max_topic_length)
    v2 = encoder.profile.long_topics and encoder.settings.auto_message_version_on_topic_len
    if len(raw) > _V1_TOPIC_MAX and not v2:
        raise TopicTooLong(f"topic {topic[:40]!r}...: over 127 characters needs V2 (5.1.0)")
    return raw


def _name_the_separator(name: str, texts: Texts) -> None:
    place = int(np.flatnonzero(texts.data <= PROPERTY_END)[0])
    row = int(np.searchsorted(texts.ends, place, side="right")) - 1
    value = texts.data[texts.ends[row] : texts.ends[row + 1]].tobytes()
    check_property(name, value.decode("utf-8", "replace"))


@njit(cache=True)
def _copy(out: Bytes, at: int, source: Bytes, start: int, end: int) -> int:
    out[at : at + end - start] = source[start:end]
    return at + end - start


@njit(cache=True)
def _put_hex(out: Bytes, at: int, value: int, digits: int) -> int:
    for i in range(digits):
        out[at + i] = _HEX[(value >> (4 * (digits - 1 - i))) & 0xF]
    return at + digits


@njit(cache=True)
def _put_name(out: Bytes, at: int, number: int) -> int:
    start = _NAME_ENDS[number - 1] if number else 0
    at = _copy(out, at, _NAME_BYTES, start, _NAME_ENDS[number])
    out[at] = PROPERTY_NAME_END
    return at + 1


@njit(cache=True)
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


@njit(cache=True, nogil=True)
def _encode_rows(
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
        two = topic_end - topic_at > _V1_TOPIC_MAX
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
