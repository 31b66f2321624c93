"""Bytes of a repaired log: fillers in place of damaged ranges, and fields of records put back where
a checksum or another witness knows them.
"""

import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from reput.store_format import layouts
from reput.store_format.log.records import needs_v2, record_bytes
from reput.store_format.message.encode import (
    BORN,
    START,
    Draft,
    blank,
    crc_property,
    finish,
    record_tail,
)

# ---
# Makes fillers: records that RocketMQ accepts and that replace a damaged range of the log exactly.
#
# Where it is known which message was lost, a filler has the message's topic, queue and queueOffset,
# and the tag REPUT_LOST. So the broker's own dispatch gives every later message its old position.
# The rest of the range is filled with records of the topic REPUT_LOST. They have the transaction
# type of a rolled-back message, which RocketMQ puts into no queue.

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
    properties = len(_needed(topic)) + (layouts.CRC_PROPERTY_BYTES if crc else 0)
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
    room = length - (layouts.BLANK_BYTES if ends_segment else 0)
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
    if first and end - at >= layouts.BLANK_BYTES + own_least_bytes(stamp.crc_property):
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
    return _filler(topic, 0, 0, at, b"", body, stamp, layouts.SYS_TRANSACTION_ROLLBACK)


def _needed(topic: str) -> bytes:
    return _REAL if topic in _SENT_ON else b""


def _filler(
    topic: str, queue_id: int, offset: int, at: int, tag: bytes, body_bytes: int, stamp: Stamp,
    sys_flag: int = 0,
) -> bytes:  # fmt: skip
    raw = topic.encode()
    magic = layouts.MAGIC_V2 if needs_v2(len(raw)) else layouts.MAGIC_V1
    body = bytes(body_bytes)
    reserved = layouts.CRC_PROPERTY_BYTES if stamp.crc_property else 0
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


# ---
# Fields of a damaged record that are put back: which bytes, and which witness knows them.
#
# Nothing here guesses. A field is put back where a checksum finds the flipped bit, or where the
# field can have but one value (a magic number, the record's own place). It is also put back where a
# queue misses just this message. All other fields stay as they are.

_SEAL = "__CRC32#"


class Patch(NamedTuple):
    """`now` replaces `was` at the physical offset `at`, in `field` of the record at `place`."""

    place: int
    at: int
    field: str
    was: bytes
    now: bytes
    by: str  # the witness

    def as_json(self) -> dict[str, object]:
        """The patch for a report: each bit, by its byte in the record; bit 7 is the highest."""
        bits = [
            f"byte {self.at - self.place + n}, bit {bit}"
            for n, (one, other) in enumerate(zip(self.was, self.now, strict=True))
            for bit in range(7, -1, -1)
            if (one ^ other) >> bit & 1
        ]
        return {
            "record": self.place, "field": self.field, "was": self.was.hex(),
            "now": self.now.hex(), "bits": bits, "by": self.by,
        }  # fmt: skip


class Testimony(NamedTuple):
    """What a queue knows of the record at `place`; None for a field that it does not know."""

    place: int
    by: str
    topic: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None


def by_checksum(place: int, record: bytes, body_at: int, body_bytes: int) -> Patch | None:
    """The one flipped bit of a record that its `__CRC32#` finds: outside of the body, or in the
    `__CRC32#` itself, if it is one bit away from the right one.

    None where no bit, or more than one, would make it right. The body has a CRC of its own.
    """
    end = len(record) - layouts.CRC_PROPERTY_BYTES
    was, now = record[end:], crc_property(record[:end])
    differing = [(n, a ^ b) for n, (a, b) in enumerate(zip(was, now, strict=True)) if a != b]
    if len(differing) == 1 and differing[0][1].bit_count() == 1:
        n = differing[0][0]
        return Patch(
            place, place + end + n, field_at(end, body_at), was[n : n + 1], now[n : n + 1], _SEAL
        )
    digits = was[len(b"__CRC32#\x01") : -1][::-1]
    if not digits.isdigit():
        return None
    wanted, found = int(digits), []
    for at in (*range(body_at), *range(body_at + body_bytes, end)):
        for bit in range(8):
            changed = record[:at] + bytes([record[at] ^ 1 << bit]) + record[at + 1 : end]
            if zlib.crc32(changed) & 0x7FFFFFFF == wanted:
                found.append((at, bit))
    if len(found) != 1:
        return None
    ((at, bit),) = found
    flipped = record[at : at + 1]
    now = bytes([flipped[0] ^ 1 << bit])
    return Patch(place, place + at, field_at(at, body_at), flipped, now, _SEAL)


