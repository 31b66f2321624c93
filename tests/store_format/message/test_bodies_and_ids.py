"""Bodies as their producer gave them: each compression, hostile ones, and batches taken apart."""

import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.store_format.message import bodies
from reput.store_format.message.ids import BadMessageId, UniqueIds, parse_message_id
from tests.memory import Peak

TEXT = b"the same words again and again. " * 400
CAP = 1 << 20
FLAGS = {"zlib": 0x301, "lz4": 0x101, "zstd": 0x201}


def compressed(codec: str, body: bytes = TEXT) -> bytes:
    if codec == "zlib":
        return zlib.compress(body)
    out = pa.BufferOutputStream()
    with pa.CompressedOutputStream(out, codec) as stream:
        stream.write(body)
    made: bytes = out.getvalue().to_pybytes()
    return made


def test_without_a_type_zlib_is_meant_and_without_the_flag_a_body_is_given_as_it_stands() -> None:
    assert bodies.decompressed(compressed("zlib"), 0x1, CAP) == TEXT
    with pytest.raises(bodies.NotCompressed, match="zlib"):
        bodies.decompressed(compressed("lz4"), 0x1, CAP)
    body = compressed("zlib")
    assert bodies.decompressed(body, 0x300, CAP) is body  # the type alone says nothing
    assert bodies.decompressed(b"", 0x1, CAP) == b""  # RocketMQ leaves an empty one alone


@pytest.mark.parametrize("kind", [4, 5, 6, 7])
def test_a_type_that_rocketmq_does_not_know(kind: int) -> None:
    with pytest.raises(bodies.UnknownCompression, match=str(kind)):
        bodies.decompressed(TEXT, 0x1 | kind << 8, CAP)


@pytest.mark.parametrize("codec", FLAGS)
@pytest.mark.parametrize("damage", ["plain", "cut", "head", "one byte", "flipped"])
def test_a_flag_on_what_is_not_compressed_is_reported(codec: str, damage: str) -> None:
    whole = compressed(codec)
    body = {"plain": TEXT, "cut": whole[:-3], "head": whole[:8], "one byte": b"x",
            "flipped": bytes([whole[0] ^ 0xFF]) + whole[1:]}[damage]  # fmt: skip
    with pytest.raises(bodies.NotCompressed) as error:
        bodies.decompressed(body, FLAGS[codec], CAP)
    assert codec in str(error.value)
    assert "words" not in str(error.value)


@pytest.mark.parametrize("codec", FLAGS)
def test_never_more_than_the_cap_comes_out(codec: str) -> None:
    whole = compressed(codec)
    assert bodies.decompressed(whole, FLAGS[codec] | 0x30, len(TEXT)) == TEXT
    assert bodies.decompressed(compressed(codec, b""), FLAGS[codec], 0) == b""
    for cap in (len(TEXT) - 1, 100, 0):
        with pytest.raises(bodies.BodyPastCap) as error:
            bodies.decompressed(whole, FLAGS[codec], cap)
        assert error.value.start == TEXT[:cap]


@pytest.mark.parametrize("codec", FLAGS)
def test_a_small_body_that_would_become_a_gigabyte_takes_no_memory(codec: str) -> None:
    bomb = compressed(codec, bytes(1 << 28))  # of zeros
    peak = Peak()
    with pytest.raises(bodies.BodyPastCap):
        bodies.decompressed(bomb, FLAGS[codec], CAP)
    assert peak.added < 100


@given(st.binary(max_size=60), st.sampled_from([0x1, 0x101, 0x201, 0x301, 0x401]))
def test_any_bytes_give_a_body_or_an_error_of_ours(body: bytes, flag: int) -> None:
    magic = {0x101: b"\x04\x22\x4d\x18", 0x201: b"\x28\xb5\x2f\xfd", 0x1: b"\x78\x9c"}
    for head in (b"", magic.get(flag, b"")):
        with suppress(bodies.BodyError):
            assert len(bodies.decompressed(head + body, flag, 1000)) <= 1000


