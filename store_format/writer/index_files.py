"""IndexFiles as they grow (IndexService.buildIndex, retryGetAndCreateIndexFile; IndexFile.putKey).

The slots of the file that grows are kept in memory and written when it is full, and at `sync`:
a crash loses that file anyway, as RocketMQ removes it on its next start.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from store_format.file_layer import Bytes, Files, OpenFile
from store_format.index_file import (
    NOTHING_BEFORE,
    Before,
    capacity,
    chain,
    file_bytes,
    fill_entries,
    header,
)
from store_format.layouts import (
    INDEX_ENTRY,
    INDEX_ENTRY_BYTES,
    INDEX_HEADER,
    INDEX_HEADER_BYTES,
    INDEX_SLOT,
    INDEX_SLOT_BYTES,
)
from store_format.names import INDEX, index_name, next_index_time, parse_index_name
from store_format.profiles import Profile
from store_format.settings import Settings


class _Header(NamedTuple):
    name: str
    begin: Before
    end: Before
    slots_used: int
    next_entry: int  # indexCount: entries are 1 .. next_entry - 1


class IndexFiles:
    """All index files of a store; only the last one grows."""

    def __init__(
        self, files: Files, profile: Profile, settings: Settings, clock: Callable[[], int]
    ) -> None:
        self.files, self.clock = files, clock
        self.slots = settings.max_hash_slot_num
        self.capacity = capacity(settings.max_index_num)
        self._bytes = file_bytes(settings.max_hash_slot_num, settings.max_index_num)
        self._count_every_put = profile.count_every_put
        self._empty_count = profile.empty_index_count
        self.indexed_to = -1  # the physical offset of the last message with a key
        self._held = 0  # how many of its keys were there as the store was opened
        self.full_timestamp = 0  # endTimestamp of the last full file: the checkpoint's
        self._name: str | None = None
        self._file: OpenFile | None = None
        self._newest = np.empty(0, np.int32)
        self._entries = 0
        self._before = NOTHING_BEFORE
        self._first: Before | None = None
        self._last: Before | None = None

    # --- as the store is opened -----------------------------------------------------------

    def load(self, safe_timestamp: int | None, log_end: int) -> None:
        """Take up the last file. safe_timestamp: after a crash, the checkpoint's: files with a
        later endTimestamp are removed (IndexService.load), and the one that was growing, whose
        slots were in memory; and always those of a log that was cut.
        """
        headers = [self._read_header(name) for name in self.files.names(INDEX)]
        while headers and (
            headers[-1].end.physical_offset >= log_end > 0
            or (
                safe_timestamp is not None
                and (
                    headers[-1].end.timestamp > safe_timestamp
                    or headers[-1].next_entry <= self.capacity
                )
            )
            or self._length(headers[-1].name) != self._bytes
        ):
            self.files.remove(f"{INDEX}/{headers.pop().name}")
        if self.files.names(INDEX) or self.files.exists(INDEX):
            self.files.sync_folder(INDEX)
        if headers:
            self._take_up(headers[-1], headers[-2] if len(headers) > 1 else None)

    def _length(self, name: str) -> int:
        file = self.files.open(f"{INDEX}/{name}")
        try:
            return file.length()
        finally:
            file.close()

    def _read_header(self, name: str) -> _Header:
        parse_index_name(name)
        file = self.files.open(f"{INDEX}/{name}")
        try:
            raw = np.zeros(INDEX_HEADER_BYTES, np.uint8)
            if file.length() >= INDEX_HEADER_BYTES:
                file.read_at(0, raw)
        finally:
            file.close()
        h = np.frombuffer(raw, INDEX_HEADER, 1)[0]
        return _Header(
            name,
            Before(int(h["beginTimestamp"]), int(h["beginPhyOffset"])),
            Before(int(h["endTimestamp"]), int(h["endPhyOffset"])),
            int(h["hashSlotCount"]),
            int(h["indexCount"]),
        )

    def _take_up(self, last: _Header, previous: _Header | None) -> None:
        self._name = last.name
        self._entries = max(last.next_entry - 1, 0)
        self._before = previous.end if previous else NOTHING_BEFORE
        if self._entries:
            self._first, self._last = last.begin, last.end
        ended = last.end if self._entries else self._before
        if ended != NOTHING_BEFORE:
            self.indexed_to = ended.physical_offset
        self._file = self.files.open(f"{INDEX}/{last.name}")
        self._held = self._count_held()
        if self.is_full:
            self.full_timestamp = last.end.timestamp
        else:
            if previous is not None:
                self.full_timestamp = previous.end.timestamp
            slots = np.empty(self.slots * INDEX_SLOT_BYTES, np.uint8)
            self._file.read_at(INDEX_HEADER_BYTES, slots)
            newest = np.frombuffer(slots, INDEX_SLOT).astype(np.int32)
            newest[(newest <= 0) | (newest > self._entries)] = 0  # IndexFile.putKey
            self._newest = newest

    def _count_held(self) -> int:
        """How many of the last entries are of the last message: a crash may part its keys."""
        assert self._file is not None
        entry = np.empty(INDEX_ENTRY_BYTES, np.uint8)
        for number in range(self._entries, 0, -1):
            self._file.read_at(self._entry_at(number), entry)
            if int(np.frombuffer(entry, INDEX_ENTRY, 1)[0]["physicalOffset"]) != self.indexed_to:
                return self._entries - number
        return self._entries

    # --- as records are dispatched ---------------------------------------------------------

    def append_new(self, puts: Any) -> None:
        """Append the INDEX_PUT rows that the files do not hold yet; a replay adds nothing twice."""
        offsets = puts["physicalOffset"]
        wanted = offsets > self.indexed_to
        wanted[np.flatnonzero(offsets == self.indexed_to)[self._held :]] = True
        self.append(puts[wanted])

    @property
    def is_full(self) -> bool:
        return self._entries >= self.capacity

    def open_for_message(self) -> None:
        """A message is dispatched: the last file, if there is none or it is full, gives way to a
        new one, whether the message has keys or not (IndexService.retryGetAndCreateIndexFile).
        """
        if self._name is None or self.is_full:
            self._open_next()

    def append(self, puts: Any) -> None:
        """Append INDEX_PUT rows, in order; files open as they fill, even within a message."""
        while len(puts):
            self.open_for_message()
            some = puts[: self.capacity - self._entries]
            self._append(some)
            puts = puts[len(some) :]

    def _append(self, puts: Any) -> None:
        file = self._file
        assert file is not None
        if self._first is None:
            self._first = _of(puts[0])
        begin = self._first.timestamp
        previous = np.empty(len(puts), np.int32)
        hashes = np.ascontiguousarray(puts["keyHash"])
        chain(hashes, self._entries + 1, self.slots, 0, self._newest, previous)
        out = np.empty(len(puts) * INDEX_ENTRY_BYTES, np.uint8)
        lows, cursors = np.zeros(1, np.int64), np.zeros(1, np.int64)
        if self._entries == 0:
            # the first entry is measured against where the file before ended
            fill_entries(
                puts[:1], self.slots, lows, previous, cursors,
                max(self._before.timestamp, 0), out[:INDEX_ENTRY_BYTES],
            )  # fmt: skip
            fill_entries(
                puts[1:], self.slots, lows, previous, cursors, begin, out[INDEX_ENTRY_BYTES:]
            )
        else:
            fill_entries(puts, self.slots, lows, previous, cursors, begin, out)
        file.write_at(self._entry_at(self._entries + 1), out)
        self._entries += len(puts)
        self._last = _of(puts[-1])
        self.indexed_to = self._last.physical_offset
        if self.is_full:
            self._write_slots()
            file.sync()
            self.full_timestamp = self._last.timestamp

    def _entry_at(self, number: int) -> int:
        return INDEX_HEADER_BYTES + self.slots * INDEX_SLOT_BYTES + number * INDEX_ENTRY_BYTES

    def _open_next(self) -> None:
        previous = None if self._name is None else parse_index_name(self._name)
        name = index_name(next_index_time(self.clock(), previous))
        if self._name is None:
            self.files.make_folder(INDEX)
        else:
            self._before = self._last or self._before
        if self._file is not None:
            self._file.close()
        self._name = name
        self._file = self.files.create(f"{INDEX}/{name}")
        self._file.set_length(self._bytes)
        self.files.sync_folder(INDEX)
        self._newest = np.zeros(self.slots, np.int32)
        self._entries = 0
        self._first = self._last = None

    def _write_slots(self) -> None:
        assert self._file is not None
        used = np.flatnonzero(self._newest)
        if len(used):
            low, high = int(used[0]), int(used[-1]) + 1
            slots: Bytes = self._newest[low:high].astype(INDEX_SLOT).view(np.uint8)
            self._file.write_at(INDEX_HEADER_BYTES + low * INDEX_SLOT_BYTES, slots)
        count = self._entries + 1 if self._entries else self._empty_count
        slots_used = self._entries if self._count_every_put else len(used)
        self._file.write_at(0, header(self._first, self._last, self._before, slots_used, count))

    def finish(self) -> None:
        """Write the growing file's slots and header, and make them durable."""
        if self._file is not None and not self.is_full:
            self._write_slots()
            self._file.sync()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _of(put: Any) -> Before:
    return Before(int(put["storeTimestamp"]), int(put["physicalOffset"]))
