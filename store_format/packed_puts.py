"""Index puts as they wait in staging: a message's place and time once, however many keys it has.

hashes: int32, keyHash of each put, in order; that of a message's first put is inverted, and so
negative. messages: INDEX_MESSAGE, one for each message that has puts, in order.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from store_format.kernels import kernel

Int32s = npt.NDArray[np.int32]


@kernel
def pack(puts: Any, hashes: Int32s, messages: Any) -> int:
    """Fill both from INDEX_PUT rows; returns how many messages there are. Both: len(puts) long."""
    count = 0
    for i in range(len(puts)):
        hashes[i] = puts[i].keyHash
        if i == 0 or puts[i].physicalOffset != puts[i - 1].physicalOffset:
            hashes[i] = ~hashes[i]
            messages[count].physicalOffset = puts[i].physicalOffset
            messages[count].storeTimestamp = puts[i].storeTimestamp
            count += 1
    return count


@kernel
def unpack(hashes: Int32s, messages: Any, puts: Any) -> None:
    """Fill INDEX_PUT rows, one for each hash; messages: from that of the first hash on."""
    number = -1 if hashes[0] < 0 else 0
    for i in range(len(hashes)):
        puts[i].keyHash = hashes[i]
        if hashes[i] < 0:
            puts[i].keyHash = ~hashes[i]
            number += 1
        puts[i].physicalOffset = messages[number].physicalOffset
        puts[i].storeTimestamp = messages[number].storeTimestamp


def key_hashes(hashes: Int32s) -> Int32s:
    """Each put's keyHash. Copies."""
    return hashes ^ (hashes >> 31)


def firsts(hashes: Int32s) -> int:
    """How many of the puts are their message's first."""
    return int(np.count_nonzero(hashes < 0))
