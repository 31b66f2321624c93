"""The last index file of a store, which grows in a folder beside `index/`; its slots are in memory.

As RocketMQ's IndexFile.putKey. `index_writer` decides which files a store has, and when they are
published.
"""

from typing import Any

import numpy as np

from reput.broker.writer.index_folder import Header, IndexFolder
from reput.store_format.derived.index_file import (
    NO_MESSAGE,
    IndexedMessage,
    capacity,
    chain,
    file_bytes,
    fill_entries,
    header,
)
from reput.store_format.files.protocol import Bytes, OpenFile
from reput.store_format.layouts import (
    INDEX_ENTRY_BYTES,
    INDEX_HEADER_BYTES,
    INDEX_SLOT,
    INDEX_SLOT_BYTES,
)
from reput.store_format.release.profiles import Profile
from reput.store_format.release.settings import Settings

_COPY_BYTES = 1 << 20


class GrowingIndex:
    """The file that entries are appended to; `name` is None while a store has no index file."""

    def __init__(self, folder: IndexFolder, profile: Profile, settings: Settings) -> None:
        self.folder = folder
        self._slots = settings.max_hash_slot_num
        self.capacity = capacity(settings.max_index_num)
        self._bytes = file_bytes(settings.max_hash_slot_num, settings.max_index_num)
        self._count_every_put = profile.count_every_put
        self._empty_count = profile.empty_index_count
        self.name: str | None = None
        self.wanted = True  # False: no message needs the file, it only holds the mark
        self._file: OpenFile | None = None  # beside `index/`; None until something is written
        self._newest = np.empty(0, np.int32)  # the number of each slot's last entry
        self._counted = 0  # hashSlotCount of the file as it was found, less the slots in use
        self._entries = 0
        self._before = NO_MESSAGE  # the last message of the file before
        self._first: IndexedMessage | None = None
        self.last: IndexedMessage | None = None

    @property
    def room(self) -> int:
        """How many more entries the file takes."""
        return self.capacity - self._entries

    @property
    def is_staged(self) -> bool:
        """Whether the file is beside `index/`, with entries that `index/` lacks."""
        return self._file is not None

    @property
    def ended(self) -> IndexedMessage:
        """The last message of this file, or of the file before where this file has none."""
        return self.last or self._before

    def take_up(self, found: Header, before: IndexedMessage) -> None:
        """Go on with a file of `index/`. before: the last message of the file before it."""
        self.name, self._before = found.name, before
        self._entries = max(found.next_entry - 1, 0)
        if self._entries:
            self._first, self.last = found.begin, found.end
        self.wanted = not found.marked or self._entries > 0 or found.next_entry == self._empty_count
        if self.room > 0:
            slots = self.folder.read(found.name, INDEX_HEADER_BYTES, self._slots * INDEX_SLOT_BYTES)
            newest = np.frombuffer(slots, INDEX_SLOT).astype(np.int32)
            newest[(newest <= 0) | (newest > self._entries)] = 0  # IndexFile.putKey
            self._newest = newest
            self._counted = found.slots_used - self._slots_used()

    def begin(self, name: str) -> None:
        """Begin the next file; the file before is finished."""
        self._before = self.ended
        self.name = name
        self._newest = np.zeros(self._slots, np.int32)
        self._entries = self._counted = 0
        self._first = self.last = None

    def append(self, puts: Any) -> None:
        """Append INDEX_PUT rows, at least one and at most `room`."""
        file = self.stage()
        if self._first is None:
            self._first = _message(puts[0])
        begin = self._first.timestamp
        previous = np.empty(len(puts), np.int32)
        hashes = np.ascontiguousarray(puts["keyHash"])
        chain(hashes, self._entries + 1, self._slots, 0, self._newest, previous)
        out = np.empty(len(puts) * INDEX_ENTRY_BYTES, np.uint8)
        lows, cursors = np.zeros(1, np.int64), np.zeros(1, np.int64)
        if self._entries == 0:
            # RocketMQ computes the first entry's timeDiff from the previous file's endTimestamp
            fill_entries(
                puts[:1], self._slots, lows, previous, cursors,
                max(self._before.timestamp, 0), out[:INDEX_ENTRY_BYTES],
            )  # fmt: skip
            fill_entries(
                puts[1:], self._slots, lows, previous, cursors, begin, out[INDEX_ENTRY_BYTES:]
            )
        else:
            fill_entries(puts, self._slots, lows, previous, cursors, begin, out)
        file.write_at(self.folder.entry_at(self._entries + 1), out)
        self._entries += len(puts)
        self.last = _message(puts[-1])

    def stage(self) -> OpenFile:
        """The file beside `index/`; if it was published, a new copy of it with all its entries."""
        if self._file is None:
            assert self.name is not None
            self._file = self.folder.create_staged(self.name, self._bytes)
            at, end = self.folder.entry_at(1), self.folder.entry_at(self._entries + 1)
            while at < end:
                part = self.folder.read(self.name, at, min(_COPY_BYTES, end - at))
                self._file.write_at(at, part)
                at += len(part)
        return self._file

    def finish(self, marked: bool) -> None:
        """Write slots and header of the staged file, make it durable, and close it."""
        file = self.stage()
        used = np.flatnonzero(self._newest)
        if len(used):
            low, high = int(used[0]), int(used[-1]) + 1
            slots: Bytes = self._newest[low:high].astype(INDEX_SLOT).view(np.uint8)
            file.write_at(INDEX_HEADER_BYTES + low * INDEX_SLOT_BYTES, slots)
        file.write_at(0, self.header(marked))
        file.sync()
        self.close()

    def header(self, marked: bool) -> bytes:
        """The header of what the file holds now. marked: with the mark (see index_folder)."""
        first, last = self._first, self.last
        if marked and self.ended != NO_MESSAGE:
            first = first or self._before
            last = self.ended._replace(physical_offset=self.ended.physical_offset + 1)
        count = self._entries + 1 if self._entries else self._empty_count
        if not self.wanted:
            count = 1 - self._empty_count  # tells the next open of the mark; RocketMQ takes 0 and 1
        return header(first, last, self._before, self._counted + self._slots_used(), count)

    def _slots_used(self) -> int:
        return self._entries if self._count_every_put else int(np.count_nonzero(self._newest))

    def close(self) -> None:
        """Close the staged file as it is."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _message(put: Any) -> IndexedMessage:
    return IndexedMessage(int(put["storeTimestamp"]), int(put["physicalOffset"]))
