"""Reads ahead of a scan where each read is a request: the next blocks of a file are on their way
while the last ones are worked on.

A request of an object store takes some 30 ms until its first byte comes, and one connection gives
perhaps 100 MB a second; a core scans ten times as much. Several blocks at once hide both.
"""

from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from reput.store_format.storage.protocol import Bytes, FileState, Reader, Storage

BLOCK_BYTES = 8 << 20


def open_ahead(storage: Storage, path: str, state: FileState, begin: int, end: int) -> Reader:
    """Open a file that is going to be read from `begin` to about `end` (places in it).

    As the storage opens it where that has no use for reading ahead.
    """
    reader = storage.open(path, state)
    if not storage.reads_ahead:
        return reader
    return _ReadAhead(reader, begin, min(end, state.size), storage.reads_ahead)


class _ReadAhead:
    """One file, read forward. Other reads are as without it."""

    def __init__(self, reader: Reader, begin: int, end: int, many: int) -> None:
        """many: how many requests are on their way at once; nothing at or past `end` is asked for
        ahead.
        """
        self._reader, self._begin, self._end, self._many = reader, begin, end, many
        self._pool = ThreadPoolExecutor(many, "ReadAhead")
        self._blocks: dict[int, Future[Bytes]] = {}

    @property
    def state(self) -> FileState:
        return self._reader.state

    def read_into(self, offset: int, buffer: Bytes) -> None:
        """See Reader. What a request ahead raised is raised by the read that wants its bytes."""
        done = 0
        while done < len(buffer):
            at = offset + done
            if not self._begin <= at < self._end:
                self._reader.read_into(at, buffer[done:])
                return
            number, within = divmod(at - self._begin, BLOCK_BYTES)
            part = self._block(number)[within : within + len(buffer) - done]
            buffer[done : done + len(part)] = part
            done += len(part)

    def _block(self, number: int) -> Bytes:
        """A block's bytes; those before it are forgotten, those after it asked for."""
        for old in [each for each in self._blocks if each < number]:
            self._blocks.pop(old).cancel()
        last = (self._end - 1 - self._begin) // BLOCK_BYTES
        for each in range(number, min(number + self._many, last + 1)):
            if each not in self._blocks:
                self._blocks[each] = self._pool.submit(self._fetch, each)
        return self._blocks[number].result()

    def _fetch(self, number: int) -> Bytes:
        at = self._begin + number * BLOCK_BYTES
        block = np.empty(min(BLOCK_BYTES, self._end - at), np.uint8)
        self._reader.read_into(at, block)
        return block

    def close(self) -> None:
        """Let go of it, and of requests that nobody waits for."""
        self._pool.shutdown(cancel_futures=True)
        self._reader.close()
