"""Records from messages (MessageExtEncoder, CommitLog.DefaultAppendMessageCallback).

A `Draft` is a record without queue offset, physical offset and store time, which are known only
when it is appended. `finish` fills them in.
"""

import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from reput.store_format import layouts
from reput.store_format.log.records import needs_v2
from reput.store_format.message import refusals
from reput.store_format.message.hooks import DELAY, TIMERS, DelayRules, delay_level, place_delayed
from reput.store_format.message.ids import Clock, UniqueIds
from reput.store_format.message.message import (
    NAME_END,
    VALUE_END,
    Message,
    check_body,
    check_keys,
    check_property,
    check_topic,
    check_types,
    encode_host,
    encode_properties,
    parse_properties,
    wrong_type,
)
from reput.store_format.message.multi_dispatch import NAMED, Further, Numbering
from reput.store_format.release.profiles import Profile
from reput.store_format.release.settings import WriterSettings

_CODES = {">i4": "i", ">i8": "q"}


def _packer(layout: np.dtype[Any], first: str = "", last: str = "") -> struct.Struct:
    """Packs the fields of a layout, or those from `first` to `last`, which follow each other."""
    names = layout.names
    assert names is not None
    start = names.index(first) if first else 0
    stop = names.index(last) + 1 if last else len(names)
    return struct.Struct(">" + "".join(_CODES[layout[name].str] for name in names[start:stop]))


START = _packer(layouts.RECORD_HEAD, "totalSize", "flag")
BORN = _packer(layouts.RECORD_HEAD, "sysFlag", "bornTimestamp")
_PLACE = _packer(layouts.RECORD_HEAD, "queueOffset", "physicalOffset")
_MIDDLE = _packer(layouts.RECORD_MIDDLE)
_BLANK = _packer(layouts.BLANK)
_PROPERTIES_MAX = 0x7FFF  # Short.MAX_VALUE
_SPARE_BYTES = 64 << 10  # MessageExtEncoder: a record may be this much over maxMessageSize
# what Python raises if a field's value is of a wrong type, or does not fit
_WRONG_TYPE = (TypeError, AttributeError, struct.error)
_NAMED = NAMED.encode()
_BATCH_MAP_CAPACITY = 16  # the client's own map: a batch's properties are not read again
# MessageDecoder.encodeMessage: a message's bytes in a batch without body and properties
_BATCH_FIXED_BYTES = 4 + 4 + 4 + 4 + 4 + 2


class Draft(NamedTuple):
    """A record without its place and store time. Made by `Encoder`."""

    topic: str
    queue_id: int
    size: int  # bytes
    start: bytes  # up to queueOffset
    born: bytes  # from sysFlag to bornHost
    tail: bytes  # from storeHost to the properties
    store_host: bytes
    crc_property: bool
    wait: bool
    counted: bool  # takes a position in its queue: neither prepared nor rolled back
    # its further queues, and what makes the draft with their numbers (see multi_dispatch)
    further: Further | None = None
    numbered: Callable[[list[int | None]], "Draft"] | None = None


def finish(draft: Draft, queue_offset: int, physical_offset: int, store_timestamp: int) -> bytes:
    """The record's bytes at its place."""
    record = b"".join(
        (
            draft.start,
            _PLACE.pack(queue_offset, physical_offset),
            draft.born,
            store_timestamp.to_bytes(layouts.TIMESTAMP_BYTES, "big"),
            draft.tail,
        )
    )
    return record + crc_property(record) if draft.crc_property else record


def record_tail(
    store_host: bytes, reconsume_times: int, prepared_offset: int, body: bytes, magic: int,
    topic: bytes, properties: bytes, reserved: int,
) -> bytes:  # fmt: skip
    """A record from storeHost to its properties. reserved: bytes of properties added later."""
    return b"".join(
        (
            store_host,
            _MIDDLE.pack(reconsume_times, prepared_offset, len(body)),
            body,
            len(topic).to_bytes(
                layouts.TOPIC_LENGTH_V1 if magic == layouts.MAGIC_V1 else layouts.TOPIC_LENGTH_V2,
                "big",
            ),
            topic,
            (len(properties) + reserved).to_bytes(layouts.PROPERTIES_LENGTH, "big"),
            properties,
        )
    )


def crc_property(record: bytes) -> bytes:
    """The property `__CRC32#` of all bytes before it (MessageDecoder.createCrc32)."""
    return crc_property_of(zlib.crc32(record) & 0x7FFFFFFF)


def crc_property_of(crc: int) -> bytes:
    """The property `__CRC32#` with this CRC (31 bits), least significant digit first."""
    digits = f"{crc:010d}"[::-1]
    return f"__CRC32#{NAME_END}{digits}{VALUE_END}".encode()


def blank(size: int) -> bytes:
    """The eight bytes that end a segment with `size` bytes left."""
    return _BLANK.pack(size, layouts.MAGIC_BLANK)


