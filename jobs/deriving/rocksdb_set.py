"""Makes the RocksDB of a set: the tables of queues and index built in tasks, a database of them,
and the rows a broker needs.

A broker needs the row `max` of each queue (RocksDBConsumeQueueOffsetTable), and a row with the
physical offset up to which the log is dispatched: it dispatches from there on.
"""

import hashlib
import os
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from reput.jobs.deriving.kept import LastEntry, Queue
from reput.jobs.outputs.publish import Built, earlier_life, few
from reput.jobs.pipeline.link import Linked
from reput.jobs.pipeline.pipeline import Pipeline
from reput.store_format.faults import SALVAGE, StoreError
from reput.store_format.files.private import Scratch, scratch_folder
from reput.store_format.names import CONSUME_QUEUE, STORE_DB
from reput.store_format.rocksdb.database import TableWriter, make_database, table_options
from reput.store_format.rocksdb.queues import (
    CHECKPOINT_KEY,
    ENTRIES,
    MAX,
    OFFSETS,
    offset_key,
    queue_key,
)
from reput.store_format.rocksdb.rows import FAMILY, LAST_OFFSET, LAST_TIME
from reput.udfs.rebuild import rocksdb_queues
from reput.udfs.rebuild.queues import refuse_first
from reput.udfs.rebuild.runs import LIFE, LOG_ORDER, QUEUE_KEY, FindLives, Row, key_of
from reput.udfs.staging import Staging, attempt_name, local_folder, pieces_of, rows_in
from reput.udfs.table import rocksdb_index

# ---
# Builds the tables of an index in RocksDB: sorts each split's rows, then merges ranges of keys.

_ROWS_OF_A_TABLE, _ROWS_OF_A_PUT = 1 << 20, 1 << 16
_RANGES_A_CORE = 2


class IndexTables(NamedTuple):
    """The tables of an index, in staging."""

    names: list[str]
    rows: int  # number of rows in all tables
    last_offset: int  # physical offset of the last message with a row; -1: no row
    last_time: int  # storeTimestamp of that message; -1: no row


def index_runs(job: Pipeline, linked: Linked) -> list[dict[str, Any]]:
    """Sort the index rows of each accepted split into files; RUN_OF_ROWS rows."""
    plan = job.plan
    accepted = [row for row in linked.accepted if row["records"]]
    stretches = tuple((row["split"], row["first"], row["next"]) for row in accepted)
    if not stretches:
        return []
    task = rocksdb_index.ListIndexRows(
        plan.storage, job.staging, plan.splits, plan.record_rules,
        plan.profile.split_properties, stretches,
    )  # fmt: skip
    with job.stages.by_tasks("indexed", sum(row["records"] for row in accepted), "messages"):
        return job.ids(len(stretches)).run(task, rocksdb_index.RUN_OF_ROWS).collect()


def index_tables(job: Pipeline, linked: Linked) -> IndexTables:
    """Build the tables of an index from the accepted splits."""
    runs = index_runs(job, linked)
    if not runs:
        return IndexTables([], 0, -1, -1)
    cuts = rocksdb_index.index_cuts(
        runs, job.cut.index_ranges or job.cores * _RANGES_A_CORE, _ROWS_OF_A_TABLE
    )
    task = rocksdb_index.BuildIndexTables(job.staging, tuple(runs), cuts)
    with job.stages.by_tasks("built", sum(run["rows"] for run in runs), "index rows"):
        tables = job.ids(len(cuts) + 1).run(task, rocksdb_index.INDEX_TABLE).collect()
    return IndexTables(
        [row["name"] for row in tables], sum(row["rows"] for row in tables),
        max(run["last_offset"] for run in runs), max(run["last_time"] for run in runs),
    )  # fmt: skip


def queues_database(
    staging: Staging, tables: pa.Table, expired: dict[Queue, LastEntry], log_start: int
) -> list[Built]:
    """Make the database of queues in staging; BUILT rows with their paths below the set.

    tables: TABLE rows.
    expired: last entries of queues without a live message, after which a broker numbers on.
    """
    names = pc.unique(tables["name"]).to_pylist()
    end = max(log_start, pc.max(tables["end"]).as_py() or 0)
    rows = _last_rows(tables, expired, end)
    return _database(staging, CONSUME_QUEUE, {ENTRIES: (names, ()), OFFSETS: ([], rows)})


