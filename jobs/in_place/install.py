"""The store in which a set is installed, its lock and leftovers of killed runs; and its
configuration, converted between JSON and RocksDB.
"""

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any, NamedTuple

from reput.broker.change.install import Apart, SetFile, clean_up, foreign, unfinished
from reput.store_format.discover.config import (
    LIGHT,
    config_in_rocksdb,
    config_table,
    consumer_offsets,
    has_rows,
    with_light,
)
from reput.store_format.faults import StoreError
from reput.store_format.files.by_url import storage_for
from reput.store_format.files.disk import DiskFiles, FixedFiles
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage, VolumeStorage
from reput.store_format.files.protocol import StoreInUse
from reput.store_format.files.system import holder_text, lock_holder
from reput.store_format.names import (
    ABORT,
    CONFIG,
    DELAY_OFFSETS,
    LMQ_OFFSETS,
    LOCK,
    OFFSETS,
    ROCKSDB_QUEUES,
    STORE_DB,
    TIMER_CHECK_FILE,
    TIMER_LOG,
    is_wheel,
)
from reput.store_format.notes import Notes
from reput.store_format.rocksdb.database import (
    DEFAULT,
    TableWriter,
    make_database,
    open_database,
    table_options,
)
from reput.store_format.rocksdb.rows import FAMILY, config_rows
from reput.store_format.state_table import CONFIG_DBS, CONFIG_ROWS

# ---
# The store in which a set is installed: its lock, and the leftovers of killed installations.

_DATABASE_LOCK = "LOCK"  # RocksDB's lock file, locked like that of a store


class Target:
    """A store on a local disk, and the folder that holds it."""

    def __init__(self, store: str) -> None:
        self.path = local_path(store)
        parent, self.name = os.path.split(self.path)
        about = os.lstat(self.path)
        if stat.S_ISLNK(about.st_mode):
            raise StoreError(f"{self.path}: is a link: say where it leads to")
        if not stat.S_ISDIR(about.st_mode):
            raise StoreError(f"{self.path}: is not a folder")
        if about.st_dev != os.stat(parent).st_dev:
            raise StoreError(
                f"{self.path}: is where a file system is mounted, so that it cannot change places "
                f"with another folder; use a folder below it as the store's root"
            )
        self.files = DiskFiles.as_owned_by(about, parent.rstrip("/"))


def local_path(path: str) -> str:
    """The absolute path of a path or file: URL. Raises StoreError for any other URL."""
    storage = storage_for(path)
    if not isinstance(storage, LocalStorage) or isinstance(storage, VolumeStorage):
        raise StoreError(f"{path}: a set is installed from a local folder into a local store")
    return storage.resolve(path)


@contextmanager
def locked(target: Target, dry_run: bool) -> Iterator[None]:
    """Hold the store's lock; a dry run only checks that it is free. Raises StoreInUse."""
    holder = LocalStorage().lock_holder(target.path)
    if holder is not None:
        by = holder_text(holder)
        raise StoreInUse(f"{target.path}: is in use: {by} holds its lock; stop the broker")
    refuse_open_databases(target.path)
    with ExitStack() as held:
        if not dry_run:
            held.callback(target.files.lock(f"{target.name}/{LOCK}"))
        yield


def refuse_open_databases(store: str) -> None:
    """Raise StoreInUse if a process has a RocksDB of the store open, and so may write to it."""
    config = {name for names in CONFIG_DBS.values() for name in names}
    for folder in (*ROCKSDB_QUEUES, STORE_DB, *(f"{CONFIG}/{name}" for name in config)):
        holder = lock_holder(f"{store}/{folder}/{_DATABASE_LOCK}")
        if holder is not None:
            raise StoreInUse(
                f"{store}/{folder}/{_DATABASE_LOCK}: {holder_text(holder)} has the RocksDB open; "
                f"end it first"
            )


def finish_first(target: Target, dry_run: bool) -> tuple[list[str], list[str]]:
    """Finish or undo killed installations: (their paths, warnings)."""
    found = (
        unfinished(target.files, target.name) if dry_run else clean_up(target.files, target.name)
    )
    warnings = []
    if target.files.exists(f"{target.name}/{ABORT}"):
        warnings.append(
            f"{target.path}/{ABORT} is there: the store was not stopped cleanly; its broker will "
            f"recover when it starts (reput recover does so here)"
        )
    return [os.path.join(os.path.dirname(target.path), name) for name in found], warnings


def finish_killed(store: str, dry_run: bool = False) -> list[str]:
    """Finish or undo killed installations; their paths. Raises StoreError, OSError."""
    parent, name = os.path.split(local_path(store))
    if not unfinished(DiskFiles(parent.rstrip("/")), name):
        return []  # checked first, as the path need not be that of a store
    target = Target(store)
    with locked(target, dry_run):
        cleaned, _ = finish_first(target, dry_run)
    return cleaned


def foreign_installs(store: str) -> list[str]:
    """Paths named like leftovers of an install that are links, or not this user's alone."""
    parent, name = os.path.split(local_path(store))
    return [os.path.join(parent, found) for found in foreign(DiskFiles(parent.rstrip("/")), name)]


# ---
# Converts topics, groups and offsets when a store's queues change between files and RocksDB.
#
# With storeType=defaultRocksDB a broker keeps each of them in a RocksDB below config/, else in JSON
# files (BrokerController.initializeMetadata). A 5.2.0 broker takes over nothing from JSON files,
# a later broker only what looks newer (RocksDBTopicConfigManager.merge), and no broker takes over
# from RocksDB to JSON: it would begin without topics, or with older consumer offsets.

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