def message_id(store_host: bytes, physical_offset: int) -> str:
    """The offsetMsgId: store host and physical offset in hexadecimal (MessageDecoder)."""
    return (store_host + physical_offset.to_bytes(8, "big")).hex().upper()


@dataclass
class Encoder:
    """Checks messages and makes drafts of them, under one store's settings."""

    settings: WriterSettings
    profile: Profile
    clock: Clock
    unique_ids: UniqueIds
    host: str  # the writer's own, for messages without a host

    def __post_init__(self) -> None:
        self._delays = DelayRules(
            len(self.settings.delays), self.profile.timer_messages,
            self.settings.timer_wheel_enable, self.settings.timer_precision_ms,
            self.settings.timer_max_delay_sec * 1000,
        )  # fmt: skip
        self._waits = {DELAY, *TIMERS} if self._delays.timers else {DELAY}
        self.adds_crc = self.profile.property_crc and self.settings.enabled_append_prop_crc
        self._body_max = self.settings.max_message_size
        self._topic_max = self.settings.max_topic_length
        self._capacity = self.profile.property_map_capacity
        self._text_ends = self.profile.property_text_ends
        self.numbering = Numbering(self.profile, self.settings)
        self._record_max = self.settings.mapped_file_size_commit_log - layouts.BLANK_BYTES
        self._host = encode_host(self.host)

    def draft(
        self, message: Message, born_host: bytes | None = None, store_host: bytes | None = None
    ) -> Draft:
        """A message's draft, after RocketMQ's checks. Raises Refused.

        born_host, store_host: in place of the message's, encoded as in a record.
        """
        try:
            return self._single(message, born_host, store_host)
        except _WRONG_TYPE:
            check_types(message)
            raise

    def _single(self, message: Message, born_host: bytes | None, store_host: bytes | None) -> Draft:
        hosts = (
            born_host or (encode_host(message.born_host) if message.born_host else self._host),
            store_host or (encode_host(message.store_host) if message.store_host else self._host),
        )
        given = message.properties
        if isinstance(given, bytes) and not message.delay_level:
            return self._draft(message, message.topic, message.queue_id, given, hosts)
        properties = self.properties(message)
        topic, queue_id = message.topic, message.queue_id
        if message.transaction in (0, layouts.SYS_TRANSACTION_COMMIT):
            topic, queue_id = self.place(topic, queue_id, properties)
        raw = encode_properties(properties, self._capacity, self._text_ends)
        return self._draft(message, topic, queue_id, raw, hosts)

    def place(self, topic: str, queue_id: int, properties: dict[str, str]) -> tuple[str, int]:
        """The topic and queue that a message is put into; see place_delayed. Raises Refused."""
        check_topic(topic, self._topic_max)
        if self._waits.isdisjoint(properties):
            return topic, queue_id
        return place_delayed(topic, queue_id, properties, self._delays, self.clock())

    def is_delayed(self, message: Message) -> bool:
        """Whether a message goes through the schedule topic. Raises DelayInvalid."""
        given = message.properties
        if isinstance(given, bytes) or not given:
            return message.delay_level > 0
        return message.delay_level > 0 or delay_level(given) > 0

    def batch(self, messages: list[Message]) -> list[Draft]:
        """Drafts of messages of one topic and queue (MessageExtBatch). Raises Refused."""
        try:
            return self._batch(messages)
        except _WRONG_TYPE:
            for message in messages:
                check_types(message)
            raise

    def _batch(self, messages: list[Message]) -> list[Draft]:
        drafts = []
        total = 0
        for message in messages:
            given = message.properties
            if not isinstance(given, bytes):
                given = encode_properties(
                    self.properties(message), _BATCH_MAP_CAPACITY, self._text_ends
                )
            hosts = (
                encode_host(message.born_host or self.host),
                encode_host(message.store_host or self.host),
            )
            drafts.append(
                self._draft(message, message.topic, message.queue_id, given, hosts, number=False)
            )
            total += _BATCH_FIXED_BYTES + len(message.body) + len(given)
        if total > self._body_max:
            raise refusals.MessageTooLarge(
                f"a batch of {total} bytes; maxMessageSize is {self._body_max}"
            )
        return drafts

    def properties(self, message: Message) -> dict[str, str]:
        """All of a message's properties by name, with a new UNIQ_KEY if it has none."""
        given = message.properties
        if not given:
            properties = {}
        elif isinstance(given, bytes):
            properties = parse_properties(given, self.profile.split_properties)
        elif not isinstance(given, Mapping):
            raise wrong_type("properties", "a mapping or bytes", given)
        else:
            properties = dict(given)
            if self.adds_crc:
                properties.pop("__CRC32#", None)  # made anew, as in CommitLog.asyncPutMessage
            for name, value in properties.items():
                check_property(name, value)
        if message.keys:
            check_keys(message.keys)
            keys = message.keys
            properties["KEYS"] = keys if isinstance(keys, str) else " ".join(keys)  # setKeys
        if message.tags:
            if not isinstance(message.tags, str):
                raise wrong_type("tags", "text", message.tags)
            properties["TAGS"] = message.tags
        if not message.wait:
            properties["WAIT"] = "false"
        if message.delay_level > 0:
            properties["DELAY"] = str(message.delay_level)
        if message.unique_key is not None:
            if not isinstance(message.unique_key, str):
                raise wrong_type("unique_key", "text", message.unique_key)
            properties["UNIQ_KEY"] = message.unique_key
        elif "UNIQ_KEY" not in properties:
            properties["UNIQ_KEY"] = self.unique_ids.next()
        return properties

    def _draft(
        self, message: Message, topic: str, queue_id: int, properties: bytes,
        hosts: tuple[bytes, bytes], number: bool = True,
    ) -> Draft:  # fmt: skip
        """number: handle the further queues that the message names. It is False for a batch's
        messages, which have none, and for a message that has its numbers already.
        """
        if number and self.numbering.is_on and _NAMED in properties:
            return self._to_be_numbered(message, topic, queue_id, properties, hosts)
        body = message.body
        topic_bytes = check_topic(topic, self._topic_max)
        check_body(body, self._body_max)
        magic = layouts.MAGIC_V1
        if needs_v2(len(topic_bytes)):
            if not (self.profile.long_topics and self.settings.auto_message_version_on_topic_len):
                raise refusals.TopicTooLong(
                    f"topic {topic[:40]!r}...: over 127 characters needs V2 (5.1.0)"
                )
            magic = layouts.MAGIC_V2
        if self.adds_crc and properties and properties[-1] != 2:
            properties += VALUE_END.encode()
        reserved = layouts.CRC_PROPERTY_BYTES if self.adds_crc else 0
        if len(properties) + reserved > _PROPERTIES_MAX:
            raise refusals.PropertiesTooLarge(
                f"{len(properties) + reserved} bytes of properties; at most {_PROPERTIES_MAX}"
            )
        if b"\0" in properties:
            check_property("raw", "\0")
        born_host, store_host = hosts
        sys_flag = message.sys_flag | message.transaction
        if len(born_host) == layouts.IPV6_HOST:
            sys_flag |= layouts.SYS_BORN_HOST_V6
        if len(store_host) == layouts.IPV6_HOST:
            sys_flag |= layouts.SYS_STORE_HOST_V6
        if (
            sys_flag & (layouts.SYS_BORN_HOST_V6 | layouts.SYS_STORE_HOST_V6)
            and not self.profile.ipv6_hosts
        ):
            raise refusals.HostFamily(f"RocketMQ {self.profile.release} has no IPv6 hosts")
        born = message.born_timestamp
        tail = record_tail(
            store_host, message.reconsume_times, message.prepared_offset, body, magic,
            topic_bytes, properties, reserved,
        )  # fmt: skip
        size = (
            layouts.RECORD_HEAD_BYTES
            + len(born_host)
            + layouts.TIMESTAMP_BYTES
            + len(tail)
            + reserved
        )
        draft = Draft(
            topic, queue_id, size,
            START.pack(size, magic, zlib.crc32(body) & 0x7FFFFFFF, queue_id, message.flag),
            BORN.pack(sys_flag, self.clock() if born is None else born) + born_host,
            tail, store_host, self.adds_crc, message.wait,
            sys_flag & layouts.SYS_TRANSACTION_MASK in (0, layouts.SYS_TRANSACTION_COMMIT),
        )  # fmt: skip
        if size > min(self._record_max, self._body_max + _SPARE_BYTES):
            raise refusals.MessageTooLarge(
                f"a record of {size} bytes; a segment takes {self._record_max}, "
                f"maxMessageSize allows {self._body_max + _SPARE_BYTES}"
            )
        return draft

    def _to_be_numbered(
        self, message: Message, topic: str, queue_id: int, properties: bytes,
        hosts: tuple[bytes, bytes],
    ) -> Draft:  # fmt: skip
        draft = self._draft(message, topic, queue_id, properties, hosts, number=False)
        pairs = parse_properties(properties, self.profile.split_properties)
        further = self.numbering.of(topic, queue_id, message.transaction, pairs)
        if further is None:
            return draft
        self.numbering.check_folders(further)
        if self.adds_crc:
            pairs.pop("__CRC32#", None)

        def numbered(numbers: list[int | None]) -> Draft:
            made = self.numbering.numbered(pairs, numbers)
            raw = encode_properties(made, self._capacity, self._text_ends, checked=False)
            draft = self._draft(message, topic, queue_id, raw, hosts, number=False)
            if self.profile.multi_keeps_wait and draft.size > self._body_max:
                raise refusals.MessageTooLarge(
                    f"a record of {draft.size} bytes with further queues; maxMessageSize is "
                    f"{self._body_max}"
                )
            return draft

        return draft._replace(further=further, numbered=numbered)
