"""Runs a program on the records of a window, in one kernel.

For each record it tells that it matches, that it does not, or that `evaluate` must be asked. It
asks in rare cases that would need long rules here: if a double is wanted, numbers other than plain
decimals of up to 15 digits; and texts that are not UTF-8 (`row_values.py`).
"""

from collections import namedtuple
from collections.abc import Iterable
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from reput.store_format.filter.program import Op, Program, Value
from reput.store_format.filter.row_values import (
    ASK,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    LITERAL,
    LONG,
    NULL,
    OK,
    TEXT,
    Numbers,
    compare,
)
from reput.store_format.kernels.bytes import find_byte, same_bytes
from reput.store_format.kernels.jit import inlined, kernel
from reput.store_format.log.properties import find_named
from reput.store_format.log.records import Bytes, Rows

Verdicts = npt.NDArray[np.uint8]


class Match(IntEnum):
    """What is known of a record."""

    NO = 0
    YES = 1
    ASK = 2  # `Filter.matches` must decide


# A program as arrays. Text and name number i end at text_ends[i] and name_ends[i] in their bytes.
Tables = namedtuple(
    "Tables",
    "code kinds numbers doubles texts text_ends names name_ends depth",
)
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
    if any("\ufffd" in text or _surrogates(text) for text in texts):
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


def _surrogates(text: str) -> bool:
    return any("\ud800" <= c <= "\udfff" for c in text)


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
def _judge(  # noqa: PLR0913 (a kernel takes its arrays one by one)
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
