"""How a queue begins that cannot begin so: what the queueOffsets that follow say of its first.

RocketMQ takes the first queueOffset of a queue whatever it is, and all lower ones that follow are
then skipped (ConsumeQueue.putMessagePositionInfo). Salvage asks those that follow instead.
"""

from collections.abc import Sequence
from typing import NamedTuple

from reput.store_format.layouts import QUEUE_ENTRY_BYTES

LOOKED_AT = 16  # entries of a queue's beginning: nobody's queue begins with more that are wrong
LAST_FIRST_OFFSET = (1 << 63) // QUEUE_ENTRY_BYTES - 1  # beyond it no file's name is a Java long
# and Java's multiplication by an entry's bytes wraps


class Opening(NamedTuple):
    """The first `entries` entries of a queue are outvoted: they count as `first`, first + 1, ...

    Those below zero have no position and are left out.
    """

    entries: int
    first: int


def can_be_first(offset: int) -> bool:
    """Whether a queue's first file can be named for this queueOffset without wrapping around."""
    return 0 <= offset <= LAST_FIRST_OFFSET


def opening(offsets: Sequence[int], is_all: bool) -> Opening | None:
    """What a queue's first queueOffsets say of the very first; None: it may be as it is.

    offsets: the first LOOKED_AT of the queue, in the log's order; is_all: it has no more. One is
    outvoted where it can be no queue's first, or is above the next, which goes on by one (a queue
    of 0 and 1 behind any other is a topic that was made anew). Records of a queue follow each
    other, so that those before a credible one count down from it; where none is, they count from 0.
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
