"""Entries of expired messages, which derived files keep after the log's segments were deleted.

When the retention time is over, a broker deletes the log's first segments. It deletes a queue or
index file only when all messages of the file are gone, and never a queue's last file
(CleanCommitLogService, CleanConsumeQueueService, ConsumeQueue.deleteExpiredFile,
IndexService.deleteExpiredFile). Until then such a file has entries whose physicalOffset is below
the log's first offset.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format.derived.index_header import read_header
from reput.store_format.files.protocol import Reader
from reput.store_format.layouts import (
    INDEX_ENTRY,
    INDEX_ENTRY_BYTES,
    INDEX_HEADER_BYTES,
    INDEX_MESSAGE,
    INDEX_SLOT_BYTES,
)

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
    return INDEX_HEADER_BYTES + slots * INDEX_SLOT_BYTES


def index_entries(file: Reader, slots: int, first: int, count: int) -> npt.NDArray[Any]:
    """INDEX_ENTRY rows [first, first + count) of an index file, as many as it has room for."""
    at = entries_at(slots) + first * INDEX_ENTRY_BYTES
    room = (file.state.size - at) // INDEX_ENTRY_BYTES
    raw = np.empty(max(min(count, room), 0) * INDEX_ENTRY_BYTES, np.uint8)
    if len(raw):
        file.read_into(at, raw)
    return raw.view(INDEX_ENTRY)


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
        messages = np.empty(len(expired), INDEX_MESSAGE)
        messages["physicalOffset"] = expired["physicalOffset"]
        messages["storeTimestamp"] = begin + expired["timeDiff"].astype(np.int64) * _MILLISECONDS
        if not done:
            messages["storeTimestamp"][0] = begin
        done += len(expired)
        if done == count and done > 1:  # the header has the last message's exact time
            messages["storeTimestamp"][-1] = header.end_timestamp
        # each put is the first of its message, so its hash is inverted (packed_puts)
        yield ExpiredPuts(~expired["keyHash"].astype(np.int32), messages)
        if len(live):
            return
