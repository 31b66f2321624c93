"""Finds records in which two witnesses contradict a field that no checksum covers.

The neighbours (the records right before and after) mostly have a similar storeTimestamp, the same
storeHost, and a `__CRC32#` if the record has one. But sound logs also have times that go back,
messages of several hosts, and records written under another setting. So the neighbours are one
witness only, and a second one must agree:

- storeTimestamp is not between the neighbours', though one flipped bit would put it there; and the
  record's bornTimestamp is near the neighbours' times, or damage is right beside the record;
- storeHost is one bit away from that of the two records before and the two after; and the
  storeTimestamp is doubted too, or damage is right beside the record;
- both neighbours have a `__CRC32#`, and the record has none; and the bytes there are one bit away
  from that name, or damage is right beside the record.

Only damaged segments are checked for this (damage/tolerant).
"""

import numpy as np
import numpy.typing as npt

from reput.store_format.faults import Fault
from reput.store_format.kernels.bytes import get_i64
from reput.store_format.kernels.jit import kernel
from reput.store_format.layouts import CRC_PROPERTY_BYTES, PROPERTY_END, RECORD_AT, TIMESTAMP_BYTES
from reput.store_format.log.records import Bytes, RecordRules, Rows, store_timestamp_at

Noted = npt.NDArray[np.int64]  # one row per record, with the columns below
SURE_MS = 1000  # a clock that is corrected by less is no contradiction
_TIME, _HOST, _UNSEALED = int(Fault.TIME), int(Fault.HOST), int(Fault.UNSEALED)
_STORED, _BORN, _STORED_BY, _SEALED, _START, _END, _COLUMNS = range(7)
_HAS_SEAL, _NEARLY, _NO_SEAL = 2, 1, 0
_SEAL = np.frombuffer(b"__CRC32#\x01", np.uint8)


@kernel
def _bits(value: np.int64) -> int:
    found = 0
    while value:
        found += 1
        value &= value - 1
    return found


@kernel
def _sealed(buf: Bytes, start: int, end: int) -> int:
    """Whether properties [start, end) end with a `__CRC32#` (_HAS_SEAL), or are one bit off."""
    at = end - CRC_PROPERTY_BYTES
    if at < start:
        return _NO_SEAL
    bits = _bits(np.int64(buf[at - 1] ^ PROPERTY_END)) if at > start else 0
    for j in range(len(_SEAL)):
        bits += _bits(np.int64(buf[at + j] ^ _SEAL[j]))
    return _HAS_SEAL if bits == 0 else _NEARLY if bits == 1 else _NO_SEAL


@kernel
def _note(buf: Bytes, rows: Rows, rules: RecordRules, noted: Noted) -> None:
    for i in range(len(rows)):
        row = rows[i]
        noted[i, _STORED] = row.storeTimestamp
        noted[i, _BORN] = get_i64(buf, row.at + RECORD_AT.bornTimestamp)
        # the first eight bytes of storeHost: all of an IPv4 one
        host = row.at + store_timestamp_at(row.sysFlag, rules) + TIMESTAMP_BYTES
        noted[i, _STORED_BY] = get_i64(buf, host)
        end = row.propertiesAt + row.propertiesLength
        noted[i, _SEALED] = _sealed(buf, row.propertiesAt, end)
        noted[i, _START] = row.physicalOffset
        noted[i, _END] = row.physicalOffset + row.size


@kernel
def _is_odd_time(low: int, time: int, high: int) -> bool:
    if low > high or low - SURE_MS <= time <= high + SURE_MS:
        return False
    fitting = 0
    for bit in range(63):
        fitting += low <= time ^ (1 << bit) <= high
    return bool(fitting > 0)


@kernel
def _is_odd_host(noted: Noted, i: int) -> bool:
    """Whether two records before and two after have one storeHost, and this record another."""
    if i < 2 or i + 2 >= len(noted):
        return False
    host, around = noted[i, _STORED_BY], noted[i - 1, _STORED_BY]
    if host == 0 or around == 0:
        return False  # a filler of `repair`, which has no host
    same = around == noted[i - 2, _STORED_BY] == noted[i + 1, _STORED_BY]
    return bool(same and noted[i + 2, _STORED_BY] == around and _bits(host ^ around) == 1)


@kernel
def _doubted(noted: Noted, i: int) -> int:
    """The Fault that two witnesses see in a row, or 0."""
    before, row, after = noted[i - 1], noted[i], noted[i + 1]
    beside = before[_END] != row[_START] or row[_END] != after[_START]
    odd_time = _is_odd_time(before[_STORED], row[_STORED], after[_STORED])
    born = row[_BORN]
    wide = after[_STORED] - before[_STORED]
    near = max(abs(born - before[_STORED]), wide)
    if odd_time and (beside or 2 * near < abs(row[_STORED] - before[_STORED])):
        return _TIME
    if (odd_time or beside) and _is_odd_host(noted, i):
        return _HOST
    if before[_SEALED] == _HAS_SEAL == after[_SEALED]:
        seal = row[_SEALED]
        if seal == _NEARLY or (seal == _NO_SEAL and beside):
            return _UNSEALED
    return 0


@kernel
def _mark(noted: Noted, first: int, marks: npt.NDArray[np.uint8]) -> int:
    """Put into marks the Fault of each row from `first` on; returns how many rows have one."""
    found = 0
    for i in range(max(first, 1), len(noted) - 1):
        fault = _doubted(noted, i)
        if fault:
            marks[i - first] = fault
            found += 1
    return found


class Neighbours:
    """Compares the records of a walk with those around them, a window at a time.

    It keeps what it noted of the window before, so that a window's first records have neighbours.
    A window's last two records have none after them, unless they come again in the next window.
    """

    def __init__(self, rules: RecordRules) -> None:
        self._rules = rules
        self._noted = np.empty((0, _COLUMNS), np.int64)

    def contradictions(self, buf: Bytes, rows: Rows) -> npt.NDArray[np.uint8] | None:
        """The Fault of each row that two witnesses contradict, or 0; None where there is none."""
        if not len(rows):
            return None
        known = int(np.searchsorted(self._noted[:, _START], rows["physicalOffset"][0]))
        before = self._noted[max(known - 2, 0) : known]
        noted = np.empty((len(before) + len(rows), _COLUMNS), np.int64)
        noted[: len(before)] = before
        _note(buf, rows, self._rules, noted[len(before) :])
        self._noted = noted[len(before) :]
        marks = np.zeros(len(rows), np.uint8)
        return marks if _mark(noted, len(before), marks) else None
