"""The folder `index/` while a store is open: it only has complete files, and changes in one step.
The last file grows in a folder beside it.

RocketMQ may load a killed writer's store too. IndexService.load then deletes each index file whose
endTimestamp is above the checkpoint's indexMsgTimestamp. Recovery dispatches again from a segment
that the checkpoint vouches for. IndexService.buildIndex skips a message *before* the last file's
endPhyOffset, but indexes the message *at* endPhyOffset again. For every key to be found exactly
once afterwards, `index/` must at each moment be the index of the log's beginning up to some
message, with no key of a later message. So

- files that grow are in another folder (STAGED_INDEX). When they are durable, it replaces `index/`
  by one exchange of the two names;
- as long as `abort` is there, the last file's endPhyOffset is one more than the physicalOffset of
  its last message. This is "the mark". RocketMQ never writes it; where RocketMQ finds it, it skips
  the last message too;
- indexMsgTimestamp is raised to the greatest endTimestamp before that exchange, and never above
  the value by which RocketMQ keeps the files in `index/`;
- the indexed messages are made durable before indexMsgTimestamp is raised, whatever the flush mode:
  a power cut that takes them must not leave their keys.
"""

import errno
from collections.abc import Callable
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np

from reput.store_format.derived.index_file import (
    NO_MESSAGE,
    IndexedMessage,
    capacity,
    chain,
    file_bytes,
    fill_entries,
    header,
)
from reput.store_format.derived.index_header import IndexHeader, header_in, in_log_order
from reput.store_format.faults import StoreError
from reput.store_format.files.protocol import Bytes, Files, OpenFile
from reput.store_format.layouts import (
    INDEX_ENTRY,
    INDEX_ENTRY_BYTES,
    INDEX_HEADER_BYTES,
    INDEX_SLOT,
    INDEX_SLOT_BYTES,
)
from reput.store_format.names import INDEX, STAGED_INDEX, index_files_among, is_index_name
from reput.store_format.release.profiles import Profile
from reput.store_format.release.settings import Settings

# The errors of a file system that cannot exchange two names.
_CANNOT_EXCHANGE = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


class Header(NamedTuple):
    """A file's header, without the mark, and whether the file had the mark."""

    name: str
    begin: IndexedMessage
    end: IndexedMessage
    slots_used: int
    next_entry: int  # indexCount: entries are 1 .. next_entry - 1; 0 or 1 for none
    marked: bool = False


