"""The store's own ConsumeQueue files as witnesses: they were written from the sound records.

An entry holds a record's physicalOffset, size and tagsCode; the place of the entry itself tells the
topic, queueId and queueOffset. So the entry shows what the record held before it was damaged.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from reput.store_format.derived.queue_files import Entries, decode_entries, is_message, is_pre_blank
from reput.store_format.faults import StoreError
from reput.store_format.files.protocol import InputStorage
from reput.store_format.layouts import QUEUE_ENTRY, QUEUE_ENTRY_BYTES
from reput.store_format.names import (
    CONSUME_QUEUE,
    QueuePath,
    UnsafeName,
    check_topic,
    segment_start,
)

_AT_A_TIME = 1 << 16  # entries
_READS = 1000
_MOST_POSITION = 1 << 58  # times 20 bytes, it still fits a long


@dataclass(frozen=True)
class OldQueues:
    """The queue files of a store, read from `store`, which is on `storage`."""

    storage: InputStorage
    store: str

    def of(self, topic: str, queue_id: int) -> "OldQueue":
        """One queue; without files where there are none, or its topic can be no folder's name."""
        try:
            folder = f"{self.store}/{QueuePath(CONSUME_QUEUE, check_topic(topic), queue_id)}"
            listed = self.storage.list(folder)
        except (StoreError, UnsafeName, FileNotFoundError, NotADirectoryError):
            return OldQueue(self.storage, [])
        files = [
            (start, f"{folder}/{name}", state) for name, state in listed
            if state is not None and (start := segment_start(name)) is not None
        ]  # fmt: skip
        return OldQueue(self.storage, sorted(files))


class OldQueue:
    """Reads a queue's entries at given positions; each call opens the files anew."""

    def __init__(self, storage: InputStorage, files: list[tuple[int, str, Any]]) -> None:
        self._storage, self._files = storage, files

    @property
    def any(self) -> bool:
        return bool(self._files)

    def at(self, first: int, count: int) -> Entries:
        """QUEUE_ENTRY rows of positions [first, first + count); size 0 where there is no entry."""
        found = np.zeros(count, QUEUE_ENTRY)
        low, high = first * QUEUE_ENTRY_BYTES, (first + count) * QUEUE_ENTRY_BYTES
        for start, path, state in self._files:
            at, end = max(low, start), min(high, start + state.size)
            length = (end - at) // QUEUE_ENTRY_BYTES * QUEUE_ENTRY_BYTES
            if length <= 0:
                continue
            raw = np.empty(length, np.uint8)
            reader = self._storage.open(path, state)
            reader.read_into(at - start, raw)
            reader.close()
            n = (at - low) // QUEUE_ENTRY_BYTES
            found[n : n + length // QUEUE_ENTRY_BYTES] = decode_entries(raw)
        found["size"][~is_message(found) | is_pre_blank(found)] = 0
        return found


def contradictions(old: OldQueue, offsets: np.ndarray, mine: Entries) -> tuple[np.ndarray, Entries]:
    """(numbers of the entries that the old queue contradicts, the old queue's entries there).

    offsets: the queueOffsets of `mine`, which are entries of the log. Where the old queue has no
    entry it contradicts nothing.
    """
    numbers, said = [], []
    for start in range(0, len(offsets), _AT_A_TIME):
        part = slice(start, start + _AT_A_TIME)
        theirs = _at_each(old, offsets[part])
        differs = theirs["size"] > 0
        same = np.ones(len(theirs), np.bool_)
        for name in ("physicalOffset", "size", "tagsCode"):
            same &= theirs[name] == mine[part][name]
        differs &= ~same
        numbers.append(start + np.flatnonzero(differs))
        said.append(theirs[differs])
    if not numbers:
        return np.empty(0, np.int64), np.zeros(0, QUEUE_ENTRY)
    return np.concatenate(numbers), np.concatenate(said)


def _at_each(old: OldQueue, offsets: np.ndarray) -> Entries:
    """The entries at these positions. Scattered positions are read in at most _READS pieces; for
    the rest the old queue counts as having no entry.
    """
    found = np.zeros(len(offsets), QUEUE_ENTRY)
    pieces = [(0, len(offsets))]
    for _ in range(_READS):
        if not pieces:
            break
        start, stop = pieces.pop()
        some = offsets[start:stop]
        low, high = int(some.min()), int(some.max())
        if low < 0 or high >= _MOST_POSITION or high - low > 2 * len(some):
            if len(some) > 1:
                middle = (start + stop) // 2
                pieces += [(middle, stop), (start, middle)]
        else:
            found[start:stop] = old.at(low, high - low + 1)[some - low]
    return found