def batch(*messages: tuple[int, bytes, bytes]) -> bytes:
    """MessageDecoder.encodeMessages."""
    made = b""
    for flag, body, properties in messages:
        size = 22 + len(body) + len(properties)
        made += struct.pack(">iiiii", size, 0, 0, flag, len(body)) + body
        made += struct.pack(">h", len(properties)) + properties
    return made


def test_a_batch_has_both_flags_and_is_taken_apart_and_what_is_left_of_it_reported() -> None:
    messages = [(3, b"one", b"a\x011\x02"), (0, b"", b""), (-1, b"three", b"b\x012\x02")]
    assert list(bodies.inner_messages(batch(*messages))) == [
        bodies.InnerMessage(*one) for one in messages
    ]
    assert list(bodies.inner_messages(b"")) == []
    found: list[Any] = []
    with pytest.raises(bodies.BrokenBatch, match="offset 25 of the body: totalSize"):
        found.extend(bodies.inner_messages(batch((0, b"one", b"")) + b"\0" * 19))
    assert len(found) == 1  # the one before it is whole
    assert [bodies.is_batch(flag) for flag in (0x0, 0x40, 0x80, 0xC0, 0xC1)] == [False] * 3 + [
        True
    ] * 2


@pytest.mark.parametrize(("at", "value", "says"), [
    (16, -1, "offset 0 of the body: bodyLength: -1"),
    (16, 1 << 30, "offset 0 of the body: bodyLength"),
    (25 + 16, 6, "offset 25 of the body: bodyLength: 6"),
    (25 + 16, 4, "offset 25 of the body: propertiesLength"),
])  # fmt: skip
def test_a_broken_batch_says_where(at: int, value: int, says: str) -> None:
    body = bytearray(batch((0, b"one", b""), (0, b"three", b"")))
    struct.pack_into(">i", body, at, value)
    with pytest.raises(bodies.BrokenBatch, match=says):
        list(bodies.inner_messages(bytes(body)))


# --- Message ids, taken apart by hand: each has two readings, and only the store tells which holds.
MARCH_2024 = 1_709_251_200_000  # 2024-03-01T00:00:00Z; that February had 29 days
YEAR_1, YEAR_10000 = -62_135_596_800_000, 253_402_300_800_000  # where datetime begins and ends
ERA = (400 * 365 + 97) * 86_400_000  # 400 years
FEBRUARY_MS = 29 * 86_400_000
V6 = "20010DB8" + "0" * 23 + "1"


def test_an_id_is_a_host_and_an_offset_or_address_process_loader_time_and_counter() -> None:
    place, _ = parse_message_id("7F00000100002A9F00000000000005F8")
    assert place.store_host == bytes((127, 0, 0, 1, 0, 0, 0x2A, 0x9F))
    assert place.physical_offset == 1528
    assert str(place) == "broker 127.0.0.1:10911, physical offset 1528"
    assert parse_message_id("7F00000100002A9F" + "F" * 16)[0].physical_offset == -1  # Java's long
    _, client = parse_message_id("0A000002FFFEDEADBEEF95586C00FFFF")
    assert client == ("10.0.0.2", 0xFFFE, 0xDEADBEEF, 0x95586C00, 0xFFFF)
    assert client.milliseconds > 1 << 31  # unsigned: a signed int wraps after 24.8 days
    assert "class loader DEADBEEF" in str(client)
    place, client = parse_message_id(V6 + "00002A9F" + "0" * 15 + "7")
    assert (len(place.store_host), place.physical_offset) == (20, 7)
    assert str(place) == "broker [2001:db8::1]:10911, physical offset 7"
    assert (client.address, client.process, client.counter) == ("2001:db8::1", 0, 7)
    assert parse_message_id("7f00000100002a9f" + "0" * 16) == parse_message_id(
        "7F00000100002A9F" + "0" * 16
    )


@pytest.mark.parametrize("text", ["", "7F", "0" * 30, "0" * 31, "0" * 33, "0" * 34,
                                  "0" * 54, "0" * 58, "G" * 32, "0" * 31 + "-",
                                  " " + "0" * 32, "00 " * 16, "\u0660" * 32])  # fmt: skip
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(BadMessageId, match="32 or 56 hexadecimal digits"):
        parse_message_id(text)


