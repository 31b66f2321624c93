"""Index puts, packed as a scan hands them to the builders of index files.

A message may have many keys, so its offset and time are kept once and not once for each key.
hashes: int32, the keyHash of each put, in order; inverted (~hash), so negative, for a message's
first put. messages: INDEX_MESSAGE, one for each message with puts, in order.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from reput.store_format.kernels.jit import kernel
from reput.store_format.layouts import INDEX_PUT

Int32s = npt.NDArray[np.int32]


def unpacked(hashes: Int32s, messages: Any) -> Any:
    """INDEX_PUT rows, one for each hash. messages: from that of the first hash on. Copies."""
    puts = np.empty(len(hashes), INDEX_PUT)
    _unpack(hashes, messages, puts)
    return puts


@kernel
def _unpack(hashes: Int32s, messages: Any, puts: Any) -> None:
    number = -1 if len(hashes) and hashes[0] < 0 else 0
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
    """How many of the puts are the first put of their message."""
    return int(np.count_nonzero(hashes < 0))
