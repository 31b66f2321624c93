"""Fields that are put back: only where one witness leaves one value, and one bit made the other."""

import struct
import zlib
from typing import NamedTuple

import pytest

from reput.store_format.damage import repair
from reput.store_format.damage.repair import Testimony as Said
from tests.logs.encoder import Message, encode, properties

PLACE = 5000
BODY_AT = 88  # with IPv4 hosts
BODY = b"a body"
TOPIC_AT = BODY_AT + len(BODY) + 1
SEALED = encode(
    Message(topic="Topic", body=BODY, crc_property=True, properties=properties(("TAGS", "a"))),
    PLACE,
)


def flipped(*bits: tuple[int, int]) -> bytes:
    record = bytearray(SEALED)
    for at, bit in bits:
        record[at] ^= 1 << bit
    return bytes(record)


def test_a_seal_or_a_magic_number_finds_the_one_flipped_bit() -> None:
    for at, field in [(0, "totalSize"), (7, "magic"), (8, "bodyCRC"), (15, "queueId"), (16, "flag"),
        (20, "queueOffset"), (35, "physicalOffset"), (39, "sysFlag"), (40, "bornTimestamp"),
        (48, "bornHost/storeTimestamp/storeHost"), (71, "bornHost/storeTimestamp/storeHost"),
        (72, "reconsumeTimes"), (76, "preparedTransactionOffset"), (87, "bodyLength"),
        (TOPIC_AT - 1, "topic/properties"), (len(SEALED) - 21, "topic/properties"),
        (len(SEALED) - 20, "topic/properties"), (len(SEALED) - 2, "topic/properties")]:  # fmt: skip
        hurt = flipped((at, 0))
        was, now = hurt[at : at + 1], SEALED[at : at + 1]
        found = repair.by_checksum(PLACE, hurt, BODY_AT, len(BODY))
        assert found == repair.Patch(PLACE, PLACE + at, field, was, now, "__CRC32#")
        assert found.as_json()["bits"] == [f"byte {at}, bit 0"]
    for bits in [
        [(12, 0), (13, 0)],
        [(len(SEALED) - 2, 0), (12, 0)],  # the seal itself may be the wrong one
        [(BODY_AT, 0)],  # a body has a CRC of its own
        [(len(SEALED) - 3, 6), (len(SEALED) - 4, 6)],  # two digits that are none
    ]:
        assert repair.by_checksum(PLACE, flipped(*bits), BODY_AT, len(BODY)) is None
    assert repair.field_at(95, 112) == "bornHost/storeTimestamp/storeHost"
    fields = [repair.field_at(at, 112) for at in (96, 112)]
    assert fields == ["reconsumeTimes", "topic/properties"]
    for raw, now in [(0x5AA320A7, 0xDAA320A7), (0xDAA320A6, 0xDAA320A7), (0xDAA321AB, 0xDAA320AB),
        (0xDAA320A3, None),
        (0xDAA320AF, None),  # one bit away from both
        (0xDAA320A4, None), (0xDAA320A7, None), (0, None)]:  # fmt: skip
        found = repair.magic(PLACE, raw.to_bytes(4, "big"))
        assert (found and int.from_bytes(found.now, "big")) == now
        assert found is None or (found.at, found.field) == (PLACE + 4, "magic")
    for flags, now in [(4, 0), (8 | 0x31, 0x31), (12, None), (0x31, None)]:
        found = repair.plain(PLACE, flags.to_bytes(4, "big"), "a queue")
        assert (found and int.from_bytes(found.now, "big")) == now
        assert found is None or (found.at, found.field) == (PLACE + 36, "sysFlag")


def test_a_place_or_what_a_queue_says_replaces_only_what_differs() -> None:
    for said, behind, put_back in [(PLACE ^ 1 << 40, PLACE + 100, True),
        (PLACE ^ 1 << 63, PLACE + 100, True),
        (PLACE ^ 1 << 40, (PLACE ^ 1 << 40) + 100, False),  # the file has another segment's name
        (PLACE ^ 3 << 40, PLACE + 100, False), (PLACE, PLACE + 100, False)]:  # fmt: skip
        raw, now = struct.pack(">Q", said), struct.pack(">q", PLACE)
        found = repair.own_place(PLACE, raw, 100, struct.pack(">Q", behind))
        wanted = repair.Patch(PLACE, PLACE + 28, "physicalOffset", raw, now, "the record's place")
        assert found == (wanted if put_back else None)
    for said, fields in [(Said(PLACE, "q", "Topic", 0, 0), []), (Said(PLACE, "q"), []),
        (Said(PLACE, "q", "Tppic", 0, 7), [("topic", TOPIC_AT), ("queueOffset", 20)]),
        (Said(PLACE, "q", None, -1, None), [("queueId", 12)]),
        (Said(PLACE, "q", "Topics", 1, 7), [])  # another length: another record
        ]:  # fmt: skip
        patches = repair.by_testimony(said, SEALED, TOPIC_AT, b"Topic")
        assert [(each.field, each.at - PLACE) for each in patches] == fields
        assert all(SEALED[p.at - PLACE :].startswith(p.was) for p in patches)


