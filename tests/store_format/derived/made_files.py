"""Queue and index files from lists of their entries, packed by the layouts of docs/formats."""

import struct
from collections.abc import Iterable, Sequence

from reput.store_format.derived.queue_files import queue_folder
from reput.store_format.names import segment_name
from tests.logs.index_bytes import pack_index
from tests.memory_storage import MemoryStorage

STORE = "store"
QUEUE, BATCHES = queue_folder(STORE, "T", 0), queue_folder(STORE, "T", 0, batch=True)
ENTRY, BATCH_ENTRY = struct.Struct(">qiq"), struct.Struct(">qiqqqhii")
BLANK = ENTRY.pack(0, 0x7FFFFFFF, 0)


def entries(first: int, stop: int, room: int = 0) -> bytes:
    """Entries of records of 100 bytes at 100 times their position, tagsCode: the position; then
    zeros up to `room` bytes.
    """
    made = b"".join(ENTRY.pack(100 * n, 100, n) for n in range(first, stop))
    return made.ljust(room, b"\0")


def batches(rows: Iterable[tuple[int, int, int, int]], room: int = 0) -> bytes:
    """Entries of a batch queue: (physical offset, storeTimestamp, base, messages) of each."""
    made = (BATCH_ENTRY.pack(at, 100, 7, time, base, many, -1, 0) for at, time, base, many in rows)
    return b"".join(made).ljust(room, b"\0")


def queue_of(*files: tuple[int, bytes], folder: str = QUEUE) -> MemoryStorage:
    return MemoryStorage({f"{folder}/{segment_name(start)}": raw for start, raw in files})


def index_of(
    slots: Sequence[int], rows: Sequence[tuple[int, int, int, int]], room: int,
    begin: int = 1000, end: int = 9000, count: int | None = None,
) -> bytes:  # fmt: skip
    """An index file. slots: the newest entry of each; rows: keyHash, physicalOffset, timeDiff and
    previous of entries 1, 2, ...; room: maxIndexNum; count: indexCount, if another than by rows.
    """
    count = len(rows) + 1 if count is None else count
    places = [row[1] for row in rows] or [0]
    header = begin, end, places[0], places[-1], len(slots), count
    return pack_index(header, slots, rows, room)
