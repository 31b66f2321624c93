"""Compares ranges of an index in RocksDB with the rows that the log gives, by key."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from reput.store_format.files.protocol import InputStorage
from reput.store_format.rocksdb.database import Database, RocksDBError, open_database
from reput.store_format.rocksdb.rows import BEHIND_HOURS, FAMILY
from reput.udfs.staging import Staging, ids_of, in_batches, schema
from reput.udfs.table.index_rows import merged_rows

# A row for each range. Places are physical offsets of messages that the log still has; first_: the
# least such place, -1 for none.
COMPARED = schema(
    rows=pa.int64(),  # that the log gives
    begin=pa.int64(),  # the least place of a row in RocksDB; -1 for none
    lost=pa.binary(),  # the place of each row that is missing in RocksDB, as int64
    extra=pa.int64(), first_extra=pa.int64(),  # rows in RocksDB that the log does not give
    other=pa.int64(), first_other=pa.int64(),  # rows that have another value
    unread=pa.string(),  # why RocksDB cannot be read; all else is then null
)  # fmt: skip


@dataclass(frozen=True)
class CompareIndexRows:
    """COMPARED rows of the ranges whose numbers arrive in `id`."""

    storage: InputStorage  # of the database
    folder: str
    staging: Staging
    runs: tuple[dict[str, Any], ...]  # RUN_OF_ROWS
    cuts: tuple[bytes, ...]
    log_start: int
    again_from: int  # a broker writes the rows of messages from here on again

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            found = self._all(list(ids_of(batches)))
        except RocksDBError as error:
            found = [{"unread": error.reason}]
        yield from in_batches(iter(found), COMPARED)

    def _all(self, numbers: list[int]) -> list[dict[str, Any]]:
        bounds = (b"", *self.cuts, BEHIND_HOURS)
        if not numbers:
            return []
        with closing(open_database(self.storage, self.folder)) as database:
            return [self._compared(database, *bounds[n : n + 2]) for n in numbers]

    def _compared(self, database: Database, start: bytes, stop: bytes) -> dict[str, Any]:
        table = merged_rows(self.staging, self.runs, start, stop)
        wanted = dict(zip(*(column.to_pylist() for column in table.columns), strict=True))
        rows, places, extra, other = len(wanted), list[int](), list[int](), list[int]()
        for key, value in database.rows(FAMILY, start, stop):
            place, should = _place(key), wanted.pop(key, None)
            places.append(place)
            if should is None:
                extra.append(place)
            elif should != value:
                other.append(place)
        lost = np.array([_place(key) for key in wanted], np.int64)
        extra = [place for place in extra if self.log_start <= place < self.again_from]
        other = [place for place in other if place < self.again_from]
        return {
            "rows": rows, "lost": lost.tobytes(),
            "begin": min((place for place in places if place >= self.log_start), default=-1),
            "extra": len(extra), "first_extra": min(extra, default=-1),
            "other": len(other), "first_other": min(other, default=-1),
        }  # fmt: skip


def _place(key: bytes) -> int:
    return int.from_bytes(key[-8:], "big", signed=True)
