"""Many messages at once, from columns: the same records as `append` makes, by one kernel.

Columns are numpy arrays: a text or binary column is its bytes one after the other and where each
value ends, as Arrow has it (`udfs.append` makes them from a table).
"""

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from store_format.layouts import (
    BLANK_BYTES,
    CRC_PROPERTY_BYTES,
    IPV6_HOST,
    PROPERTY_END,
    SYS_BORN_HOST_V6,
    SYS_STORE_HOST_V6,
)
from store_format.records import needs_v2, record_bytes
from store_format.writer.bulk_records import (
    NAMES,
    Bytes,
    Int32s,
    Int64s,
    Texts,
    encode_rows,
)
from store_format.writer.encode import Encoder, check_multi_dispatch
from store_format.writer.errors import (
    BodyTooLarge,
    MessageTooLarge,
    PropertiesTooLarge,
    TopicTooLong,
)
from store_format.writer.java_map import hash_map_order
from store_format.writer.message import check_property, check_sendable, check_topic, encode_host
from store_format.writer.writer import CommitLogWriter

CHUNK_BYTES = 1 << 20  # written at once, under one storeTimestamp
_PROPERTIES_MAX = 0x7FFF
_SPARE_BYTES = 64 << 10


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
        names = tuple(name.decode() for name in NAMES)
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
                next_offsets = np.array(
                    [writer.appender.next_offset(key) for key in queues], np.int64
                )
                log = writer.log
                before = int(ends[done] - self.sizes[done])
                log.make_room(int(self.sizes[done]))
                room = min(log.room - BLANK_BYTES, len(out))
                stop = int(np.searchsorted(ends, before + room, side="right"))
                used = self._encode(done, stop, log.end, now, next_offsets, queue_of, out)
                start = log.end if start < 0 else start
                log.write(memoryview(out)[:used])
                for number, key in enumerate(queues):
                    writer.appender.set_next_offset(key, int(next_offsets[number]))
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
        if encoder.multi_dispatch:
            for at, end in itertools.pairwise(c.properties.ends):
                check_multi_dispatch(c.properties.data[at:end].tobytes())
        properties = self._property_lengths()
        over = np.flatnonzero(properties > _PROPERTIES_MAX)
        if len(over):
            raise PropertiesTooLarge(
                f"message {over[0]}: {properties[over[0]]} bytes of properties; at most "
                f"{_PROPERTIES_MAX}"
            )
        topic = np.diff(self.topic_ends)[c.topic]
        sizes: Int64s = record_bytes(2 * len(self.host), body, topic, properties)
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
        return encode_rows(
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
    if needs_v2(len(raw)) and not v2:
        raise TopicTooLong(f"topic {topic[:40]!r}...: over 127 characters needs V2 (5.1.0)")
    return raw


def _name_the_separator(name: str, texts: Texts) -> None:
    place = int(np.flatnonzero(texts.data <= PROPERTY_END)[0])
    row = int(np.searchsorted(texts.ends, place, side="right")) - 1
    value = texts.data[texts.ends[row] : texts.ends[row + 1]].tobytes()
    check_property(name, value.decode("utf-8", "replace"))
