"""Compares the entries of an old IndexFile with the log's records: their keys and times."""

from typing import Any

import numpy as np
import numpy.typing as npt

from reput.store_format.derived.index_file import time_diff
from reput.store_format.faults import Fault
from reput.store_format.kernels.jit import kernel

_KEYS, _STORED = int(Fault.KEYS), int(Fault.STORED)
Faults = npt.NDArray[np.uint8]


@kernel
def mark_contradictions(puts: Any, entries: Any, numbers: Any, begin: int, faults: Faults) -> int:
    """Compare IndexFile entries with puts, both by physicalOffset; fill in each entry's Fault.

    puts: INDEX_PUT. entries: INDEX_ENTRY in native byte order. begin: the file's beginTimestamp.
    numbers: the entries' numbers in the file. Number 1 is no witness of its time: its timeDiff is
    measured from the file before. Returns how many entries point to a record that has puts.
    """
    looked, first = 0, 0
    for i in range(len(entries)):
        entry = entries[i]
        if entry.keyHash == 0 and entry.physicalOffset == 0:
            continue  # not written, whatever a header counts
        while first < len(puts) and puts[first].physicalOffset < entry.physicalOffset:
            first += 1
        if first == len(puts):
            break
        if puts[first].physicalOffset != entry.physicalOffset:
            continue
        looked += 1
        stored, at = puts[first].storeTimestamp, first
        known = False
        while at < len(puts) and puts[at].physicalOffset == entry.physicalOffset and not known:
            known = puts[at].keyHash == entry.keyHash
            at += 1
        if not known:
            faults[i] = _KEYS
        elif numbers[i] > 1 and time_diff(stored, begin) != entry.timeDiff:
            faults[i] = _STORED
    return looked
