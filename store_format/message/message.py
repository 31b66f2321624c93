"""A message as a producer hands it over, RocketMQ's checks of it, and its properties as text."""

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from reput.store_format.java import decode, hash_map_order
from reput.store_format.message import refusals
from reput.store_format.names import RETRY_PREFIX, UnsafeName
from reput.store_format.names import check_topic as check_folder

# TopicValidator; MixAll.RETRY_GROUP_TOPIC_PREFIX
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
# From 5.4.0 on for these, with transRocksDBEnable and transWriteOriginTransHalfEnable=false.
ROCKSDB_HALF_TOPIC = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"
ROCKSDB_OP_TOPIC = "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"
CHECK_MAX_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
TIMER_TOPIC = "rmq_sys_wheel_timer"  # TimerMessageStore.TIMER_TOPIC
_FORBIDDEN = frozenset(
    {
        SCHEDULE_TOPIC,
        HALF_TOPIC,
        OP_TOPIC,
        ROCKSDB_HALF_TOPIC,
        ROCKSDB_OP_TOPIC,
        CHECK_MAX_TOPIC,
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
    }
)
QUEUE_ID_MAX = 0x7FFFFFFF
_RETRY_TOPIC_MAX = 255  # HookUtils.MAX_TOPIC_LENGTH
_TOPIC = re.compile(r"[%|a-zA-Z0-9_-]+").fullmatch

NAME_END = "\x01"
VALUE_END = "\x02"
_NUL = "\0"  # a sector lost in a crash reads as NULs: no text may have one (see recovery)

# A mapping of names to values, or bytes that are taken as they are.
Properties = Mapping[str, str] | bytes | None


@dataclass(slots=True)
class Message:
    """One message. Times in milliseconds; hosts are `address:port`, IPv6 as `[address]:port`.

    properties: a mapping is written in the order of the broker's HashMap, with KEYS, TAGS, DELAY,
    WAIT and UNIQ_KEY from their own fields; bytes (`name 01 value 02`, repeated) are written as
    they are, and then nothing is added.
    """

    topic: str
    body: bytes
    queue_id: int = 0
    tags: str = ""
    keys: str | Sequence[str] = ""
    properties: Properties = None
    flag: int = 0
    delay_level: int = 0  # 1, 2, ...: through SCHEDULE_TOPIC_XXXX; 0: not delayed
    transaction: int = 0  # layouts.SYS_TRANSACTION_*
    prepared_offset: int = 0  # of the half message that a commit ends
    wait: bool = True  # False: WAIT=false, a synchronous writer does not wait for the disk
    sys_flag: int = 0  # further bits: compression, multi-tags
    born_timestamp: int | None = None  # None: now
    born_host: str | None = None  # None: the writer's own
    store_host: str | None = None
    reconsume_times: int = 0
    unique_key: str | None = None  # None: made as the client makes it


@lru_cache(maxsize=8192)
def check_topic(topic: str, longest: int) -> bytes:
    """The topic's bytes if a store takes it. Raises TopicTooLong, TopicUnsafe.

    HookUtils.checkBeforePutMessage looks at the length alone: a broker itself also writes topics
    that no producer may name (`check_sendable`), such as a POP retry topic with `+`, or one with
    its cluster's name in it, of any characters. longest: maxTopicLength; %RETRY% topics may have
    255 bytes.
    """
    raw = topic.encode("utf-8", "replace")
    most = _RETRY_TOPIC_MAX if topic.startswith(RETRY_PREFIX) else min(longest, _RETRY_TOPIC_MAX)
    if len(raw) > most:
        raise refusals.TopicTooLong(f"topic {topic[:40]!r}...: {len(raw)} bytes; at most {most}")
    try:
        check_folder(topic)
    except UnsafeName as error:
        raise refusals.TopicUnsafe(str(error)) from None
    return raw


