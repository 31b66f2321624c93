"""A local store that is examined, perhaps changed: its lock, what must stay. No kernels."""

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from reput.store_format.derived.index_header import listed_index
from reput.store_format.discover.store import StoreAt
from reput.store_format.faults import StoreError
from reput.store_format.files.disk import DiskFiles, SpreadFiles
from reput.store_format.files.folder import Folder, Place, queue_folders
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.protocol import StoreInUse
from reput.store_format.files.system import holder_text
from reput.store_format.layouts import CHECKPOINT_FILE_BYTES
from reput.store_format.log.groups import refuse_dledger
from reput.store_format.log.segments import Segment, list_segments
from reput.store_format.names import (
    ABORT,
    BATCH_CONSUME_QUEUE,
    CHECKPOINT,
    COMMIT_LOG,
    CONSUME_QUEUE,
    INDEX,
    LOCK,
    STAGED_INDEX,
    is_index_name,
    segment_start,
    segments_among,
)
from reput.store_format.release.settings import Settings

# ---
# Refuses folders in which append, recover and other commands must not change files in place.
#
# These commands write to `lock`, `checkpoint`, `abort` and segments. In a folder that is no store,
# files of these names may be somebody's own; and a hard link of a segment may be another store's.

_LOCK = re.compile(rb"(lock)?")  # DefaultMessageStore.start writes it
_PROCESS_ID = re.compile(rb"\d{0,20}\s?")  # in abort, since 5.0.0; empty before
_READ_MOST = 64
_STAYS = "the folder is taken for no store, and nothing in it is changed"


def refuse_what_is_no_store(store: str) -> None:
    """Raise StoreError if a file has a name of a store's file but was not written by a broker.

    store: a local path. A folder with a segment is a store, whatever a crash left of other files.
    """
    refuse_group_log(store)
    if segments_among(_names(f"{store}/{COMMIT_LOG}")):
        return
    for folder, is_ours in ((COMMIT_LOG, segment_start), (INDEX, is_index_name)):
        for name in _names(f"{store}/{folder}"):
            if is_ours(name) in (None, False):
                raise StoreError(f"{store}/{folder}/{name}: is not a file of a broker's; {_STAYS}")
    for name, wanted in ((LOCK, _LOCK), (ABORT, _PROCESS_ID)):
        content = _beginning(f"{store}/{name}")
        if content is not None and not wanted.fullmatch(content):
            raise StoreError(f"{store}/{name}: was not written by a broker; {_STAYS}")
    path = f"{store}/{CHECKPOINT}"
    if os.path.isfile(path) and os.path.getsize(path) not in (0, CHECKPOINT_FILE_BYTES):
        raise StoreError(f"{path}: has not the length of a checkpoint; {_STAYS}")


def refuse_group_log(store: str) -> None:
    """Raise StoreError if the log is that of a DLedger group, which no command changes."""
    refuse_dledger(store, lambda name: _names(f"{store}/{name}"))


def refuse_shared_segments(store: str) -> None:
    """Raise StoreError if a segment has a second name (a hard link), as `cp -al` makes.

    A change would also change the other file, in a backup or another store.
    """
    for name in segments_among(_names(f"{store}/{COMMIT_LOG}")):
        refuse_second_name(f"{store}/{COMMIT_LOG}/{name}")


def refuse_shared_files(store: str) -> None:
    """Raise StoreError if any file that a writer writes to has a second name."""
    refuse_shared_segments(store)
    refuse_shared_derived(store)


def refuse_shared_derived(store: str) -> None:
    """Refuse hard links of the derived files that a writer changes in place: the checkpoint, each
    queue's last file, and the last index file.
    """
    shared = [f"{store}/{CHECKPOINT}"]
    for kind in (CONSUME_QUEUE, BATCH_CONSUME_QUEUE):
        for queue in queue_folders(Folder(LocalStorage(), store), kind):
            folder = f"{store}/{queue}"
            shared += [f"{folder}/{name}" for name in segments_among(_names(folder))[-1:]]
    if not os.path.lexists(f"{store}/{STAGED_INDEX}"):  # a killed writer leaves hard links there
        last = listed_index(Folder(LocalStorage(), store))[-1:]
        shared += [f"{store}/{INDEX}/{each.name}" for each in last]
    for path in shared:
        refuse_second_name(path)


