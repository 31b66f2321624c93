"""From where to where a store's derived files go: the end, where a catch-up goes on, and the
entries of expired messages at their beginning.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format import layouts
from reput.store_format.derived.index_header import IndexHeader, read_header
from reput.store_format.derived.index_reader import IndexReader
from reput.store_format.derived.queue_reader import QueueReader
from reput.store_format.files.folder import Folder, queue_folders
from reput.store_format.files.protocol import Reader
from reput.store_format.names import BATCH_CONSUME_QUEUE, CONSUME_QUEUE
from reput.store_format.release.settings import Settings

# ---
# Where the derived files of a store end, which is where a catch-up must go on.


class QueueTail(NamedTuple):
    """Where one queue ends. Offsets are physical; -1 where it has no entry."""

    topic: str
    queue_id: int
    batch: bool
    greatest_offset: int  # where the last entry's record starts
    end: int  # where the last entry's record ends
    tags_code: int = 0  # of the last entry
    entries_end: int = 0  # number of the next entry, see QueueReader; in a batch queue no position
    may_be_cut: bool = False  # files at its end may be missing


class IndexTail(NamedTuple):
    """Where the newest index file ends."""

    path: str
    header: IndexHeader
    full: bool  # the next message opens another file


class DerivedTail(NamedTuple):
    """Where a set of derived files ends."""

    queues: list[QueueTail]
    newest_index: IndexTail | None

    @property
    def end(self) -> int:
        """The end of the last record that any queue has; -1 where there is no entry."""
        return max((queue.end for queue in self.queues), default=-1)

    @property
    def greatest_offset(self) -> int:
        """The greatest physical offset of a record in any queue; -1 where there is no entry."""
        return max((queue.greatest_offset for queue in self.queues), default=-1)


def tail(store: Folder, settings: Settings) -> DerivedTail:
    """The ends of all queues and of the index at `store`, a store or a rebuilt set.

    Reads a few entries of each queue's last file, and one header. Raises BadQueue, BadIndex.
    """
    return DerivedTail(list(queue_tails(store)), index_tail(store, settings))


def queue_tails(store: Folder) -> Iterator[QueueTail]:
    """The ends of all queues, one after the other, by folder, topic and queue id as listed."""
    for folder, batch in ((CONSUME_QUEUE, False), (BATCH_CONSUME_QUEUE, True)):
        for path in queue_folders(store, folder):
            queue, name = QueueReader(store / path, batch), path[1:]
            last = queue.last()
            cut = queue.may_be_cut()
            if last is None:
                yield QueueTail(*name, batch, -1, -1, may_be_cut=cut)
                continue
            place = last.physical_offset
            end = place + last.size
            yield QueueTail(*name, batch, place, end, last.tags_code, queue.entries_end(), cut)


def index_tail(store: Folder, settings: Settings) -> IndexTail | None:
    """The end of the newest index file; None where there is none."""
    index = IndexReader(store, settings)
    if not index.files:
        return None
    with index.open(0) as file:
        return IndexTail(file.path, file.header, file.header.next_entry >= file.most)


# ---
# Entries of expired messages, which derived files keep after the log's segments were deleted.
#
# When the retention time is over, a broker deletes the log's first segments. It deletes a queue or
# index file only when all messages of the file are gone, and never a queue's last file
# (CleanCommitLogService, CleanConsumeQueueService, ConsumeQueue.deleteExpiredFile,
# IndexService.deleteExpiredFile). Until then such a file has entries whose physicalOffset is below
# the log's first offset.

_CHUNK_ENTRIES = 1 << 16
_MILLISECONDS = 1000


class ExpiredPuts(NamedTuple):
    """The entries of expired messages at the start of an index file, as puts.

    hashes and messages: as in dispatch/dispatch, with one message for each put. Its time is
    computed from the entry's timeDiff, so that a file built from these puts has the same timeDiffs.
    """

    hashes: npt.NDArray[np.int32]
    messages: npt.NDArray[Any]  # INDEX_MESSAGE


def entries_at(slots: int) -> int:
    """The byte offset of entry 0 in an index file; slots: maxHashSlotNum."""
    return layouts.INDEX_HEADER_BYTES + slots * layouts.INDEX_SLOT_BYTES


def index_entries(file: Reader, slots: int, first: int, count: int) -> npt.NDArray[Any]:
    """INDEX_ENTRY rows [first, first + count) of an index file, as many as it has room for."""
    at = entries_at(slots) + first * layouts.INDEX_ENTRY_BYTES
    room = (file.state.size - at) // layouts.INDEX_ENTRY_BYTES
    raw = np.empty(max(min(count, room), 0) * layouts.INDEX_ENTRY_BYTES, np.uint8)
    if len(raw):
        file.read_into(at, raw)
    return raw.view(layouts.INDEX_ENTRY)


def begins_expired(file: Reader, slots: int, log_start: int) -> bool:
    """Whether an index file's first entry is of a message before the log's start."""
    if not read_header(file).entries:
        return False
    first = index_entries(file, slots, 1, 1)
    return bool(len(first) and first[0]["physicalOffset"] < log_start)


def expired_puts(file: Reader, slots: int, log_start: int) -> Iterator[ExpiredPuts]:
    """An index file's first entries, as long as their messages are before the log's start."""
    header = read_header(file)
    begin, count = header.begin_timestamp, header.entries
    done = 0
    while done < count:
        entries = index_entries(file, slots, 1 + done, min(count - done, _CHUNK_ENTRIES))
        live = np.flatnonzero(entries["physicalOffset"] >= log_start)
        expired = entries[: int(live[0])] if len(live) else entries
        if not len(expired):
            return
        messages = np.empty(len(expired), layouts.INDEX_MESSAGE)
        messages["physicalOffset"] = expired["physicalOffset"]
        messages["storeTimestamp"] = begin + expired["timeDiff"].astype(np.int64) * _MILLISECONDS
        if not done:
            messages["storeTimestamp"][0] = begin
        done += len(expired)
        if done == count and done > 1:  # the header has the last message's exact time
            messages["storeTimestamp"][-1] = header.end_timestamp
        # each put is the first of its message, so its hash is inverted (dispatch.py)
        yield ExpiredPuts(~expired["keyHash"].astype(np.int32), messages)
        if len(live):
            return
