"""Reads ahead of a scan: the next blocks of a file are read while the last ones are processed.

If each read is a request, this hides the network: an object store's first byte takes some 30 ms,
and one connection gives perhaps 100 MB a second, while a core scans ten times as much. On a disk it
does the page cache's work for a log that is not in the cache and would push out all else.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

import numpy as np

from reput.store_format.files.adapters import ReaderOf
from reput.store_format.files.local import LocalReader
from reput.store_format.files.protocol import Bytes, FileState, InputStorage, Reader
from reput.store_format.files.system import available_memory

REQUEST_BYTES = 8 << 20
DISK_BYTES, DISK_BLOCKS = 4 << 20, 4  # read one by one: two reads at a time halve a disk's speed


def open_ahead(
    storage: InputStorage, path: str, state: FileState, begin: int, end: int, whole: int = 0
) -> Reader:
    """Open a file to read it from byte `begin` to about `end`.

    whole: bytes of all files that will be read this way. If they would fill most of the memory, and
    the page cache does not hold a local file, the file is read past the cache. On a storage without
    read-ahead, any other file is opened as usual.
    """
    reader, end = storage.open(path, state), min(end, state.size)
    if storage.reads_ahead:
        return _ReadAhead(reader, begin, end, REQUEST_BYTES, storage.reads_ahead)
    fills = whole > (available_memory() or whole) // 2
    if fills and isinstance(reader, LocalReader) and reader.go_past_cache(begin, end):
        return _ReadAhead(reader, begin, end, DISK_BYTES, DISK_BLOCKS, at_once=1)
    return reader


class _ReadAhead(ReaderOf):
    """One file that is read forward. Reads outside [begin, end) go to the file directly."""

    def __init__(
        self,
        reader: Reader,
        begin: int,
        end: int,
        block_bytes: int,
        many: int,
        at_once: int | None = None,
    ) -> None:
        """many: how many blocks are held or requested; at_once: how many are read at a time, by
        default all. Nothing at or past `end` is requested. Blocks begin at multiples of
        block_bytes, so that no page is read twice.
        """
        super().__init__(reader)
        self._begin, self._end, self._many = begin, end, many
        self._block_bytes = block_bytes
        self._pool = ThreadPoolExecutor(at_once or many, "ReadAhead")
        self._blocks: dict[int, Future[Bytes]] = {}
        self._free: list[Bytes] = []  # reused: new pages cost more than reading into them

    def read_into(self, offset: int, buffer: Bytes) -> None:
        """See Reader. An error of a request ahead is raised by the read that needs its bytes."""
        done = 0
        while done < len(buffer):
            at = offset + done
            if not self._begin <= at < self._end:
                self._reader.read_into(at, buffer[done:])
                return
            number = at // self._block_bytes
            start, end = self._span(number)
            part = self._block(number)[at - start : min(end, offset + len(buffer)) - start]
            buffer[done : done + len(part)] = part
            done += len(part)

    def _span(self, number: int) -> tuple[int, int]:
        """(start, end) of a block in the file."""
        at = number * self._block_bytes
        return max(self._begin, at), min(self._end, at + self._block_bytes)

    def _block(self, number: int) -> Bytes:
        """A buffer with a block's bytes first. Drops earlier blocks, and requests the next ones."""
        for old in [each for each in self._blocks if each < number]:
            self._forget(self._blocks.pop(old))
        last = (self._end - 1) // self._block_bytes
        for each in range(number, min(number + self._many, last + 1)):
            if each not in self._blocks:
                self._blocks[each] = self._pool.submit(self._fetch, each)
        return self._blocks[number].result()

    def _forget(self, block: "Future[Bytes]") -> None:
        if not block.cancel() and block.done():
            with suppress(Exception):  # nobody wants its bytes any more
                self._free.append(block.result())

    def _fetch(self, number: int) -> Bytes:
        start, end = self._span(number)
        try:
            room = self._free.pop()
        except IndexError:
            room = np.empty(self._block_bytes, np.uint8)
        self._reader.read_into(start, room[: end - start])
        return room

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._reader.close()
