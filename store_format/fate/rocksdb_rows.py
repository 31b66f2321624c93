"""What RocksDB has of the messages that were gathered: timers, and half messages of its topic.

RocksDB is opened only where the log has such messages. What cannot be read is noted.
"""

from collections.abc import Callable
from contextlib import closing
from typing import TypeVar

import numpy as np

from reput.store_format.discover.config import has_rows
from reput.store_format.fate.delays import Read
from reput.store_format.fate.gather import Gathered
from reput.store_format.fate.marks import ROCKSDB_HALF, WHEEL
from reput.store_format.names import STORE_DB
from reput.store_format.notes import Notes
from reput.store_format.query.reader import OpenedStore
from reput.store_format.rocksdb.database import Database, RocksDBError, open_database
from reput.store_format.rocksdb.rows import HalfRows, read_half_rows, read_timers

_Rows = TypeVar("_Rows")


def half_rows(store: OpenedStore, gathered: Gathered, notes: Notes) -> HalfRows | None:
    """RocksDB's rows of half messages; None where the log has none, or they cannot be read."""
    if not np.any(gathered.marks["kind"] == ROCKSDB_HALF):
        return None
    unread = "which half messages of transRocksDBEnable were checked or given up is not known"
    return _read(store, read_half_rows, unread, notes)


def with_timers(store: OpenedStore, gathered: Gathered, read: Read, notes: Notes) -> Read:
    """`read`, with RocksDB's rows of timers where the log has timers."""
    if not np.any(gathered.marks["kind"] == WHEEL):
        return read
    unread = "which timers of timerRocksDBEnable are delivered for good is not known"
    return read._replace(timers=_read(store, read_timers, unread, notes))


def _read(
    store: OpenedStore, rows: Callable[[Database], _Rows], unread: str, notes: Notes
) -> _Rows | None:
    folder = f"{store.path}/{STORE_DB}"
    if not has_rows(store.storage, folder):
        return None
    try:
        with closing(open_database(store.storage, folder)) as database:
            return rows(database)
    except RocksDBError as error:
        notes.note(f"{error}: {unread}")
        return None
