"""The `Storage` of local disks: lists folders, reads ranges, and publishes in one atomic step.

It opens input read-only and never through a link. Input that is no regular file, or that changes
while it is read, is an error.
"""

import errno
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from reput.store_format.disk.exchange import put_in_place
from reput.store_format.disk.local_files import DiskFiles, fill_from
from reput.store_format.disk.locks import claim_folder, is_abandoned, lock_holder
from reput.store_format.disk.page_cache import cached_bytes, uncached_flags
from reput.store_format.faults import StoreChanged, StoreError
from reput.store_format.names import LOCK
from reput.store_format.storage.local_writers import LocalWriter, PublishedWriter, open_new
from reput.store_format.storage.overlap import Whereabouts, on_this_machine
from reput.store_format.storage.protocol import Bytes, FileState, Listed, MayGo, Writer

_FETCH_BYTES = 1 << 20
_AHEAD_BYTES = 8 << 20
_FILE_URL = re.compile(r"^file:(//(localhost)?(?=/))?", re.IGNORECASE)
_GONE = ".gone"


class LocalStorage:
    """Files of this machine (or of a file system that all machines mount at one place).

    sync_files: fsync each file that is to be published. Tasks on other machines need it: the
    publisher's syncfs does not reach their writes.
    """

    reader: type["LocalReader"]  # set below its definition
    window_bytes = 2 << 20  # with less, kernels are called more often; more gains nothing
    reads_ahead = 0

    def __init__(
        self, file_mode: int = 0o600, folder_mode: int = 0o700, sync_files: bool = False
    ) -> None:
        self.file_mode = file_mode
        self.folder_mode = folder_mode
        self.sync_files = sync_files

    def resolve(self, path: str) -> str:
        """An absolute path; links in it stay as they are. Takes `file:` URLs as well."""
        return os.path.abspath(_FILE_URL.sub("", path))

    def list(self, folder: str) -> list[Listed]:
        """The names in a folder, sorted. Raises FileNotFoundError, NotADirectoryError."""
        listed = []
        with os.scandir(folder) as entries:
            for entry in entries:
                about = entry.stat(follow_symlinks=False)
                regular = stat.S_ISREG(about.st_mode)
                state = self.reader.state_of(about) if regular else None
                listed.append(Listed(entry.name, state))
        return sorted(listed)

    def walk(self, folder: str, below: str = "") -> Iterator[Listed]:
        """All below a folder; see OutputStorage.walk."""
        if os.path.islink(folder):
            raise StoreError(f"{folder}: is a link; give the folder that it leads to")
        for name, state in self.list(folder):
            path = f"{folder}/{name}"
            if state is not None or not stat.S_ISDIR(os.lstat(path).st_mode):
                yield Listed(f"{below}{name}", state)
                continue
            yield Listed(f"{below}{name}/", None)
            yield from self.walk(path, f"{below}{name}/")

    def whereabouts(self, path: str) -> Whereabouts:
        return on_this_machine(path)

    def open(self, path: str, state: FileState | None = None) -> "LocalReader":
        """Open for reading. state: from an earlier listing. Raises StoreError."""
        return self.reader(path, state)

    def create(self, path: str, digest: bool = False, published: bool = False) -> Writer:
        """A new file. Raises FileExistsError."""
        if digest or published:
            return PublishedWriter(path, self.file_mode, self.sync_files, digest)
        return LocalWriter(path, self.file_mode)

    def place(self, folder: str, path: str, content: bytes, length: int) -> bool:
        """See StagingStorage.place. The file is as `create` makes it, at half the cost.

        Not for tasks on other machines: they would have to make their folders durable.
        """
        if self.sync_files:
            return False
        below = path.rpartition("/")[0]
        self._make_below(folder, below)
        try:
            descriptor = open_new(f"{folder}/{path}", self.file_mode)
        except FileExistsError:
            return False
        try:
            at = 0
            while at < len(content):
                at += os.pwrite(descriptor, content[at:], at)
            os.ftruncate(descriptor, length)
        finally:
            os.close(descriptor)
        return True

    def _make_below(self, folder: str, below: str) -> None:
        """Make folders below `folder`, which is not made anew if it is gone."""
        try:
            os.mkdir(f"{folder}/{below}", self.folder_mode)
        except FileExistsError:
            pass
        except FileNotFoundError:
            above = below.rpartition("/")[0]
            if not above:
                raise
            self._make_below(folder, above)
            self._make_below(folder, below)

    def read_bytes(self, path: str) -> bytes:
        """A small file, whole. Raises FileNotFoundError, StoreError."""
        descriptor = _open_regular(path)
        with os.fdopen(descriptor, "rb") as file:
            return file.read()

    def has_folder(self, path: str) -> bool:
        return os.path.isdir(path)

    def make_folders(self, path: str) -> None:
        """Make the folder and the missing ones above it, all with `folder_mode`."""
        if not os.path.isdir(path):
            self.make_folders(os.path.dirname(os.path.abspath(path)))
            with suppress(FileExistsError):
                os.mkdir(path, self.folder_mode)

    def claim(self, folder: str) -> Callable[[], None] | None:
        self.make_folders(os.path.dirname(folder))
        return claim_folder(folder)

    def is_abandoned(self, folder: str) -> bool | None:
        return is_abandoned(folder)

    def lock_holder(self, store: str) -> int | None:
        """By the store's file `lock`. Raises OSError."""
        return lock_holder(f"{store}/{LOCK}")

    def move_all(self, moves: Iterable[tuple[str, str]]) -> None:
        for path, to in moves:
            os.rename(path, to)

    def remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(path)

    def remove_tree(self, folder: str) -> None:
        """Remove a folder with all in it; what cannot be removed stays.

        The folder is renamed first, so that a task still running makes no new files in it.
        """
        gone = folder if folder.endswith(_GONE) else folder + _GONE
        with suppress(OSError):
            os.rename(folder, gone)
        shutil.rmtree(gone, ignore_errors=True)

    def begin_set(self, folder: str, to: str, may_go: MayGo) -> str:
        """Make a new folder in staging, which `publish` renames as a whole."""
        may_go(to)
        self.make_folders(folder)
        return folder

    def publish(self, folder: str, to: str, may_go: MayGo, manifest: tuple[str, bytes]) -> None:
        """Add the manifest, make all of `folder` durable, then give it the name `to`.

        An old `to`, if may_go allows its removal, has the name `folder` afterwards. Raises OSError,
        or as may_go does, if nothing was changed; NotDurable if `to` was replaced.
        """
        name, content = manifest
        output = self.create(f"{folder}/{name}")
        output.write(content)
        output.finish(len(content))
        self.make_folders(os.path.dirname(os.path.abspath(to)))
        # rename takes no slash at the end, and DiskFiles("") takes none in front
        folder, to = (os.path.abspath(path).lstrip("/") for path in (folder, to))
        replaces = bool(may_go(f"/{to}"))
        put_in_place(DiskFiles(""), folder, to, replaces, lambda path: may_go(f"/{path}"))


