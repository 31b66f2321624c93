"""Dispatch: which queues and which index keys one message goes to, and the index puts packed for
the builders.

In RocketMQ, CommitLog.checkMessageAndReturnSize computes tagsCode and the numbers of a batch,
ConsumeQueue.putMessagePositionInfoWrapper and MultiDispatchUtils choose the queues, and
IndexService.buildIndex makes the keys. A put has its queue and queueOffset, but not yet its
position in the queue: `runs.number_run` decides that later.
"""

from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format.dispatch.queue_table import (
    BATCH_TOPIC,
    LMQ_PREFIX,
    RETRY_TOPIC,
    SCHEDULE_TOPIC,
    SYSTEM_TOPIC,
    TIMER_TOPIC,
    BatchTopics,
    QueueTable,
    find_queue,
    starts_with,
)
from reput.store_format.faults import Fault
from reput.store_format.kernels.bytes import find_byte
from reput.store_format.kernels.java_text import add_unit, hash_code, parse_integer
from reput.store_format.kernels.jit import inlined, kernel
from reput.store_format.layouts import (
    INDEX_PUT,
    SYS_TRANSACTION_COMMIT,
    SYS_TRANSACTION_MASK,
    SYS_TRANSACTION_ROLLBACK,
)
from reput.store_format.log.properties import (
    DELAY,
    INNER_BASE,
    INNER_NUM,
    KEYS,
    MULTI_DISPATCH,
    MULTI_OFFSETS,
    TAGS,
    UNIQ_KEY,
    ValueSpans,
    find_properties,
)
from reput.store_format.log.records import property_crc_matches

Bytes = npt.NDArray[np.uint8]
Rows = npt.NDArray[Any]
Row = Any  # one RECORD_ROW, as a kernel sees it

# The settings and profile fields that dispatch depends on (see profiles and settings).
DispatchRules = namedtuple(
    "DispatchRules",
    "split_properties index index_tags batch_queues multi_dispatch lmq skips_retry skips_slash "
    "skips_delays skips_system property_crc zero_property_crc",
)
# Where dispatch writes its puts; index puts are packed (see below). used: int64, the numbers of
# (queue puts, hashes, messages). Kernels are given the arrays one by one, as those of a QueueTable.
Puts = namedtuple("Puts", "queue hashes messages used")


class Dispatching(NamedTuple):
    """What a dispatch goes by, and what it fills.

    delays: int64, milliseconds of each delay level; spans: int64, shape (len(properties.NAMES), 2),
    working memory for find_properties.
    """

    rules: DispatchRules
    delays: npt.NDArray[np.int64]
    batches: BatchTopics
    table: QueueTable
    puts: Puts
    spans: ValueSpans


_NONE = int(Fault.NONE)
_NEED_MORE = int(Fault.NEED_MORE)
_PROPERTY_CRC = int(Fault.PROPERTY_CRC)
_DELAY_LEVEL = int(Fault.DELAY_LEVEL)
_BATCH_NUMBERS = int(Fault.BATCH_NUMBERS)

_SPACE, _HASH_SIGN, _COMMA, _SLASH, _T = 0x20, 0x23, 0x2C, 0x2F, 0x54


@inlined
def _has(spans: ValueSpans, name: int) -> bool:
    return bool(spans[name, 0] >= 0)


@inlined
def _tags_code(
    buf: Bytes, row: Row, spans: ValueSpans, flags: int, delays: npt.NDArray[np.int64]
) -> tuple[int, int]:
    """(fault, tagsCode): the hash of the tags, or on the schedule topic the time of delivery.

    delays: int64, milliseconds of levels 1, 2, ...; a higher level counts as the highest one.
    """
    code: Any = np.int64(0)
    if _has(spans, TAGS):
        code = np.int64(hash_code(buf, spans[TAGS, 0], spans[TAGS, 1], np.int32(0)))
    if flags & SCHEDULE_TOPIC and _has(spans, DELAY):
        well_formed, level = parse_integer(buf, spans[DELAY, 0], spans[DELAY, 1], 32)
        if not well_formed:
            return _DELAY_LEVEL, 0
        level = min(level, len(delays))
        if level > 0:
            code = row.storeTimestamp + delays[level - 1]
    return _NONE, code


@inlined
def batch_numbers(buf: Bytes, spans: ValueSpans, queue_offset: int) -> tuple[bool, int, int]:
    """(whether they are numbers in range, the first queueOffset, messages) of a batch queue's
    record (CommitLog.setBatchSizeIfNeeded).
    """
    sound, base = True, queue_offset
    messages: Any = np.int64(1)
    if _has(spans, INNER_NUM) and _has(spans, INNER_BASE):
        base_ok, base = parse_integer(buf, spans[INNER_BASE, 0], spans[INNER_BASE, 1], 64)
        size_ok, messages = parse_integer(buf, spans[INNER_NUM, 0], spans[INNER_NUM, 1], 16)
        sound = base_ok and size_ok
    return sound, base, messages


