"""Runs a program on the records of a window, in one kernel, with Java's comparisons of values.

For each record it tells that it matches, that it does not, or that `evaluate` must be asked. It
asks in rare cases that would need long rules here: if a double is wanted, numbers other than plain
decimals of up to 15 digits; and texts that are not UTF-8.
"""

from collections import namedtuple
from collections.abc import Iterable
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from reput.store_format.filter.program import Op, Program, Value, ValueKind
from reput.store_format.kernels.bytes import find_byte, same_bytes
from reput.store_format.kernels.java_text import parse_integer
from reput.store_format.kernels.jit import inlined, kernel
from reput.store_format.log.properties import find_named
from reput.store_format.log.records import Bytes, Rows

# ---
# Compares two values of a filter in a kernel, as Java compares them.
#
# They are on the stack of `judge`. An item has a value's kind, its number, and for a text its
# end; doubles are in an array beside it. A text is at [number, end) in the window, or, if its kind
# is LITERAL, in the program's texts. ASK: `evaluate` must decide, which has the rest of Java's
# rules.

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


Verdicts = npt.NDArray[np.uint8]


class Match(IntEnum):
    """What is known of a record."""

    NO = 0
    YES = 1
    ASK = 2  # `Filter.matches` must decide


# A program as arrays. Text and name number i end at text_ends[i] and name_ends[i] in their bytes.
Tables = namedtuple("Tables", "code kinds numbers doubles texts text_ends names name_ends depth")
_VERDICT_NO, _VERDICT_YES, _VERDICT_ASK = (int(verdict) for verdict in Match)

_CONSTANT, _PROPERTY = int(Op.CONSTANT), int(Op.PROPERTY)
_NEGATE, _NOT, _CAST, _IS_NULL = int(Op.NEGATE), int(Op.NOT), int(Op.CAST), int(Op.IS_NULL)
_IN, _NOT_IN = int(Op.IN), int(Op.NOT_IN)
_CONTAINS, _STARTS, _NOT_ENDS = int(Op.CONTAINS), int(Op.STARTS), int(Op.NOT_ENDS)
_EQUAL, _GREATER, _GREATER_EQUAL = int(Op.EQUAL), int(Op.GREATER), int(Op.GREATER_EQUAL)
_LESS, _LESS_EQUAL, _AND, _OR = int(Op.LESS), int(Op.LESS_EQUAL), int(Op.AND), int(Op.OR)
_COPY, _JUMP_IF_NULL, _JUMP_IF_FALSE = int(Op.COPY), int(Op.JUMP_IF_NULL), int(Op.JUMP_IF_FALSE)
_JUMP_IF_TRUE = int(Op.JUMP_IF_TRUE)
_REST_UNLESS_FALSE = int(Op.REST_UNLESS_FALSE)


def tables(program: Program) -> Any:
    """The program for `judge`; None if one of its texts needs `evaluate` for every record.

    Such a text has U+FFFD, to which Java decodes anything that is not UTF-8, or a surrogate.
    """
    code, constants, texts, names = [], list[Value](), list[str](), dict[str, int]()
    for op, argument in program.instructions:
        first, count = 0, 0
        if isinstance(argument, Value):
            first = len(constants)
            if isinstance(argument.of, str):
                texts.append(argument.of)
                argument = Value(argument.kind, len(texts) - 1)
            constants.append(argument)
        elif op == Op.PROPERTY:
            first = names.setdefault(str(argument), len(names))
        elif isinstance(argument, int):  # a jump
            first = argument
        elif argument is not None:
            wanted = [argument] if isinstance(argument, str) else argument
            first, count = len(texts), len(wanted)
            texts += wanted
        code.append((op, first, count))
    if any(c == "\ufffd" or "\ud800" <= c <= "\udfff" for text in texts for c in text):
        return None
    whole = [0 if isinstance(c.of, float) else int(c.of or 0) for c in constants]
    return Tables(
        np.array(code, np.int64),
        np.array([c.kind for c in constants], np.int64),
        np.array(whole, np.int64),
        np.array([float(c.of or 0) for c in constants], np.float64),
        *_joined(text.encode() for text in texts),
        *_joined(name.encode() for name in names),
        program.depth,
    )