def to_convert(store: str, to_rocksdb: bool, lmq: bool) -> Conversion:
    """What of config/ must be converted if queues are installed in RocksDB (else in files).

    lmq: enableLmq, with which a broker reads all offsets from another file, but not with RocksDB.
    """
    names = {}
    for file, databases in CONFIG_DBS.items():
        there = config_in_rocksdb(Folder(LocalStorage(), store), file)
        if to_rocksdb:
            if there is None and os.path.exists(f"{store}/{CONFIG}/{file}"):
                names[file] = databases[0]
        elif there is not None and os.path.basename(there.path) != _V2:
            names[file] = os.path.basename(there.path)
    if to_rocksdb:
        if not there and os.path.exists(f"{store}/{CONFIG}/{LMQ_OFFSETS}"):  # there: of offsets
            names[OFFSETS] = CONFIG_DBS[OFFSETS][0]
    elif OFFSETS in names and _light(store, names[OFFSETS], lmq):
        names[LMQ_OFFSETS] = names[OFFSETS]
    return Conversion(to_rocksdb, names)


def _light(store: str, name: str, lmq: bool) -> bool:
    """Whether LMQs' offsets are, or are to be, in a RocksDB of config/. Raises RocksDBError."""
    if lmq:
        return True
    with closing(open_database(Folder(LocalStorage(), f"{store}/{CONFIG}/{name}"))) as database:
        return bool(with_light({"offsetTable": config_rows(database, OFFSETS)})[LIGHT])


def converted_config(store: str, about: Conversion, folder: str) -> Apart:
    """Convert into `folder`. Raises RocksDBError, OSError."""
    to_rocksdb = about.to_rocksdb
    os.mkdir(f"{folder}/{CONFIG}")
    for file, name in about.names.items():
        if to_rocksdb:
            _to_rocksdb(store, file, f"{folder}/{CONFIG}/{name}")
        else:
            text = config_as_json(Folder(LocalStorage(), f"{store}/{CONFIG}/{name}"), file)
            with open(f"{folder}/{CONFIG}/{file}", "x", encoding="utf-8") as output:
                output.write(text)
    names = {*about.names.values()}
    if not to_rocksdb:
        names |= {each for file in about.names for each in (file, f"{file}.bak")}
    paths = tuple(f"{CONFIG}/{name}" for name in sorted(names))
    return Apart(FixedFiles(folder), list(_files(folder)), paths)


def _to_rocksdb(store: str, file: str, to: str) -> None:
    table = config_table(Folder(LocalStorage(), store), file, Notes()) or {}
    if file == OFFSETS:  # with those that are in lmqConsumerOffset.json
        found = consumer_offsets(Folder(LocalStorage(), store), Notes())
        table = {f"{topic}@{group}": queues for (group, topic), queues in found.items()}
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
    return json.dumps({"offsetTable": about} if file == OFFSETS else about).encode()


def config_as_json(folder: Folder, file: str) -> str:
    """The JSON text of a file of config/, from the RocksDB in a folder. Raises RocksDBError."""
    with closing(open_database(folder)) as database:
        table = config_rows(database, OFFSETS if file == LMQ_OFFSETS else file)
    if file in (OFFSETS, LMQ_OFFSETS):
        table = {name: dict(sorted(queues.items(), key=lambda each: int(each[0])))
                 for name, queues in table.items()}  # fmt: skip
    whole = {"dataVersion": _VERSION, CONFIG_ROWS[file].table: table}
    return json.dumps(with_light(whole) if file == LMQ_OFFSETS else whole)


def _files(folder: str) -> Iterator[SetFile]:
    for above, _, names in os.walk(folder):
        for name in names:
            path = f"{above}/{name}"
            yield SetFile(os.path.relpath(path, folder), os.path.getsize(path), _sha256(path))


def _sha256(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def services_from(store: str, log_end: int, there: Mapping[str, str]) -> list[str]:
    """What a store takes of a set's files of services, as paths that are replaced; none where its
    own tell what waits. there: the set's paths, with the SHA-256 of each.
    """
    from reput.store_format.fate.known import timers_in_rocksdb  # here: `clean` needs no kernels
    from reput.store_format.state.timers import why_lost

    own_store, paths = Folder(LocalStorage(), store), list[str]()
    timer_check = f"{CONFIG}/{TIMER_CHECK_FILE}"
    lost = timer_check in there and why_lost(own_store, log_end)
    if lost and not timers_in_rocksdb(own_store):
        paths = [TIMER_LOG, timer_check, *filter(is_wheel, os.listdir(store))]
    # A set has delay offsets only where they were lost; the log has not grown since.
    delays, own = f"{CONFIG}/{DELAY_OFFSETS}", ""
    with suppress(FileNotFoundError):
        own = _sha256(f"{store}/{delays}")
    return [*paths, delays] if there.get(delays, own) != own else paths


def refuse_further_rows(store: str) -> None:
    """Raise StoreError where the RocksDB of the index has timers or transactions too."""
    folder = Folder(LocalStorage(), store) / STORE_DB
    if not has_rows(folder):
        return
    with closing(open_database(folder)) as database:
        for family in database.families:
            if family != FAMILY and any(True for _ in database.rows(family)):
                raise StoreError(
                    f"{folder}: has rows in {family!r} ({_OF_FAMILY.get(family, 'not known')}), "
                    f"which a rebuilt one has not: the index stays in files (--index files)"
                )