@pytest.mark.parametrize(("stored", "milliseconds", "made"), [
    (MARCH_2024 + 5000, 4000, MARCH_2024 + 4000), (MARCH_2024, 0, MARCH_2024),
    (MARCH_2024 + 5000, FEBRUARY_MS - 1, MARCH_2024 - 1),  # stored just after the month ended
    (MARCH_2024 - 1, FEBRUARY_MS - 9, MARCH_2024 - 9),
    (1_704_067_200_000, 31 * 86_400_000 - 1, 1_704_067_199_999),  # over the end of 2023
    (MARCH_2024 + 5000 - ERA, FEBRUARY_MS - 1, MARCH_2024 - 1 - ERA),  # 1624
    (MARCH_2024 + 5000 + 30 * ERA, 4000, MARCH_2024 + 4000 + 30 * ERA),
    (253_402_300_799_999, 5, YEAR_10000 - 31 * 86_400_000 + 5), (YEAR_10000, 5, YEAR_10000 + 5),
    (YEAR_10000, 31 * 86_400_000 - 1, YEAR_10000 - 1), (YEAR_1, 0, YEAR_1),
    (YEAR_1, 31 * 86_400_000 - 7, YEAR_1 - 7), (YEAR_1 - 8, 31 * 86_400_000 - 9, YEAR_1 - 9),
])  # fmt: skip
def test_the_month_is_that_of_the_store_time_or_the_one_before(stored, milliseconds, made) -> None:
    _, client = parse_message_id(f"{'0' * 20}{milliseconds:08X}0000")
    assert client.made_at(stored) == made


@pytest.mark.parametrize("stored", [-(1 << 63), -(1 << 62), 1 << 62, (1 << 63) - 1])
def test_a_damaged_store_time_has_a_month_too(stored: int) -> None:
    _, client = parse_message_id("0" * 32)
    assert 0 <= stored - client.made_at(stored) < 31 * 86_400_000


# --- UNIQ_KEYs digit by digit: address, process, class loader, time in the month, counter.
DAY = 86_400_000
FEBRUARY_2024 = 1_706_745_600_000  # 2024-02-01T00:00:00Z


def ids(*times: int, host: str = "10.0.0.2:10911", process: int = 1, loader: int = 2) -> UniqueIds:
    """A maker whose clock shows these times, one a look."""
    clock: Callable[[], int] = iter(times).__next__
    return UniqueIds(clock, host, process, loader)


def test_a_made_id_has_its_parts_its_counter_wraps_and_its_month_goes_with_the_clock() -> None:
    made = ids(FEBRUARY_2024 + 0xABC, process=0x1BEEF, loader=-2).next()
    assert made == "0A000002" + "BEEF" + "FFFFFFFE" + "00000ABC" + "0000"  # the port is no part
    made = ids(FEBRUARY_2024, host="[2001:db8::1]:10911").next()
    assert made == "20010DB8" + "0" * 23 + "1" + "0001" + "00000002" + "0" * 12
    maker = ids(*[FEBRUARY_2024] * 3, FEBRUARY_2024 + 1)
    assert [maker.next()[-4:], maker.next()[-4:]] == ["0000", "0001"]
    assert maker.take(0xFFFE) == 2
    assert [maker.next()[-12:], maker.next()[-12:]] == ["000000000000", "000000010001"]
    maker = ids(FEBRUARY_2024, FEBRUARY_2024)
    assert maker.take(3) == 0
    assert maker.next()[-4:] == "0003"
    assert maker.take(0) == 4
    assert maker.next()[-4:] == "0004"
    march = FEBRUARY_2024 + 29 * DAY
    maker = ids(FEBRUARY_2024 + 5, march - 1, march, march - 1, FEBRUARY_2024 - DAY)
    assert [maker.time_part() for _ in range(5)] == [5, 29 * DAY - 1, 0, 29 * DAY - 1, 30 * DAY]
