"""Converts topics, groups and offsets when a store's queues change between files and RocksDB.

With storeType=defaultRocksDB a broker keeps each of them in a RocksDB below config/, else in JSON
files (BrokerController.initializeMetadata). A 5.2.0 broker takes over nothing from JSON files,
a later broker only what looks newer (RocksDBTopicConfigManager.merge), and no broker takes over
from RocksDB to JSON: it would begin without topics, or with older consumer offsets.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple

from reput.broker.change.install import Apart, SetFile
from reput.store_format.discover.config import config_in_rocksdb, config_table, has_rows
from reput.store_format.faults import StoreError
from reput.store_format.files.disk import FixedFiles
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.protocol import InputStorage
from reput.store_format.names import CONFIG, CONFIG_DBS, STORE_DB
from reput.store_format.notes import Notes
from reput.store_format.rocksdb.database import (
    DEFAULT,
    TableWriter,
    make_database,
    open_database,
    table_options,
)
from reput.store_format.rocksdb.rows import FAMILY, config_rows

_TABLES = {
    "topics.json": "topicConfigTable",
    "subscriptionGroup.json": "subscriptionGroupTable",
    "consumerOffset.json": "offsetTable",
}
_OFFSETS = "consumerOffset.json"
_OF_FAMILY = {"timer": "timerRocksDBEnable", "trans": "transRocksDBEnable"}
_V2 = "rdb"  # configManagerVersion=v2 is there with either kind of queues
# DataVersion: a broker takes over a JSON file if its counter is above that of its RocksDB.
_VERSION = {"stateVersion": 0, "timestamp": 0, "counter": 1}


class Conversion(NamedTuple):
    """What is to be converted. names: JSON file -> the RocksDB with the same content."""

    to_rocksdb: bool
    names: dict[str, str]

    @property
    def lines(self) -> list[str]:
        pairs = ((f"{CONFIG}/{file}", f"{CONFIG}/{name}") for file, name in self.names.items())
        if self.to_rocksdb:
            return [f"{file} gets its rows in a RocksDB, {name}" for file, name in pairs]
        return [f"{file} is written from the RocksDB {name}, which is kept" for file, name in pairs]


def to_convert(store: str, to_rocksdb: bool) -> Conversion:
    """What of config/ must be converted if queues are installed in RocksDB (else in files)."""
    storage, names = LocalStorage(), {}
    for file, databases in CONFIG_DBS.items():
        there = config_in_rocksdb(storage, store, file)
        if to_rocksdb:
            if there is None and os.path.exists(f"{store}/{CONFIG}/{file}"):
                names[file] = databases[0]
        elif there is not None and os.path.basename(there) != _V2:
            names[file] = os.path.basename(there)
    return Conversion(to_rocksdb, names)


def converted_config(store: str, to_rocksdb: bool, folder: str) -> Apart:
    """Convert into `folder`. Raises RocksDBError, OSError."""
    about = to_convert(store, to_rocksdb)
    os.mkdir(f"{folder}/{CONFIG}")
    for file, name in about.names.items():
        if to_rocksdb:
            _to_rocksdb(store, file, f"{folder}/{CONFIG}/{name}")
        else:
            _to_json(store, file, name, f"{folder}/{CONFIG}/{file}")
    names = {*about.names.values()}
    if not to_rocksdb:
        names |= {each for file in about.names for each in (file, f"{file}.bak")}
    paths = tuple(f"{CONFIG}/{name}" for name in sorted(names))
    return Apart(FixedFiles(folder), list(_files(folder)), paths)


def _to_rocksdb(store: str, file: str, to: str) -> None:
    table = config_table(LocalStorage(), store, file, _TABLES[file], Notes()) or {}
    os.mkdir(to)
    if not table:
        os.rmdir(to)
        return
    sorted_table, options = f"{to}.sst", table_options(False, False)
    rows = sorted((name.encode(), _row(file, about)) for name, about in table.items())
    writer = TableWriter(sorted_table, options)
    writer.put((key for key, _ in rows), (value for _, value in rows))
    writer.finish()
    make_database(to, {DEFAULT: (options, [sorted_table])})
    if os.path.exists(sorted_table):  # linked into the database, if it could not be moved
        os.unlink(sorted_table)


def _row(file: str, about: Any) -> bytes:
    return json.dumps({"offsetTable": about} if file == _OFFSETS else about).encode()


def _to_json(store: str, file: str, name: str, to: str) -> None:
    text = config_as_json(LocalStorage(), f"{store}/{CONFIG}/{name}", file)
    with open(to, "x", encoding="utf-8") as output:
        output.write(text)


def config_as_json(storage: InputStorage, folder: str, file: str) -> str:
    """The JSON text of a file of config/, from the RocksDB in a folder. Raises RocksDBError."""
    with closing(open_database(storage, folder)) as database:
        table = config_rows(database, file)
    if file == _OFFSETS:
        table = {name: _by_number(queues) for name, queues in table.items()}
    return json.dumps({"dataVersion": _VERSION, _TABLES[file]: table})


def _by_number(queues: dict[str, int]) -> dict[str, int]:
    return {queue: queues[queue] for queue in sorted(queues, key=int)}


def _files(folder: str) -> Iterator[SetFile]:
    for above, _, names in os.walk(folder):
        for name in names:
            path = f"{above}/{name}"
            with open(path, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            yield SetFile(os.path.relpath(path, folder), os.path.getsize(path), digest)


def refuse_further_rows(store: str) -> None:
    """Raise StoreError where the RocksDB of the index has timers or transactions too."""
    storage, folder = LocalStorage(), f"{store}/{STORE_DB}"
    if not has_rows(storage, folder):
        return
    with closing(open_database(storage, folder)) as database:
        for family in database.families:
            if family != FAMILY and any(True for _ in database.rows(family)):
                raise StoreError(
                    f"{folder}: has rows in {family!r} ({_OF_FAMILY.get(family, 'not known')}), "
                    f"which a rebuilt one has not: the index stays in files (--index files)"
                )
