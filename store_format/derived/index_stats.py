"""How full an index file is, and how long the chains of its slots are.

A look-up reads a slot and then the entries of its chain one by one, each somewhere else in the file
(IndexFile.selectPhyOffset): long chains are what makes queries by key slow.
"""

from typing import NamedTuple

import numpy as np

from reput.store_format.derived.index_header import IndexHeader
from reput.store_format.derived.index_reader import IndexFileReader
from reput.store_format.layouts import INDEX_ENTRY, INDEX_ENTRY_BYTES

_WINDOW = 1 << 16  # entries
_SLOTS_MOST = 1 << 26  # with more slots chains are not counted: a store may be hostile


class IndexFileStats(NamedTuple):
    """One index file. Lengths are numbers of entries."""

    path: str
    header: IndexHeader
    slots: int
    room: int  # entries that the file can hold
    chains: dict[int, int]  # power of two -> slots whose chain has that many entries up to the next
    longest: int  # 0: not counted


def index_stats(file: IndexFileReader) -> IndexFileStats:
    """Read a file's entries once; holds 4 bytes a slot. Raises BadIndex, OSError."""
    room = file.most - 1
    entries = min(file.header.entries, room)
    if not entries or file.slots > _SLOTS_MOST:
        return IndexFileStats(file.path, file.header, file.slots, room, {}, 0)
    lengths = np.zeros(file.slots, np.int32)
    buffer = np.empty(_WINDOW * INDEX_ENTRY_BYTES, np.uint8)
    for first in range(1, entries + 1, _WINDOW):
        part = buffer[: min(_WINDOW, entries + 1 - first) * INDEX_ENTRY_BYTES]
        file.read_entries(first, part)
        hashes = part.view(INDEX_ENTRY)["keyHash"].astype(np.int64)
        np.add.at(lengths, hashes % file.slots, 1)
    used = lengths[lengths > 0]
    # frexp's exponent is the number of bits: a length n is counted with those from 2**(bits - 1) on
    bits = np.bincount(np.frexp(used.astype(np.float64))[1])
    chains = {1 << (n - 1): int(many) for n, many in enumerate(bits) if many}
    return IndexFileStats(file.path, file.header, file.slots, room, chains, int(used.max()))
