"""A message's properties: `name 01 value 02`, repeated (MessageDecoder.string2messageProperties).

One pass over them finds the values that dispatch needs. Releases differ in which pairs they accept.
"""

from collections import namedtuple
from typing import Any

import numpy as np
import numpy.typing as npt

from reput.store_format.kernels.bytes import find_byte, get_i32, same_bytes
from reput.store_format.kernels.jit import inlined, kernel
from reput.store_format.layouts import PROPERTY_END, PROPERTY_NAME_END

Bytes = npt.NDArray[np.uint8]
# (properties, 2): where the value of each stands in the buffer; (-1, any) where there is none
ValueSpans = npt.NDArray[np.int64]

# The properties that decide which queues and keys a message gets (MessageConst). A property's index
# here is its row in the array `spans` that `find_properties` fills.
NAMES = (
    b"KEYS",
    b"TAGS",
    b"UNIQ_KEY",
    b"DELAY",
    b"INNER_NUM",
    b"INNER_BASE",
    b"INNER_MULTI_DISPATCH",
    b"INNER_MULTI_QUEUE_OFFSET",
    b"__CRC32#",
)
CRC_PROPERTY_NAME = NAMES[-1]
KEYS, TAGS, UNIQ_KEY, DELAY, INNER_NUM, INNER_BASE, MULTI_DISPATCH, MULTI_OFFSETS, CRC32 = range(9)

Pair = namedtuple("Pair", "counts name_end value_at value_end")

_NAME_BYTES = np.frombuffer(b"".join(NAMES), np.uint8)
_NAME_ENDS = np.cumsum([len(name) for name in NAMES])
# The first and last four bytes of each name: they differ between any two of these names.
_NAME_SIGNS = np.array([int.from_bytes(name[:4] + name[-4:]) for name in NAMES])


@inlined
def _which(buf: Bytes, at: int, end: int) -> int:
    """The index in NAMES of the name at buf[at:end], or -1."""
    if end - at < 4:
        return -1
    sign = get_i32(buf, at) << 32 | get_i32(buf, end - 4) & 0xFFFFFFFF
    start = 0
    for number in range(len(_NAME_ENDS)):
        stop = _NAME_ENDS[number]
        if sign == _NAME_SIGNS[number] and stop - start == end - at:
            same = end - at <= 8 or same_bytes(buf, at + 4, _NAME_BYTES, start + 4, end - at - 8)
            return number if same else -1
        start = stop
    return -1


@kernel
def pair_by_first(buf: Bytes, at: int, end: int) -> Pair:
    """From 4.9.1: split at the first 01; name and value must not be empty."""
    middle = find_byte(buf, at, end, PROPERTY_NAME_END)
    return Pair(at < middle < end - 1, middle, middle + 1, end)


@kernel
def pair_by_split(buf: Bytes, at: int, end: int) -> Pair:
    """Up to 4.9.0: Java's split at 01, which drops trailing empty parts, must yield two parts."""
    while end > at and buf[end - 1] == PROPERTY_NAME_END:
        end -= 1
    middle = -1
    for i in range(at, end):
        if buf[i] == PROPERTY_NAME_END:
            if middle >= 0:
                return Pair(False, 0, 0, 0)
            middle = i
    return Pair(middle >= 0, middle, middle + 1, end)


def new_spans(names: int = len(NAMES)) -> ValueSpans:
    """The array that `find_properties` fills; for `find_named` with the number of its names."""
    return np.empty((names, 2), np.int64)


@inlined
def find_properties(
    buf: Bytes, at: int, end: int, split_properties: bool, spans: ValueSpans
) -> None:
    """Fill spans[i] with (start, end) of the value of the property NAMES[i]; start is -1 where
    the message has no such property.

    spans: int64, shape (len(NAMES), 2). Where a name occurs several times the last one counts.
    """
    for number in range(len(_NAME_ENDS)):
        spans[number, 0] = -1
    while at < end:
        stop = find_byte(buf, at, end, PROPERTY_END)
        if stop - at >= 3:  # a name, 01 and a value
            if split_properties:
                pair = pair_by_split(buf, at, stop)
            else:
                pair = pair_by_first(buf, at, stop)
            if pair.counts and pair.name_end > at:
                number = _which(buf, at, pair.name_end)
                if number >= 0:
                    spans[number, 0] = pair.value_at
                    spans[number, 1] = pair.value_end
        at = stop + 1


@kernel
def find_named(
    buf: Bytes,
    at: int,
    end: int,
    split_properties: bool,
    names: Bytes,
    name_ends: npt.NDArray[np.int64],
    spans: ValueSpans,
) -> None:
    """Find properties of given names: number i is names[name_ends[i - 1]:name_ends[i]].

    spans: int64, shape (len(name_ends), 2).
    """
    for number in range(len(name_ends)):
        spans[number, 0] = -1
    while at < end:
        stop = find_byte(buf, at, end, PROPERTY_END)
        if stop - at >= 3:
            if split_properties:
                pair = pair_by_split(buf, at, stop)
            else:
                pair = pair_by_first(buf, at, stop)
            if pair.counts and pair.name_end > at:
                start = 0
                for number in range(len(name_ends)):
                    length = name_ends[number] - start
                    if pair.name_end - at == length and same_bytes(buf, at, names, start, length):
                        spans[number, 0] = pair.value_at
                        spans[number, 1] = pair.value_end
                    start = name_ends[number]
        at = stop + 1


@kernel
def malformed(buf: Bytes, rows: Any) -> bool:
    """Whether any row's properties are not all `name 01 value 02`, neither empty; the last 02 may
    be missing. Releases differ in how they read malformed properties.
    """
    for i in range(len(rows)):
        start = at = rows[i].propertiesAt
        end = at + rows[i].propertiesLength
        names = 0  # 01 in this pair
        for k in range(at, end):
            if buf[k] == PROPERTY_NAME_END:
                names += 1
                if names > 1 or k == start:
                    return True
                start = k + 1
            elif buf[k] == PROPERTY_END:
                if names != 1 or k == start:
                    return True
                names, start = 0, k + 1
        if start < end and names != 1:
            return True
        if start == end and names == 1:
            return True
    return False
