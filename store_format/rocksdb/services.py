"""Timers and half messages that a broker keeps in RocksDB (timerRocksDBEnable, transRocksDBEnable).

Families of rocksdbstore/ (MessageRocksDBStorage); times are milliseconds since 1970:
    timer: long out | UNIQ_KEY                    -> int size | long place   (TimerRocksDBRecord)
    trans: long place | "@" topic "@" UNIQ_KEY    -> int checks | int size   (TransRocksDBRecord)
and rows of 8 bytes that say how far the broker is.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format.rocksdb.index import LAST_OFFSET
from reput.store_format.storage.rocksdb import Database

TIMERS, HALVES = "timer", "trans"  # column families
READ_POSITION, READ_TIME = b"sys_topic_scan_offset_checkpoint", b"timeline_checkpoint"
_BEHIND_NUMBERS = b"\x01"  # keys of rows begin with 00 for ages; the others are letters
_TIMER_BYTES, _HALF_BYTES, _LONG_BYTES = 12, 8, 8  # of values


class Timers(NamedTuple):
    """What a broker knows of the timers in RocksDB."""

    position: int  # up to where it has read rmq_sys_wheel_timer, a queue offset
    read: int  # it goes on with what is due then; 0 where it has delivered none
    waiting: npt.NDArray[np.int64]  # the physical offsets, sorted, of what it will deliver

    def waits(self, place: int) -> bool:
        """Whether the message at a physical offset will be delivered."""
        at = int(np.searchsorted(self.waiting, place))
        return at < len(self.waiting) and int(self.waiting[at]) == place


class HalfRows(NamedTuple):
    """What a broker knows of the half messages in RocksDB. Numbers are physical offsets."""

    checks: Mapping[int, int]  # of those that it will ask about: how often it has asked
    last: int  # all half messages up to this one had a row


def read_timers(database: Database) -> Timers | None:
    """None where there never were any. 8 bytes a timer are held. Raises RocksDBError."""
    position, read = _number(database, TIMERS, READ_POSITION), _number(database, TIMERS, READ_TIME)
    places = [
        int.from_bytes(value[4:], "big", signed=True)
        for _, value in database.rows(TIMERS, max(read, 0).to_bytes(8, "big"), _BEHIND_NUMBERS)
        if len(value) == _TIMER_BYTES
    ]
    if position < 0 and not places:
        return None
    return Timers(max(position, 0), max(read, 0), np.unique(np.array(places, np.int64)))


def read_half_rows(database: Database) -> HalfRows:
    """Two numbers a pending half message are held. Raises RocksDBError."""
    checks = {
        int.from_bytes(key[:8], "big", signed=True): int.from_bytes(value[:4], "big", signed=True)
        for key, value in database.rows(HALVES, b"", _BEHIND_NUMBERS)
        if len(key) > _LONG_BYTES and len(value) == _HALF_BYTES
    }
    return HalfRows(checks, max(_number(database, HALVES, LAST_OFFSET), *checks, -1))


def _number(database: Database, family: str, name: bytes) -> int:
    """-1 where there is no such row."""
    value = database.get(family, name) if family in database.families else None
    if value is None or len(value) != _LONG_BYTES:
        return -1
    return int.from_bytes(value, "big", signed=True)
