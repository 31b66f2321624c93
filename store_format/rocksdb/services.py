"""Timers and half messages that a broker keeps in RocksDB (timerRocksDBEnable, transRocksDBEnable).

Families of rocksdbstore/ (MessageRocksDBStorage); times are milliseconds since 1970:
    timer: long out | UNIQ_KEY                    -> int size | long place   (TimerRocksDBRecord)
    trans: long place | "@" topic "@" UNIQ_KEY    -> int checks | int size   (TransRocksDBRecord)
and rows of 8 bytes with the broker's progress.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format.rocksdb.index import LAST_OFFSET
from reput.store_format.storage.rocksdb import Database

TIMERS, HALVES = "timer", "trans"  # column families
READ_POSITION, READ_TIME = b"sys_topic_scan_offset_checkpoint", b"timeline_checkpoint"
_BEHIND_NUMBERS = b"\x01"  # rows' keys begin with 00 for ages; the others with letters
_TIMER_BYTES, _HALF_BYTES, _LONG_BYTES = 12, 8, 8  # of values


class Timers(NamedTuple):
    """A broker's timers in RocksDB."""

    position: int  # queueOffset up to which it has read rmq_sys_wheel_timer
    read: int  # it goes on with messages due then; 0 if it has delivered none
    waiting: npt.NDArray[np.int64]  # sorted physical offsets of messages to be delivered

    def waits(self, place: int) -> bool:
        """Whether the message at a physical offset will be delivered."""
        at = int(np.searchsorted(self.waiting, place))
        return at < len(self.waiting) and int(self.waiting[at]) == place


class HalfRows(NamedTuple):
    """A broker's half messages in RocksDB, by physical offsets."""

    checks: Mapping[int, int]  # for each pending one, how often the broker has checked back
    last: int  # all half messages up to this one had a row


def read_timers(database: Database) -> Timers | None:
    """None if there never were timers. Holds 8 bytes for each timer. Raises RocksDBError."""
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
    """Holds two numbers for each pending half message. Raises RocksDBError."""
    checks = {
        int.from_bytes(key[:8], "big", signed=True): int.from_bytes(value[:4], "big", signed=True)
        for key, value in database.rows(HALVES, b"", _BEHIND_NUMBERS)
        if len(key) > _LONG_BYTES and len(value) == _HALF_BYTES
    }
    return HalfRows(checks, max(_number(database, HALVES, LAST_OFFSET), *checks, -1))


def _number(database: Database, family: str, name: bytes) -> int:
    """The number in a row; -1 without such a row."""
    value = database.get(family, name) if family in database.families else None
    if value is None or len(value) != _LONG_BYTES:
        return -1
    return int.from_bytes(value, "big", signed=True)
