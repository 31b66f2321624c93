"""The file layer of whatever writes to a store: the few operations that can fail or be lost.

The writer, recovery and publishing are given a `Files`, so that tests can put one in its place
that fails an operation, or shows what a crash would have left.

What is assumed of a disk (docs/writer.md has it at length):

- What was written and not synced may be there, in part, in any order, or not at all; a write
  within one aligned sector of 512 bytes is there or is not. What was never written reads as zeros.
- `OpenFile.sync` makes a file's bytes and length durable, but not its name.
- `sync_folder` makes names durable: those created, renamed and removed in that folder.
- A killed process loses nothing that was written.
"""

import errno
import fcntl
import os
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from store_format.faults import StoreChanged, StoreError

Bytes = npt.NDArray[np.uint8]
# What can be written: bytes, bytearray, memoryview, or a contiguous array of uint8.
Data = Any

SECTOR_BYTES = 512


class StoreInUse(StoreError):
    """Another process (or another writer in this one) holds the store's lock."""


class OpenFile(Protocol):
    """An open file; places and lengths in bytes. OSError where the disk refuses."""

    def write_at(self, at: int, data: Data) -> None:
        """Write all of data at a place."""

    def read_at(self, at: int, buffer: Bytes) -> None:
        """Fill the buffer from a place. Raises StoreChanged where the file is too short."""

    def sync(self) -> None:
        """Return when all bytes written, and the length, are durable."""

    def set_length(self, length: int) -> None:
        """Cut, or extend with zeros."""

    def length(self) -> int: ...

    def close(self) -> None: ...


class Files(Protocol):
    """A folder tree. Paths are below its root, joined with '/'; '' is the root."""

    def open(self, path: str) -> OpenFile:
        """Open for reading and writing. Raises FileNotFoundError."""

    def create(self, path: str) -> OpenFile:
        """A new, empty file. Raises FileExistsError."""

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder of that name."""

    def names(self, folder: str) -> list[str]:
        """The names in a folder, sorted; empty where there is no such folder."""

    def make_folder(self, path: str) -> None:
        """Make a folder with those above it that are missing; their names are made durable."""

    def rename(self, path: str, to: str) -> None: ...

    def remove(self, path: str) -> None:
        """Remove a file, or an empty folder."""

    def sync_folder(self, path: str) -> None: ...

    def lock(self, path: str) -> Callable[[], None]:
        """Lock as RocketMQ does; returns what lets go of it. Raises StoreInUse."""


class DiskFile:
    """An open file of this machine."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path, self._descriptor = path, descriptor

    def write_at(self, at: int, data: Data) -> None:
        done = os.pwrite(self._descriptor, data, at)
        if done < len(data):  # a signal, or a disk that is filling up
            view = memoryview(data).cast("B")
            while done < len(view):
                done += os.pwrite(self._descriptor, view[done:], at + done)

    def read_at(self, at: int, buffer: Bytes) -> None:
        view = memoryview(buffer).cast("B")
        done = 0
        while done < len(view):
            count = os.preadv(self._descriptor, [view[done:]], at + done)
            if count == 0:
                raise StoreChanged(f"{self.path}: ends before offset {at + len(view)}")
            done += count

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    def set_length(self, length: int) -> None:
        os.ftruncate(self._descriptor, length)

    def length(self) -> int:
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        os.close(self._descriptor)


# POSIX locks do not keep a process from itself: what this one holds, by device and inode.
_held: set[tuple[int, int]] = set()


def _identity(about: os.stat_result) -> tuple[int, int]:
    return about.st_dev, about.st_ino


class DiskFiles:
    """The files below a folder of this machine. Links are not followed."""

    def __init__(self, root: str, file_mode: int = 0o644, folder_mode: int = 0o755) -> None:
        self.root = root
        self.file_mode, self.folder_mode = file_mode, folder_mode

    def _at(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root

    def open(self, path: str) -> DiskFile:
        return self._open(path, os.O_RDWR)

    def create(self, path: str) -> DiskFile:
        return self._open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)

    def _open(self, path: str, flags: int) -> DiskFile:
        at = self._at(path)
        try:
            return DiskFile(at, os.open(at, flags | os.O_NOFOLLOW | os.O_CLOEXEC, self.file_mode))
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise StoreError(f"{at}: is a link") from None
            raise

    def exists(self, path: str) -> bool:
        return os.path.lexists(self._at(path))

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(self._at(folder)))
        except FileNotFoundError:
            return []

    def make_folder(self, path: str) -> None:
        parts = path.split("/") if path else []
        if not os.path.isdir(self.root):
            os.makedirs(self.root, self.folder_mode)
        for depth in range(1, len(parts) + 1):
            here = self._at("/".join(parts[:depth]))
            if not os.path.isdir(here):
                os.mkdir(here, self.folder_mode)
                self.sync_folder("/".join(parts[: depth - 1]))

    def rename(self, path: str, to: str) -> None:
        os.rename(self._at(path), self._at(to))

    def remove(self, path: str) -> None:
        at = self._at(path)
        if os.path.isdir(at) and not os.path.islink(at):
            os.rmdir(at)
        else:
            os.unlink(at)

    def sync_folder(self, path: str) -> None:
        descriptor = os.open(self._at(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self, path: str) -> Callable[[], None]:
        """FileChannel.tryLock(0, 1, false): a POSIX lock on the first byte.

        The file stays, and holds the word `lock` (DefaultMessageStore.start).
        """
        at = self._at(path)
        # Looked at before it is opened: POSIX locks go with the first descriptor closed.
        if os.path.exists(at) and _identity(os.stat(at)) in _held:
            raise StoreInUse(f"{at}: this process has the store open already")
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(at, flags, self.file_mode)
        key = _identity(os.fstat(descriptor))
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except OSError as error:
            os.close(descriptor)
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise StoreInUse(f"{at}: another process has the store open") from None
            raise
        _held.add(key)
        os.pwrite(descriptor, b"lock", 0)
        os.fsync(descriptor)

        def release() -> None:
            os.close(descriptor)
            _held.discard(key)

        return release
