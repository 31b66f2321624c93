"""Walks a CommitLog as RocketMQ's recovery does (CommitLog.recoverAbnormally)."""

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from mmap import mmap

from tests.reference.javatext import decode_utf8, hash_code, parse_integer, split, wrap32, wrap64
from tests.reference.rules import Rules, parse_version

MAGIC_V1 = 0xDAA320A7
MAGIC_V2 = 0xDAA320AB
MAGIC_BLANK = 0xCBD43194
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
# `__CRC32#`, 0x01, ten digits, 0x02: the property's bytes at the record's end.
CRC_PROPERTY_LENGTH = 20

Segment = bytes | bytearray | mmap


class BadRecordError(Exception):
    """A record that recovery does not accept; the text says why."""


@dataclass(frozen=True)
class Message:
    """One record, as CommitLog.checkMessageAndReturnSize hands it to the dispatchers."""

    physical_offset: int
    size: int
    version: int
    queue_id: int
    queue_offset: int
    sys_flag: int
    store_timestamp: int
    body: bytes
    topic: str
    properties: dict[str, str] | None
    tags_code: int
    # For a batch queue: INNER_BASE and INNER_NUM, else the queue offset and 1.
    base_offset: int
    batch_size: int

    @property
    def transaction(self) -> int:
        """0 none, 4 prepared, 8 commit, 12 rollback (MessageSysFlag)."""
        return self.sys_flag & 0xC

    def property(self, name: str) -> str | None:
        return self.properties.get(name) if self.properties else None


class _Reader:
    """A java.nio.ByteBuffer over the rest of a segment: reading past its end is an error."""

    def __init__(self, data: Segment, position: int) -> None:
        self.data = data
        self.position = position

    def remaining(self) -> int:
        return len(self.data) - self.position

    def take(self, count: int) -> bytes:
        if count < 0 or count > self.remaining():
            raise BadRecordError("a length reaches past the record")
        self.position += count
        return self.data[self.position - count : self.position]

    def number(self, code: str) -> int:
        return struct.unpack(">" + code, self.take(struct.calcsize(code)))[0]


def parse_properties(text: str, rules: Rules) -> dict[str, str]:
    """MessageDecoder.string2messageProperties, in its form up to 4.9.0 and from 4.9.1."""
    properties = {}
    if not rules.since(4, 9, 1):
        for item in split(text, "\x02"):
            pair = split(item, "\x01")
            if len(pair) == 2:
                properties[pair[0]] = pair[1]
        return properties
    for item in text.split("\x02"):
        name, _, value = item.partition("\x01")
        if name and value:
            properties[name] = value
    return properties


def read_record(segment: Segment, position: int, place: int, rules: Rules) -> Message | None:
    """CommitLog.checkMessageAndReturnSize at `position`; None for a BLANK, the file's end.

    `place` is the position's physical offset. That a record must name it is this project's own
    rule: RocketMQ never looks.
    """
    reader = _Reader(segment, position)
    if reader.remaining() < 8:
        raise BadRecordError("the segment ends without a BLANK")
    total_size = reader.number("i")
    # From 5.3.2 the size is compared first, so that only from then on a BLANK must fit.
    if rules.since(5, 3, 2) and reader.remaining() < wrap32(total_size - 4):
        raise BadRecordError("the size reaches past the segment")
    magic = reader.number("I")
    if magic == MAGIC_BLANK:
        return None
    if magic == 0 and total_size == 0:
        raise BadRecordError("zeros")
    if magic != MAGIC_V1 and not (magic == MAGIC_V2 and rules.since(5, 1, 0)):
        raise BadRecordError("unknown magic")
    if total_size < 0 or total_size - 8 > reader.remaining():
        raise BadRecordError("the size reaches past the segment")

    body_crc, queue_id, _flag = reader.number("i"), reader.number("i"), reader.number("i")
    queue_offset, physical_offset = reader.number("q"), reader.number("q")
    sys_flag = reader.number("i")
    reader.take(8)  # bornTimestamp
    ipv6 = rules.since(4, 6, 0)
    reader.take(20 if ipv6 and sys_flag & 0x10 else 8)  # bornHost
    store_timestamp = reader.number("q")
    reader.take(20 if ipv6 and sys_flag & 0x20 else 8)  # storeHost
    reader.take(4 + 8)  # reconsumeTimes, preparedTransactionOffset

    body = reader.take(max(reader.number("i"), 0))
    check_crc = rules.flag("checkCRCOnRecover")
    whole_crc = rules.since(5, 2, 0) and rules.flag("forceVerifyPropCRC")
    if check_crc and not whole_crc and body and zlib.crc32(body) & 0x7FFF_FFFF != body_crc:
        raise BadRecordError("body CRC")

    topic = decode_utf8(reader.take(reader.number("b" if magic == MAGIC_V1 else "h")))
    properties = None
    if (properties_length := reader.number("h")) > 0:
        properties = parse_properties(decode_utf8(reader.take(properties_length)), rules)
    tags_code = _tags_code(topic, properties or {}, store_timestamp, rules)
    if reader.position - position != total_size:
        raise BadRecordError("the parts do not add up to the size")
    if check_crc and whole_crc:
        check_whole_crc(segment, position, total_size, properties or {}, rules)
    base_offset, batch_size = _batch(properties or {}, queue_offset, rules)
    if physical_offset != place:
        raise BadRecordError("physicalOffset is not the record's place")
    return Message(physical_offset, total_size, 1 if magic == MAGIC_V1 else 2, queue_id,
        queue_offset, sys_flag, store_timestamp, body, topic, properties, tags_code, base_offset,
        batch_size)  # fmt: skip


