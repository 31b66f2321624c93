"""Bodies as their producer gave them: each compression, hostile ones, and batches taken apart."""

from __future__ import annotations

import struct
import zlib
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.store_format.message import bodies
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


@pytest.mark.parametrize("codec", FLAGS)
def test_each_compression(codec: str) -> None:
    assert bodies.decompressed(compressed(codec), FLAGS[codec] | 0x30, CAP) == TEXT
    assert bodies.decompressed(compressed(codec, b""), FLAGS[codec], CAP) == b""


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
    assert bodies.decompressed(whole, FLAGS[codec], len(TEXT)) == TEXT
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
