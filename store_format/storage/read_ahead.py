"""Reads ahead of a scan: the next blocks of a file are on their way while the last ones are worked
on.

Where each read is a request it hides the network: an object store's first byte takes some 30 ms,
and one connection gives perhaps 100 MB a second; a core scans ten times as much. On a disk it does
what the page cache would, for a log that is not in it and would push out all else.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

import numpy as np

from reput.store_format.disk.page_cache import available_memory
from reput.store_format.storage.local import LocalReader
from reput.store_format.storage.protocol import Bytes, FileState, InputStorage, Reader
from reput.store_format.storage.read_by import ReaderOf

REQUEST_BYTES = 8 << 20
DISK_BYTES, DISK_BLOCKS = 4 << 20, 4  # read one by one: two reads at a time halve a disk's speed


def open_ahead(
    storage: InputStorage, path: str, state: FileState, begin: int, end: int, whole: int = 0
) -> Reader:
    """Open a file that is going to be read from `begin` to about `end` (places in it).

    whole: the bytes of all files that are going to be read so. Where they would fill most of the
    memory, a local file that the page cache does not hold is read past it. As the storage opens it
    where neither is of use.
    """
    reader, end = storage.open(path, state), min(end, state.size)
    if storage.reads_ahead:
        return _ReadAhead(reader, begin, end, REQUEST_BYTES, storage.reads_ahead)
    fills = whole > (available_memory() or whole) // 2
    if fills and isinstance(reader, LocalReader) and reader.go_past_cache(begin, end):
        return _ReadAhead(reader, begin, end, DISK_BYTES, DISK_BLOCKS, at_once=1)
    return reader


class _ReadAhead(ReaderOf):
    """One file, read forward. Other reads are as without it."""

    def __init__(
        self,
        reader: Reader,
        begin: int,
        end: int,
        block_bytes: int,
        many: int,
        at_once: int | None = None,
    ) -> None:
        """many: how many blocks are there or wanted, of which at_once are being read (all); nothing
        at or past `end` is asked for ahead. Blocks stand at multiples of block_bytes, so that no
        page is read twice.
        """
        super().__init__(reader)
        self._begin, self._end, self._many = begin, end, many
        self._block_bytes = block_bytes
        self._pool = ThreadPoolExecutor(at_once or many, "ReadAhead")
        self._blocks: dict[int, Future[Bytes]] = {}
        self._free: list[Bytes] = []  # new pages cost more than what is read into them

    def read_into(self, offset: int, buffer: Bytes) -> None:
        """See Reader. What a request ahead raised is raised by the read that wants its bytes."""
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
        """Where a block begins and ends in the file."""
        at = number * self._block_bytes
        return max(self._begin, at), min(self._end, at + self._block_bytes)

    def _block(self, number: int) -> Bytes:
        """Room that begins with a block's bytes; those before are let go, those after asked for."""
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
        """Let go of it, and of requests that nobody waits for."""
        self._pool.shutdown(cancel_futures=True)
        self._reader.close()
