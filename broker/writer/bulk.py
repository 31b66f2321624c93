"""Appends many messages at once, from columns; one kernel makes the same records as `append`.

A column is a numpy array. A text or binary column consists of two: the values' bytes one after the
other, and where each value ends, as in Arrow. `reput.udfs.table.message_rows` makes columns from a
table.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from reput.broker.writer.writer import CommitLogWriter, Trial
from reput.store_format import layouts
from reput.store_format.java import hash_map_order
from reput.store_format.log.records import needs_v2, record_bytes
from reput.store_format.message import message, refusals
from reput.store_format.message.bulk import (
    NAMES,
    Alike,
    BulkRows,
    Destination,
    Int32s,
    Int64s,
    Texts,
    encode_rows,
)
from reput.store_format.message.encode import Encoder
from reput.store_format.message.multi_dispatch import NAMED

_NAMED = NAMED.encode()
CHUNK_BYTES = 1 << 20  # written at once, under one storeTimestamp
_PROPERTIES_MAX = 0x7FFF
_SPARE_BYTES = 64 << 10


Done = Callable[[int], None]


@dataclass(frozen=True)
class Columns:
    """Messages by column, all of the same length. Times in milliseconds."""

    topics: tuple[str, ...]  # the names of all topics
    topic: Int32s  # each message's number in `topics`
    queue_id: Int32s
    body: Texts
    tags: Texts
    keys: Texts
    properties: Texts  # all properties, as in a record; empty: they are made from tags and keys
    flag: Int32s
    born_timestamp: Int64s  # 0: now

    def __len__(self) -> int:
        return len(self.topic)


class BulkResult(NamedTuple):
    """What was appended: how many messages, and where the log ended before and after."""

    messages: int
    start: int
    end: int


def append_columns(
    writer: CommitLogWriter, columns: Columns, done: Done | None = None
) -> BulkResult:
    """Append all messages, in order; in SYNC_FLUSH it returns when they are durable.

    All messages are checked before the first one is written. done: called after each write with the
    number of messages in it. Raises as `append` does; `row` of a Refused is the message's index.
    """
    bulk = _Bulk(writer, columns)
    return bulk.tried(writer, done) if isinstance(writer, Trial) else bulk.run(done)


class _Bulk:
    def __init__(self, writer: CommitLogWriter, columns: Columns) -> None:
        self.writer, self.columns = writer, columns
        encoder = writer.encoder
        # the dictionary of topics may have topics that no message uses
        used = dict(zip(*np.unique(columns.topic, return_index=True), strict=True))
        topics = [
            _at(_checked_topic, int(used[number]), topic, encoder) if number in used else b""
            for number, topic in enumerate(columns.topics)
        ]
        ends = np.cumsum([0, *map(len, topics)], dtype=np.int64)
        self.topics = Texts(ends, np.frombuffer(b"".join(topics) or b"\0", np.uint8))
        host = np.frombuffer(message.encode_host(encoder.host), np.uint8)
        fixed = encoder.unique_ids.fixed
        names = tuple(name.decode() for name in NAMES)
        rules = encoder.profile
        self.alike = Alike(
            host=host,
            sys_flag=layouts.SYS_BORN_HOST_V6 | layouts.SYS_STORE_HOST_V6
            if len(host) == layouts.IPV6_HOST
            else 0,
            unique_prefix=np.frombuffer(fixed.hex().upper().encode(), np.uint8),
            order=np.array(hash_map_order(names, rules.property_map_capacity)),
            text_ends=rules.property_text_ends,
            crc=bool(rules.property_crc and encoder.settings.enabled_append_prop_crc),
        )
        self.sizes = self._sizes()

    def tried(self, trial: Trial, done: Done | None) -> BulkResult:
        """Raises as `run` does; nothing is written."""
        queues, first_rows, _ = self._queues()
        for row, key in zip(first_rows, queues, strict=True):
            _at(trial.next_offset, int(row), key)
        if done is not None:
            done(len(self.columns))
        return BulkResult(len(self.columns), 0, 0)

    def run(self, progress: Done | None) -> BulkResult:
        writer, count = self.writer, len(self.columns)
        writer.guard.check_usable()
        queues, first_rows, queue_of = self._queues()
        rows = self._rows(queue_of)
        biggest = int(self.sizes.max(initial=0))
        out = np.empty(max(CHUNK_BYTES, biggest), np.uint8)
        ends = np.cumsum(self.sizes)
        done = 0
        start = -1
        while done < count:
            with writer.appending() as now:
                # the next offsets are read for each chunk: others may append between two chunks
                next_offsets = np.array(
                    [
                        _at(writer.appender.next_offset, int(row), key)
                        for key, row in zip(queues, first_rows, strict=True)
                    ],
                    np.int64,
                )
                log = writer.log
                before = int(ends[done] - self.sizes[done])
                log.make_room(int(self.sizes[done]))
                room = min(log.room - layouts.BLANK_BYTES, len(out))
                stop = int(np.searchsorted(ends, before + room, side="right"))
                ids = writer.encoder.unique_ids
                to = Destination(log.end, now, next_offsets, ids.time_part(), ids.take(stop - done))
                used = encode_rows(done, stop, rows, self.topics, self.alike, to, out)
                start = log.end if start < 0 else start
                log.write(memoryview(out)[:used])
                for number, key in enumerate(queues):
                    writer.appender.set_next_offset(key, int(next_offsets[number]))
            if progress is not None:
                progress(stop - done)
            done = stop
        end = writer.log.end
        writer.wait_durable(end)
        return BulkResult(count, max(start, 0), end)

    def _sizes(self) -> Int64s:
        """Each record's size in bytes, after all messages were checked."""
        c, encoder = self.columns, self.writer.encoder
        settings = encoder.settings
        body = c.body.lengths()
        most = settings.max_message_size
        said = f"a body of {{}} bytes; maxMessageSize is {most}"
        _refuse(refusals.BodyTooLarge, body, body > most, said)
        said = f"queue_id={{}}: expected 0 to {message.QUEUE_ID_MAX}"
        _refuse(refusals.FieldRange, c.queue_id, c.queue_id < 0, said)
        for name, texts in (("TAGS", c.tags), ("KEYS", c.keys)):
            if len(texts.data) and int(texts.data.min()) <= layouts.PROPERTY_END:
                place = int(np.flatnonzero(texts.data <= layouts.PROPERTY_END)[0])
                row = int(np.searchsorted(texts.ends, place, side="right")) - 1
                value = texts.data[texts.ends[row] : texts.ends[row + 1]].tobytes()
                _at(message.check_property, row, name, value.decode("utf-8", "replace"))
        if encoder.numbering.is_on:
            for row, (at, end) in enumerate(itertools.pairwise(c.properties.ends)):
                if _NAMED in c.properties.data[at:end].tobytes():
                    raise _refused(refusals.MultiDispatch, row, f"{NAMED}: append it by itself")
        properties = self._property_lengths()
        said = f"{{}} bytes of properties; at most {_PROPERTIES_MAX}"
        _refuse(refusals.PropertiesTooLarge, properties, properties > _PROPERTIES_MAX, said)
        topic = self.topics.lengths()[c.topic]
        sizes: Int64s = record_bytes(2 * len(self.alike.host), body, topic, properties)
        most = min(settings.mapped_file_size_commit_log - layouts.BLANK_BYTES, most + _SPARE_BYTES)
        _refuse(
            refusals.MessageTooLarge, sizes, sizes > most, f"a record of {{}} bytes; at most {most}"
        )
        return sizes

    def _property_lengths(self) -> Int64s:
        c = self.columns
        unique = len(b"UNIQ_KEY") + 2 + len(self.alike.unique_prefix) + 12
        made = np.full(len(c), unique, np.int64)
        for name, texts in ((b"TAGS", c.tags), (b"KEYS", c.keys)):
            lengths = texts.lengths()
            made += np.where(lengths > 0, lengths + len(name) + 2, 0)
        made -= not self.alike.text_ends
        raw = c.properties.lengths()
        lengths = np.where(raw > 0, raw, made)
        return lengths + layouts.CRC_PROPERTY_BYTES if self.alike.crc else lengths

    def _queues(self) -> tuple[list[tuple[str, int]], Int64s, Int64s]:
        """The queues of the messages, the first row of each queue, and each message's queue."""
        c = self.columns
        packed = c.topic.astype(np.int64) << 32 | c.queue_id.astype(np.int64) & 0xFFFFFFFF
        distinct, first, queue_of = np.unique(packed, return_index=True, return_inverse=True)
        queues = [
            (c.topics[int(key) >> 32], int(np.int32(np.uint32(int(key) & 0xFFFFFFFF))))
            for key in distinct
        ]
        return queues, first, queue_of.astype(np.int64)

    def _rows(self, queue_of: Int64s) -> BulkRows:
        c = self.columns
        return BulkRows(
            c.topic, c.queue_id, c.flag, c.born_timestamp, c.body, c.tags, c.keys, c.properties,
            self.sizes, queue_of,
        )  # fmt: skip


def _refuse(kind: type[refusals.Refused], values: Any, wrong: Any, said: str) -> None:
    """Raise an error that says `said` of the first wrong value, if there is one."""
    rows = np.flatnonzero(wrong)
    if len(rows):
        raise _refused(kind, rows[0], said.format(values[rows[0]]))


def _refused(kind: type[refusals.Refused], row: Any, reason: str) -> refusals.Refused:
    error = kind(reason)
    error.row = int(row)
    return error


def _at(check: Callable[..., Any], row: int, *given: Any) -> Any:
    """The result of a check; a Refused that it raises gets the number of this row."""
    try:
        return check(*given)
    except refusals.Refused as error:
        error.row = row
        raise


def _checked_topic(topic: str, encoder: Encoder) -> bytes:
    message.check_sendable(topic)
    raw = message.check_topic(topic, encoder.settings.max_topic_length)
    v2 = encoder.profile.long_topics and encoder.settings.auto_message_version_on_topic_len
    if needs_v2(len(raw)) and not v2:
        raise refusals.TopicTooLong(
            f"topic {topic[:40]!r}...: over 127 characters needs V2 (5.1.0)"
        )
    return raw
