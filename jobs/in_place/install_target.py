"""The store in which a set is installed: its lock, and the leftovers of killed installations."""

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from reput.broker.change.install import clean_up, foreign, unfinished
from reput.store_format.faults import StoreError
from reput.store_format.files.by_url import storage_for
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.local import LocalStorage, VolumeStorage
from reput.store_format.files.protocol import StoreInUse
from reput.store_format.files.system import holder_text, lock_holder
from reput.store_format.names import ABORT, CONFIG, CONFIG_DBS, LOCK, ROCKSDB_QUEUES, STORE_DB

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
    _refuse_open_databases(target.path)
    with ExitStack() as held:
        if not dry_run:
            held.callback(target.files.lock(f"{target.name}/{LOCK}"))
        yield


def _refuse_open_databases(store: str) -> None:
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