@lru_cache(maxsize=8192)
def _check_characters(topic: str) -> None:
    """TopicValidator.validateTopic, except for the length."""
    if not topic.strip():
        raise refusals.TopicBlank("the topic is blank")
    if not _TOPIC(topic):
        raise refusals.TopicCharacters(f"topic {topic[:80]!r}: only ^[%|a-zA-Z0-9_-]+$ is allowed")


def check_sendable(topic: str, queue_id: int = 0) -> None:
    """Raise TopicBlank, TopicCharacters, TopicForbidden for a topic that no producer may send to;
    FieldRange, FieldType.

    A broker takes a negative queue_id for any queue (SendMessageProcessor.randomQueueId); here the
    queue has to be named.
    """
    if not isinstance(topic, str):
        raise refusals.FieldType(f"topic: expected text, not {type(topic).__name__}")
    _check_characters(topic)
    if topic in _FORBIDDEN:
        raise refusals.TopicForbidden(f"topic {topic}: only the broker writes to it")
    try:
        if not 0 <= queue_id <= QUEUE_ID_MAX:
            raise refusals.FieldRange(f"queue_id={queue_id}: expected 0 to {QUEUE_ID_MAX}")
    except TypeError:
        kind = type(queue_id).__name__
        raise refusals.FieldType(f"queue_id: expected a whole number, not {kind}") from None


def check_body(body: bytes | None, most: int) -> None:
    """Raise BodyMissing or BodyTooLarge. An empty body passes, as in the broker."""
    if body is None:
        raise refusals.BodyMissing("the message has no body")
    if len(body) > most:
        raise refusals.BodyTooLarge(f"a body of {len(body)} bytes; maxMessageSize is {most}")


def check_property(name: str, value: str) -> None:
    """What a client checks of a property that is put: raise SeparatorInProperty, PropertyBlank."""
    check_separators(name, value)
    if not name.strip() or not value.strip():
        raise refusals.PropertyBlank(f"property {name[:80]!r}: its name or value is blank")


def check_separators(name: str, value: str) -> None:
    """Raise SeparatorInProperty."""
    for text, what in ((name, "name"), (value, "value")):
        if NAME_END in text or VALUE_END in text or _NUL in text:
            raise refusals.SeparatorInProperty(
                f"property {name[:80]!r}: its {what} has 0x01, 0x02 or a NUL"
            )


@lru_cache(maxsize=4096)
def encode_host(host: str) -> bytes:
    """8 bytes for IPv4, 20 for IPv6: the address, then the port as an int. Raises HostInvalid."""
    address, colon, port = host.rpartition(":")
    try:
        packed = ipaddress.ip_address(address.removeprefix("[").removesuffix("]")).packed
        number = int(port)
    except ValueError:
        number = -1
    if not colon or not 0 <= number <= 0xFFFF:
        raise refusals.HostInvalid(f"host {host!r} is not address:port")
    return packed + number.to_bytes(4, "big")


def host_text(raw: bytes) -> str:
    """The inverse of `encode_host`: `address:port`, with an IPv6 address in brackets."""
    address = ipaddress.ip_address(raw[:-4])
    port = int.from_bytes(raw[-4:], "big", signed=True)
    return f"{address}:{port}" if address.version == 4 else f"[{address}]:{port}"


# ---
# Finds the field of a message with a wrong type, after the encoder has failed on it.

_WIDTHS = {
    "queue_id": 32, "flag": 32, "sys_flag": 32, "reconsume_times": 32, "delay_level": 32,
    "transaction": 32, "prepared_offset": 64, "born_timestamp": 64,
}  # fmt: skip
_NONE_ALLOWED = ("born_timestamp", "born_host", "store_host", "unique_key")


def wrong_type(name: str, wanted: str, value: Any) -> refusals.FieldType:
    """The error. It quotes the value's type but not the value, which may be a property's."""
    return refusals.FieldType(f"{name}: expected {wanted}, not {type(value).__name__}")


