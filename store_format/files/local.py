"""The `Storage` of local disks and of Databricks volumes: lists folders, reads ranges, writes new
files, and publishes.

A local disk publishes in one atomic step, a volume by its manifest, which is written last.
Input is opened read-only and never through a link. Input that is no regular file, or that changes
while it is read, is an error.
"""

import errno
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

from reput.store_format.faults import NotAFile, StoreChanged, StoreError
from reput.store_format.files.disk import DiskFiles, fill_from, put_in_place
from reput.store_format.files.local_writers import LocalWriter, PublishedWriter, open_new, put_new
from reput.store_format.files.manifest_last import ManifestLast, SequentialWriter
from reput.store_format.files.overlap import Whereabouts, on_this_machine
from reput.store_format.files.protocol import Bytes, FileState, Listed, MayGo, Storage, Writer
from reput.store_format.files.system import (
    cached_bytes,
    claim_folder,
    is_abandoned,
    lock_holder,
    uncached_flags,
)
from reput.store_format.names import LOCK

_FETCH_BYTES = 1 << 20
_AHEAD_BYTES = 8 << 20
_FILE_URL = re.compile(r"^file:(//(localhost)?(?=/))?", re.IGNORECASE)
_GONE = ".gone"


class LocalStorage(Storage):
    """Files of this machine (or of a file system that all machines mount at one place).

    sync_files: fsync each file that is to be published. Tasks on other machines need it: the
    publisher's syncfs does not reach their writes.
    """

    reader: type["LocalReader"]  # set below its definition
    window_bytes = 2 << 20  # with less, kernels are called more often; more gains nothing

    def __init__(
        self, file_mode: int = 0o600, folder_mode: int = 0o700, sync_files: bool = False
    ) -> None:
        self.file_mode = file_mode
        self.folder_mode = folder_mode
        self.sync_files = sync_files

    def resolve(self, path: str) -> str:
        """An absolute path; links in it stay as they are. Takes `file:` URLs as well."""
        bare = _FILE_URL.sub("", path)
        if not bare:
            raise StoreError(f"{path!r}: the path is empty: name a folder")
        return os.path.abspath(bare)

    def names(self, folder: str) -> list[str]:
        return os.listdir(folder)  # without a look at each: there may be thousands

    def list(self, folder: str) -> list[Listed]:
        listed = []
        with os.scandir(folder) as entries:
            for entry in entries:
                about = entry.stat(follow_symlinks=False)
                state = self.reader.state_of(about) if stat.S_ISREG(about.st_mode) else None
                listed.append(Listed(entry.name, state))
        return sorted(listed)

    def follow(self, path: str) -> tuple[str, FileState | None]:
        target = os.path.realpath(path)
        if not (os.path.islink(path) and os.path.isfile(target)):
            return path, None
        return target, self.reader.state_of(os.lstat(target))

    def walk(self, folder: str, below: str = "") -> Iterator[Listed]:
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
        return self.reader(path, state)

    def create(self, path: str, digest: bool = False, published: bool = False) -> Writer:
        """A new file. Raises FileExistsError."""
        if digest or published:
            return PublishedWriter(path, self.file_mode, self.sync_files, digest)
        return LocalWriter(path, self.file_mode)

    def place(self, folder: str, path: str, content: bytes, length: int) -> bool:
        """See Storage.place. The file is as `create` makes it, at half the cost.

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

    puts_once = True

    def put_new(self, path: str, content: Any) -> bool:
        """See Storage.put_new. A killed process leaves a file with a name of its own beside it."""
        return put_new(path, content, self.file_mode)

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

    asks_locks = True

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
        raise NotAFile(f"{path}: is not a regular file")
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
        size = buffer.nbytes
        if size >= _FETCH_BYTES and self.data_from(offset) >= offset + size:
            memoryview(buffer).cast("B")[:] = bytes(size)  # read, it would fill the cache
        elif self._past_cache:
            self._read_past_cache(offset, buffer)
        else:
            fill_from(self._descriptor, self.path, offset, buffer)
            self._fetch(offset + size, size)

    def data_from(self, offset: int) -> int:
        """Where the file's data goes on, or its end: before that are only zeros."""
        try:
            return os.lseek(self._descriptor, offset, os.SEEK_DATA)
        except OSError as error:  # ENXIO: a hole up to the end; others: a file system without holes
            return os.fstat(self._descriptor).st_size if error.errno == errno.ENXIO else offset

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


# ---
# Databricks volumes, `/Volumes/...`: an object store that looks like a folder.
#
# Files are written from start to end and never opened again for writing. No file is renamed,
# linked, synced or made with holes. Other machines may see other inodes than the driver.

_DBFS = re.compile(r"^(dbfs|file):/+", re.IGNORECASE)
_MOUNTS = ("Volumes", "dbfs")


class VolumeReader(LocalReader):
    @staticmethod
    def state_of(about: os.stat_result) -> FileState:
        return FileState(about.st_size, about.st_mtime_ns, 0)

    def data_from(self, offset: int) -> int:
        return offset  # such a mount may not seek for data


class VolumeWriter(SequentialWriter):
    """The file appears whole when it is closed, because the mount uploads it then."""

    def __init__(self, path: str, mode: int, digest: bool) -> None:
        super().__init__(path, digest)
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)

    def _send(self, view: memoryview) -> None:
        done = 0
        while done < len(view):
            done += os.write(self._descriptor, view[done:])

    def _close(self) -> None:
        os.close(self._descriptor)

    def abandon(self) -> None:
        os.close(self._descriptor)
        os.unlink(self.path)


class VolumeStorage(ManifestLast, LocalStorage):
    """A mounted object store: sequential writes, and publishing by a manifest."""

    reader = VolumeReader
    asks_locks = False
    claim, is_abandoned, lock_holder = Storage.claim, Storage.is_abandoned, Storage.lock_holder
    place, put_new, puts_once = Storage.place, Storage.put_new, False

    @staticmethod
    def is_for(path: str) -> bool:
        """Whether a path is on a Databricks mount."""
        return _plain(path).split("/")[1] in _MOUNTS

    def resolve(self, path: str) -> str:
        """The mounted path: /Volumes/x for dbfs:/Volumes/x, /dbfs/x for dbfs:/x."""
        return _plain(path)

    def create(self, path: str, digest: bool = False, published: bool = False) -> VolumeWriter:
        return VolumeWriter(path, self.file_mode, digest)

    def remove_folder(self, path: str) -> None:
        os.rmdir(path)

    def move_all(self, moves: Iterable[tuple[str, str]]) -> None:
        """By copy and removal, which every mount can do."""
        for path, to in moves:
            with open(path, "rb") as source, open(to, "xb") as target:
                shutil.copyfileobj(source, target, 1 << 22)
            os.unlink(path)

    def remove_tree(self, folder: str) -> None:
        shutil.rmtree(folder, ignore_errors=True)


def _plain(path: str) -> str:
    found = _DBFS.match(path)
    if found and found[1].lower() == "dbfs":
        rest = path[found.end() :]
        path = f"/{rest}" if rest.split("/")[0] in _MOUNTS else f"/dbfs/{rest}"
    elif found:
        path = "/" + path[found.end() :]
    return os.path.abspath(path)
