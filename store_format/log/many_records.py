"""Reads the records at many known physical offsets, in ascending order.

`LogReader.record_at` reads one record; this module reads hundreds at a time, neighbours in one
read, and a kernel parses them. A place is left to `record_at` if its record is longer than what was
read, or is no sound record.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format.faults import Fault
from reput.store_format.kernels.jit import kernel
from reput.store_format.log.reader import LogReader
from reput.store_format.log.records import RECORD_ROW, Bytes, RecordRules, Rows, frame, read_record

Numbers = npt.NDArray[np.int64]

_AHEAD = 1 << 11  # bytes that are read at each place
_MOST = 256  # places that are read at a time

_NONE = int(Fault.NONE)


class Records(NamedTuple):
    """Some of the records. The window and rows are valid until the next Records."""

    window: Bytes
    rows: Rows  # RECORD_ROW: those that are whole in the window
    others: list[int]  # places that `record_at` must be asked for


def records_at(log: LogReader, places: Numbers) -> Iterator[Records]:
    """The records at these physical offsets, which ascend."""
    buffer = np.empty(_MOST * _AHEAD, np.uint8)
    rows = np.zeros(_MOST, RECORD_ROW)
    starts = np.array([segment.start for segment in log.segments])
    ends = np.array([segment.end for segment in log.segments])
    numbers = np.searchsorted(starts, places, side="right") - 1
    inside = (numbers >= 0) & (places < ends[numbers])
    for first in range(0, len(places), _MOST):
        some = slice(first, first + _MOST)
        asked, segments = places[some][inside[some]], numbers[some][inside[some]]
        ats, limits, length = _read(log, asked, segments, ends[segments], buffer)
        whole = np.zeros(len(asked), np.bool_)
        window = buffer[:length]
        count = look(window, asked, ats, limits, ends[segments] - asked, log.rules, rows, whole)
        others = np.concatenate([places[some][~inside[some]], asked[~whole]])
        yield Records(window, rows[:count], others.tolist())


def _read(
    log: LogReader, places: Numbers, segments: Numbers, ends: Numbers, buffer: Bytes
) -> tuple[Numbers, Numbers, int]:
    """Read the bytes at the places, up to `ends` of their segments, one stretch after the other.

    Returns where in the buffer each place is, how far it was read there, and the bytes read.
    """
    if not len(places):
        return places, places, 0
    stops = np.minimum(places + _AHEAD, ends)
    new = np.ones(len(places), np.bool_)  # begins a stretch
    new[1:] = (places[1:] > stops[:-1]) | (segments[1:] != segments[:-1])
    firsts = np.flatnonzero(new)
    lasts = np.append(firsts[1:], len(places)) - 1
    starts, lengths = places[firsts], stops[lasts] - places[firsts]
    put_at = np.cumsum(lengths) - lengths
    stretches = zip(
        segments[firsts].tolist(), starts.tolist(), put_at.tolist(), lengths.tolist(), strict=True
    )
    for number, start, at, length in stretches:
        segment = log.segments[number]
        log.reader(segment).read_into(start - segment.start, buffer[at : at + length])
    stretch = np.cumsum(new) - 1
    ats = put_at[stretch] + places - starts[stretch]
    return ats, put_at[stretch] + lengths[stretch], int(lengths.sum())


@kernel
def look(  # noqa: PLR0913 (a kernel takes its arrays one by one)
    window: Bytes,
    places: Numbers,
    ats: Numbers,
    limits: Numbers,
    lefts: Numbers,
    rules: RecordRules,
    rows: Rows,
    whole: Any,
) -> int:
    """Fill rows with the records that are whole in the window, mark them; returns their number.

    Place i is at ats[i], was read up to limits[i], and its segment goes on for lefts[i] bytes.
    """
    count = 0
    for i in range(len(places)):
        at = ats[i]
        fault, size = frame(window, at, limits[i], at + lefts[i], rules)
        if fault != _NONE or at + size > limits[i]:
            continue
        if read_record(window, at, size, places[i], 0, rules, rows[count]) == _NONE:
            whole[i] = True
            count += 1
    return count
