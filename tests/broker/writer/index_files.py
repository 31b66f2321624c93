"""Index files of four slots and four entries, written out by hand."""

from collections.abc import Sequence

import numpy as np

from reput.store_format.layouts import INDEX_PUT
from reput.store_format.release.settings import WriterSettings
from tests.broker.writer.stores import settings
from tests.faults.memory_files import MemoryFiles
from tests.logs.index_bytes import pack_index

T0 = 1_700_000_000_000
SLOTS, ENTRIES = 4, 5  # entry 0 is never used
LENGTH = 40 + SLOTS * 4 + ENTRIES * 20
NAMES = [f"2023111422132000{n}" for n in range(5)]  # of T0, and the milliseconds after it

Put = tuple[int, int, int]  # physical offset, storeTimestamp, keyHash


def sizes() -> WriterSettings:
    return settings(maxHashSlotNum=SLOTS, maxIndexNum=ENTRIES)


def puts(*each: Put) -> np.ndarray:
    return np.array(list(each), INDEX_PUT)


def index_file(header: Sequence[int], slots: Sequence[int] = (0,) * SLOTS,
               entries: Sequence[Sequence[int]] = ()) -> bytes:  # fmt: skip
    """header, entries: as of `pack_index`."""
    return pack_index(header, slots, entries, ENTRIES)


def holding(*contents: bytes) -> MemoryFiles:
    """Files in index/, by the names in NAMES."""
    files = MemoryFiles()
    files.make_folder("index")
    for name, raw in zip(NAMES, contents, strict=False):
        files.create(f"index/{name}").write_at(0, raw)
    return files