def refuse_links(store: str) -> None:
    """Raise StoreError where anything below a store is neither a file nor a folder."""
    for above, folders, names in os.walk(store):
        for name in (*folders, *names):
            mode = os.lstat(f"{above}/{name}").st_mode
            if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
                kind = "a link" if stat.S_ISLNK(mode) else "neither a file nor a folder"
                raise StoreError(f"{above}/{name}: is {kind}")


def refuse_linked(store: str, paths: Iterable[str]) -> None:
    """Raise StoreError if a file below a store that is to be replaced is a link."""
    for path in paths:
        if os.path.islink(f"{store}/{path}"):
            raise StoreError(
                f"{store}/{path}: is a link, and must be written anew: put what it leads to in its "
                "place first"
            )


def refuse_second_name(path: str) -> None:
    """Raise StoreError if a file to be written to has a second name (a hard link)."""
    try:
        about = os.lstat(path)
    except FileNotFoundError:
        return
    if stat.S_ISREG(about.st_mode) and about.st_nlink > 1:
        raise StoreError(
            f"{path}: has a second name elsewhere (a hard link), which would be changed too; "
            f"give this store files of its own (cp -a), or after a killed install: reput clean"
        )


def refuse_log_elsewhere(store: str, segments: Iterable[Segment], command: str) -> None:
    """Raise StoreError if the settings put the log elsewhere than in STORE/commitlog."""
    own = f"{store}/{COMMIT_LOG}"
    for segment in segments:
        if os.path.dirname(segment.path) != own:
            raise StoreError(f"{segment.path}: {command} works on a log in {own} only")


def _beginning(path: str) -> bytes | None:
    """The first bytes of a regular file; None for anything else."""
    if not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        return file.read(_READ_MOST)


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


# ---
# A local store whose lock is held while a command examines and perhaps changes it.


class HeldStore:
    """A store whose lock is held, if it has a lock file, so that nobody else changes it.

    A store without a lock file gets it only before a change (`lock_at_last`).
    """

    def __init__(self, path: str, dry_run: bool, release: ExitStack) -> None:
        """release: gets the callback that releases the lock. Raises StoreInUse."""
        about = os.lstat(path)
        self.path, self.dry_run, self._release = path, dry_run, release
        self.files: DiskFiles = DiskFiles.as_owned_by(about, path)
        self.storage = _Ours(self.files.file_mode, self.files.folder_mode)
        self._locked = False
        self._lock(create=False)
        self.crashed = self.files.exists(ABORT)
        self.changed = False
        self._times = about.st_atime_ns, about.st_mtime_ns

    @property
    def folder(self) -> Place:
        return Place(self.storage, self.path)

    def at(self, rocketmq: str | None, settings: Mapping[str, str] | None) -> StoreAt:
        """The store with the user's release and settings."""
        return StoreAt(self.storage, self.path, rocketmq, settings or {})

    def spread(self, folders: Sequence[str], segment_bytes: int) -> None:
        """Find the segments in the folders of a broker's settings, if these are several."""
        own = f"{self.path}/{COMMIT_LOG}"
        if list(folders) in ([], [own]):
            return
        there = list_segments(self.storage, folders, segment_bytes).segments
        self.files = files = SpreadFiles.as_owned_by(os.lstat(self.path), self.path)
        files.segments = {os.path.basename(each.path): each.path for each in there}
        for each in there:
            refuse_second_name(each.path)

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
    """Hold the lock of a folder that a user names; it must exist, and be a store.

    dry_run: see `held_store`. instead: text after "no such folder". Raises StoreError.
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
    for name in segments_among(held.files.names(COMMIT_LOG))[-1:]:
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
