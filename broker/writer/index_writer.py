"""IndexFiles as they grow (IndexService.buildIndex, retryGetAndCreateIndexFile; IndexFile.putKey).

The file that grows is in a folder beside `index/` (see index_folder), and its slots are in memory.
It is moved into `index/`, with all files that have become full, when one becomes full, after a
recovery, and when the store is closed. So all files in `index/` are always complete.
"""

from collections.abc import Callable
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
from reput.store_format.disk.files import Bytes, Files, OpenFile
from reput.store_format.layouts import (
    INDEX_ENTRY,
    INDEX_ENTRY_BYTES,
    INDEX_HEADER_BYTES,
    INDEX_SLOT,
    INDEX_SLOT_BYTES,
)
from reput.store_format.names import INDEX, index_name, next_index_time, parse_index_name
from reput.store_format.release.profiles import Profile
from reput.store_format.release.settings import Settings

_COPY_BYTES = 1 << 20
# After so many bytes of log `index/` changes though no file is full, as a recovery reads the log
# from the last change on. Each change writes the growing file anew.
PUBLISH_LOG_BYTES = 1 << 30


class IndexFiles:
    """All index files of a store; only the last one grows."""

    def __init__(
        self, files: Files, profile: Profile, settings: Settings, clock: Callable[[], int],
        vouch: Callable[[int], None],
    ) -> None:  # fmt: skip
        """vouch: makes the messages that are indexed durable, then the checkpoint's
        indexMsgTimestamp (milliseconds).
        """
        self.files, self.clock, self._vouch = files, clock, vouch
        self.slots = settings.max_hash_slot_num
        self.capacity = capacity(settings.max_index_num)
        self.folder = IndexFolder(files, self.slots)
        self._bytes = file_bytes(settings.max_hash_slot_num, settings.max_index_num)
        self._count_every_put = profile.count_every_put
        self._empty_count = profile.empty_index_count
        self.indexed_to = -1  # the physical offset of the last message with a key
        # whether `index/` has the mark: it holds all keys of messages up to there, and no others
        self.whole = False
        self._held: int | None = 0  # how many keys of that message it had when opened; None: all
        self._highest = 0  # the greatest endTimestamp
        self._covered = NO_MESSAGE  # the last message of which `index/` holds all keys
        self._unpublished = False  # there are entries, or a file, that `index/` lacks
        self._kept: list[str] = []  # full files in `index/`, before the one that grows
        self._full: list[str] = []  # full files that are not in `index/` yet
        self._doomed: list[str] = []  # files in `index/` that RocketMQ would delete on load
        self._name: str | None = None
        self._wanted = True  # a message needs it; else it is only there to hold the mark
        self._file: OpenFile | None = None  # beside `index/`; None until something is written
        self._newest = np.empty(0, np.int32)
        self._counted = 0  # hashSlotCount of the last file as it was found, less the slots in use
        self._entries = 0
        self._before = NO_MESSAGE
        self._first: IndexedMessage | None = None
        self._last: IndexedMessage | None = None

    # --- as the store is opened -----------------------------------------------------------

    def load(self, safe_timestamp: int | None, log_end: int) -> None:
        """Find the last file that can be trusted, to go on with it. Changes nothing on disk.

        safe_timestamp: after a crash the checkpoint's indexMsgTimestamp. Not trusted are a file
        with a later endTimestamp, which RocketMQ deletes (IndexService.load), a last file that is
        neither full nor marked, and a file of messages that the log does not have.
        """
        headers = self.folder.headers()
        before = len(headers)
        while headers and (
            headers[-1].end.physical_offset >= log_end > 0
            or (
                safe_timestamp is not None
                and (
                    headers[-1].end.timestamp > safe_timestamp
                    or (headers[-1].next_entry <= self.capacity and not headers[-1].marked)
                )
            )
        ):
            last = headers.pop()
            if safe_timestamp is not None and last.end.timestamp > safe_timestamp:
                self._doomed.insert(0, last.name)
        self._unpublished = len(headers) < before
        self._highest = max((h.end.timestamp for h in headers), default=0)
        if headers:
            self._kept = [h.name for h in headers[:-1]]
            self._take_up(headers)

    def _take_up(self, headers: list[Header]) -> None:
        last, previous = headers[-1], headers[-2] if len(headers) > 1 else None
        self._name = last.name
        self._entries = max(last.next_entry - 1, 0)
        self._before = previous.end if previous else NO_MESSAGE
        if self._entries:
            self._first, self._last = last.begin, last.end
        ended = last.end if self._entries else self._before
        if ended != NO_MESSAGE:
            self.indexed_to = ended.physical_offset
        self._covered = ended
        self._wanted = not last.marked or self._entries > 0 or last.next_entry == self._empty_count
        self.whole = last.marked and not self._unpublished
        file = self.files.open_read(f"{INDEX}/{last.name}")
        try:
            self._held = None if last.marked else self._count_held(headers)
            if not self.is_full:
                slots = np.empty(self.slots * INDEX_SLOT_BYTES, np.uint8)
                file.read_at(INDEX_HEADER_BYTES, slots)
                newest = np.frombuffer(slots, INDEX_SLOT).astype(np.int32)
                newest[(newest <= 0) | (newest > self._entries)] = 0  # IndexFile.putKey
                self._newest = newest
                self._counted = last.slots_used - self._slots_used()
        finally:
            file.close()

    def _count_held(self, headers: list[Header]) -> int:
        """How many of the last entries belong to the last message, whose keys a crash may have
        written in part. They may begin in a file before the last.
        """
        held = 0
        entry = np.empty(INDEX_ENTRY_BYTES, np.uint8)
        for about in reversed(headers):
            file = self.files.open_read(f"{INDEX}/{about.name}")
            try:
                for number in range(about.next_entry - 1, 0, -1):
                    file.read_at(self.folder.entry_at(number), entry)
                    offset = int(np.frombuffer(entry, INDEX_ENTRY, 1)[0]["physicalOffset"])
                    if offset != self.indexed_to:
                        return held
                    held += 1
            finally:
                file.close()
        return held

    def protect(self) -> None:
        """Put the mark on the last file; called before `abort` is written.

        As soon as `abort` is there, RocketMQ's recovery deals with these files if the writer is
        killed. The store was closed cleanly, so the files have all keys and may be marked. If the
        last file is full, a further file is made to hold the mark.
        """
        self.folder.remove_staged()
        if self._unpublished or self._name is None:
            return
        if self.is_full:
            self.publish()
            return
        self._vouch(self._highest)
        if self.indexed_to >= 0:
            self.folder.write_header(self._name, self._header(marked=True))
            self.whole = True

    # --- as records are dispatched ---------------------------------------------------------

    def append_new(self, puts: Any) -> None:
        """Append the INDEX_PUT rows that the files do not hold yet; a replay adds nothing twice."""
        offsets = puts["physicalOffset"]
        wanted = offsets > self.indexed_to
        if self._held is not None:
            wanted[np.flatnonzero(offsets == self.indexed_to)[self._held :]] = True
        self.append(puts[wanted])

    @property
    def needs_file(self) -> bool:
        """Whether the next message that is dispatched opens a file."""
        return self._name is None or self.is_full

    @property
    def is_full(self) -> bool:
        return self._entries >= self.capacity

    def covered(self, dispatched: IndexedMessage) -> IndexedMessage:
        """The message up to which RocketMQ's recovery need not dispatch for the index again.

        dispatched: the last record's storeTimestamp and where dispatch stands.
        """
        if not self._unpublished:
            return dispatched
        return IndexedMessage(*map(min, self._covered, dispatched))

    def open_for_message(self) -> None:
        """Open a new file if there is none or the last one is full. Called for each message that
        is dispatched, with or without keys (IndexService.retryGetAndCreateIndexFile).
        """
        if self.needs_file:
            self._open_next()
        if not self._wanted:
            self._wanted = self._unpublished = True

    def append(self, puts: Any) -> None:
        """Append INDEX_PUT rows of whole messages, in order. A new file is opened whenever one is
        full, also between two keys of a message. Where one has become full, or the log has gone
        far since the last time, all files are published at the end.
        """
        while len(puts):
            self.open_for_message()
            some = puts[: self.capacity - self._entries]
            self._append(some)
            puts = puts[len(some) :]
        full = self._full or (self.is_full and self._unpublished and self._file is not None)
        if full or self.indexed_to - self._covered.physical_offset >= PUBLISH_LOG_BYTES:
            self.publish()

    def _append(self, puts: Any) -> None:
        file = self._writable()
        if self._first is None:
            self._first = _of(puts[0])
        begin = self._first.timestamp
        previous = np.empty(len(puts), np.int32)
        hashes = np.ascontiguousarray(puts["keyHash"])
        chain(hashes, self._entries + 1, self.slots, 0, self._newest, previous)
        out = np.empty(len(puts) * INDEX_ENTRY_BYTES, np.uint8)
        lows, cursors = np.zeros(1, np.int64), np.zeros(1, np.int64)
        if self._entries == 0:
            # RocketMQ computes the first entry's timeDiff from the file before's endTimestamp
            fill_entries(
                puts[:1], self.slots, lows, previous, cursors,
                max(self._before.timestamp, 0), out[:INDEX_ENTRY_BYTES],
            )  # fmt: skip
            fill_entries(
                puts[1:], self.slots, lows, previous, cursors, begin, out[INDEX_ENTRY_BYTES:]
            )
        else:
            fill_entries(puts, self.slots, lows, previous, cursors, begin, out)
        file.write_at(self.folder.entry_at(self._entries + 1), out)
        self._entries += len(puts)
        self._last = _of(puts[-1])
        self._highest = max(self._highest, self._last.timestamp)
        self.indexed_to, self._held = self._last.physical_offset, None

    def _writable(self) -> OpenFile:
        """The growing file, beside `index/`; if it was published, a new one with its entries."""
        self._unpublished = True
        if self._file is None:
            assert self._name is not None
            self._file = self.folder.create_staged(self._name, self._bytes)
            if self._entries:
                self._copy_entries(self._file)
        return self._file

    def _copy_entries(self, to: OpenFile) -> None:
        source = self.files.open_read(f"{INDEX}/{self._name}")
        try:
            at, end = self.folder.entry_at(1), self.folder.entry_at(self._entries + 1)
            while at < end:
                part = np.empty(min(_COPY_BYTES, end - at), np.uint8)
                source.read_at(at, part)
                to.write_at(at, part)
                at += len(part)
        finally:
            source.close()

    def _open_next(self) -> None:
        previous = None
        if self._name is not None:
            previous = parse_index_name(self._name)
            self._finish_file(marked=False)
            self._before = self._last or self._before
        self._name = index_name(next_index_time(self.clock(), previous))
        self._newest = np.zeros(self.slots, np.int32)
        self._entries = self._counted = 0
        self._first = self._last = None
        self._unpublished = True

    def _finish_file(self, marked: bool) -> None:
        """Write slots and header of the growing file, make it durable, and close it.

        It is then one of the files to be published, unless it is in `index/` already.
        """
        assert self._name is not None
        if self._file is None:
            self._kept.append(self._name)
            return
        used = np.flatnonzero(self._newest)
        if len(used):
            low, high = int(used[0]), int(used[-1]) + 1
            slots: Bytes = self._newest[low:high].astype(INDEX_SLOT).view(np.uint8)
            self._file.write_at(INDEX_HEADER_BYTES + low * INDEX_SLOT_BYTES, slots)
        self._file.write_at(0, self._header(marked))
        self._file.sync()
        self._file.close()
        self._file = None
        self._full.append(self._name)

    def _header(self, marked: bool) -> bytes:
        first, last = self._first, self._last
        if marked and (last or self._before) != NO_MESSAGE:
            end = last or self._before
            first = first or self._before
            last = end._replace(physical_offset=end.physical_offset + 1)
        count = self._entries + 1 if self._entries else self._empty_count
        if not self._wanted:
            count = 1 - self._empty_count  # the next open knows the mark by it; RocketMQ takes both
        slots_used = self._counted + self._slots_used()
        return header(first, last, self._before, slots_used, count)

    def _slots_used(self) -> int:
        return self._entries if self._count_every_put else int(np.count_nonzero(self._newest))

    # --- publishing ------------------------------------------------------------------------

    def publish(self) -> None:
        """Make `index/` hold all keys put so far, with the mark on the last file. May only be
        called between two messages.
        """
        if self.is_full:
            self._open_next()
            self._wanted = False
        self._writable()
        self._finish_file(marked=True)
        growing = self._full.pop()
        kept, staged = self._kept, [*self._full, growing]

        def before() -> None:
            # These files must be gone before indexMsgTimestamp is raised: RocketMQ would keep them
            # then.
            self.folder.remove(self._doomed)
            self._doomed = []
            self._vouch(self._highest)

        self.folder.publish(kept, staged, before)
        self._kept, self._full = [*kept, *self._full], []
        self._covered = self._last or self._before
        self._unpublished, self.whole, self._held = False, True, None

    def publish_changes(self) -> None:
        """Call `publish` if `index/` lacks anything."""
        if self._name is None:
            self.folder.remove(self.files.names(INDEX))  # of messages that the log does not have
            self._unpublished = False
        elif self._unpublished or not self.whole:
            self.publish()

    def settle(self) -> None:
        """Remove the mark; called after `abort` has been removed."""
        self.folder.remove_staged()
        if self._name is None or self._unpublished or not self.whole:
            return
        if self._wanted:
            self.folder.write_header(self._name, self._header(marked=False))
        else:
            self.folder.remove([self._name])

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _of(put: Any) -> IndexedMessage:
    return IndexedMessage(int(put["storeTimestamp"]), int(put["physicalOffset"]))
