"""Compares the rows of an index in RocksDB with the rows that the log gives, by key.

Not judged are
- rows of expired messages, which stay until a compaction;
- rows from the newest message on, which a broker writes again when it starts (lastOffsetPy);
- messages before the first message with a row, as the index may have been switched on late.
"""

from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from reput.jobs.deriving.rocksdb_set import index_runs
from reput.jobs.judging.differences import Difference
from reput.jobs.outputs.report import counted
from reput.jobs.pipeline.link import Linked
from reput.jobs.pipeline.pipeline import Pipeline
from reput.store_format.discover.config import has_database, has_rows
from reput.store_format.files.protocol import InputStorage
from reput.store_format.names import STORE_DB
from reput.store_format.rocksdb.database import RocksDBError, RocksDBMissing, open_database
from reput.store_format.rocksdb.rows import RocksDBIndex
from reput.udfs.table.rocksdb_index import COMPARED, CompareIndexRows, index_cuts

_ROWS_AT_ONCE = 1 << 20
_MISSING = "are missing in RocksDB"


@dataclass
class ComparedIndex:
    """The result of comparing the index in one RocksDB."""

    rows: int = 0
    notes: list[str] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    behind: list[Difference] = field(default_factory=list)  # rows that a broker will add

    def what(self) -> list[str]:
        """A line with the number of compared rows; none if nothing was compared."""
        return [f"{counted(self.rows, 'row')} of the index"] if self.rows else []


def compare_index(
    job: Pipeline, linked: Linked, there: InputStorage, against: str
) -> ComparedIndex | None:
    """Compare the index in RocksDB below `against`; None if there is none."""
    folder, found = f"{against}/{STORE_DB}", ComparedIndex()
    if not has_database(there, folder):
        return None
    try:
        with closing(open_database(there, folder)) as database:
            index = RocksDBIndex(database)
            if not index.has_rows:
                return None
            _compare(job, linked, there, index, found)
    except RocksDBMissing as error:  # the database may have rows of timers only
        if not has_rows(there, folder):
            return None
        found.notes.append(f"{error}: it is not compared")
    except RocksDBError as error:
        found.differences.append(Difference(folder, 0, error.reason, None, None))
    return found


def _compare(
    job: Pipeline, linked: Linked, there: InputStorage, index: RocksDBIndex, found: ComparedIndex
) -> None:  # fmt: skip
    folder, log_start = index.database.folder, job.plan.segments[0].start
    runs = tuple(index_runs(job, linked))
    cuts = index_cuts(list(runs), job.cores, _ROWS_AT_ONCE) if runs else ()
    task = CompareIndexRows(
        there, folder, job.staging, runs, cuts, log_start, min(index.last_offset, linked.end)
    )
    compared = job.ids(len(cuts) + 1, job.cores).run(task, COMPARED).collect()
    for row in compared:
        if row["unread"] is not None:
            raise RocksDBError(folder, row["unread"])
    lost = np.concatenate([np.frombuffer(row["lost"], np.int64) for row in compared])
    begin = min((row["begin"] for row in compared if row["begin"] >= 0), default=linked.end)
    missing = lost[(lost >= begin) & (lost < index.last_offset)]
    late = lost[(lost >= begin) & (lost >= index.last_offset)]
    extra, other = (_sum(compared, name) for name in ("extra", "other"))
    differences = [
        _difference(folder, len(missing), missing.min(initial=linked.end), _MISSING),
        _difference(folder, *extra, "are in RocksDB that the log does not give"),
        _difference(folder, *other, "have another storeTimestamp in RocksDB"),
    ]
    found.differences += [each for each in differences if each is not None]
    behind = _difference(folder, len(late), late.min(initial=linked.end), _MISSING)
    found.behind += [] if behind is None else [behind]
    found.rows = sum(row["rows"] for row in compared) - int((lost < begin).sum())
    if begin > min((run["first_offset"] for run in runs), default=begin):
        found.notes.append(f"{folder}: its index begins with the message at {begin}")


def _sum(compared: list[dict[str, Any]], kind: str) -> tuple[int, int]:
    """(number of rows with this kind of difference, physical offset of the first such message)."""
    there = [row for row in compared if row[kind]]
    first = min((row[f"first_{kind}"] for row in there), default=-1)
    return sum(row[kind] for row in there), first


def _difference(folder: str, rows: int, first: int, said: str) -> Difference | None:
    if not rows:
        return None
    text = f"index: {rows:,} rows {said}, first of the message at {first}"
    return Difference(folder, int(first), text, None, None)