def _joined(parts: Iterable[bytes]) -> tuple[Bytes, Numbers]:
    """The parts in one array, and where each ends."""
    held = list(parts)
    return np.frombuffer(b"".join(held), np.uint8), np.cumsum(
        [len(part) for part in held], dtype=np.int64
    )


def judge(window: Bytes, rows: Rows, split_properties: bool, program: Any) -> Verdicts:
    """A Match for each row (RECORD_ROW) of a window. program: from `tables`."""
    verdicts = np.empty(len(rows), np.uint8)
    spans = np.empty((len(program.name_ends), 2), np.int64)
    stack = np.empty((program.depth + 1, 3), np.int64)  # kind, number or start, end
    doubles = np.empty(program.depth + 1, np.float64)
    _judge(window, rows, split_properties, program, spans, stack, doubles, verdicts)
    return verdicts


@kernel
def _judge(
    window: Bytes,
    rows: Rows,
    split_properties: bool,
    program: Any,
    spans: Numbers,
    stack: Numbers,
    doubles: npt.NDArray[np.float64],
    verdicts: Verdicts,
) -> None:
    for i in range(len(rows)):
        row = rows[i]
        at = row.propertiesAt
        end = at + row.propertiesLength
        find_named(window, at, end, split_properties, program.names, program.name_ends, spans)
        verdicts[i] = _run(window, program, spans, stack, doubles)


@kernel
def _run(  # noqa: C901 (one rule: a branch an instruction)
    window: Bytes, program: Any, spans: Numbers, stack: Numbers, doubles: npt.NDArray[np.float64]
) -> int:
    """The Match of one record. `evaluate` does the same and is easier to read."""
    code, texts, text_ends = program.code, program.texts, program.text_ends
    top, at = -1, 0
    while at < len(code):
        op, first, count = code[at, 0], code[at, 1], code[at, 2]
        at += 1
        if op == _PROPERTY:
            top += 1
            stack[top, 0] = TEXT if spans[first, 0] >= 0 else NULL
            stack[top, 1] = spans[first, 0]
            stack[top, 2] = spans[first, 1]
        elif op == _CONSTANT:
            top += 1
            kind, number = program.kinds[first], program.numbers[first]
            stack[top, 0] = kind
            stack[top, 1] = number
            doubles[top] = program.doubles[first]
            if kind == TEXT:
                stack[top, 0] = LITERAL
                stack[top, 1] = text_ends[number - 1] if number > 0 else 0
                stack[top, 2] = text_ends[number]
        elif op == _COPY:
            top += 1
            stack[top, 0] = stack[top - 1, 0]
            stack[top, 1] = stack[top - 1, 1]
            stack[top, 2] = stack[top - 1, 2]
            doubles[top] = doubles[top - 1]
        elif op == _JUMP_IF_NULL:
            if stack[top, 0] == NULL:
                at += first
        elif op in (_JUMP_IF_FALSE, _JUMP_IF_TRUE):
            if stack[top, 0] == BOOLEAN and stack[top, 1] == (op == _JUMP_IF_TRUE):
                at += first
        elif op >= _REST_UNLESS_FALSE:
            kind, number = stack[top, 0], stack[top, 1]
            top -= 1
            if kind == BOOLEAN and number == (op != _REST_UNLESS_FALSE):
                stack[top, 0] = kind
                stack[top, 1] = number
                at += first
            else:
                # the value and the result change places
                stack[top + 1, 0] = stack[top, 0]
                stack[top + 1, 1] = stack[top, 1]
                stack[top + 1, 2] = stack[top, 2]
                doubles[top + 1] = doubles[top]
                stack[top, 0] = kind
                stack[top, 1] = number
                top += 1
        elif op == _NOT:
            stack[top, 1] = 1 - stack[top, 1]
        elif op == _CAST:
            if stack[top, 0] != NULL:
                stack[top, 0] = BOOLEAN
                stack[top, 1] = 0
        elif op == _IS_NULL:
            stack[top, 1] = stack[top, 0] == NULL
            stack[top, 0] = BOOLEAN
        elif op == _NEGATE:
            _negate(stack, doubles, top)
        elif op in (_IN, _NOT_IN):
            if stack[top, 0] != NULL:
                found = False
                for number in range(first, first + count):
                    start = text_ends[number - 1] if number > 0 else 0
                    length = text_ends[number] - start
                    if stack[top, 2] - stack[top, 1] == length and same_bytes(
                        window, stack[top, 1], texts, start, length
                    ):
                        found = True
                        break
                stack[top, 0] = BOOLEAN
                stack[top, 1] = found == (op == _IN)
        elif op <= _NOT_ENDS:
            start = text_ends[first - 1] if first > 0 else 0
            wanted = (op - _CONTAINS) % 2 == 0
            form = (op - _CONTAINS) // 2
            holds = False
            if stack[top, 0] == TEXT:
                holds = wanted == _holds(
                    window, stack[top, 1], stack[top, 2], texts, start, text_ends[first], form
                )
            elif stack[top, 0] == LITERAL:
                holds = wanted == _holds(
                    texts, stack[top, 1], stack[top, 2], texts, start, text_ends[first], form
                )
            stack[top, 0] = BOOLEAN
            stack[top, 1] = holds
        else:
            top -= 1
            state = _of_two(window, texts, op, stack, doubles, top)
            if state != OK:
                return _VERDICT_ASK if state == ASK else _VERDICT_NO
    yes = stack[0, 0] == BOOLEAN and stack[0, 1] == 1
    return _VERDICT_YES if yes else _VERDICT_NO


