"""A store's files on a local disk: listing, reading ranges, writing new files.

Input is opened read-only and never through a link; a file that is no regular file, or changes
while it is read, is an error. `Storage` is what jobs need of any file system; the others are in
`store_format.storage`.
"""

import errno
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from store_format.faults import StoreChanged, StoreError
from store_format.file_layer import DiskFiles
from store_format.locks import claim_folder, is_abandoned, lock_holder
from store_format.names import LOCK
from store_format.publishing import put_in_place

Bytes = npt.NDArray[np.uint8]

_ZEROS = bytes(1 << 20)
_SPARSE_BLOCK = 1 << 16
_FETCH_BYTES = 1 << 20
_AHEAD_BYTES = 8 << 20
_FILE_URL = re.compile(r"^file:(//(localhost)?(?=/))?")
_LOOK_WORDS = 1 << 9
_PIECE_BYTES = 1 << 20
_RWF_DONTCACHE = 0x80  # <linux/fs.h>; Python has no name for it
_DONTCACHE_SINCE = (6, 16)  # Linux; 6.14 had it first, and could lose what was written twice
_GONE = ".gone"

ANY_TIME = -1  # as a FileState's mtime: the file may be written to, but not be another


class FileState(NamedTuple):
    """What tells whether a file changed. Times in nanoseconds.

    tag: what the file system gives to each file or to each of its versions, as an inode or ETag.
    """

    size: int
    mtime: int
    tag: int | str

    def admits(self, now: "FileState") -> bool:
        """Whether a file in the state `now` is still the one that was meant."""
        return self == (now._replace(mtime=ANY_TIME) if self.mtime == ANY_TIME else now)


class Listed(NamedTuple):
    """One name in a folder; state is None for what is no regular file."""

    name: str
    state: FileState | None


class Written(NamedTuple):
    """A finished file: its length in bytes and, if asked for, its SHA-256 in hex."""

    length: int
    sha256: str


class Reader(Protocol):
    """An open input file."""

    @property
    def state(self) -> FileState:
        """What it is. Raises FileNotFoundError, where opening it has not."""

    def read_into(self, offset: int, buffer: Bytes) -> None:
        """Fill the buffer from `offset`. Raises StoreChanged where the file is too short."""

    def close(self) -> None:
        """Let go of it. Raises StoreChanged if the file is not what it was when opened."""


class Writer(Protocol):
    """A new file, written from start to end."""

    def write(self, data: Any) -> None:
        """Append bytes (any contiguous buffer)."""

    def finish(self, length: int) -> Written:
        """Fill up with zeros to `length`, close, and say what was written."""

    def abandon(self) -> None:
        """Close and remove it."""


class Storage(Protocol):
    """What jobs ask of a file system. Paths are joined with '/'."""

    window_bytes: int  # how much of a file a scan best reads at a time

    def resolve(self, path: str) -> str:
        """The path as every machine and working folder understands it."""

    def list(self, folder: str) -> list[Listed]: ...

    def open(self, path: str, state: FileState | None = None) -> Reader: ...

    def create(self, path: str, digest: bool = False) -> Writer: ...

    def read_bytes(self, path: str) -> bytes: ...

    def has_folder(self, path: str) -> bool:
        """Whether files can be made there without `make_folders`."""

    def make_folders(self, path: str) -> None: ...

    def claim(self, folder: str) -> Callable[[], None] | None:
        """Make a folder that is ours as long as this process lives; returns what lets go of it.

        None where another job took it for a leftover and removes it: another name is wanted.
        """

    def is_abandoned(self, folder: str) -> bool | None:
        """Whether the process that claimed it is gone. None where that cannot be told: then one
        job at a time may work for an output.
        """

    def lock_holder(self, store: str) -> int | None:
        """Who holds a store's lock, a broker say: a process of this machine, 0 for one of
        another, None for nobody, or where it cannot be told.
        """

    def move_all(self, moves: Iterable[tuple[str, str]]) -> None:
        """Give files other names on this file system; the folders are there."""

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""

    def remove_tree(self, folder: str) -> None:
        """Remove a folder and all in it, as far as that can be done."""

    def begin_set(self, folder: str, to: str, replace: bool) -> str:
        """Where to put the files of the set that `publish` will make of it at `to`.

        folder: a name for it in the job's own staging, given to both. Raises OSError where `to`
        may not be published to.
        """

    def publish(self, folder: str, to: str, replace: bool, manifest: tuple[str, bytes]) -> None:
        """Write the manifest (name, content), the set's last file, and make it the set at `to`."""


