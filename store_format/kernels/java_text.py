"""Java's text, byte for byte: how the JDK decodes UTF-8, `String.hashCode`, `parseInt`.

Kernels work on uint8 arrays and never build a string. The decoder of JDK 17 and Python's
`errors="replace"` differ in one pattern: an encoded surrogate (ED A0..BF, and its continuation
byte if it is there) becomes one U+FFFD in Java and several in Python.
"""

import unicodedata
from typing import Any

import numpy as np
import numpy.typing as npt

from reput.store_format.java import decode as decode
from reput.store_format.java import hash_text as hash_text
from reput.store_format.kernels.bytes import BLOCK, ascii_sum
from reput.store_format.kernels.jit import inlined, kernel

Bytes = npt.NDArray[np.uint8]

REPLACEMENT = 0xFFFD
_POWERS = np.array([31**count & 0xFFFFFFFF for count in range(BLOCK + 1)], np.uint32)
# `Character.digit(c, 10)` accepts every decimal digit of the Basic Multilingual Plane.
# Each script's begin at a multiple of 16, or 6 after one.
_DIGIT_ZEROS = np.array(
    [c for row in range(0, 0x10000, 16) for c in (row, row + 6)
     if unicodedata.decimal(chr(c), -1) == 0], dtype=np.int64,
)  # fmt: skip


@inlined
def _is_continuation(byte: int) -> bool:
    return byte & 0xC0 == 0x80


@kernel
def decode_at(buf: Bytes, at: int, end: int) -> tuple[int, int]:
    """The code point at `at` as the JDK decodes it, and the index at which the next one starts.

    Malformed bytes become U+FFFD; sun.nio.cs.UTF_8 decides how many bytes one of these takes.
    """
    b1 = int(buf[at])
    if b1 < 0x80:
        return b1, at + 1
    left = end - at
    if 0xC2 <= b1 <= 0xDF:
        if left >= 2 and _is_continuation(buf[at + 1]):
            return (b1 & 0x1F) << 6 | (int(buf[at + 1]) & 0x3F), at + 2
        return REPLACEMENT, at + 1
    if 0xE0 <= b1 <= 0xEF:
        if left < 2 or not _is_continuation(buf[at + 1]):
            return REPLACEMENT, at + 1
        b2 = int(buf[at + 1])
        if b1 == 0xE0 and b2 < 0xA0:  # overlong
            return REPLACEMENT, at + 1
        if b1 == 0xED and b2 >= 0xA0:  # an encoded surrogate and its third byte are one U+FFFD
            return REPLACEMENT, at + 3 if left >= 3 and _is_continuation(buf[at + 2]) else at + 2
        if left < 3 or not _is_continuation(buf[at + 2]):
            return REPLACEMENT, at + 2
        return (b1 & 0x0F) << 12 | (b2 & 0x3F) << 6 | (int(buf[at + 2]) & 0x3F), at + 3
    if 0xF0 <= b1 <= 0xF4:
        if left < 2 or not _is_continuation(buf[at + 1]):
            return REPLACEMENT, at + 1
        b2 = int(buf[at + 1])
        if (b1 == 0xF0 and b2 < 0x90) or (b1 == 0xF4 and b2 >= 0x90):
            return REPLACEMENT, at + 1
        if left < 3 or not _is_continuation(buf[at + 2]):
            return REPLACEMENT, at + 2
        if left < 4 or not _is_continuation(buf[at + 3]):
            return REPLACEMENT, at + 3
        b3, b4 = int(buf[at + 2]) & 0x3F, int(buf[at + 3]) & 0x3F
        return (b1 & 0x07) << 18 | (b2 & 0x3F) << 12 | b3 << 6 | b4, at + 4
    return REPLACEMENT, at + 1


@inlined
def add_unit(h: Any, unit: int) -> Any:
    """The hash of a text whose hash is `h` with one more UTF-16 unit, as int32."""
    return np.int32(np.uint32(31) * np.uint32(h) + np.uint32(unit))


@inlined
def hash_code(buf: Bytes, at: int, end: int, seed: np.int32) -> np.int32:
    """`String.hashCode` of the text at buf[at:end], continued from `seed` (0: a new string).

    For each UTF-16 unit h = 31 * h + unit, in 32-bit arithmetic that wraps. ASCII is hashed a block
    at a time. A rest shorter than a block is read together with the bytes before it, which are
    counted as zeros.
    """
    h = np.uint32(seed)
    while at < end:
        count = min(end - at, BLOCK)
        if at + count < BLOCK:
            break
        total = ascii_sum(buf, at + count - BLOCK, BLOCK - count)
        if total < 0:
            break
        h = np.uint32(_POWERS[count] * h + np.uint32(total))
        at += count
    return np.int32(h) if at == end else _hash_by_units(buf, at, end, np.int32(h))


@kernel
def _hash_by_units(buf: Bytes, at: int, end: int, h: np.int32) -> np.int32:
    """Java's hash code of any text, unit by unit, continued from `h`; for texts not ASCII."""
    while at < end:
        point, at = decode_at(buf, at, end)
        if point >= 0x10000:
            h = add_unit(h, 0xD7C0 + (point >> 10))
            h = add_unit(h, 0xDC00 + (point & 0x3FF))
        else:
            h = add_unit(h, point)
    return h


@kernel
def _decimal_digit(point: int) -> int:
    if 0x30 <= point <= 0x39:
        return point - 0x30
    if point >= 0x80:
        for zero in _DIGIT_ZEROS:
            if zero <= point <= zero + 9:
                return int(point - zero)
    return -1


@kernel
def parse_integer(buf: Bytes, at: int, end: int, bits: int) -> tuple[bool, int]:
    """`Short.parseShort`, `Integer.parseInt` or `Long.parseLong`, by `bits`: (well-formed, value).

    An optional sign, then at least one decimal digit of any script, in the range of the type.
    """
    if at >= end:
        return False, 0
    negative = buf[at] == 0x2D
    if negative or buf[at] == 0x2B:
        at += 1
        if at >= end:
            return False, 0
    # As in Java the value is built as a negative number: the negative range is larger by one.
    most = np.int64((np.uint64(1) << np.uint64(bits - 1)) - np.uint64(1))
    least = -most - 1 if negative else -most
    value = np.int64(0)
    while at < end:
        point, at = decode_at(buf, at, end)
        digit = _decimal_digit(point)
        if digit < 0 or value < -(most // 10):
            return False, 0
        value *= 10
        if value < least + digit:
            return False, 0
        value -= digit
    return True, int(value if negative else -value)
