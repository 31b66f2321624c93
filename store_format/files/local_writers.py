"""New files on a local disk, written from start to end."""

import errno
import hashlib
import os
import uuid
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.protocol import PART, Written
from reput.store_format.files.system import uncached_flags

_SPARSE_BLOCK = 1 << 16
_ZERO_BLOCK = bytes(_SPARSE_BLOCK)
# For a longer write Linux allocates pages of 2 MiB, which is slow: the write took twice the time.
_PIECE_BYTES = 1 << 20


def open_new(path: str, mode: int) -> int:
    """A descriptor to write a new file. Raises FileExistsError, OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags, mode)


class LocalWriter:
    """Writes a new file in order; long runs of zeros become holes. sync: fsync it at the end."""

    def __init__(self, path: str, mode: int = 0o600, sync: bool = False) -> None:
        self.path = path
        self._sync = sync
        # a file, not its descriptor alone: it is closed where a task fails and drops its writer
        self._file = open(open_new(path, mode), "wb", 0)  # noqa: SIM115
        self._how = 0  # pwritev2's flags
        self._at = 0

    def write(self, data: Any) -> None:
        view = memoryview(data).cast("B")
        for at, end in _written_parts(view):
            while at < end:
                piece = view[at : min(end, at + _PIECE_BYTES)]
                at += self._write_some(piece, self._at + at)
        self._at += len(view)

    def _write_some(self, view: memoryview, at: int) -> int:
        try:
            return os.pwritev(self._file.fileno(), [view], at, self._how)
        except OSError as error:
            if not self._how or error.errno != errno.EOPNOTSUPP:
                error.filename = self.path  # else the error would not tell which disk is full
                raise
            self._how = 0
            return self._write_some(view, at)

    def finish(self, length: int) -> Written:
        assert length >= self._at, f"{self.path}: {self._at} bytes written of {length}"
        os.ftruncate(self._file.fileno(), length)
        if self._sync:
            os.fsync(self._file.fileno())
        self._file.close()
        return Written(length, "", self._at)

    def abandon(self) -> None:
        self._file.close()
        os.unlink(self.path)


class PublishedWriter(LocalWriter):
    """Writes a file that will be published, without leaving it in the page cache. digest: hash it.

    The file must be durable soon, and nobody reads it before that. So the kernel is asked to write
    it to the disk at once and to reuse its pages (RWF_DONTCACHE). New pages would cost more time
    than the disk, and would push the log out of the cache. Only whole pages are written, because a
    page that has left the cache would have to be read again. Less than a piece, such as a small
    file, waits for the sync of the whole set, as a disk is faster with few large writes.
    """

    def __init__(
        self, path: str, mode: int = 0o600, sync: bool = False, digest: bool = True
    ) -> None:
        super().__init__(path, mode, sync)
        self._how = uncached_flags(os.uname().release)
        self._hash = hashlib.sha256() if digest else None
        import numpy as np  # imported late, so that a wrong path is reported fast

        self._piece = memoryview(np.empty(_PIECE_BYTES, np.uint8))
        self._waiting = 0

    def write(self, data: Any) -> None:
        view = memoryview(data).cast("B")
        if self._hash is not None:
            self._hash.update(view)
        while len(view):
            if not self._waiting and len(view) >= _PIECE_BYTES:
                super().write(view[:_PIECE_BYTES])  # no copy is needed
                view = view[_PIECE_BYTES:]
                continue
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
        digest = self._hash.hexdigest() if self._hash is not None else ""
        return super().finish(length)._replace(sha256=digest)


def _written_parts(view: memoryview) -> Iterator[tuple[int, int]]:
    """(start, end) of the parts to write; whole blocks of zeros become holes."""
    start = 0
    for at in range(0, len(view), _SPARSE_BLOCK):
        if view[at]:  # nearly always so, which saves copying the block
            continue
        block = view[at : at + _SPARSE_BLOCK].tobytes()  # bytes compare faster than a view does
        if block == _ZERO_BLOCK:
            if start < at:
                yield start, at
            start = at + _SPARSE_BLOCK
    if start < len(view):
        yield start, len(view)


def put_new(path: str, content: Any, mode: int) -> bool:
    """Storage.put_new: the file is written and synced beside its place, and then named."""
    part = f"{path}.{uuid.uuid4().hex}{PART}"
    output = PublishedWriter(part, mode, True, False)
    try:
        try:
            output.write(content)
        except BaseException:
            output.abandon()
            raise
        output.finish(memoryview(content).nbytes)
        made = _named(part, path)
        DiskFiles(os.path.dirname(path)).sync_folder("")
    except OSError as error:
        error.filename = error.filename or path  # else the message names no disk
        raise
    finally:
        with suppress(FileNotFoundError):
            os.unlink(part)
    return made


def _named(part: str, path: str) -> bool:
    """Give a file a second name; False if it is taken."""
    try:
        os.link(part, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
            raise
        if os.path.lexists(path):  # a file system without second names: one writer at a time
            return False
        os.rename(part, path)
    return True
