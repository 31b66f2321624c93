"""ConsumeQueue segments: fixed-size files of entries, addressed by position.

A queue's segment number n holds positions [n * E, (n + 1) * E) if a file has E entries. Its name
is the logical byte offset of its first position.
"""

import numpy as np
import numpy.typing as npt

from reput.store_format.layouts import BATCH_QUEUE_ENTRY_BYTES, PRE_BLANK, QUEUE_ENTRY_BYTES

Bytes = npt.NDArray[np.uint8]


def entry_bytes(batch: bool) -> int:
    return BATCH_QUEUE_ENTRY_BYTES if batch else QUEUE_ENTRY_BYTES


def segment_bytes(configured: int, batch: bool) -> int:
    """A configured file size, rounded up to whole entries.

    MessageStoreConfig.getMappedFileSizeConsumeQueue; for a batch queue it must be a multiple.
    """
    size = entry_bytes(batch)
    return -(-configured // size) * size


def pre_blank(count: int) -> bytes:
    """The entries before a queue's first one (ConsumeQueue.fillPreBlank)."""
    return PRE_BLANK.tobytes() * count
