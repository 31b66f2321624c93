"""Finds queues whose first queueOffset is wrong, and the right one (for check and salvage).

RocketMQ accepts any first queueOffset of a queue and then skips all messages with lower ones
(ConsumeQueue.putMessagePositionInfo). Salvage trusts the queueOffsets that follow instead.
"""

from collections.abc import Sequence
from typing import NamedTuple

from reput.store_format.layouts import QUEUE_ENTRY_BYTES

LOOKED_AT = 16  # how many of a queue's first entries are compared
# Above this queueOffset the name of a queue file would be no Java long, and Java's multiplication
# by the bytes of an entry wraps.
LAST_FIRST_OFFSET = (1 << 63) // QUEUE_ENTRY_BYTES - 1


class Opening(NamedTuple):
    """A queue's first `entries` entries are outvoted by the later ones: their queueOffsets count as
    `first`, first + 1, ... An entry whose offset would then be below zero is left out.
    """

    entries: int
    first: int


def can_be_first(offset: int) -> bool:
    """Whether a queue's first file can be named for this queueOffset without wrapping around."""
    return 0 <= offset <= LAST_FIRST_OFFSET


def opening(offsets: Sequence[int], is_all: bool) -> Opening | None:
    """What a queue's first queueOffsets should be; None where they can stay as they are.

    offsets: the queue's first LOOKED_AT offsets, in the log's order; is_all: the queue has no more.
    An offset is outvoted if it can be no queue's first, or if it is above the next two offsets,
    which go on by one. (If these two are 0 and 1, the topic was deleted and made again, and nothing
    is wrong.) The records before the first credible offset count down from it; if no offset is
    credible they count from 0.
    """
    wrong = 0
    while wrong < len(offsets) and _outvoted(offsets[wrong : wrong + 3]):
        wrong += 1
    if wrong == 0 or (wrong == len(offsets) and not is_all):
        return None
    return Opening(wrong, offsets[wrong] - wrong if wrong < len(offsets) else 0)


def _outvoted(offsets: Sequence[int]) -> bool:
    if not can_be_first(offsets[0]):
        return True
    return len(offsets) == 3 and 0 < offsets[1] < offsets[0] and offsets[2] == offsets[1] + 1