def _last_rows(
    tables: pa.Table, expired: dict[Queue, LastEntry], end: int
) -> Iterator[tuple[bytes, bytes]]:
    """The rows of OFFSETS, by key: columns until they are written, as queues may be millions."""
    made = [*(offset_key(*queue, MAX) for queue in expired), CHECKPOINT_KEY]
    lasts = [*(_long(last.place) + _long(last.position) for last in expired.values()), _long(end)]
    keys, values = [pa.array(made, pa.binary())], [pa.array(lasts, pa.binary())]
    for some in tables.to_batches(_ROWS_OF_A_PUT):
        columns = [some[name].to_pylist() for name in ("topic", "queue_id", "place", "position")]
        of_queues = zip(*columns[:2], strict=True)
        keys.append(pa.array([offset_key(t, n, MAX) for t, n in of_queues], pa.binary()))
        places = [_long(at) + _long(n) for at, n in zip(*columns[2:], strict=True)]
        values.append(pa.array(places, pa.binary()))
    rows = pa.table([pa.chunked_array(keys), pa.chunked_array(values)], names=["key", "value"])
    # a queue's entries may be in several tables: the last one in the log's order counts
    by_key = rows_in(rows.sort_by([("key", "ascending"), ("value", "ascending")]))
    for key, some in groupby(by_key, itemgetter("key")):
        yield key, deque(some, 1)[0]["value"]


def index_database(staging: Staging, tables: IndexTables) -> list[Built]:
    """Make the database of an index in staging; BUILT rows with their paths below the set."""
    rows: tuple[tuple[bytes, bytes], ...] = ()
    if tables.rows:
        rows = (LAST_OFFSET, _long(tables.last_offset)), (LAST_TIME, _long(tables.last_time))
    return _database(staging, STORE_DB, {FAMILY: (tables.names, rows)})


def _database(
    staging: Staging, kind: str,
    families: dict[str, tuple[list[str], Iterable[tuple[bytes, bytes]]]],
) -> list[Built]:  # fmt: skip
    """Make a database in staging. kind: its folder in the set. families: name -> (tables, further
    rows by key); the keys of the further rows lie outside the key ranges of the tables.
    """
    with _room(staging) as (folder, name):
        made = f"{folder}/{name}"
        os.mkdir(made, 0o700)
        given = {}
        for family, (tables, rows) in families.items():
            options = table_options(family != OFFSETS, family != OFFSETS)
            paths = [_local_path(staging, folder, each) for each in tables]
            rows, writer = iter(rows), None
            while some := list(islice(rows, _ROWS_OF_A_PUT)):
                if writer is None:
                    paths.append(f"{folder}/{attempt_name('rows')}")
                    writer = TableWriter(paths[-1], options)
                writer.put(*zip(*some, strict=True))
            if writer is not None:
                writer.finish()
            given[family] = (options, paths)
        files = make_database(made, given)
        return [_built(staging, f"{made}/{file}", name, file, kind) for file in files]


def _long(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=True)


@contextmanager
def _room(staging: Staging) -> Iterator[tuple[str, str]]:
    """Yields (a local folder: that of staging or a scratch folder, name of a new folder in it)."""
    folder, name = local_folder(staging), attempt_name("rocksdb")
    if folder is not None:
        yield folder, name
        return
    with scratch_folder(Scratch.ROCKSDB) as folder:
        yield folder, name


def _local_path(staging: Staging, folder: str, name: str) -> str:
    """The path of a table on a local disk; a table that is elsewhere is copied there."""
    path = f"{folder}/{name}"
    if local_folder(staging) is None:
        with open(path, "xb") as copy:
            for piece in pieces_of(staging, name):
                copy.write(piece)
    return path


def _built(staging: Staging, path: str, folder: str, file: str, kind: str) -> Built:
    """The BUILT row of a finished file, which is copied to staging if staging is not local."""
    length, digest = os.path.getsize(path), _digest(path)
    name = f"{folder}/{file}"
    if local_folder(staging) is None:
        name = attempt_name("rocksdb")
        rocksdb_queues.copy_in(staging, path, name)
    else:
        os.chmod(path, 0o600)
    return {
        "folder": kind, "number": 0, "name": name, "length": length, "used": length,
        "sha256": digest, "entries": 0, "skipped": 0, "ended": 0, "odd": [], "begin": 0, "end": 0,
        "path": f"{kind}/{file}",
    }  # fmt: skip


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        os.fsync(file.fileno())
    return digest


# ---
# Builds the tables of queues in RocksDB: counts the scanned entries, and cuts keys into ranges.

# The entries that a task holds, of 28 bytes and a key; their table has about 30 MB.
_ENTRIES_OF_A_TABLE, _ROW_BYTES = 1 << 20, 28
_ENTRIES_WORTH_A_TASK = 1 << 16