def _tags_code(topic: str, properties: dict[str, str], store_timestamp: int, rules: Rules) -> int:
    """MessageExtBrokerInner.tagsString2tagsCode, or the delivery time of a delayed message."""
    level = properties.get("DELAY")
    if topic == SCHEDULE_TOPIC and level is not None:
        try:
            delay = rules.delay(parse_integer(level, 32))
        except ValueError:
            raise BadRecordError("DELAY is not a number") from None
        if delay is not None:
            return wrap64(store_timestamp + delay)
    return hash_code(properties.get("TAGS", ""))


def check_whole_crc(
    segment: Segment, position: int, size: int, properties: dict[str, str], rules: Rules
) -> None:
    """`forceVerifyPropCRC`: the property's number, least significant digit first.

    RocketMQ takes any character for a digit, in 32 bits that wrap.
    """
    expected = -1
    if (text := properties.get("__CRC32#")) is not None:
        expected = 0
        units = text.encode("utf-16-be", "surrogatepass")
        for at in range(len(units) - 2, -1, -2):
            expected = wrap32(expected * 10 + (units[at] << 8 | units[at + 1]) - ord("0"))
    if expected < (0 if rules.since(5, 3, 2) else 1):
        raise BadRecordError("no CRC property")
    covered = segment[position : position + size - CRC_PROPERTY_LENGTH]
    if zlib.crc32(covered) & 0x7FFF_FFFF != expected:
        raise BadRecordError("record CRC")


def _batch(properties: dict[str, str], queue_offset: int, rules: Rules) -> tuple[int, int]:
    """CommitLog.setBatchSizeIfNeeded: base offset and count, on any topic; 5.0.0 on."""
    base, count = properties.get("INNER_BASE"), properties.get("INNER_NUM")
    if not rules.since(5, 0, 0) or base is None or count is None:
        return queue_offset, 1
    try:
        return parse_integer(base, 64), parse_integer(count, 16)
    except ValueError:
        raise BadRecordError("INNER_BASE or INNER_NUM is not a number") from None


class Walk:
    """Iterates over a log's messages; `end` and `stop` then tell where and why it ended."""

    def __init__(self, segments: Mapping[int, Segment], rules: Rules) -> None:
        self._segments = segments
        self._rules = rules
        self.end = min(segments, default=0)
        self.stop = "no segments"

    def __iter__(self) -> Iterator[Message]:
        for base in sorted(self._segments):
            segment = self._segments[base]
            position = 0
            while True:
                self.end = base + position
                try:
                    message = read_record(segment, position, self.end, self._rules)
                except BadRecordError as error:
                    self.stop = str(error)
                    return
                if message is None:
                    break
                yield message
                position += message.size
            self.stop = "end of segments"


def records(
    segments: Mapping[int, Segment],
    settings: Mapping[str, object] | None = None,
    version: str = "5.3.3",
) -> list[Message]:
    """The messages RocketMQ's recovery would accept, in physical order."""
    return list(Walk(segments, Rules(parse_version(version), settings or {}, {})))
