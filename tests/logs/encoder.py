"""Writes CommitLog records and segments (RocketMQ's MessageExtEncoder and CommitLog)."""

import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

MAGIC = {1: 0xDAA320A7, 2: 0xDAA320AB}
MAGIC_BLANK = 0xCBD43194
BLANK_SIZE = 8
HOST = bytes((127, 0, 0, 1)) + struct.pack(">i", 10911)


@dataclass(frozen=True)
class Message:
    """A record's fields. `None` is computed; anything else is written as it is, right or wrong."""

    topic: str | bytes = "T"
    queue_id: int = 0
    queue_offset: int = 0
    body: bytes = b""
    properties: bytes = b""
    store_timestamp: int = 1_700_000_000_000
    sys_flag: int = 0
    version: int = 1
    flag: int = 0
    born_timestamp: int = 1_700_000_000_000
    born_host: bytes = HOST
    store_host: bytes = HOST
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    # Appends `__CRC32#` (5.2.0 on), which covers the record less its own 20 bytes.
    crc_property: bool = False
    size: int | None = None
    magic: int | None = None
    body_crc: int | None = None
    body_length: int | None = None
    topic_length: int | None = None
    properties_length: int | None = None
    physical_offset: int | None = None


def properties(*pairs: tuple[str | bytes, str | bytes]) -> bytes:
    """Names and values as MessageDecoder.messageProperties2String writes them."""
    return b"".join(_bytes(name) + b"\x01" + _bytes(value) + b"\x02" for name, value in pairs)


def encode(message: Message, physical_offset: int) -> bytes:
    """The record's bytes at its place in the log."""
    topic = _bytes(message.topic)
    text = message.properties + bytes(20 if message.crc_property else 0)
    crc = zlib.crc32(message.body) & 0x7FFF_FFFF if message.body else 0
    record = bytearray(8)
    record += struct.pack(">iiiqqiq", _given(message.body_crc, crc), message.queue_id, message.flag,
        message.queue_offset, _given(message.physical_offset, physical_offset), message.sys_flag,
        message.born_timestamp)  # fmt: skip
    record += message.born_host
    record += struct.pack(">q", message.store_timestamp)
    record += message.store_host
    record += struct.pack(">iq", message.reconsume_times, message.prepared_transaction_offset)
    record += struct.pack(">i", _given(message.body_length, len(message.body))) + message.body
    length_format = ">b" if message.version == 1 else ">h"
    record += struct.pack(length_format, _given(message.topic_length, len(topic))) + topic
    record += struct.pack(">h", _given(message.properties_length, len(text))) + text
    size = _given(message.size, len(record))
    struct.pack_into(">iI", record, 0, size, _given(message.magic, MAGIC[message.version]))
    if message.crc_property:
        # MessageDecoder.createCrc32: ten digits, the least significant first.
        digits = f"{zlib.crc32(record[:-20]) & 0x7FFF_FFFF:010d}"[::-1]
        record[-20:] = properties(("__CRC32#", digits))
    return bytes(record)


def build_log(
    messages: Iterable[Message],
    segment_size: int,
    first_offset: int = 0,
    filler: bytes = b"\0",
    extra_segments: int = 0,
) -> dict[int, bytes]:
    """Segments by first offset, each of `segment_size`: BLANKs at their ends, a zero tail last.

    `filler` repeats over the bytes behind a BLANK's first eight, which RocketMQ leaves as they
    were. `extra_segments` are all zeros, as preallocation leaves one.
    """
    segments = [bytearray()]
    for message in messages:
        start = first_offset + (len(segments) - 1) * segment_size
        record = encode(message, start + len(segments[-1]))
        if len(record) + BLANK_SIZE > segment_size:
            raise ValueError(f"a record of {len(record)} bytes, segments of {segment_size}")
        space = segment_size - len(segments[-1])
        if len(record) + BLANK_SIZE > space:
            rest = (filler * space)[: space - BLANK_SIZE]
            segments[-1] += struct.pack(">iI", space, MAGIC_BLANK) + rest
            segments.append(bytearray())
            record = encode(message, start + segment_size)
        segments[-1] += record
    segments += [bytearray() for _ in range(extra_segments)]
    return {first_offset + number * segment_size: bytes(segment.ljust(segment_size, b"\0"))
        for number, segment in enumerate(segments)}  # fmt: skip


def key_with_hash(prefix: str, target: int) -> str:
    """A key whose Java hash, behind `prefix`, is `target`: seven characters from `0` to `N`.

    The hash is a number in base 31 modulo 2^32, and seven digits reach every value of it.
    """
    value = 0
    units = prefix.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        value = 31 * value + (units[at] << 8 | units[at + 1])
    lowest = sum(ord("0") * 31**place for place in range(7))
    rest = (target - value * 31**7 - lowest) % (1 << 32)
    digits = [rest // 31**place % 31 for place in reversed(range(7))]
    return "".join(chr(ord("0") + digit) for digit in digits)


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def _given(value: int | None, computed: int) -> int:
    return computed if value is None else value
