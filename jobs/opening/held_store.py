"""A local store whose lock is held while a command examines and perhaps changes it."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

from reput.jobs.opening.change_refusals import refuse_what_is_no_store
from reput.store_format.discover.store import StoreAt
from reput.store_format.faults import StoreError
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.protocol import StoreInUse
from reput.store_format.files.system import holder_text
from reput.store_format.names import ABORT, COMMIT_LOG, LOCK
from reput.store_format.release.settings import Settings


class HeldStore:
    """A store whose lock is held, if it has a lock file, so that nobody else changes it.

    A store without a lock file gets it only before a change (`lock_at_last`).
    """

    def __init__(self, path: str, dry_run: bool, release: ExitStack) -> None:
        """release: gets the callback that releases the lock. Raises StoreInUse."""
        about = os.lstat(path)
        self.path, self.dry_run, self._release = path, dry_run, release
        self.files = DiskFiles.as_owned_by(about, path)
        self.storage = _Ours(self.files.file_mode, self.files.folder_mode)
        self._locked = False
        self._lock(create=False)
        self.crashed = self.files.exists(ABORT)
        self.changed = False
        self._times = about.st_atime_ns, about.st_mtime_ns

    def at(self, rocketmq: str | None, settings: Mapping[str, str] | None) -> StoreAt:
        """The store with the user's release and settings."""
        return StoreAt(self.storage, self.path, rocketmq, settings or {})

    def lock_at_last(self) -> bool:
        """Make and hold the lock before a change; False if it has been held all along."""
        if self._locked:
            return False
        self._lock(create=True)
        return True

    def _lock(self, create: bool) -> None:
        holder = LocalStorage().lock_holder(self.path)
        if holder is not None:
            raise StoreInUse(f"{self.path}: {holder_text(holder)} holds its lock; stop the broker")
        if not self.dry_run and (create or self.files.exists(LOCK)):
            self._release.callback(self.files.lock(LOCK))
            self._locked = True

    def restore_time(self) -> None:
        """Restore the times of the store's folder, which staging in it has changed.

        Does nothing if the store itself was changed, or in a dry run.
        """
        if not self.changed and not self.dry_run:
            os.utime(self.path, ns=self._times)


@contextmanager
def held_store(path: str, dry_run: bool) -> Iterator[HeldStore]:
    """Hold a store's lock; a dry run only checks that it is free. Raises StoreInUse, OSError."""
    with ExitStack() as release:
        held = HeldStore(path, dry_run, release)
        try:
            yield held
        finally:
            held.restore_time()


@contextmanager
def held_local_store(path: str, dry_run: bool, instead: str = "") -> Iterator[HeldStore]:
    """As `held_store`, for a folder that a user names: it must exist, and be a store.

    instead: text after "no such folder". Raises StoreError.
    """
    store = LocalStorage().resolve(path)
    if not os.path.isdir(store):
        raise StoreError(f"{store}: no such folder{instead}")
    refuse_what_is_no_store(store)
    with held_store(store, dry_run) as held:
        yield held


def complete_last(held: HeldStore, settings: Settings, confirm: Callable[[str], None]) -> None:
    """Give the last segment its full length if a crash interrupted its making.

    confirm: called first. Raises StoreError in a dry run, OSError.
    """
    segment_bytes = settings.mapped_file_size_commit_log
    for name in held.files.names(COMMIT_LOG)[-1:]:
        path = f"{COMMIT_LOG}/{name}"
        if held.files.is_folder(path):
            continue
        file = held.files.open_read(path)
        length = file.length()
        file.close()
        if not 0 < length < segment_bytes:
            continue
        if held.dry_run:
            raise StoreError(
                f"{held.path}/{path}: has {length} bytes: a crash left it unfinished; "
                f"recover gives it its length first"
            )
        confirm(f"extend {held.path}/{path}, which a crash left unfinished, with zeros")
        held.changed = True
        file = held.files.open(path)
        file.set_length(segment_bytes)
        file.sync()
        file.close()


class _Ours(LocalStorage):
    """Reports no lock holder, as this process holds the store's lock itself."""

    def lock_holder(self, store: str) -> int | None:
        return None
