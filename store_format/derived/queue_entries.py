"""Decodes entries of ConsumeQueues; no other module does."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format.layouts import BATCH_QUEUE_ENTRY, PRE_BLANK, QUEUE_ENTRY
from reput.store_format.names import BATCH_CONSUME_QUEUE

Bytes = npt.NDArray[np.uint8]
Entries = npt.NDArray[Any]  # QUEUE_ENTRY or BATCH_QUEUE_ENTRY


class QueueEntry(NamedTuple):
    """One entry. An entry of a batch queue takes `messages` positions from `position` on."""

    position: int  # in the queue, in messages
    physical_offset: int
    size: int  # of the record
    tags_code: int  # the tags' hash; on the schedule topic the time of delivery
    messages: int = 1
    store_timestamp: int | None = None  # milliseconds; batch queues and RocksDB have it


def layout_of(batch: bool) -> np.dtype[Any]:
    return BATCH_QUEUE_ENTRY if batch else QUEUE_ENTRY


def is_batch(folder: str) -> bool:
    """Whether a queue's folder, below the store, is a batch queue's."""
    return folder.split("/")[0] == BATCH_CONSUME_QUEUE


def decode_entries(raw: bytes | Bytes, batch: bool = False) -> Entries:
    """The whole entries in `raw`, as an array; an incomplete one at the end is left out."""
    layout = layout_of(batch)
    return np.frombuffer(raw, layout, len(raw) // layout.itemsize)


def entry_of(fields: Any, position: int, batch: bool) -> QueueEntry:
    """One entry of an array as a value. position: not used for a batch queue."""
    place, size = int(fields["physicalOffset"]), int(fields["size"])
    tags = int(fields["tagsCode"])
    if not batch:
        return QueueEntry(position, place, size, tags)
    base, messages = int(fields["baseOffset"]), int(fields["batchSize"])
    return QueueEntry(base, place, size, tags, messages, int(fields["storeTimestamp"]))


def is_used(entries: Any) -> Any:
    """One bool for each entry: it is a message's or a pre-blank (ConsumeQueue.recover)."""
    return (entries["physicalOffset"] >= 0) & (entries["size"] > 0)


def is_message(entries: Any) -> Any:
    """One bool for each entry: RocketMQ's readers take it. They stop at the first other entry."""
    return entries["size"] > 0


def is_pre_blank(entries: Any) -> Any:
    """One bool for each entry: it only fills a queue's first file up to its first message."""
    blank = PRE_BLANK.item()
    return (entries["physicalOffset"] == blank[0]) & (entries["size"] == blank[1])
