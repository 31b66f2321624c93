"""The content of config/ that brokers keep in RocksDB, as the tables of their JSON files.

v1 (storeType=defaultRocksDB): a database for each file, or with useSingleRocksDBForAllConfigs a
family for each; a row for each name, its value in JSON (broker/config/v1).
v2 (configManagerVersion=v2): one table of rows with prefixes (broker/config/v2/ConfigHelper):
    01 | short table | 02 | short length | name                                        -> 01 | JSON
    01 | short table | 02 | short length | group | 01 | short length | topic | 01 | int -> long
"""

import json
from collections.abc import Iterator
from typing import Any

from reput.store_format.java import quoted_keys
from reput.store_format.storage.rocksdb import Database

_V2 = "rdb"
_DEFAULT = "default"
# By the JSON file: its family where one database has all (v1), and its tables (v2, TableId).
_FAMILIES = {
    "topics.json": "topic",
    "subscriptionGroup.json": "subscriptionGroup",
    "consumerOffset.json": "consumerOffset",
}
_TABLES = {"topics.json": 3, "subscriptionGroup.json": 4, "consumerOffset.json": 1}
_OFFSETS = "consumerOffset.json"
_DATA, _JSON = 2, 1  # RecordPrefix, SerializationType


def config_rows(database: Database, file: str) -> dict[str, Any]:
    """The content of a config/ file's table, by name. Unreadable rows are left out.

    Raises RocksDBError.
    """
    if database.folder.rpartition("/")[2] == _V2:
        rows = _v2_rows(database, _TABLES[file])
        return _v2_offsets(rows) if file == _OFFSETS else dict(_v2_named(rows))
    family = _FAMILIES[file] if _FAMILIES[file] in database.families else _DEFAULT
    found = {}
    for key, value in database.rows(family):
        try:
            about = json.loads(quoted_keys(value))
            found[key.decode()] = about["offsetTable"] if file == _OFFSETS else about
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
    return found


def _v2_rows(database: Database, table: int) -> Iterator[tuple[bytes, bytes]]:
    """(key without its prefix, value) of each row of a table."""
    prefix = b"\x01%b" % table.to_bytes(2, "big")
    start, stop = prefix + bytes([_DATA]), prefix + bytes([_DATA + 1])
    for key, value in database.rows(_DEFAULT, start, stop):
        yield key[len(start) :], value


def _v2_named(rows: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[str, Any]]:
    for key, value in rows:
        name, rest = _text(key)
        if name is not None and not rest and value[:1] == bytes([_JSON]):
            try:
                yield name, json.loads(quoted_keys(value[1:]))
            except (ValueError, RecursionError):
                continue


def _v2_offsets(rows: Iterator[tuple[bytes, bytes]]) -> dict[str, dict[str, int]]:
    """`topic@group` -> queue id -> offset, as an offsetTable has them."""
    found: dict[str, dict[str, int]] = {}
    for key, value in rows:
        group, rest = _text(key)
        topic, rest = _text(rest[1:])
        if group is None or topic is None or len(rest) != 5 or len(value) != 8:
            continue
        queue = int.from_bytes(rest[1:], "big", signed=True)
        offset = int.from_bytes(value, "big", signed=True)
        found.setdefault(f"{topic}@{group}", {}).setdefault(str(queue), offset)
    return found


def _text(raw: bytes) -> tuple[str | None, bytes]:
    """(the text after a short with its length, the bytes after it); None for a malformed text."""
    end = 2 + int.from_bytes(raw[:2], "big")
    if len(raw) < max(end, 2):
        return None, b""
    try:
        return raw[2:end].decode(), raw[end:]
    except UnicodeDecodeError:
        return None, b""