def queue_tables(job: Pipeline, linked: Linked) -> "Tables":
    """Build the tables of all queues in staging. Raises StoreError, DamageFound."""
    files = job.staged_runs(linked)
    messages = sum(row["records"] for row in linked.accepted)
    counted = job.runs_rows(linked).run(rocksdb_queues.CountRuns(files), rocksdb_queues.COUNTED)
    counted = counted.by_key(job.queue_tasks(linked), QUEUE_KEY, LOG_ORDER)
    with job.stages.by_tasks("counted", messages, "messages"):
        queues = counted.run(rocksdb_queues.merge_counts, rocksdb_queues.COUNTED).as_table()
    for row in rows_in(queues.sort_by([(name, "ascending") for name in QUEUE_KEY])):
        if row["batch"]:
            raise StoreError(
                f"topic {row['topic']!r}, queue {row['queue_id']}: is a batch queue "
                "(queue.type=BatchCQ), and RocksDB has no place for these: --queues files"
            )
        refuse_first(files, row)
    lives = _lives(job, linked, queues)
    total = pc.sum(queues["entries"]).as_py() or 0
    worth = -(-total // _ENTRIES_WORTH_A_TASK)
    ranges = job.cut.partitions or min(job.cores * _RANGES_A_CORE, max(worth, 1))
    whole = files.firsts == SALVAGE
    cuts = rocksdb_queues.cuts_of(queues, ranges, _ENTRIES_OF_A_TABLE, whole)
    carries = job.carries(linked) and not whole  # a vote may cut runs, not their times
    rows = job.carried_rows(linked, timed=True) if carries else job.runs_rows(linked)
    shared = rows.run(
        rocksdb_queues.ShareRuns(files, cuts),
        rocksdb_queues.CARRYING if carries else rocksdb_queues.SHARED,
    )
    parts = min(len(cuts) + 1, 4 * job.tasks_of(total * _ROW_BYTES))
    tables = shared.by_key(parts, ("range",), LOG_ORDER)
    begins = {queue_key(row["topic"], row["queue_id"]): row["begin"] for row in lives}
    built = tables.run(
        rocksdb_queues.BuildTables(files, cuts, linked.lost, begins), rocksdb_queues.TABLE
    )
    with job.stages.by_tasks("built", messages, "messages"):
        return Tables(built.as_table(), lives, [] if whole else _past_ends(queues, begins))


def _lives(job: Pipeline, linked: Linked, queues: pa.Table) -> list[Row]:
    """LIFE rows of the queues whose topics were made again. queues: COUNTED rows, one for each."""
    zeros = queues.filter(pc.greater(queues["zeros"], 1))
    again = sorted(set(zeros["topic"].to_pylist()))
    if not again:
        return []
    runs = job.runs_rows(linked, tuple(again)).by_key(job.cores, QUEUE_KEY, LOG_ORDER)
    return runs.run(FindLives(job.staged_runs(linked)), LIFE).collect()


class Tables(NamedTuple):
    """The tables of queues, and what of the log has no row in them."""

    rows: pa.Table  # TABLE
    lives: list[Row]  # LIFE
    past: list[str]  # queues with records past their ends, in lines

    def ended(self) -> list[str]:
        """The messages of earlier lives, in lines."""
        return [
            earlier_life(f"{CONSUME_QUEUE}/{row['topic']}/{row['queue_id']}", row["ended"])
            for row in sorted(self.lives, key=key_of(("topic", "queue_id")))
        ]

    def in_no_queue(self) -> list[str]:
        """The records of which RocksDB has no row that a broker reads, in lines."""
        return [*_replaced(self.rows), *self.past]


def _past_ends(queues: pa.Table, begins: dict[bytes, int]) -> list[str]:
    """Lines about the queues that end below their greatest queueOffset (the row `max`)."""
    lines = []
    past = queues.filter(pc.greater(queues["greatest"], queues["last"]))
    for row in sorted(past.to_pylist(), key=key_of(QUEUE_KEY)):
        if queue_key(row["topic"], row["queue_id"]) not in begins:
            greatest, last = (row[name] + (1 << 63) for name in ("greatest", "last"))
            lines.append(
                f"{CONSUME_QUEUE}/{row['topic']}/{row['queue_id']}: records with queueOffsets up "
                f"to {greatest} are in no queue, as with RocketMQ: the log's last record of the "
                f"queue has {last}, after which no broker reads"
            )
    return few(lines, len(lines))


def _replaced(tables: pa.Table) -> list[str]:
    """The records, of each queue in the order of its keys, of which RocksDB has no entry; in lines.

    RocksDBConsumeQueueTable.buildAndPutCQByteBuffer puts a later record's over it.
    tables: TABLE rows.
    """
    rows = [row for row in rows_in(tables) if row["replaced"]]
    lines: list[str] = []
    for row in sorted(rows, key=key_of(("topic", "queue_id", "named"))):
        named = iter(row["named"])
        lines += [
            f"{CONSUME_QUEUE}/{row['topic']}/{row['queue_id']}: the record at physical offset "
            f"{place} is in no queue, as with RocketMQ: its queueOffset {offset} is also that of "
            f"the record at {later}, which comes after it"
            for offset, place, later in zip(named, named, named, strict=True)
        ]
    return few(lines, sum(row["replaced"] for row in rows))
