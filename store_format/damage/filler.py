"""Makes fillers: records that RocketMQ accepts and that replace a damaged range of the log exactly.

Where it is known which message was lost, a filler has the message's topic, queue and queueOffset,
and the tag REPUT_LOST. So the broker's own dispatch gives every later message its old position.
The rest of the range is filled with records of the topic REPUT_LOST. They have the transaction type
of a rolled-back message, which RocketMQ puts into no queue.
"""

import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from reput.store_format.layouts import (
    BLANK_BYTES,
    CRC_PROPERTY_BYTES,
    MAGIC_V1,
    MAGIC_V2,
    SYS_TRANSACTION_ROLLBACK,
)
from reput.store_format.log.records import needs_v2, record_bytes
from reput.store_format.message.encode import BORN, START, Draft, blank, finish, record_tail

LOST_TAG = "REPUT_LOST"
LOST_TOPIC = "REPUT_LOST"
# A longer range takes several records, because a broker holds a whole body when it checks it.
FILLER_BYTES = 1 << 20
HOST = bytes(8)  # 0.0.0.0:0
_TAGS = f"TAGS\x01{LOST_TAG}\x02".encode()
# The broker's own services read these topics and send each message on to its REAL_TOPIC.
_SENT_ON = ("SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC")
_REAL = f"REAL_TOPIC\x01{LOST_TOPIC}\x02REAL_QID\x010\x02".encode()


class LostPositions(NamedTuple):
    """Positions [first, first + many) of a queue, whose messages are lost."""

    topic: str
    queue_id: int
    first: int
    many: int


class Stamp(NamedTuple):
    """What fillers copy from neighbours: store time (ms), and whether they have a `__CRC32#`."""

    timestamp: int
    crc_property: bool


def least_bytes(topic: str, crc: bool) -> int:
    """The shortest filler of a topic, without its tag."""
    raw = topic.encode()
    properties = len(_needed(topic)) + (CRC_PROPERTY_BYTES if crc else 0)
    return int(record_bytes(2 * len(HOST), 0, len(raw), properties))


def own_least_bytes(crc: bool) -> int:
    """The shortest range that a record of our own fits into."""
    return least_bytes("R", crc)


def fill(
    start: int, length: int, lost: Sequence[LostPositions], stamp: Stamp, ends_segment: bool
) -> Iterator[bytes]:
    """The bytes of [start, start + length): one filler for each lost position, then the rest.

    ends_segment: the range ends where the segment does, so that a BLANK ends it. Raises
    ValueError where the positions do not fit, or the range is too short for any record.
    """
    room = length - (BLANK_BYTES if ends_segment else 0)
    need = _need(lost, stamp)
    if need > room and stamp.crc_property:  # without `__CRC32#` more positions can be kept
        stamp = Stamp(stamp.timestamp, False)
        need = _need(lost, stamp)
    spare = room - need
    if spare < 0:
        raise ValueError(f"{need} bytes of fillers do not fit into {length}")
    last = sum(each.many for each in lost)
    at = start
    end = start + length
    for each in lost:
        for offset in range(each.first, each.first + each.many):
            last -= 1
            tag = _TAGS if spare >= len(_TAGS) else b""
            spare -= len(tag)
            body = 0
            if last == 0 and not ends_segment and spare < FILLER_BYTES:
                body, spare = spare, 0
            record = _filler(each.topic, each.queue_id, offset, at, tag, body, stamp)
            at += len(record)
            yield record
    if ends_segment:
        yield from _to_the_end(at, end, stamp, at == start)
    elif at < end:
        yield from own(at, end - at, stamp)


def _need(lost: Sequence[LostPositions], stamp: Stamp) -> int:
    return sum(least_bytes(each.topic, stamp.crc_property) * each.many for each in lost)


def _to_the_end(at: int, end: int, stamp: Stamp, first: bool) -> Iterator[bytes]:
    """A BLANK; and before it a record, if the segment would have none: recovery wants one."""
    if first and end - at >= BLANK_BYTES + own_least_bytes(stamp.crc_property):
        record = _own(at, own_least_bytes(stamp.crc_property), stamp)
        at += len(record)
        yield record
    yield blank(end - at)


def own(at: int, length: int, stamp: Stamp) -> Iterator[bytes]:
    """Records of REPUT_LOST that fill [at, at + length). Raises ValueError if that is too short."""
    least = own_least_bytes(stamp.crc_property)
    if length < least:
        raise ValueError(f"{length} bytes are too few for a record")
    end = at + length
    while at < end:
        size = min(end - at, FILLER_BYTES)
        if 0 < end - at - size < least:
            size -= least
        yield _own(at, size, stamp)
        at += size


def _own(at: int, size: int, stamp: Stamp) -> bytes:
    topic = LOST_TOPIC
    if size < least_bytes(topic, stamp.crc_property):
        topic = "R"
    body = size - least_bytes(topic, stamp.crc_property)
    return _filler(topic, 0, 0, at, b"", body, stamp, SYS_TRANSACTION_ROLLBACK)


def _needed(topic: str) -> bytes:
    return _REAL if topic in _SENT_ON else b""


def _filler(  # noqa: PLR0913 (a record's fields)
    topic: str, queue_id: int, offset: int, at: int, tag: bytes, body_bytes: int, stamp: Stamp,
    sys_flag: int = 0,
) -> bytes:  # fmt: skip
    raw = topic.encode()
    magic = MAGIC_V2 if needs_v2(len(raw)) else MAGIC_V1
    body = bytes(body_bytes)
    reserved = CRC_PROPERTY_BYTES if stamp.crc_property else 0
    tail = record_tail(HOST, 0, 0, body, magic, raw, tag + _needed(topic), reserved)
    size = least_bytes(topic, stamp.crc_property) + len(tag) + body_bytes
    crc = zlib.crc32(body) & 0x7FFFFFFF if body else 0
    draft = Draft(
        topic, queue_id, size, START.pack(size, magic, crc, queue_id, 0),
        BORN.pack(sys_flag, stamp.timestamp) + HOST, tail, HOST, stamp.crc_property, False,
        not sys_flag,
    )  # fmt: skip
    record = finish(draft, offset, at, stamp.timestamp)
    assert len(record) == size
    return record
