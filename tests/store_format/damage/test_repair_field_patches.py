"""Fields that are put back: only where one witness leaves one value, and one bit made the other."""

import struct

import pytest

from reput.store_format.damage.repair import (
    Patch,
    by_checksum,
    by_testimony,
    field_at,
    magic,
    own_place,
    plain,
)
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


@pytest.mark.parametrize(
    ("at", "field"),
    [
        (0, "totalSize"), (7, "magic"), (8, "bodyCRC"), (15, "queueId"), (16, "flag"),
        (20, "queueOffset"), (35, "physicalOffset"), (39, "sysFlag"), (40, "bornTimestamp"),
        (48, "bornHost/storeTimestamp/storeHost"), (71, "bornHost/storeTimestamp/storeHost"),
        (72, "reconsumeTimes"), (76, "preparedTransactionOffset"), (87, "bodyLength"),
        (TOPIC_AT - 1, "topic/properties"), (len(SEALED) - 21, "topic/properties"),
        (len(SEALED) - 20, "topic/properties"), (len(SEALED) - 2, "topic/properties"),
    ],
)  # fmt: skip
def test_a_seal_finds_the_one_flipped_bit(at: int, field: str) -> None:
    hurt = flipped((at, 0))
    was, now = hurt[at : at + 1], SEALED[at : at + 1]
    found = by_checksum(PLACE, hurt, BODY_AT, len(BODY))
    assert found == Patch(PLACE, PLACE + at, field, was, now, "__CRC32#")
    assert found.as_json()["bits"] == [f"byte {at}, bit 0"]


@pytest.mark.parametrize(
    "bits",
    [
        [(12, 0), (13, 0)],
        [(len(SEALED) - 2, 0), (12, 0)],  # the seal itself may be the wrong one
        [(BODY_AT, 0)],  # a body has a CRC of its own
        [(len(SEALED) - 3, 6), (len(SEALED) - 4, 6)],  # two digits that are none
    ],
)
def test_more_than_that_is_not_put_back(bits: list[tuple[int, int]]) -> None:
    assert by_checksum(PLACE, flipped(*bits), BODY_AT, len(BODY)) is None


def test_with_two_long_hosts_the_middle_is_24_bytes_on() -> None:
    assert field_at(95, 112) == "bornHost/storeTimestamp/storeHost"
    assert (field_at(96, 112), field_at(112, 112)) == ("reconsumeTimes", "topic/properties")


@pytest.mark.parametrize(
    ("raw", "now"),
    [
        (0x5AA320A7, 0xDAA320A7), (0xDAA320A6, 0xDAA320A7), (0xDAA321AB, 0xDAA320AB),
        (0xDAA320A3, None), (0xDAA320AF, None),  # one bit away from both
        (0xDAA320A4, None), (0xDAA320A7, None), (0, None),
    ],
)  # fmt: skip
def test_a_magic_number_of_which_one_bit_differs(raw: int, now: int | None) -> None:
    found = magic(PLACE, raw.to_bytes(4, "big"))
    assert (found and int.from_bytes(found.now, "big")) == now
    assert found is None or (found.at, found.field) == (PLACE + 4, "magic")


@pytest.mark.parametrize(
    ("said", "behind", "put_back"),
    [
        (PLACE ^ 1 << 40, PLACE + 100, True),
        (PLACE ^ 1 << 63, PLACE + 100, True),
        (PLACE ^ 1 << 40, (PLACE ^ 1 << 40) + 100, False),  # the file has another segment's name
        (PLACE ^ 3 << 40, PLACE + 100, False),
        (PLACE, PLACE + 100, False),
    ],
)
def test_a_records_place_unless_the_next_record_agrees_with_the_other(
    said: int, behind: int, put_back: bool
) -> None:
    raw, now = struct.pack(">Q", said), struct.pack(">q", PLACE)
    found = own_place(PLACE, raw, 100, struct.pack(">Q", behind))
    wanted = Patch(PLACE, PLACE + 28, "physicalOffset", raw, now, "the record's place")
    assert found == (wanted if put_back else None)


@pytest.mark.parametrize(("flags", "now"), [(4, 0), (8 | 0x31, 0x31), (12, None), (0x31, None)])
def test_a_transaction_type_of_one_bit(flags: int, now: int | None) -> None:
    found = plain(PLACE, flags.to_bytes(4, "big"), "a queue")
    assert (found and int.from_bytes(found.now, "big")) == now
    assert found is None or (found.at, found.field) == (PLACE + 36, "sysFlag")


@pytest.mark.parametrize(
    ("said", "fields"),
    [
        (Said(PLACE, "q", "Topic", 0, 0), []),
        (Said(PLACE, "q"), []),
        (Said(PLACE, "q", "Tppic", 0, 7), [("topic", TOPIC_AT), ("queueOffset", 20)]),
        (Said(PLACE, "q", None, -1, None), [("queueId", 12)]),
        (Said(PLACE, "q", "Topics", 1, 7), []),  # another length: another record
    ],
)
def test_what_a_queue_says_replaces_only_what_differs(
    said: Said, fields: list[tuple[str, int]]
) -> None:
    patches = by_testimony(said, SEALED, TOPIC_AT, b"Topic")
    assert [(each.field, each.at - PLACE) for each in patches] == fields
    assert all(SEALED[p.at - PLACE :].startswith(p.was) for p in patches)
