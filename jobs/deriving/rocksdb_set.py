"""Makes the RocksDB of a set from the tables that tasks have built, and the rows a broker needs.

A broker needs the row `max` of each queue (RocksDBConsumeQueueOffsetTable), and a row with the
physical offset up to which the log is dispatched: it dispatches from there on.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from reput.jobs.deriving.expired_queues import LastEntry, Queue
from reput.jobs.outputs.publish import Built
from reput.jobs.pipeline.index_tables import IndexTables
from reput.store_format.files.private import Scratch, scratch_folder
from reput.store_format.names import CONSUME_QUEUE, STORE_DB
from reput.store_format.rocksdb.database import TableWriter, make_database, table_options
from reput.store_format.rocksdb.queues import CHECKPOINT_KEY, ENTRIES, MAX, OFFSETS, offset_key
from reput.store_format.rocksdb.rows import FAMILY, LAST_OFFSET, LAST_TIME
from reput.udfs.rebuild.rocksdb_queues import copy_in
from reput.udfs.staging import Staging, attempt_name, local_folder, pieces_of


def queues_database(
    staging: Staging,
    tables: Iterable[dict[str, Any]],
    expired: dict[Queue, LastEntry],
    log_start: int,
) -> list[Built]:
    """Make the database of queues in staging; BUILT rows with their paths below the set.

    tables: TABLE rows.
    expired: last entries of queues without a live message, after which a broker numbers on.
    """
    lasts, end = dict(expired), log_start
    names: dict[str, int] = {}
    for row in tables:
        queue = row["topic"], row["queue_id"]
        names[row["name"]] = names.get(row["name"], 0) + row["entries"]
        last = LastEntry(row["place"], row["position"])
        lasts[queue] = max(lasts.get(queue, last), last)
        end = max(end, row["end"])
    rows = {
        offset_key(*queue, MAX): _long(last.place) + _long(last.position)
        for queue, last in lasts.items()
    }
    rows[CHECKPOINT_KEY] = _long(end)
    return _database(staging, CONSUME_QUEUE, {ENTRIES: (list(names), {}), OFFSETS: ([], rows)})


def index_database(staging: Staging, tables: IndexTables) -> list[Built]:
    """Make the database of an index in staging; BUILT rows with their paths below the set."""
    rows = {}
    if tables.rows:
        rows = {LAST_OFFSET: _long(tables.last_offset), LAST_TIME: _long(tables.last_time)}
    return _database(staging, STORE_DB, {FAMILY: (tables.names, rows)})


def _database(
    staging: Staging, kind: str, families: dict[str, tuple[list[str], dict[bytes, bytes]]]
) -> list[Built]:
    """Make a database in staging. kind: its folder in the set. families: name -> (tables,
    further rows); the keys of the further rows lie outside the key ranges of the tables.
    """
    with _room(staging) as (folder, name):
        made = f"{folder}/{name}"
        os.mkdir(made, 0o700)
        given = {}
        for family, (tables, rows) in families.items():
            options = table_options(family != OFFSETS, family != OFFSETS)
            paths = [_local_path(staging, folder, each) for each in tables]
            if rows:
                paths.append(f"{folder}/{attempt_name('rows')}")
                writer = TableWriter(paths[-1], options)
                writer.put(*zip(*sorted(rows.items()), strict=True))
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
        copy_in(staging, path, name)
    else:
        os.chmod(path, 0o600)
    return {
        "folder": kind, "number": 0, "name": name, "length": length, "used": length,
        "sha256": digest, "entries": 0, "skipped": 0, "begin": 0, "end": 0,
        "path": f"{kind}/{file}",
    }  # fmt: skip


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        os.fsync(file.fileno())
    return digest
