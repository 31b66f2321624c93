"""Kernels that lay the fields of a window's records out as columns, with no Python for each record;
and the records at many known offsets read at once.

A column of texts is laid out as in Arrow: all texts one after the other in UTF-8, decoded as Java
decodes them, and int32 `ends`, one more than there are texts: text i is at [ends[i], ends[i + 1]).
The caller allocates `out`, of `text_room` bytes. A kernel marks the rows that it leaves to slower
code.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format.faults import Fault
from reput.store_format.kernels.bytes import copy_bytes, find_byte, get_i32, get_i64, same_bytes
from reput.store_format.kernels.java_text import decode_at
from reput.store_format.kernels.jit import inlined, kernel
from reput.store_format.layouts import (
    IPV4_HOST,
    MIDDLE_AT,
    PROPERTY_END,
    RECORD_AT,
    RECORD_HEAD_BYTES,
    RECORD_MIDDLE_BYTES,
    TIMESTAMP_BYTES,
)
from reput.store_format.log.properties import (
    KEYS,
    TAGS,
    UNIQ_KEY,
    ValueSpans,
    find_properties,
    pair_by_first,
    pair_by_split,
)
from reput.store_format.log.reader import LogReader
from reput.store_format.log.records import (
    RECORD_ROW,
    Bytes,
    RecordRules,
    Rows,
    frame,
    read_record,
    store_timestamp_at,
)

Ends = npt.NDArray[np.int32]
Marks = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]

# Fields of a record that its RECORD_ROW lacks. Times in milliseconds.
NUMBERS = np.dtype(
    [
        ("bornTimestamp", "<i8"),
        ("preparedTransactionOffset", "<i8"),
        ("flag", "<i4"),
        ("reconsumeTimes", "<i4"),
    ]
)
# What `find_values` looks for; a property's index here is its row in `found`.
FOUND = (TAGS, KEYS, UNIQ_KEY)

HOST_ROOM = 27  # bytes of 255.255.255.255:-2147483648
_PAIRS_MOST = 48  # of one record; more pairs, or a repeated name, are left to slower code
_POINT_MOST = 3  # bytes that one malformed byte becomes: U+FFFD
_ZERO, _NINE, _DOT, _COLON, _MINUS, _SPACE = 0x30, 0x39, 0x2E, 0x3A, 0x2D, 0x20


def text_room(raw_bytes: int) -> int:
    """The most bytes that `raw_bytes` of texts take once they are decoded."""
    return raw_bytes * _POINT_MOST


def list_room(raw_bytes: int, rows: int) -> int:
    """The most words or pairs in `raw_bytes` of `rows` rows, and one more: the length of ends."""
    return raw_bytes // 2 + rows + 2


@inlined
def _put_point(out: Bytes, used: int, point: int) -> int:
    """Write a code point above 7F as UTF-8; returns where it ends."""
    if point < 0x800:
        out[used] = 0xC0 | point >> 6
    elif point < 0x10000:
        out[used] = 0xE0 | point >> 12
        used += 1
        out[used] = 0x80 | point >> 6 & 0x3F
    else:
        out[used] = 0xF0 | point >> 18
        out[used + 1] = 0x80 | point >> 12 & 0x3F
        used += 2
        out[used] = 0x80 | point >> 6 & 0x3F
    out[used + 1] = 0x80 | point & 0x3F
    return used + 2


@inlined
def _put_text(buf: Bytes, at: int, end: int, out: Bytes, used: int) -> int:
    """Decode buf[at:end] to out[used:]; returns where it ends."""
    while at < end:
        if buf[at] < 0x80:
            out[used] = buf[at]
            used += 1
            at += 1
        else:
            point, at = decode_at(buf, at, end)
            used = _put_point(out, used, point)
    return used


@inlined
def _put_number(out: Bytes, used: int, number: int) -> int:
    """Write a whole number in decimal digits; returns where it ends."""
    if number < 0:
        out[used] = _MINUS
        used += 1
        number = -number
    scale = 1
    while scale * 10 <= number:
        scale *= 10
    while scale:
        out[used] = _ZERO + number // scale % 10
        used += 1
        scale //= 10
    return used


@kernel
def read_numbers(window: Bytes, rows: Rows, out: Rows) -> None:
    """Fill out (NUMBERS) for each row."""
    for i in range(len(rows)):
        at = rows[i].at
        middle = rows[i].bodyAt - RECORD_MIDDLE_BYTES
        out[i].bornTimestamp = get_i64(window, at + RECORD_AT.bornTimestamp)
        out[i].preparedTransactionOffset = get_i64(
            window, middle + MIDDLE_AT.preparedTransactionOffset
        )
        out[i].flag = get_i32(window, at + RECORD_AT.flag)
        out[i].reconsumeTimes = get_i32(window, middle + MIDDLE_AT.reconsumeTimes)


@kernel
def put_texts(window: Bytes, starts: Places, stops: Places, ends: Ends, out: Bytes) -> None:
    """The texts at [starts[i], stops[i]), decoded; an empty one where starts[i] is negative."""
    used = 0
    ends[0] = 0
    for i in range(len(starts)):
        if starts[i] >= 0:
            used = _put_text(window, starts[i], stops[i], out, used)
        ends[i + 1] = used


@kernel
def put_bytes(window: Bytes, starts: Places, stops: Places, ends: Ends, out: Bytes) -> None:
    """The bytes at [starts[i], stops[i]), as they are."""
    used = 0
    ends[0] = 0
    for i in range(len(starts)):
        length = stops[i] - starts[i]
        copy_bytes(out, used, window, starts[i], length)
        used += length
        ends[i + 1] = used


@inlined
def host_at(row: Any, stored: bool, rules: RecordRules) -> tuple[int, int]:
    """[start, stop) of bornHost in the window, or of storeHost where `stored`."""
    stop = row["at"] + store_timestamp_at(row["sysFlag"], rules)
    if stored:
        return stop + TIMESTAMP_BYTES, row["bodyAt"] - RECORD_MIDDLE_BYTES
    return row["at"] + RECORD_HEAD_BYTES, stop


@kernel
def put_hosts(
    window: Bytes, rows: Rows, rules: RecordRules, stored: bool, ends: Ends, out: Bytes, hard: Marks
) -> None:
    """bornHost, or storeHost where `stored`, as `address:port`; an IPv6 host is marked in hard."""
    used, before, text_at, length = (
        0,
        0,
        0,
        0,
    )  # of the last host that was made: its bytes, its text
    ends[0] = 0
    for i in range(len(rows)):
        at, stop = host_at(rows[i], stored, rules)
        if stop - at != IPV4_HOST:
            hard[i] = 1
        elif length > 0 and get_i64(window, at) == before:
            for n in range(length):
                out[used + n] = out[text_at + n]
            used += length
        else:
            before, text_at = get_i64(window, at), used
            for n in range(4):
                used = _put_number(out, used, int(window[at + n]))
                out[used] = _COLON if n == 3 else _DOT
                used += 1
            used = _put_number(out, used, get_i32(window, at + 4))
            length = used - text_at
        ends[i + 1] = used


@kernel
def find_values(
    window: Bytes,
    rows: Rows,
    split_properties: bool,
    spans: ValueSpans,
    found: npt.NDArray[np.int64],
) -> None:
    """Where each row has the value of each property of FOUND: found[n, 0, i] to found[n, 1, i].

    The start is -1 where the row has no such property. spans: as `find_properties` wants them.
    """
    for i in range(len(rows)):
        at = rows[i].propertiesAt
        find_properties(window, at, at + rows[i].propertiesLength, split_properties, spans)
        for n in range(len(FOUND)):
            found[n, 0, i] = spans[FOUND[n], 0]
            found[n, 1, i] = spans[FOUND[n], 1]


@kernel
def put_words(
    window: Bytes, starts: Places, stops: Places, lists: Ends, ends: Ends, out: Bytes
) -> None:
    """The words of each text, split at blanks; words [lists[i], lists[i + 1]) are those of text i.

    ends: as long as `list_room` returns.
    """
    used, words = 0, 0
    lists[0] = ends[0] = 0
    for i in range(len(starts)):
        at = starts[i]
        while 0 <= at < stops[i]:
            stop = find_byte(window, at, stops[i], _SPACE)
            if stop > at:
                used = _put_text(window, at, stop, out, used)
                words += 1
                ends[words] = used
            at = stop + 1
        lists[i + 1] = words


@kernel
def put_pairs(  # noqa: PLR0913 (a kernel takes its arrays one by one)
    window: Bytes, rows: Rows, split_properties: bool, lists: Ends, name_ends: Ends, names: Bytes,
    value_ends: Ends, values: Bytes, hard: Marks,
) -> None:  # fmt: skip
    """All properties of each row (MessageDecoder.string2messageProperties), in their order.

    Pairs [lists[i], lists[i + 1]) are those of row i. A row with over _PAIRS_MOST, or with two of
    one name, gets no pairs and is marked in hard. name_ends, value_ends: of `list_room` items.
    """
    pairs, name_at, value_at = 0, 0, 0
    lists[0] = name_ends[0] = value_ends[0] = 0
    for i in range(len(rows)):
        at = rows[i].propertiesAt
        end = at + rows[i].propertiesLength
        first, first_name, first_value = pairs, name_at, value_at
        while at < end and hard[i] == 0:
            stop = find_byte(window, at, end, PROPERTY_END)
            if split_properties:
                pair = pair_by_split(window, at, stop)
            else:
                pair = pair_by_first(window, at, stop)
            if pair.counts:
                name_end = _put_text(window, at, pair.name_end, names, name_at)
                for earlier in range(first, pairs):
                    begins = name_ends[earlier]
                    length = name_ends[earlier + 1] - begins
                    if length == name_end - name_at and same_bytes(
                        names, begins, names, name_at, length
                    ):
                        hard[i] = 1
                if pairs - first == _PAIRS_MOST:
                    hard[i] = 1
                value_at = _put_text(window, pair.value_at, pair.value_end, values, value_at)
                name_at = name_end
                pairs += 1
                name_ends[pairs], value_ends[pairs] = name_at, value_at
            at = stop + 1
        if hard[i] != 0:
            pairs, name_at, value_at = first, first_name, first_value
        lists[i + 1] = pairs


# ---
# Reads the records at many known physical offsets, in ascending order.
#
# `LogReader.record_at` reads one record; this module reads hundreds at a time, neighbours in one
# read, and a kernel parses them. A place is left to `record_at` if its record is longer than what
# was read, or is no sound record.

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
def look(
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