class LocalStorage:
    """Files of this machine (or of a file system that all machines mount at one place).

    sync_files: fsync each file that is to be published, for tasks on other machines, whose
    writes the publisher's own syncfs does not reach.
    """

    reader: type["LocalReader"]  # set below, where it is known
    window_bytes = 1 << 20  # stays in the second-level cache while it is worked on

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

    def open(self, path: str, state: FileState | None = None) -> "LocalReader":
        """Open for reading; `state` is what an earlier listing saw. Raises StoreError."""
        return self.reader(path, state)

    def create(self, path: str, digest: bool = False) -> Writer:
        """A new file; raises FileExistsError where there is one."""
        if digest:
            return PublishedWriter(path, self.file_mode, self.sync_files)
        return LocalWriter(path, self.file_mode)

    def read_bytes(self, path: str) -> bytes:
        """A small file, whole. Raises FileNotFoundError, StoreError."""
        descriptor = _open_regular(path)
        with os.fdopen(descriptor, "rb") as file:
            return file.read()

    def has_folder(self, path: str) -> bool:
        return os.path.isdir(path)

    def make_folders(self, path: str) -> None:
        """The folder and those above it that are missing, all with our mode."""
        if not os.path.isdir(path):
            self.make_folders(os.path.dirname(os.path.abspath(path)))
            with suppress(FileExistsError):
                os.mkdir(path, self.folder_mode)

    def claim(self, folder: str) -> Callable[[], None] | None:
        self.make_folders(os.path.dirname(folder))
        return claim_folder(folder, self.folder_mode)

    def is_abandoned(self, folder: str) -> bool | None:
        return is_abandoned(folder)

    def lock_holder(self, store: str) -> int | None:
        """As its broker's `lock` file tells. Raises OSError."""
        return lock_holder(f"{store}/{LOCK}")

    def move_all(self, moves: Iterable[tuple[str, str]]) -> None:
        for path, to in moves:
            os.rename(path, to)

    def remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(path)

    def remove_tree(self, folder: str) -> None:
        """Remove a folder with all in it; what cannot be removed stays.

        It loses its name first, so that a task which is still running makes no new files in it.
        """
        gone = folder if folder.endswith(_GONE) else folder + _GONE
        with suppress(OSError):
            os.rename(folder, gone)
        shutil.rmtree(gone, ignore_errors=True)

    def begin_set(self, folder: str, to: str, replace: bool) -> str:
        """A new folder in staging: all of it gets its place at once."""
        self.make_folders(folder)
        return folder

    def publish(self, folder: str, to: str, replace: bool, manifest: tuple[str, bytes]) -> None:
        """Add the manifest, make all of `folder` durable, then give it the name `to`.

        `to` must be absent or empty unless `replace`: then what was there has the name `folder`
        afterwards. Raises OSError, and nothing has changed; NotDurable, and it has.
        """
        name, content = manifest
        output = self.create(f"{folder}/{name}")
        output.write(content)
        output.finish(len(content))
        self.make_folders(os.path.dirname(os.path.abspath(to)))
        # a rename wants no slash at the end, and paths below the root of all files none in front
        folder, to = (os.path.abspath(path).lstrip("/") for path in (folder, to))
        put_in_place(DiskFiles(""), folder, to, replace)


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
    """Reads ranges with pread: the file is never mapped, so a shrinking one cannot kill us."""

    def __init__(self, path: str, state: FileState | None = None) -> None:
        self.path = path
        self._descriptor = _open_regular(path)
        self.state = self.state_of(os.fstat(self._descriptor))
        if state is not None and not state.admits(self.state):
            os.close(self._descriptor)
            raise StoreChanged(f"{path}: changed since it was listed: {state} is now {self.state}")
        self._wanted = state or self.state

    @staticmethod
    def state_of(about: os.stat_result) -> FileState:
        return FileState(about.st_size, about.st_mtime_ns, about.st_ino)

    def read_into(self, offset: int, buffer: Bytes) -> None:
        view = memoryview(buffer.data).cast("B")
        done = 0
        while done < len(view):
            count = os.preadv(self._descriptor, [view[done:]], offset + done)
            if count == 0:
                raise StoreChanged(f"{self.path}: ends before offset {offset + len(view)}")
            done += count
        self._fetch(offset + len(view), len(view))

    def _fetch(self, offset: int, length: int) -> None:
        """After a large read, ask for as much further on: it comes while this is worked on.

        In pieces: more at once takes the kernel much longer, even where all is in memory.
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


class LocalWriter:
    """Writes a new file in order; long runs of zeros become holes. sync: fsync it at the end."""

    def __init__(self, path: str, mode: int = 0o600, sync: bool = False) -> None:
        self.path = path
        self._sync = sync
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, mode)
        self._how = 0  # pwritev2's flags
        self._at = 0

    def write(self, data: Any) -> None:
        view = memoryview(data).cast("B")
        for at, end in _written_parts(view):
            while at < end:
                at += self._write_some(view[at:end], self._at + at)
        self._at += len(view)

    def _write_some(self, view: memoryview, at: int) -> int:
        try:
            return os.pwritev(self._descriptor, [view], at, self._how)
        except OSError as error:
            if not self._how or error.errno != errno.EOPNOTSUPP:
                raise
            self._how = 0
            return self._write_some(view, at)

    def finish(self, length: int) -> Written:
        assert length >= self._at, f"{self.path}: {self._at} bytes written of {length}"
        os.ftruncate(self._descriptor, length)
        if self._sync:
            os.fsync(self._descriptor)
        os.close(self._descriptor)
        return Written(length, "")

    def abandon(self) -> None:
        os.close(self._descriptor)
        os.unlink(self.path)


class PublishedWriter(LocalWriter):
    """Writes a file that will be published: hashed, and not left in the page cache.

    It must be durable soon, and nobody reads it before that. So the kernel is asked to bring it
    to the disk at once and to use its pages again (RWF_DONTCACHE): memory that is new costs more
    than the disk, and the log stays in the cache. Pages are written whole, for one that has left
    would have to be read again. What is less than a piece, as small files are, waits for the sync
    of the whole set: a disk likes few writes.
    """

    def __init__(self, path: str, mode: int = 0o600, sync: bool = False) -> None:
        super().__init__(path, mode, sync)
        self._how = write_flags(os.uname().release)
        self._hash = hashlib.sha256()
        self._piece = memoryview(np.empty(_PIECE_BYTES, np.uint8))
        self._waiting = 0

    def write(self, data: Any) -> None:
        view = memoryview(data).cast("B")
        self._hash.update(view)
        while len(view):
            taken = min(len(view), _PIECE_BYTES - self._waiting)
            self._piece[self._waiting : self._waiting + taken] = view[:taken]
            self._waiting += taken
            view = view[taken:]
            if self._waiting == _PIECE_BYTES:
                self._write_piece()

    def _write_piece(self) -> None:
        super().write(self._piece[: self._waiting])
        self._waiting = 0

    def finish(self, length: int) -> Written:
        self._how = 0
        self._write_piece()
        missing = length - self._at
        for _ in range(missing // len(_ZEROS)):
            self._hash.update(_ZEROS)
        self._hash.update(_ZEROS[: missing % len(_ZEROS)])
        super().finish(length)
        return Written(length, self._hash.hexdigest())


def write_flags(release: str) -> int:
    """The flags of pwritev2 by which a Linux kernel of this release leaves nothing in its cache."""
    version = tuple(int(number) for number in re.findall(r"\d+", release)[:2])
    return _RWF_DONTCACHE if version >= _DONTCACHE_SINCE else 0


def _written_parts(view: memoryview) -> Iterator[tuple[int, int]]:
    """The parts of a buffer that must be written: whole blocks of zeros are left out."""
    start = 0
    for at in range(0, len(view), _SPARSE_BLOCK):
        block = view[at : at + _SPARSE_BLOCK]
        if len(block) == _SPARSE_BLOCK and _is_zero(block):
            if start < at:
                yield start, at
            start = at + _SPARSE_BLOCK
    if start < len(view):
        yield start, len(view)


def _is_zero(block: memoryview) -> bool:
    words = np.frombuffer(block, np.uint64)
    return not (words[::_LOOK_WORDS].any() or words.any())  # nearly all end at the first look
