"""Compares two values of a filter in a kernel, as Java compares them.

They are on the stack of `rows.py`. An item has a value's kind, its number, and for a text its end;
doubles are in an array beside it. A text is at [number, end) in the window, or, if its kind is
LITERAL, in the program's texts. ASK: `evaluate` must decide, which has the rest of Java's rules.
"""

import numpy as np
import numpy.typing as npt

from reput.store_format.filter.program import Op, ValueKind
from reput.store_format.kernels.bytes import same_bytes
from reput.store_format.kernels.java_text import parse_integer
from reput.store_format.kernels.jit import kernel
from reput.store_format.log.records import Bytes

Numbers = npt.NDArray[np.int64]

LITERAL = len(ValueKind)
NULL, BOOLEAN, INTEGER, LONG, DOUBLE, TEXT = (int(kind) for kind in ValueKind)
OK, THROWS, ASK = range(3)
_EQUAL = int(Op.EQUAL)
_DIGITS_MOST = 15  # any integer of so many digits is exact as a double
_TENS = 10.0 ** np.arange(_DIGITS_MOST + 1)
_TRUE = np.frombuffer(b"true", np.uint8)


@kernel
def compare(
    window: Bytes, texts: Bytes, op: int, stack: Numbers, doubles: npt.NDArray[np.float64], low: int
) -> tuple[int, int]:
    """(state, order) of the values at `low` and above it. Neither is null."""
    left, right = stack[low, 0], stack[low + 1, 0]
    if left >= TEXT and right >= TEXT:
        if op == _EQUAL:
            return _compare_texts(window, texts, stack, low)
        left = right = DOUBLE  # two texts are ordered as doubles
        for i in range(low, low + 2):
            state = _as_number(window, texts, stack, doubles, i, DOUBLE)
            if state != OK:
                return state, 0
    elif left >= TEXT:
        state = _as_number(window, texts, stack, doubles, low, right)
        if state != OK:
            return state, 0
        left = right
    elif right >= TEXT:
        if left == BOOLEAN:
            return THROWS, 0
        state = _as_number(window, texts, stack, doubles, low + 1, left)
        if state != OK:
            return state, 0
        right = left
    if (left == BOOLEAN) != (right == BOOLEAN):
        return OK, -1
    if left == DOUBLE or right == DOUBLE:
        # there is no NaN and no -0.0 here: `_as_number` leaves texts with these to `evaluate`
        one = doubles[low] if left == DOUBLE else float(stack[low, 1])
        other = doubles[low + 1] if right == DOUBLE else float(stack[low + 1, 1])
        return OK, int(one > other) - int(one < other)
    return OK, int(stack[low, 1] > stack[low + 1, 1]) - int(stack[low, 1] < stack[low + 1, 1])


@kernel
def _compare_texts(window: Bytes, texts: Bytes, stack: Numbers, low: int) -> tuple[int, int]:
    """(state, 0) of equal texts, else (state, 1)."""
    length = stack[low, 2] - stack[low, 1]
    at, other_at = stack[low, 1], stack[low + 1, 1]
    from_window, other_from_window = stack[low, 0] == TEXT, stack[low + 1, 0] == TEXT
    if stack[low + 1, 2] - other_at == length:
        if from_window and other_from_window:
            same = same_bytes(window, at, window, other_at, length)
        elif from_window:
            same = same_bytes(window, at, texts, other_at, length)
        elif other_from_window:
            same = same_bytes(texts, at, window, other_at, length)
        else:
            same = same_bytes(texts, at, texts, other_at, length)
        if same:
            return OK, 0
    # two texts that are not UTF-8 may be decoded to the same
    if from_window and other_from_window and not _ascii(window, at, stack[low, 2]):
        return ASK, 0
    return OK, 1


@kernel
def _ascii(buf: Bytes, at: int, end: int) -> bool:
    while at < end and buf[at] < 0x80:
        at += 1
    return at == end


@kernel
def _as_number(
    window: Bytes, texts: Bytes, stack: Numbers, doubles: npt.NDArray[np.float64], i: int, kind: int
) -> int:
    """Convert the text in place i of the stack to a value of this kind; OK, THROWS or ASK."""
    if stack[i, 0] == LITERAL:
        return _parse(texts, stack, doubles, i, kind)
    return _parse(window, stack, doubles, i, kind)


@kernel
def _parse(buf: Bytes, stack: Numbers, doubles: npt.NDArray[np.float64], i: int, kind: int) -> int:
    at, end = stack[i, 1], stack[i, 2]
    if kind == DOUBLE:
        return _parse_double(buf, at, end, doubles, i)
    if kind == BOOLEAN:  # Boolean.valueOf
        true = end - at == 4
        if true:
            for n in range(4):
                true = true and buf[at + n] | 0x20 == _TRUE[n]
        stack[i, 1] = true
        return OK
    good, number = parse_integer(buf, at, end, 32 if kind == INTEGER else 64)
    stack[i, 1] = number
    return OK if good else THROWS


@kernel
def _parse_double(buf: Bytes, at: int, end: int, doubles: npt.NDArray[np.float64], i: int) -> int:
    """Double.valueOf of up to 15 digits, with or without a point and a sign."""
    negative = at < end and buf[at] == 0x2D
    if at < end and (negative or buf[at] == 0x2B):
        at += 1
    digits, behind, number = 0, -1, 0
    while at < end:
        byte = buf[at]
        if 0x30 <= byte <= 0x39:
            number = number * 10 + (byte - 0x30)
            digits += 1
            behind += behind >= 0
            if digits > _DIGITS_MOST:
                return ASK
        elif byte == 0x2E and behind < 0:
            behind = 0
        elif digits == 0 and 0x41 <= byte & 0xDF <= 0x5A and byte != 0x4E and byte != 0x49:
            return THROWS  # a word that does not begin like NaN or Infinity
        else:
            return ASK
        at += 1
    if digits == 0 or (negative and number == 0):
        return ASK
    # both are exact doubles, so that their quotient is rounded once, as Java rounds
    doubles[i] = float(number) / _TENS[max(behind, 0)]
    if negative:
        doubles[i] = -doubles[i]
    return OK
