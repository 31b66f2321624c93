"""Records that their neighbours in the log contradict, where no checksum covers the field.

A broker stores its messages one after the other: storeTimestamp never falls but where its clock is
set back, storeHost is its own address, and all records have a `__CRC32#` or none. So a record is
doubted where those before and behind it agree with each other and not with it. One against one, as
at a segment's ends, says nothing; nor does a time that no single flipped bit puts right, as a clock
may have been wrong while one message came.
"""

import numpy as np
import numpy.typing as npt

from reput.store_format.faults import Fault
from reput.store_format.kernels.ints import get_i64
from reput.store_format.kernels.jit import kernel
from reput.store_format.layouts import CRC_PROPERTY_BYTES, PROPERTY_END, TIMESTAMP_BYTES
from reput.store_format.log.records import (
    Bytes,
    RecordRules,
    Rows,
    store_timestamp_at,
)

Noted = npt.NDArray[np.int64]  # a row a record: storeTimestamp, storeHost, has a `__CRC32#`
SURE_MS = 1000  # a clock that is corrected by less is no contradiction
_TIME, _HOST, _UNSEALED = int(Fault.TIME), int(Fault.HOST), int(Fault.UNSEALED)
_STORED, _STORED_BY, _IS_SEALED = 0, 1, 2
_SEAL = np.frombuffer(b"__CRC32#\x01", np.uint8)


@kernel
def _note(buf: Bytes, rows: Rows, rules: RecordRules, noted: Noted) -> None:
    for i in range(len(rows)):
        row = rows[i]
        # the first eight bytes of storeHost: all of an IPv4 one
        host = row.at + store_timestamp_at(row.sysFlag, rules) + TIMESTAMP_BYTES
        noted[i, _STORED], noted[i, _STORED_BY] = row.storeTimestamp, get_i64(buf, host)
        noted[i, _IS_SEALED] = 0
        at = row.propertiesAt + row.propertiesLength - CRC_PROPERTY_BYTES
        if at >= row.propertiesAt:
            same = at == row.propertiesAt or buf[at - 1] == PROPERTY_END
            for j in range(len(_SEAL)):
                same = same and buf[at + j] == _SEAL[j]
            noted[i, _IS_SEALED] = same


@kernel
def _is_odd_time(low: int, time: int, high: int) -> bool:
    if low > high or low - SURE_MS <= time <= high + SURE_MS:
        return False
    fitting = 0
    for bit in range(63):
        fitting += low <= time ^ (1 << bit) <= high
    return bool(fitting > 0)


@kernel
def _mark(noted: Noted, first: int, marks: npt.NDArray[np.uint8]) -> int:
    """Put into marks the Fault of each row of `noted` from `first` on; how many have one."""
    found = 0
    for i in range(max(first, 1), len(noted) - 1):
        before, row, after = noted[i - 1], noted[i], noted[i + 1]
        host, fault = before[_STORED_BY], 0
        if row[_STORED_BY] == 0:
            continue  # a filler of `repair`, which has no host
        if _is_odd_time(before[_STORED], row[_STORED], after[_STORED]):
            fault = _TIME
        elif row[_STORED_BY] != host and after[_STORED_BY] == host:
            if i > 1 and i + 2 < len(noted):
                agree = noted[i - 2, _STORED_BY] == host and noted[i + 2, _STORED_BY] == host
                fault = _HOST if agree else 0
        elif before[_IS_SEALED] and after[_IS_SEALED] and not row[_IS_SEALED]:
            fault = _UNSEALED
        if fault:
            marks[i - first] = fault
            found += 1
    return found


class Neighbours:
    """Compares the records of a walk with those around them, a window at a time.

    It keeps what it noted of the window before, so that a window's first records have neighbours.
    The last two of a window, unless they come again with the next one, have none behind them.
    """

    def __init__(self, rules: RecordRules) -> None:
        self._rules = rules
        self._places = np.empty(0, np.int64)
        self._noted = np.empty((0, 3), np.int64)

    def unlike(self, buf: Bytes, rows: Rows) -> npt.NDArray[np.uint8] | None:
        """The Fault of each row that the rows around it contradict, or 0; None where none is."""
        if not len(rows):
            return None
        known = int(np.searchsorted(self._places, rows["physicalOffset"][0]))
        before = self._noted[max(known - 2, 0) : known]
        noted = np.empty((len(before) + len(rows), 3), np.int64)
        noted[: len(before)] = before
        _note(buf, rows, self._rules, noted[len(before) :])
        self._places = rows["physicalOffset"].copy()
        self._noted = noted[len(before) :]
        marks = np.zeros(len(rows), np.uint8)
        return marks if _mark(noted, len(before), marks) else None