# --- Fillers: their bytes are exactly the range's, and each is a record that RocketMQ accepts.
START = 7000
BARE, FILLER_SEALED = repair.Stamp(1_700_000_000_123, False), repair.Stamp(1_700_000_000_123, True)
TAG = b"TAGS\x01REPUT_LOST\x02"


class Read(NamedTuple):
    """A record's fields, at the offsets of docs/formats/commitlog.md."""

    topic: str
    queue_offset: int
    flags: int
    properties: bytes


def read(record: bytes, place: int, stamp: repair.Stamp = BARE) -> Read:
    size, magic, crc, _, _, offset, said, flags = struct.unpack_from(">iIiiiqqi", record)
    assert (size, said, struct.unpack_from(">q", record, 56)[0]) == (
        len(record), place, stamp.timestamp)  # fmt: skip
    (body,) = struct.unpack_from(">i", record, 84)
    assert crc == (zlib.crc32(record[88 : 88 + body]) & 0x7FFFFFFF if body else 0)
    v2 = magic == 0xDAA320AB
    assert v2 or magic == 0xDAA320A7
    at = 88 + body + 1 + v2
    topic = int.from_bytes(record[88 + body : at], "big")
    (length,) = struct.unpack_from(">h", record, at + topic)
    assert at + topic + 2 + length == size
    text = record[at + topic + 2 :]
    if stamp.crc_property:
        digits = f"{zlib.crc32(record[:-20]) & 0x7FFFFFFF:010d}"[::-1].encode()
        assert text.endswith(b"__CRC32#\x01" + digits + b"\x02")
        text = text[:-20]
    return Read(record[at : at + topic].decode(), offset, flags, text)


def records(length: int, *lost: repair.LostPositions, stamp: repair.Stamp = BARE) -> list[Read]:
    at, found = START, []
    for record in repair.fill(START, length, lost, stamp, False):
        found.append(read(record, at, stamp))
        at += len(record)
    assert at == START + length
    return found


def test_a_filler_is_as_short_as_its_topic_lets_it_and_a_blank_ends_the_segment() -> None:
    for topic, crc, size in [("T", False, 92), ("T", True, 112), ("長", False, 94),
        ("L" * 127, False, 218),
        ("L" * 128, False, 220),  # topicLength takes two bytes
        ("SCHEDULE_TOPIC_XXXX", False, 91 + 19 + 33)  # and REAL_TOPIC, REAL_QID
        ]:  # fmt: skip
        assert repair.least_bytes(topic, crc) == size
        stamp = FILLER_SEALED if crc else BARE
        (found,) = records(size, repair.LostPositions(topic, 3, 8, 1), stamp=stamp)
        assert (found.topic, found.queue_offset) == (topic, 8)
    for spare, tags in [(0, 0), (15, 0), (16, 1), (31, 1), (32, 2), (33, 2), (300, 2)]:
        assert len(TAG) == 16
        found = records(2 * 92 + spare, repair.LostPositions("T", 3, 8, 2))
        assert [(r.topic, r.queue_offset, r.flags) for r in found] == [("T", 8, 0), ("T", 9, 0)]
        assert [r.properties for r in found] == [TAG] * tags + [b""] * (2 - tags)
    # Alone only where no record fits: recovery wants one.
    for length, lost, sizes in [(8, 0, [8]), (99, 0, [99]), (100, 0, [92, 8]),
        (5000, 0, [92, 4908]), (100, 1, [92, 8]), (116, 1, [108, 8]),
        (117, 1, [108, 9])]:  # fmt: skip
        positions = [repair.LostPositions("T", 0, 5, lost)] if lost else []
        *found, blank = repair.fill(START, length, positions, BARE, True)
        assert blank == struct.pack(">iI", sizes[-1], 0xCBD43194)
        assert [*map(len, found), sizes[-1]] == sizes
    for length, lost, ends in [(91, 1, False), (99, 1, True), (91, 0, False), (7, 0, True)]:
        positions = [repair.LostPositions("T", 0, 5, lost)] if lost else []
        with pytest.raises(ValueError, match="bytes"):
            list(repair.fill(START, length, positions, BARE, ends))
    # Two sealed fillers have 224 bytes.
    for length, sealed in ((224, True), (223, False)):
        found = b"".join(
            repair.fill(START, length, [repair.LostPositions("T", 0, 0, 2)], FILLER_SEALED, False)
        )
        assert len(found) == length
        assert (b"__CRC32#" in found) is sealed


@pytest.mark.parametrize("stamp", [BARE, FILLER_SEALED], ids=["bare", "sealed"])
@pytest.mark.parametrize("over", [0, 1, 91, 92, 200, repair.FILLER_BYTES + 5])
def test_what_is_lost_of_no_queue_is_rolled_back_and_no_record_is_long(over: int, stamp) -> None:
    length = repair.FILLER_BYTES + over
    found = list(repair.own(START, length, stamp))
    assert sum(map(len, found)) == length
    assert max(map(len, found)) <= repair.FILLER_BYTES
    at = START
    for record in found:
        about = read(record, at, stamp)
        at += len(record)
        assert (about.flags, about.properties) == (0xC, b"")
        assert about.topic == (
            "REPUT_LOST" if len(record) >= 101 + 20 * stamp.crc_property else "R"
        )
