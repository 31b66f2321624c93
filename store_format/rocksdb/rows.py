"""What brokers keep in RocksDB besides queues: keys, config/, timers and half messages."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format.java import quoted_keys
from reput.store_format.names import GROUPS, OFFSETS, TOPICS
from reput.store_format.rocksdb.database import Database

# ---
# An index of keys that a broker keeps in RocksDB (indexRocksDBEnable, IndexRocksDBStore).
#
# Each message with a UNIQ_KEY has a row for each key, one for its tags and one for its UNIQ_KEY,
# with times as in the log (IndexRocksDBRecord):     long hour | @topic@K@key@uniqKey@ or
# @topic@T@tags@uniqKey@ or @topic@U@uniqKey@ | long place     -> long storeTimestamp

FAMILY = "default"
HOUR = 3_600_000  # milliseconds
LAST_OFFSET, LAST_TIME = b"lastOffsetPy", b"lastStoreTimeStamp"
BEHIND_HOURS = b"\x01"  # rows' keys begin with 00 for ages; the two others with letters
_HOURS_END = 1 << 56  # the long that begins with BEHIND_HOURS
KEY, TAGS, UNIQUE = "K", "T", "U"  # MessageConst.INDEX_KEY_TYPE and its neighbours
_TAGS_KEY = "T#"  # prefix of tags in a query by key


class RocksDBIndex:
    """The rows of a database. Each method may raise RocksDBError."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.has_rows = next(self._hours(), None) is not None
        # All messages before this one have their rows; a few later ones may have them.
        self.last_offset = self._number_of(LAST_OFFSET)
        self.last_timestamp = self._number_of(LAST_TIME)

    def places(
        self, topic: str, key: str, begin: int | None = None, end: int | None = None
    ) -> Iterator[int]:
        """Offsets of messages with this key, UNIQ_KEY or (T#...) tags, stored in [begin, end]. Some
        come twice; messages whose key goes on after this one with an `@` come too.
        """
        asked = [(KEY, key), (UNIQUE, key)]
        if key.startswith(_TAGS_KEY):
            asked.append((TAGS, key.removeprefix(_TAGS_KEY)))
        prefixes = [_encode(f"@{topic}@{kind}@{word}@") for kind, word in asked]
        for hour in self._hours(0 if begin is None else begin - HOUR + 1):
            if end is not None and hour > end:
                return
            for prefix in prefixes:
                start = _long(hour) + prefix
                for row, value in self.database.rows(FAMILY, start, start[:-1] + b"A"):
                    time = _number(value)
                    if (begin is None or time >= begin) and (end is None or time <= end):
                        yield _number(row[-8:])

    def has(self, topic: str, unique_key: str, time: int, place: int) -> bool:
        """Whether the row of a message's UNIQ_KEY exists."""
        key = _long(time // HOUR * HOUR)
        key += _encode(f"@{topic}@{UNIQUE}@{unique_key}@") + _long(place)
        return self.database.get(FAMILY, key) is not None

    def _hours(self, at: int = 0) -> Iterator[int]:
        """The hours that rows have, from `at` on: a row's hour may be any, ages ahead too."""
        at = max(at, 0)
        while at < _HOURS_END:
            key, _ = next(self.database.rows(FAMILY, _long(at), BEHIND_HOURS), (None, None))
            if key is None:
                return
            hour = _number(key.ljust(8, b"\0"))
            yield hour
            at = hour + 1

    def _number_of(self, name: bytes) -> int:
        value = self.database.get(FAMILY, name)
        return -1 if value is None else _number(value)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _long(number: int) -> bytes:
    return number.to_bytes(8, "big")


def _number(raw: bytes) -> int:
    return int.from_bytes(raw[:8], "big", signed=True)


# ---
# The content of config/ that brokers keep in RocksDB, as the tables of their JSON files.
#
# v1 (storeType=defaultRocksDB): a database for each file, or with useSingleRocksDBForAllConfigs a
# family for each; a row for each name, its value in JSON (broker/config/v1). v2
# (configManagerVersion=v2): one table of rows with prefixes (broker/config/v2/ConfigHelper):     01
# | short table | 02 | short length | name                                        -> 01 | JSON
# 01 | short table | 02 | short length | group | 01 | short length | topic | 01 | int -> long

_V2 = "rdb"
_DEFAULT = "default"
# By the JSON file: its family where one database has all (v1), and its tables (v2, TableId).
_FAMILIES = {TOPICS: "topic", GROUPS: "subscriptionGroup", OFFSETS: "consumerOffset"}
_TABLES = {TOPICS: 3, GROUPS: 4, OFFSETS: 1}
_DATA, _JSON = 2, 1  # RecordPrefix, SerializationType


def config_rows(database: Database, file: str) -> dict[str, Any]:
    """The content of a config/ file's table, by name. Unreadable rows are left out.

    Raises RocksDBError.
    """
    if database.folder.rpartition("/")[2] == _V2:
        rows = _v2_rows(database, _TABLES[file])
        return _v2_offsets(rows) if file == OFFSETS else dict(_v2_named(rows))
    family = _FAMILIES[file] if _FAMILIES[file] in database.families else _DEFAULT
    found = {}
    for key, value in database.rows(family):
        try:
            about = json.loads(quoted_keys(value))
            found[key.decode()] = about["offsetTable"] if file == OFFSETS else about
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


def offset_rows(
    database: Database, table: Mapping[str, Mapping[int, int]]
) -> dict[str, dict[bytes, bytes | None]]:
    """Family -> the rows that a database of offsets has for entries: `topic@group` -> queue id ->
    offset, whole.
    """
    if database.folder.rpartition("/")[2] != _V2:
        family = _FAMILIES[OFFSETS] if _FAMILIES[OFFSETS] in database.families else _DEFAULT
        return {family: {
            name.encode(): json.dumps({"offsetTable": queues}).encode()
            for name, queues in table.items()
        }}  # fmt: skip
    rows: dict[bytes, bytes | None] = {}
    for name, queues in table.items():
        topic, _, group = name.partition("@")
        head = b"\x01%b%c" % (_TABLES[OFFSETS].to_bytes(2, "big"), _DATA)
        head += b"".join(len(raw := text.encode()).to_bytes(2, "big") + raw + b"\x01"
                         for text in (group, topic))  # fmt: skip
        rows |= {head + queue.to_bytes(4, "big"): _long(at) for queue, at in queues.items()}
    return {_DEFAULT: rows}


def _text(raw: bytes) -> tuple[str | None, bytes]:
    """(the text after a short with its length, the bytes after it); None for a malformed text."""
    end = 2 + int.from_bytes(raw[:2], "big")
    if len(raw) < max(end, 2):
        return None, b""
    try:
        return raw[2:end].decode(), raw[end:]
    except UnicodeDecodeError:
        return None, b""


# ---
# Timers and half messages that a broker keeps in RocksDB (timerRocksDBEnable, transRocksDBEnable).
#
# Families of rocksdbstore/ (MessageRocksDBStorage); times are milliseconds since 1970:
#     timer: long out | UNIQ_KEY                    -> int size | long place   (TimerRocksDBRecord)
#     trans: long place | "@" topic "@" UNIQ_KEY    -> int checks | int size   (TransRocksDBRecord)
# and rows of 8 bytes with the broker's progress.

TIMERS, HALVES = "timer", "trans"  # column families
READ_POSITION, READ_TIME = b"sys_topic_scan_offset_checkpoint", b"timeline_checkpoint"
_BEHIND_NUMBERS = b"\x01"  # rows' keys begin with 00 for ages; the others with letters
_TIMER_BYTES, _HALF_BYTES, _LONG_BYTES = 12, 8, 8  # of values


class Timers(NamedTuple):
    """A broker's timers in RocksDB."""

    position: int  # queueOffset up to which it has read rmq_sys_wheel_timer
    read: int  # it goes on with messages due then; 0 if it has delivered none
    waiting: npt.NDArray[np.int64]  # sorted physical offsets of messages to be delivered

    def waits(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which of the messages at these physical offsets will be delivered."""
        return np.isin(places, self.waiting)


class HalfRows(NamedTuple):
    """A broker's half messages in RocksDB, by physical offsets."""

    checks: Mapping[int, int]  # for each pending one, how often the broker has checked back
    last: int  # all half messages up to this one had a row


def read_timers(database: Database) -> Timers | None:
    """None if there never were timers. Holds 8 bytes for each timer. Raises RocksDBError."""
    position, read = (
        _number_in(database, TIMERS, READ_POSITION),
        _number_in(database, TIMERS, READ_TIME),
    )
    places = [
        int.from_bytes(value[4:], "big", signed=True)
        for _, value in database.rows(TIMERS, max(read, 0).to_bytes(8, "big"), _BEHIND_NUMBERS)
        if len(value) == _TIMER_BYTES
    ]
    if position < 0 and not places:
        return None
    return Timers(max(position, 0), max(read, 0), np.unique(np.array(places, np.int64)))


def read_half_rows(database: Database) -> HalfRows:
    """Holds two numbers for each pending half message. Raises RocksDBError."""
    checks = {
        int.from_bytes(key[:8], "big", signed=True): int.from_bytes(value[:4], "big", signed=True)
        for key, value in database.rows(HALVES, b"", _BEHIND_NUMBERS)
        if len(key) > _LONG_BYTES and len(value) == _HALF_BYTES
    }
    return HalfRows(checks, max(_number_in(database, HALVES, LAST_OFFSET), *checks, -1))


def _number_in(database: Database, family: str, name: bytes) -> int:
    """The number in a row; -1 without such a row."""
    value = database.get(family, name) if family in database.families else None
    if value is None or len(value) != _LONG_BYTES:
        return -1
    return int.from_bytes(value, "big", signed=True)