@inlined
def _put_queue(
    queue_puts: Any,
    used: Any,
    row: Row,
    queue: int,
    queue_offset: int,
    tags_code: int,
    batch_size: int,
) -> None:
    put = queue_puts[used[0]]
    put.physicalOffset = row.physicalOffset
    put.queueOffset = queue_offset
    put.tagsCode = tags_code
    put.storeTimestamp = row.storeTimestamp
    put.size = row.size
    put.queue = queue
    put.batchSize = batch_size
    put.reserved = 0
    used[0] += 1


@kernel
def _is_blank(buf: Bytes, at: int, end: int) -> bool:
    """StringUtils.isBlank, for ASCII: nothing but white space."""
    for i in range(at, end):
        byte = buf[i]
        if not (byte == _SPACE or 0x09 <= byte <= 0x0D or 0x1C <= byte <= 0x1F):
            return False
    return True


@kernel
def _parts(buf: Bytes, at: int, end: int) -> int:
    """How many parts Java's split(",") yields: trailing empty parts are dropped."""
    while end > at and buf[end - 1] == _COMMA:
        end -= 1
    count = 1 if end > at else 0
    for i in range(at, end):
        if buf[i] == _COMMA:
            count += 1
    return count


@kernel
def _multi_dispatch(  # noqa: PLR0913 (a kernel takes its arrays one by one)
    buf: Bytes,
    row: Row,
    spans: ValueSpans,
    tags_code: int,
    rules: DispatchRules,
    batch_names: Bytes,
    batch_ends: Any,
    slots: Any,
    queues: Any,
    names: Bytes,
    names_used: Any,
    queue_puts: Any,
    used: Any,
) -> None:
    """The further queues that INNER_MULTI_DISPATCH names (ConsumeQueue.multiDispatchLmqQueue)."""
    at, end = spans[MULTI_DISPATCH]
    offset_at, offset_end = spans[MULTI_OFFSETS]
    if _is_blank(buf, at, end) or _is_blank(buf, offset_at, offset_end):
        return
    count = _parts(buf, at, end)
    if count != _parts(buf, offset_at, offset_end):
        return
    for _ in range(count):
        stop, offset_stop = (
            find_byte(buf, at, end, _COMMA),
            find_byte(buf, offset_at, offset_end, _COMMA),
        )
        skip = False
        if rules.skips_slash:
            for i in range(at, stop):
                skip |= buf[i] == _SLASH
        if not skip:
            well_formed, queue_offset = parse_integer(buf, offset_at, offset_stop, 64)
            if not well_formed:
                return  # Long.parseLong throws here, so RocketMQ dispatches none of the rest
            queue_id = row.queueId
            if rules.lmq and starts_with(buf, at, stop, LMQ_PREFIX):
                queue_id = 0
            queue = find_queue(
                slots, queues, names, names_used, buf, at, stop,
                hash_code(buf, at, stop, np.int32(0)), queue_id, batch_names, batch_ends,
            )  # fmt: skip
            _put_queue(queue_puts, used, row, queue, queue_offset, tags_code, 1)
        at, offset_at = stop + 1, offset_stop + 1


@inlined
def _put_key(buf: Bytes, at: int, end: int, seed: np.int32, hashes: Any, used: Any) -> None:
    """Put one index key. seed: the hash of the text before the key (`topic#`)."""
    hashed = np.int64(hash_code(buf, at, end, seed))
    # IndexFile.indexKeyHashMethod: Math.abs of Integer.MIN_VALUE is negative and counts as 0
    hashes[used[1]] = 0 if hashed == -(1 << 31) else abs(hashed)
    used[1] += 1


@inlined
def _put_keys(
    buf: Bytes, row: Row, topic: np.int32, spans: ValueSpans, rules: DispatchRules, hashes: Any,
    messages: Any, used: Any,
) -> None:  # fmt: skip
    """The message's index keys, in the order of IndexService.buildIndex; topic: its hash."""
    first = used[1]
    seed = add_unit(topic, _HASH_SIGN)
    if _has(spans, UNIQ_KEY):
        _put_key(buf, spans[UNIQ_KEY, 0], spans[UNIQ_KEY, 1], seed, hashes, used)
    if _has(spans, KEYS):
        at, end = spans[KEYS]
        while at < end:
            stop = find_byte(buf, at, end, _SPACE)
            if stop > at:
                _put_key(buf, at, stop, seed, hashes, used)
            at = stop + 1
    if rules.index_tags and _has(spans, TAGS):
        tag_seed = add_unit(add_unit(seed, _T), _HASH_SIGN)  # IndexService: topic#T#tags
        _put_key(buf, spans[TAGS, 0], spans[TAGS, 1], tag_seed, hashes, used)
    if used[1] > first:
        hashes[first] = ~hashes[first]
        message = messages[used[2]]
        message.physicalOffset = row.physicalOffset
        message.storeTimestamp = row.storeTimestamp
        used[2] += 1