def field_at(at: int, body_at: int) -> str:
    """The field that a record's byte `at` belongs to; body_at: where its body begins."""
    if at >= body_at:
        return "topic/properties"
    middle = at - (body_at - layouts.RECORD_MIDDLE_BYTES)
    if middle < 0 and at >= layouts.RECORD_HEAD_BYTES:
        return "bornHost/storeTimestamp/storeHost"
    fields, place = (layouts.MIDDLE_AT, middle) if middle >= 0 else (layouts.RECORD_AT, at)
    return str([name for name, start in fields._asdict().items() if start <= place][-1])


def magic(place: int, raw: bytes) -> Patch | None:
    """The magic number that one flipped bit makes of these four bytes."""
    value = int.from_bytes(raw, "big")
    able = [each & 0xFFFFFFFF for each in (layouts.MAGIC_V1, layouts.MAGIC_V2)]
    near = [each for each in able if (each ^ value).bit_count() == 1]
    if len(near) != 1:
        return None
    now = near[0].to_bytes(4, "big")
    return Patch(place, place + layouts.RECORD_AT.magic, "magic", raw, now, "the record's lengths")


def own_place(place: int, raw: bytes, size: int, behind: bytes) -> Patch | None:
    """The record's place as physicalOffset, if one flipped bit made it another.

    size: the record's bytes; behind: the next record's physicalOffset, or its first bytes where the
    segment ends. None where the next record's physicalOffset follows the wrong one: then the file
    has the name of another segment, and all its records stand where others belong.
    """
    said = int.from_bytes(raw, "big")
    if (said ^ place).bit_count() != 1 or int.from_bytes(behind, "big") == said + size:
        return None
    now, at = place.to_bytes(8, "big"), place + layouts.RECORD_AT.physicalOffset
    return Patch(place, at, "physicalOffset", raw, now, "the record's place")


def plain(place: int, raw: bytes, by: str) -> Patch | None:
    """SysFlag without its transaction type, if one flipped bit made that type."""
    value = int.from_bytes(raw, "big")
    if (value & layouts.SYS_TRANSACTION_MASK).bit_count() != 1:
        return None
    now = (value & ~layouts.SYS_TRANSACTION_MASK).to_bytes(4, "big")
    return Patch(place, place + layouts.RECORD_AT.sysFlag, "sysFlag", raw, now, by)


def by_testimony(said: Testimony, record: bytes, topic_at: int, topic: bytes) -> list[Patch]:
    """Patches of the queueId, queueOffset and topic that differ from what a queue says.

    No patch where the queue's topic is not of the same length: then it is another record.
    """
    wanted = topic if said.topic is None else said.topic.encode()
    if len(wanted) != len(topic):
        return []
    fields = [("topic", topic_at, wanted)]
    if said.queue_id is not None:
        raw = said.queue_id.to_bytes(4, "big", signed=True)
        fields.append(("queueId", layouts.RECORD_AT.queueId, raw))
    if said.queue_offset is not None:
        raw = said.queue_offset.to_bytes(8, "big", signed=True)
        fields.append(("queueOffset", layouts.RECORD_AT.queueOffset, raw))
    return [
        Patch(said.place, said.place + at, name, was, now, said.by)
        for name, at, now in fields
        if (was := record[at : at + len(now)]) != now
    ]
