"""Entries of one queue a few at a time, as arrays: for a reader of many queues side by side.

The file that was read last stays open, and no entry becomes a Python object: opening files and
making objects both take longer than reading the entries.
"""

from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from reput.store_format.derived.queue_entries import entry_of
from reput.store_format.derived.queue_files import OpenQueueFile, QueueFile, record_of
from reput.store_format.derived.queue_reader import QueueReader
from reput.store_format.faults import StoreChanged

Numbers = npt.NDArray[np.int64]


@dataclass(slots=True)
class Slice:
    """Some entries, in order, unchecked: an entry may point to no place in any log."""

    positions: Numbers  # of each entry's first message
    messages: Numbers  # how many positions each entry takes
    places: Numbers  # physical offsets
    sizes: Numbers
    tags_codes: Numbers

    def __len__(self) -> int:
        return len(self.positions)

    def part(self, chosen: Any) -> "Slice":
        """Some of these entries, by a mask or a slice."""
        return Slice(
            self.positions[chosen], self.messages[chosen], self.places[chosen],
            self.sizes[chosen], self.tags_codes[chosen],
        )  # fmt: skip


def no_entries() -> Slice:
    return Slice(*(np.empty(0, np.int64) for _ in fields(Slice)))


class QueueSlices(QueueReader):
    """A queue that is read in slices. `close` lets go of the file that it has open."""

    _held: OpenQueueFile | None = None
    _held_file: QueueFile | None = None

    def some(self, first: int, most: int) -> Slice:
        """At most `most` entries from the one with position `first` on, all of one file."""
        if not self.files:
            return no_entries()
        file = self.files[self._file_of(first)]
        entries = self._opened(file)
        used = entries.used()
        at = min(self._number_of(entries, file, first, used), used)
        rows = entries.range(at, min(at + most, used))
        if self.batch:
            return _sliced(_int64(rows["baseOffset"]), _int64(rows["batchSize"]), rows)
        position = self._files.position(file, at)
        positions = np.arange(position, position + len(rows))
        return _sliced(positions, np.ones(len(rows), np.int64), rows)

    def file_end(self, position: int) -> int:
        """The position after the file that holds `position`; of a batch queue, the queue's end."""
        if self.batch or not self.files:
            return self.maximum()
        file = self.files[self._file_of(position)]
        return self._files.position(file, file.state.size // self._files.entry_bytes)

    def end_within(self, limit: int) -> int:
        """The position after the last message whose record ends at `limit` or before."""
        last = self.last()
        if last is None or last.physical_offset + last.size <= limit:
            return self.maximum()
        for file in reversed(self.files):
            with self._files.open(file) as entries:
                used = entries.used()
                at = entries.bisect(0, used, lambda e: sum(record_of(e)) <= limit)
                if at:
                    before = self._files.position(file, at - 1)
                    entry = entry_of(entries[at - 1], before, self.batch)
                    return entry.position + entry.messages
        return max(self._first_position(), 0)

    def close(self) -> None:
        """Let go of the file that is open, if one is; another use opens it again."""
        held, self._held, self._held_file = self._held, None, None
        if held is not None:
            with suppress(StoreChanged):  # its entries were read as they were
                held.__exit__()

    def _opened(self, file: QueueFile) -> OpenQueueFile:
        if self._held is None or self._held_file is not file:
            self.close()
            self._held, self._held_file = self._files.open(file).__enter__(), file
        return self._held


def _sliced(positions: Numbers, messages: Numbers, rows: Any) -> Slice:
    if not len(positions):
        return no_entries()
    columns = (_int64(rows[name]) for name in ("physicalOffset", "size", "tagsCode"))
    return Slice(positions, messages, *columns)


def _int64(column: Any) -> Numbers:
    found: Numbers = column.astype(np.int64)
    return found
