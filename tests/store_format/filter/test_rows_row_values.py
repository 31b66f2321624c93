"""Two values on the kernel's stack, compared as Java compares them, or left to the slow way."""

import numpy as np
import pytest

from reput.store_format.filter import rows
from reput.store_format.filter.program import Op
from reput.store_format.filter.rows import (
    ASK,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    LITERAL,
    LONG,
    OK,
    TEXT,
    THROWS,
)

Item = bytes | str | tuple[int, float]
TRUE, FALSE = (BOOLEAN, 1), (BOOLEAN, 0)
SAME, LESS, MORE = (OK, 0), (OK, -1), (OK, 1)
THROWN, ASKED = (THROWS, 0), (ASK, 0)


def compared(left: Item, op: Op, right: Item) -> tuple[int, int]:
    """Bytes are a text in the window, a str one in the program."""
    window, texts = bytearray(b"\x01"), bytearray(b"\x01\x01")
    stack, doubles = np.zeros((3, 3), np.int64), np.zeros(3)
    for place, item in enumerate((left, right), 1):
        if isinstance(item, tuple):
            stack[place, 0], doubles[place] = item
            stack[place, 1] = 0 if item[0] == DOUBLE else int(item[1])
            continue
        raw, buffer = (item, window) if isinstance(item, bytes) else (item.encode(), texts)
        stack[place] = TEXT if buffer is window else LITERAL, len(buffer), len(buffer) + len(raw)
        buffer += raw + b"9"
    one, other = (np.frombuffer(bytes(each), np.uint8) for each in (window, texts))
    state, order = rows.compare(one, other, int(op), stack, doubles, 1)
    return state, order if state == OK else 0


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        (b"ab", "ab", SAME), ("ab", b"ab", SAME), (b"ab", b"ab", SAME), ("ab", "ab", SAME),
        (b"ab", "abc", MORE), (b"ab", b"ac", MORE), (b"", "", SAME), (b"\xff", "\xe9", MORE),
        (b"\xff", b"\xfe", ASKED), (b"\xff", b"\xff", SAME), (b"5", "5.0", MORE),
    ],
)  # fmt: skip
def test_texts_are_the_same_or_not(left: Item, right: Item, result: tuple[int, int]) -> None:
    assert compared(left, Op.EQUAL, right) == result


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        (b"5", "5.0", SAME), (b"10", b"9", MORE), ("9.5", b"+10.", LESS), (b"x", "1", THROWN),
        (b"1", "x", THROWN), (b"-.5", b".5", LESS), (b"1e1", "1", ASKED), (b"", "1", ASKED),
        (b"NaN", "1", ASKED), (b"nan", "1", THROWN), (b"-0", "0", ASKED), (b"-0.0", "1", ASKED),
        (b"0", "-1", MORE),
    ],
)  # fmt: skip
def test_texts_are_ordered_as_doubles(left: Item, right: Item, result: tuple[int, int]) -> None:
    assert compared(left, Op.LESS, right) == result


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        (b"5", (INTEGER, 5), SAME), (b"5", (LONG, 6), LESS), ((LONG, 6), b"5", MORE),
        (b"5.0", (INTEGER, 5), THROWN), (b"2147483648", (INTEGER, 5), THROWN),
        (b"2147483648", (LONG, 5), MORE), (b"9223372036854775808", (LONG, 5), THROWN),
        (b"5.0", (DOUBLE, 5.0), SAME), ((INTEGER, 5), (DOUBLE, 5.5), LESS),
        ((INTEGER, -1), (LONG, 1 << 40), LESS), ((INTEGER, 7), (INTEGER, 7), SAME),
    ],
)  # fmt: skip
def test_a_text_takes_the_class_of_the_number(
    left: Item, right: Item, result: tuple[int, int]
) -> None:
    assert compared(left, Op.EQUAL, right) == result


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        (b"tRuE", TRUE, SAME), (b"true ", TRUE, LESS), (b"yes", FALSE, SAME), (TRUE, FALSE, MORE),
        (TRUE, b"true", THROWN), (TRUE, "true", THROWN), (TRUE, (INTEGER, 1), LESS),
        ((DOUBLE, 1.0), TRUE, LESS), (b"TR\x55\x65", TRUE, SAME), (b"TR\x15\x45", TRUE, LESS),
    ],
)  # fmt: skip
def test_a_boolean_is_compared_with_no_number(
    left: Item, right: Item, result: tuple[int, int]
) -> None:
    assert compared(left, Op.EQUAL, right) == result


def test_fifteen_digits_are_rounded_once_and_sixteen_are_asked_for() -> None:
    assert compared(b"0.1234567890123", Op.LESS, (DOUBLE, 0.1234567890123)) == SAME
    assert compared(b"123456789012345", Op.LESS, (DOUBLE, 123456789012345.0)) == SAME
    assert compared(b"1234567890123456", Op.LESS, (DOUBLE, 1.0)) == ASKED