def check_types(message: Message) -> None:
    """Raise FieldType or FieldRange for the first field with a wrong value."""
    for name in ("topic", "tags", "unique_key", "born_host", "store_host"):
        value = getattr(message, name)
        if not isinstance(value, str) and not (value is None and name in _NONE_ALLOWED):
            raise wrong_type(name, "text", value)
    if message.body is not None and not isinstance(message.body, bytes | bytearray | memoryview):
        raise wrong_type("body", "bytes", message.body)
    for name, bits in _WIDTHS.items():
        value = getattr(message, name)
        if value is None and name in _NONE_ALLOWED:
            continue
        if not hasattr(value, "__index__"):
            raise wrong_type(name, "a whole number", value)
        check_range(name, value, bits)
    check_keys(message.keys)
    _check_properties(message.properties)


def check_keys(keys: Any) -> None:
    """Raise FieldType unless `keys` is a text or a sequence of texts."""
    if isinstance(keys, str):
        return
    if isinstance(keys, bytes) or not isinstance(keys, Sequence):
        raise wrong_type("keys", "text or several texts", keys)
    for key in keys:
        if not isinstance(key, str):
            raise wrong_type("keys", "text or several texts", key)


def _check_properties(properties: Any) -> None:
    if properties is None or isinstance(properties, bytes):
        return
    if not isinstance(properties, Mapping):
        raise wrong_type("properties", "a mapping or bytes", properties)
    for pair in properties.items():
        for text in pair:
            if not isinstance(text, str):
                raise wrong_type("properties", "text for each name and value", text)


def check_range(name: str, value: int, bits: int) -> None:
    """Raise FieldRange if a signed field of `bits` bits cannot hold the value."""
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise refusals.FieldRange(f"{name}={value} does not fit into {bits} bits")


# ---
# A message's properties as text, as the broker writes and reads it (MessageDecoder).


def parse_properties(raw: bytes, split: bool = False) -> dict[str, str]:
    """MessageDecoder.string2messageProperties: the properties as a broker reads them.

    split: a pair is split by Java's `split`, and counts if that yields two parts, as up to 4.9.0
    (Profile.split_properties); from 4.9.1 on it is split at its first 01.
    """
    found = {}
    for pair in decode(raw).split(VALUE_END):
        if split:
            parts = pair.rstrip(NAME_END).split(NAME_END)
            if len(parts) == 2:
                found[parts[0]] = parts[1]
        else:
            name, _, value = pair.partition(NAME_END)
            if name and value:
                found[name] = value
    return found


@lru_cache(maxsize=4096)
def _template(names: tuple[str, ...], capacity: int, ended: bool) -> tuple[tuple[int, ...], str]:
    """(the order of the values in the text, the text with `%s` for each value)."""
    order = hash_map_order(names, capacity)
    pairs = [names[i].replace("%", "%%") + NAME_END + "%s" for i in order]
    return order, VALUE_END.join(pairs) + (VALUE_END if pairs and ended else "")


def encode_properties(
    properties: Mapping[str, str], capacity: int, ended: bool, checked: bool = True
) -> bytes:
    """messageProperties2String of a HashMap of that initial capacity, as UTF-8.

    ended: an 02 follows the last property too (Profile.property_text_ends).
    checked: raises SeparatorInProperty. Blank texts are written: as in RocketMQ, only who puts a
    property checks for them (check_property).
    """
    values = list(properties.values())
    order, template = _template(tuple(properties), capacity, ended)
    text = template % tuple([values[i] for i in order])
    many = len(values)
    ends = many if ended or not many else many - 1
    wrong = text.count(NAME_END) != many or text.count(VALUE_END) != ends or "\0" in text
    if checked and wrong:
        for name, value in properties.items():
            check_separators(name, value)
    # like Java, this writes a lone surrogate as `?`
    return text.encode("utf-8", "replace")