@kernel
def dispatch(buf: Bytes, rows: Rows, dispatching: Dispatching) -> tuple[int, int]:
    """Dispatch rows in order; returns (rows dispatched, fault of the next one).

    The fault NEED_MORE means that the table and puts must be emptied before the next row.
    """
    rules, delays, batches, table, puts, spans = dispatching
    batch_names, batch_ends = batches
    slots, queues, names, names_used = table
    queue_puts, hashes, messages, used = puts
    for i in range(len(rows)):
        row = rows[i]
        # All keys and queues that a message of this length may name must fit into the outputs: at
        # most every second byte of the properties names another key or queue.
        most = row.propertiesLength + 3
        if (
            used[0] + most > len(queue_puts)
            or used[1] + most > len(hashes)
            or names_used[0] + most > len(queues)
            or names_used[1] + row.topicLength + most > len(names)
        ):
            return i, _NEED_MORE
        properties_end = row.propertiesAt + row.propertiesLength
        find_properties(buf, row.propertiesAt, properties_end, rules.split_properties, spans)
        if rules.property_crc and not property_crc_matches(
            buf, row, spans, rules.zero_property_crc
        ):
            return i, _PROPERTY_CRC
        topic_end = row.topicAt + row.topicLength
        topic_hash = hash_code(buf, row.topicAt, topic_end, np.int32(0))
        queue = find_queue(
            slots, queues, names, names_used, buf, row.topicAt, topic_end, topic_hash, row.queueId,
            batch_names, batch_ends,
        )  # fmt: skip
        flags = queues[queue].flags
        fault, tags_code = _tags_code(buf, row, spans, flags, delays)
        base: int = row.queueOffset
        batch_size: Any = np.int64(1)
        if rules.batch_queues:
            numbers_sound, base, batch_size = batch_numbers(buf, spans, row.queueOffset)
            if fault == _NONE and not numbers_sound:  # on any topic
                fault = _BATCH_NUMBERS
        if fault != _NONE:
            return i, fault
        transaction = row.sysFlag & SYS_TRANSACTION_MASK
        if transaction == 0 or transaction == SYS_TRANSACTION_COMMIT:
            if flags & BATCH_TOPIC:
                if base >= 0 and batch_size >= 0:
                    _put_queue(queue_puts, used, row, queue, base, tags_code, batch_size)
            else:
                _put_queue(queue_puts, used, row, queue, row.queueOffset, tags_code, 1)
                if (
                    rules.multi_dispatch
                    and _has(spans, MULTI_DISPATCH)
                    and _has(spans, MULTI_OFFSETS)
                    and not (rules.skips_retry and flags & RETRY_TOPIC)
                    and not (rules.skips_delays and flags & (SCHEDULE_TOPIC | TIMER_TOPIC))
                    and not (rules.skips_system and flags & SYSTEM_TOPIC)
                ):
                    _multi_dispatch(
                        buf, row, spans, tags_code, rules, batch_names, batch_ends,
                        slots, queues, names, names_used, queue_puts, used,
                    )  # fmt: skip
        if rules.index and transaction != SYS_TRANSACTION_ROLLBACK:
            _put_keys(buf, row, topic_hash, spans, rules, hashes, messages, used)
    return len(rows), _NONE


# ---
# Index puts, packed as a scan hands them to the builders of index files.
#
# A message may have many keys, so its offset and time are kept once and not once for each key.
# hashes: int32, the keyHash of each put, in order; inverted (~hash), so negative, for a message's
# first put. messages: INDEX_MESSAGE, one for each message with puts, in order.

Int32s = npt.NDArray[np.int32]


def unpacked(hashes: Int32s, messages: Any) -> Any:
    """INDEX_PUT rows, one for each hash. messages: from that of the first hash on. Copies."""
    puts = np.empty(len(hashes), INDEX_PUT)
    _unpack(hashes, messages, puts)
    return puts


@kernel
def _unpack(hashes: Int32s, messages: Any, puts: Any) -> None:
    number = -1 if len(hashes) and hashes[0] < 0 else 0
    for i in range(len(hashes)):
        puts[i].keyHash = hashes[i]
        if hashes[i] < 0:
            puts[i].keyHash = ~hashes[i]
            number += 1
        puts[i].physicalOffset = messages[number].physicalOffset
        puts[i].storeTimestamp = messages[number].storeTimestamp


def key_hashes(hashes: Int32s) -> Int32s:
    """Each put's keyHash. Copies."""
    return hashes ^ (hashes >> 31)


def firsts(hashes: Int32s) -> int:
    """How many of the puts are the first put of their message."""
    return int(np.count_nonzero(hashes < 0))