def _open_regular(path: str) -> int:
    # O_NONBLOCK: opening a FIFO must not wait for a writer
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        reason = "is a link" if os.path.islink(path) else (error.strerror or str(error))
        raise StoreError(f"{path}: cannot be opened: {reason}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise StoreError(f"{path}: is not a regular file")
    return descriptor


class LocalReader:
    """Reads ranges with pread: a mapped file that shrinks would kill the process."""

    def __init__(self, path: str, state: FileState | None = None) -> None:
        self.path = path
        self._descriptor = _open_regular(path)
        self.state = self.state_of(os.fstat(self._descriptor))
        if state is not None and not state.admits(self.state):
            os.close(self._descriptor)
            raise StoreChanged(f"{path}: changed since it was listed: {state} is now {self.state}")
        self._wanted = state or self.state
        self._past_cache = 0  # preadv2's flags

    @staticmethod
    def state_of(about: os.stat_result) -> FileState:
        return FileState(about.st_size, about.st_mtime_ns, about.st_ino)

    def read_into(self, offset: int, buffer: Bytes) -> None:
        if self._past_cache:
            self._read_past_cache(offset, buffer)
            return
        fill_from(self._descriptor, self.path, offset, buffer)
        self._fetch(offset + buffer.nbytes, buffer.nbytes)

    def go_past_cache(self, begin: int, end: int) -> bool:
        """Bypass the page cache from now on if it holds less than half of the bytes [begin, end).

        Reads then add nothing to the page cache. Returns whether they bypass it.
        """
        cached = cached_bytes(self._descriptor, begin, end - begin)
        if cached is not None and cached < (end - begin) // 2:
            self._past_cache = uncached_flags(os.uname().release)
        return bool(self._past_cache)

    def _read_past_cache(self, offset: int, buffer: Bytes) -> None:
        try:
            fill_from(self._descriptor, self.path, offset, buffer, self._past_cache)
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                raise
            self._past_cache = 0  # this file system lacks the flag
            fill_from(self._descriptor, self.path, offset, buffer)

    def fileno(self) -> int:
        """The open file's descriptor, for sendfile."""
        return self._descriptor

    def _fetch(self, offset: int, length: int) -> None:
        """After a large read, ask the kernel to read the next bytes while these are processed.

        It asks in pieces: one large request takes the kernel much longer, even if all is cached.
        """
        if length >= _FETCH_BYTES:
            end = offset + max(length, _AHEAD_BYTES)
            for at in range(end - length, end, _FETCH_BYTES):
                os.posix_fadvise(self._descriptor, at, _FETCH_BYTES, os.POSIX_FADV_WILLNEED)

    def close(self) -> None:
        now = self.state_of(os.fstat(self._descriptor))
        os.close(self._descriptor)
        if not self._wanted.admits(now):
            raise StoreChanged(f"{self.path}: changed while it was read: {self.state} is now {now}")


LocalStorage.reader = LocalReader
