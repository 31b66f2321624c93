"""Finds the field of a message with a wrong type, after the encoder has failed on it."""

from collections.abc import Mapping, Sequence
from typing import Any

from reput.store_format.message.message import Message
from reput.store_format.message.refusals import FieldRange, FieldType

_WIDTHS = {
    "queue_id": 32, "flag": 32, "sys_flag": 32, "reconsume_times": 32, "delay_level": 32,
    "transaction": 32, "prepared_offset": 64, "born_timestamp": 64,
}  # fmt: skip
_NONE_ALLOWED = ("born_timestamp", "born_host", "store_host", "unique_key")


def wrong_type(name: str, wanted: str, value: Any) -> FieldType:
    """The error. It quotes the value's type but not the value, which may be a property's."""
    return FieldType(f"{name}: {wanted} is wanted, not {type(value).__name__}")


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
        raise FieldRange(f"{name}={value} does not fit into {bits} bits")
