"""Has a log's first bytes read from disk while nobody can work on them yet: while a JVM starts.

A disk is what a rebuild waits for where the log is not in memory, and it would stand still for
seconds. Nothing is read twice, and nothing at all where the bytes are in memory.
"""

import os
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from threading import Thread

from reput.store_format.faults import StoreError
from reput.store_format.storage.local import LocalStorage

_PIECE_BYTES = 1 << 20
_ON_THEIR_WAY = 16  # pieces
_MOST_BYTES = 4 << 30
_SHARE_OF_MEMORY = 8  # the bytes must still be there when they are wanted
_PLANNING_SECONDS = 1.0  # Spark's, between a session and its first task's first read


class EarlyReads:
    """Asks the kernel for the first bytes of a folder's files, in the order of their names.

    Of bytes alone: no file is judged, and one that cannot be read is left for who will read it.
    """

    def __init__(self, storage: LocalStorage, folder: str) -> None:
        self._storage, self._folder = storage, folder
        self._until = float("inf")
        self._thread = Thread(target=self._read, name="EarlyReads", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end_soon(self) -> None:
        """A session is there. Does not wait."""
        self._until = time.monotonic() + _PLANNING_SECONDS

    def wait(self) -> None:
        """Until it has ended."""
        self._thread.join()

    def _read(self) -> None:
        left = min(_MOST_BYTES, _memory_bytes() // _SHARE_OF_MEMORY)
        with suppress(OSError, StoreError):
            for name, state in self._storage.list(self._folder):
                if state is None:
                    continue
                with closing(self._storage.open(f"{self._folder}/{name}", state)) as file:
                    for begin, end in _not_holes(file.fileno(), state.size):
                        stop = min(end, begin + left)
                        left -= stop - begin
                        if not self._read_range(file.fileno(), begin, stop) or left <= 0:
                            return

    def _read_range(self, descriptor: int, begin: int, end: int) -> bool:
        """False where that was enough."""
        asked = begin
        for at in range(begin, end, _PIECE_BYTES):
            if time.monotonic() > self._until:
                return False
            last = min(at + _PIECE_BYTES, end) - 1
            if _is_in_memory(descriptor, last):
                continue
            asked = max(asked, at)
            while asked < min(end, at + _ON_THEIR_WAY * _PIECE_BYTES):
                os.posix_fadvise(descriptor, asked, _PIECE_BYTES, os.POSIX_FADV_WILLNEED)
                asked += _PIECE_BYTES
            os.pread(descriptor, 1, last)  # waits for this piece, copies none of it
        return True


def _is_in_memory(descriptor: int, at: int) -> bool:
    """Raises OSError where the file system cannot tell."""
    try:
        os.preadv(descriptor, [bytearray(1)], at, os.RWF_NOWAIT)
    except BlockingIOError:
        return False
    return True


def _not_holes(descriptor: int, size: int) -> Iterator[tuple[int, int]]:
    """The ranges of a file that are on disk: reading a hole would fill memory with zeros."""
    end = 0
    while end < size:
        try:
            begin = os.lseek(descriptor, end, os.SEEK_DATA)
        except OSError:  # ENXIO: only a hole is left
            return
        end = os.lseek(descriptor, begin, os.SEEK_HOLE)
        yield begin, end


def _memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