@inlined
def _negate(stack: Numbers, doubles: npt.NDArray[np.float64], top: int) -> None:
    kind = stack[top, 0]
    if kind == DOUBLE:
        doubles[top] = -doubles[top]
    elif kind in (LONG, INTEGER):
        stack[top, 1] = -stack[top, 1]  # no literal is the least number, which would wrap
    else:
        stack[top, 0] = NULL


@kernel
def _holds(buf: Bytes, at: int, end: int, texts: Bytes, start: int, stop: int, form: int) -> bool:
    """Whether the text at buf[at:end] contains (form 0), starts with (1) or ends with (2) the one
    at texts[start:stop], which is not empty.
    """
    length = stop - start
    last = end - length
    if last < at:
        return False
    if form == 1:
        return same_bytes(buf, at, texts, start, length)
    if form == 2:
        return same_bytes(buf, last, texts, start, length)
    while at <= last:
        at = find_byte(buf, at, last + 1, texts[start])
        if at <= last and same_bytes(buf, at, texts, start, length):
            return True
        at += 1
    return False


@kernel
def _of_two(
    window: Bytes, texts: Bytes, op: int, stack: Numbers, doubles: npt.NDArray[np.float64], low: int
) -> int:
    """Replace the values at `low` and above it by the operator's result; OK, THROWS or ASK."""
    left, right = stack[low, 0], stack[low + 1, 0]
    result = -1  # null
    if op in (_AND, _OR):
        decides = 0 if op == _AND else 1
        if right == BOOLEAN and stack[low + 1, 1] == decides:
            result = decides
        elif left != NULL and right != NULL:
            result = 1 - decides
    elif left == NULL or right == NULL:
        if op == _EQUAL and right == NULL:
            result = left == NULL
    else:
        state, order = compare(window, texts, op, stack, doubles, low)
        if state != OK:
            return state
        if op == _EQUAL:
            result = order == 0
        elif op == _GREATER:
            result = order > 0
        elif op == _GREATER_EQUAL:
            result = order >= 0
        elif op == _LESS:
            result = order < 0
        else:
            result = order <= 0
    stack[low, 0] = NULL if result < 0 else BOOLEAN
    stack[low, 1] = result
    return OK
