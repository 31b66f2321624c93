"""Compares an index in RocksDB with the rows that the log gives, by key.

Of these nothing is said: rows of expired messages, which stay until a compaction; rows of the
newest message and behind it, which a broker writes again when it starts (lastOffsetPy); messages
before the first one that has a row, as the index may have been switched on late.
"""

from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from reput.jobs.judging.differences import Difference
from reput.jobs.pipeline.index_tables import index_runs
from reput.jobs.pipeline.link import Linked
from reput.jobs.pipeline.pipeline import Pipeline
from reput.store_format.discover.in_rocksdb import has_rows
from reput.store_format.release.foreign_files import STORE_DB
from reput.store_format.rocksdb.index import BEHIND_HOURS, FAMILY, RocksDBIndex
from reput.store_format.storage.protocol import InputStorage
from reput.store_format.storage.rocksdb import (
    Database,
    RocksDBError,
    RocksDBMissing,
    open_database,
)
from reput.udfs.table.index_rows import index_cuts, merged_rows

_ROWS_AT_ONCE = 1 << 20


@dataclass
class ComparedIndex:
    """What was found of the index in one RocksDB."""

    notes: list[str] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    behind: list[Difference] = field(default_factory=list)  # the broker goes on there


class _Kind:
    """Rows of one kind of difference: how many, and the first message that has one."""

    def __init__(self, said: str) -> None:
        self.said, self.rows, self.first = said, 0, -1

    def add(self, place: int) -> None:
        self.rows += 1
        self.first = place if self.first < 0 else min(self.first, place)

    def difference(self, folder: str) -> Difference:
        text = f"index: {self.rows:,} rows {self.said}, first of the message at {self.first}"
        return Difference(folder, self.first, text, None, None)


def compare_index(
    job: Pipeline, linked: Linked, there: InputStorage, against: str
) -> ComparedIndex | None:
    """Compare the index in RocksDB below `against`; None where there is none."""
    folder, found = f"{against}/{STORE_DB}", ComparedIndex()
    if not has_rows(there, folder):
        return None
    try:
        with closing(open_database(there, folder)) as database:
            index = RocksDBIndex(database)
            if not index.has_rows:
                return None
            _compare(job, linked, database, index.last_offset, found)
    except RocksDBMissing as error:  # there may be timers alone, and index files that are judged
        found.notes.append(f"{error}: it is not compared")
    except RocksDBError as error:
        found.differences.append(Difference(folder, 0, error.reason, None, None))
    return found


def _compare(
    job: Pipeline, linked: Linked, database: Database, again_from: int, found: ComparedIndex
) -> None:
    log_start = job.plan.segments[0].start
    begin, lost = linked.end, list[npt.NDArray[np.int64]]()
    missing, extra = (
        _Kind("are missing in RocksDB"),
        _Kind("are in RocksDB that the log does not give"),
    )
    late, other = _Kind("are missing in RocksDB"), _Kind("have another storeTimestamp in RocksDB")
    runs = tuple(index_runs(job, linked))
    bounds = (b"", *(index_cuts(list(runs), 1, _ROWS_AT_ONCE) if runs else ()), BEHIND_HOURS)
    rows = 0
    for start, stop in pairwise(bounds):
        table = merged_rows(job.staging, runs, start, stop)
        wanted = dict(zip(*(column.to_pylist() for column in table.columns), strict=True))
        rows += len(wanted)
        for key, value in database.rows(FAMILY, start, stop):
            place, should = _place(key), wanted.pop(key, None)
            if place >= log_start:
                begin = min(begin, place)
            if should is None:
                if log_start <= place < min(again_from, linked.end):
                    extra.add(place)
            elif should != value and place < again_from:
                other.add(place)
        lost.append(np.array([_place(key) for key in wanted], np.int64))
    for place in np.concatenate(lost).tolist():
        if place >= begin:
            (late if place >= again_from else missing).add(place)
        else:
            rows -= 1
    folder = database.folder
    found.differences += [kind.difference(folder) for kind in (missing, extra, other) if kind.rows]
    found.behind += [late.difference(folder)] if late.rows else []
    found.notes.append(f"{rows} rows of the index compared with RocksDB")
    if begin > min((run["first_offset"] for run in runs), default=begin):
        found.notes.append(f"{folder}: its index begins with the message at {begin}")


def _place(key: bytes) -> int:
    return int.from_bytes(key[-8:], "big", signed=True)