class IndexFolder:
    """The index files of a store, by name. Places in a file are in bytes."""

    def __init__(self, files: Files, slots: int) -> None:
        self.files, self.slots = files, slots

    def refuse_link(self) -> None:
        """Raise StoreError where `index/` cannot be exchanged: it is a link, or no folder."""
        if self.files.exists(INDEX) and not self.files.is_folder(INDEX):  # it raises for a link
            raise StoreError(f"{INDEX}: is not a folder")

    def names(self) -> list[str]:
        """The index files, in order. What else lies in the folder is somebody else's, and stays."""
        return index_files_among(self.files.names(INDEX))

    def headers(self) -> list[Header]:
        found: list[Header] = []
        heads = {name: header_in(self.files, f"{INDEX}/{name}")[0] for name in self.names()}
        for name in in_log_order(heads.items()):
            found.append(self._header(name, heads[name], found[-1] if found else None))
        return found

    def _header(self, name: str, head: IndexHeader, previous: Header | None) -> Header:
        with closing(self.files.open_read(f"{INDEX}/{name}")) as file:
            last = head.entries
            ends = previous.end.physical_offset if previous else -1
            if last and self.entry_at(last) + INDEX_ENTRY_BYTES <= file.length():
                entry = np.empty(INDEX_ENTRY_BYTES, np.uint8)
                file.read_at(self.entry_at(last), entry)
                ends = int(np.frombuffer(entry, INDEX_ENTRY, 1)[0]["physicalOffset"])
        end = head.end_offset
        marked = ends >= 0 and end == ends + 1
        return Header(
            name,
            IndexedMessage(head.begin_timestamp, head.begin_offset),
            IndexedMessage(head.end_timestamp, end - marked),
            head.slots_used,
            head.next_entry,
            marked,
        )

    def read(self, name: str, at: int, length: int) -> Bytes:
        part = np.empty(length, np.uint8)
        with closing(self.files.open_read(f"{INDEX}/{name}")) as file:
            file.read_at(at, part)
        return part

    def count_held(self, headers: list[Header], last: int) -> int:
        """How many of the last entries belong to the message at physical offset `last`: a crash may
        have left only some of its keys. The entries may begin in a file before the last.
        """
        held = 0
        entry = np.empty(INDEX_ENTRY_BYTES, np.uint8)
        for about in reversed(headers):
            with closing(self.files.open_read(f"{INDEX}/{about.name}")) as file:
                for number in range(about.next_entry - 1, 0, -1):
                    file.read_at(self.entry_at(number), entry)
                    if int(np.frombuffer(entry, INDEX_ENTRY, 1)[0]["physicalOffset"]) != last:
                        return held
                    held += 1
        return held

    def entry_at(self, number: int) -> int:
        return INDEX_HEADER_BYTES + self.slots * 4 + number * INDEX_ENTRY_BYTES

    def create_staged(self, name: str, length: int) -> OpenFile:
        """Make a file of zeros in the folder beside `index/`. length: bytes."""
        if not self.files.exists(STAGED_INDEX):
            if self.files.exists(INDEX):
                self.files.add_folder(STAGED_INDEX, INDEX)
                self.files.sync_folder("")
            else:
                self.files.make_folder(STAGED_INDEX)
        file = self.files.create(f"{STAGED_INDEX}/{name}")
        file.set_length(length)
        return file

    def publish(self, kept: list[str], staged: list[str], before: Callable[[], None]) -> None:
        """Let `index/` hold its files `kept` and the files `staged`, durably, in one step.

        staged: their content is durable, their names are not. before: called just before that step.
        """
        files = self.files
        if not files.exists(INDEX):
            files.make_folder(INDEX)
        strangers = [name for name in files.names(INDEX) if not is_index_name(name)]
        for name in (*kept, *strangers):
            if not self._is_folder(name):
                files.link(f"{INDEX}/{name}", f"{STAGED_INDEX}/{name}")
        files.sync_folder(STAGED_INDEX)
        before()
        try:
            if any(map(self._is_folder, strangers)):
                raise OSError(errno.EINVAL, "a folder has no second name, and stays where it is")
            files.exchange(STAGED_INDEX, INDEX)
        except OSError as error:
            if error.errno not in _CANNOT_EXCHANGE:
                raise
            self._one_by_one(kept, staged)
        files.sync_folder("")
        self.remove_staged()

    def _is_folder(self, name: str) -> bool:
        """Whether a name in `index/` is a folder's, or of anything that no second name is given."""
        try:
            return self.files.is_folder(f"{INDEX}/{name}")
        except StoreError:
            return True  # a link

    def _one_by_one(self, kept: list[str], staged: list[str]) -> None:
        """Publish where names cannot be exchanged. A kill between two of these renames leaves the
        keys of one message twice, or the last keys before a new file missing.
        """
        for name in [n for n in self.names() if n not in kept and n not in staged]:
            self.files.remove(f"{INDEX}/{name}")
        for name in staged:
            self.files.rename(f"{STAGED_INDEX}/{name}", f"{INDEX}/{name}")
        self.files.sync_folder(INDEX)

    def remove_staged(self) -> None:
        """Remove the folder beside `index/`. StoreError: it is a link or not a writer's."""
        if not self.files.exists(STAGED_INDEX):
            return
        if not self.files.is_folder(STAGED_INDEX):  # it raises for a link
            raise StoreError(f"{STAGED_INDEX}: is not a folder; it is left as it is")
        names = self.files.names(STAGED_INDEX)
        for name in names:
            path, stays = f"{STAGED_INDEX}/{name}", f"{INDEX}/{name}"
            second = self.files.exists(stays) and self.files.inode(stays) == self.files.inode(path)
            if not (is_index_name(name) or second):
                raise StoreError(f"{path}: is no index file's name; it is left as it is")
        for name in names:
            self.files.remove(f"{STAGED_INDEX}/{name}")
        self.files.remove(STAGED_INDEX)

    def write_header(self, name: str, raw: bytes) -> None:
        """Write a file's header in place, durably. It lies in one sector: written whole or not."""
        with closing(self.files.open(f"{INDEX}/{name}")) as file:
            file.write_at(0, raw)
            file.sync()

    def remove(self, names: list[str]) -> None:
        """Remove files, the last one first, durably."""
        for name in reversed(names):
            self.files.remove(f"{INDEX}/{name}")
        if names:
            self.files.sync_folder(INDEX)


# ---
# The last index file of a store, which grows in a folder beside `index/`; its slots are in memory.
#
# As RocketMQ's IndexFile.putKey. `index_writer` decides which files a store has, and when they are
# published.

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
        if self._file is not None:
            self._file.close()
            self._file = None


def _message(put: Any) -> IndexedMessage:
    return IndexedMessage(int(put["storeTimestamp"]), int(put["physicalOffset"]))
