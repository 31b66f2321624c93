"""Fields of a damaged record that are put back: which bytes, and which witness knows them.

Nothing here guesses. A field is put back where a checksum finds the flipped bit, or where the field
can have but one value (a magic number, the record's own place). It is also put back where a queue
misses just this message. All other fields stay as they are.
"""

import zlib
from typing import NamedTuple

from reput.store_format.layouts import (
    CRC_PROPERTY_BYTES,
    MAGIC_V1,
    MAGIC_V2,
    MIDDLE_AT,
    RECORD_AT,
    RECORD_HEAD_BYTES,
    RECORD_MIDDLE_BYTES,
    SYS_TRANSACTION_MASK,
)
from reput.store_format.message.encode import crc_property

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
    end = len(record) - CRC_PROPERTY_BYTES
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
    middle = at - (body_at - RECORD_MIDDLE_BYTES)
    if middle < 0 and at >= RECORD_HEAD_BYTES:
        return "bornHost/storeTimestamp/storeHost"
    fields, place = (MIDDLE_AT, middle) if middle >= 0 else (RECORD_AT, at)
    return str([name for name, start in fields._asdict().items() if start <= place][-1])


def magic(place: int, raw: bytes) -> Patch | None:
    """The magic number that one flipped bit makes of these four bytes."""
    value = int.from_bytes(raw, "big")
    able = [each & 0xFFFFFFFF for each in (MAGIC_V1, MAGIC_V2)]
    near = [each for each in able if (each ^ value).bit_count() == 1]
    if len(near) != 1:
        return None
    now = near[0].to_bytes(4, "big")
    return Patch(place, place + RECORD_AT.magic, "magic", raw, now, "the record's lengths")


def own_place(place: int, raw: bytes, size: int, behind: bytes) -> Patch | None:
    """The record's place as physicalOffset, if one flipped bit made it another.

    size: the record's bytes; behind: the next record's physicalOffset, or its first bytes where the
    segment ends. None where the next record's physicalOffset follows the wrong one: then the file
    has the name of another segment, and all its records stand where others belong.
    """
    said = int.from_bytes(raw, "big")
    if (said ^ place).bit_count() != 1 or int.from_bytes(behind, "big") == said + size:
        return None
    now, at = place.to_bytes(8, "big"), place + RECORD_AT.physicalOffset
    return Patch(place, at, "physicalOffset", raw, now, "the record's place")


def plain(place: int, raw: bytes, by: str) -> Patch | None:
    """SysFlag without its transaction type, if one flipped bit made that type."""
    value = int.from_bytes(raw, "big")
    if (value & SYS_TRANSACTION_MASK).bit_count() != 1:
        return None
    now = (value & ~SYS_TRANSACTION_MASK).to_bytes(4, "big")
    return Patch(place, place + RECORD_AT.sysFlag, "sysFlag", raw, now, by)


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
        fields.append(("queueId", RECORD_AT.queueId, raw))
    if said.queue_offset is not None:
        raw = said.queue_offset.to_bytes(8, "big", signed=True)
        fields.append(("queueOffset", RECORD_AT.queueOffset, raw))
    return [
        Patch(said.place, said.place + at, name, was, now, said.by)
        for name, at, now in fields
        if (was := record[at : at + len(now)]) != now
    ]
