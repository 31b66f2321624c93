"""The rows of a RocksDB of a store: queues, index, timers, half messages, config."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from reput.store_format.layouts import ROCKSDB_ENTRY, ROCKSDB_OFFSET
from reput.store_format.rocksdb import queues
from reput.store_format.rocksdb.database import Database
from reput.store_format.rocksdb.rows import FAMILY as INDEX
from reput.store_format.rocksdb.rows import HALVES, TIMERS

Item = dict[str, Any]
Describe = Callable[[bytes, bytes], Item | None]


def describe_database(database: Database, properties: bool) -> Iterator[Item]:
    """An item of kind "row" for each row, in the order of families and keys.

    properties: whether keys and tags of messages are shown. A key or value of unknown kind is shown
    in hex. Raises RocksDBError.
    """
    known = _known(set(database.families), properties)
    for family in sorted(database.families):
        describe = known.get(family, _text)
        for key, value in database.rows(family):
            about = describe(key, value) or _text(key, value)
            yield {"kind": "row", "family": family, **about}


def _known(families: set[str], properties: bool) -> dict[str, Describe]:
    """How to read rows, by family. The families show which database it is."""
    if queues.OFFSETS in families:
        return {queues.ENTRIES: _entry, queues.OFFSETS: _offset}
    if TIMERS in families:
        return {INDEX: partial(_index, properties=properties), TIMERS: _timer, HALVES: _half}
    return {}


def _entry(key: bytes, value: bytes) -> Item | None:
    found = queues.parse_entry_key(key)
    if found is None or len(value) != ROCKSDB_ENTRY.itemsize:
        return None
    topic, queue_id = queues.topic_of(found[0])
    return {"topic": topic, "queueId": queue_id, "queueOffset": found[1]} | _fields(
        value, ROCKSDB_ENTRY
    )


def _offset(key: bytes, value: bytes) -> Item | None:
    if key == queues.CHECKPOINT_KEY:
        return {"row": "dispatch checkpoint", "physicalOffset": _number(value)}
    about = queues.parse_offset_key(key)
    if about is None or len(value) != ROCKSDB_OFFSET.itemsize:
        return None
    named = {"row": about.kind.decode(), "topic": about.topic, "queueId": about.queue_id}
    return named | _fields(value, ROCKSDB_OFFSET)


def _index(key: bytes, value: bytes, properties: bool) -> Item | None:
    parts = key[8:-8].decode("utf-8", "replace").split("@")
    if len(parts) < 5 or len(value) != 8:
        return _checkpoint(key, value)
    word = {"key": "@".join(parts[3:-2]), "uniqueKey": parts[-2]} if properties else {}
    about = {"hour": _number(key[:8]), "topic": parts[1], "of": parts[2], **word}
    return about | {"physicalOffset": _number(key[-8:]), "storeTimestamp": _number(value)}


def _timer(key: bytes, value: bytes) -> Item | None:
    if len(value) != 12:
        return _checkpoint(key, value)
    named = {"due": _number(key[:8]), "uniqueKey": key[8:].decode("utf-8", "replace")}
    return named | {"size": _number(value[:4]), "physicalOffset": _number(value[4:])}


def _half(key: bytes, value: bytes) -> Item | None:
    _, _, named = key[8:].decode("utf-8", "replace").partition("@")
    topic, _, unique_key = named.partition("@")
    if len(value) != 8 or not unique_key:
        return _checkpoint(key, value)
    about = {"physicalOffset": _number(key[:8]), "topic": topic, "uniqueKey": unique_key}
    return about | {"checks": _number(value[:4]), "size": _number(value[4:])}


def _checkpoint(key: bytes, value: bytes) -> Item | None:
    """A row with the broker's progress."""
    if len(value) != 8 or not key.isascii():
        return None
    return {"row": key.decode(), "value": _number(value)}


def _text(key: bytes, value: bytes) -> Item:
    return {"key": _readable(key), "value": _readable(value)}


def _readable(raw: bytes) -> str:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return raw.hex()
    return text if text.isprintable() else raw.hex()


def _fields(raw: bytes, layout: np.dtype[Any]) -> Item:
    return dict(zip(layout.names or (), np.frombuffer(raw, layout)[0].item(), strict=True))


def _number(raw: bytes) -> int:
    return int.from_bytes(raw, "big", signed=True)
