"""A program on many records at once: yes, no, or that the slow way must be asked."""

from typing import Any

import numpy as np
import pytest

from reput.store_format.filter import rows
from reput.store_format.filter.program import NULL, TRUE, Op, Program, Value, ValueKind
from tests.logs import properties
from tests.store_format.filter.saying import step_of

NO, YES, OPEN = rows.Match.NO, rows.Match.YES, rows.Match.ASK
A = (Op.PROPERTY, "a")


def text(of: str) -> tuple[Op, Value]:
    return Op.CONSTANT, Value(ValueKind.TEXT, of)


def number(of: float) -> tuple[Op, Value]:
    return Op.CONSTANT, Value(ValueKind.DOUBLE if isinstance(of, float) else ValueKind.INTEGER, of)


def said(code: tuple[Any, ...], *values: str, split: bool = False) -> list[rows.Match]:
    """Of a record for each value, in which property `a` has that value."""
    step = step_of([properties(("b", "a"), ("a", value), ("aa", "c")) for value in values])
    found = rows.judge(step.window, step.rows, split, rows.tables(Program(code, 4)))
    return [rows.Match(one) for one in found.tolist()]


def test_texts_are_equal_byte_by_byte_numbers_in_the_literal_s_class_and_pairs_as_split() -> None:
    assert said((A, text("\xe9x"), (Op.EQUAL, None)), "\xe9x", "\xe9", "\xe9xx", "ex") == [
        YES, NO, NO, NO,
    ]  # fmt: skip
    assert said((A, (Op.IN, ("x", "", "yz"))), "x", "y", "yz", "xyz") == [YES, NO, YES, NO]
    assert said((A, (Op.NOT_IN, ("x", "yz"))), "x", "y", "yz") == [NO, YES, NO]
    assert said((text("xxyx"), (Op.CONTAINS, "xy")), "-") == [YES]
    assert said((text("x"), (Op.NOT_STARTS, "xy")), "-") == [YES]
    assert said(((Op.CONSTANT, NULL), (Op.NOT_CONTAINS, "xy")), "-") == [NO]
    over = (A, number(5), (Op.GREATER, None))
    assert said(over, "6", "5", "-6", "5.5", "2147483648", "x") == [YES, NO, NO, NO, NO, NO]
    over = (A, number(5.5), (Op.GREATER, None))
    assert said(over, "6", "5.50", "5.51", "-6", "x") == [YES, NO, YES, NO, NO]
    assert said((A,), "true") == [NO]
    assert said((number(1),), "-") == [NO]
    assert said(((Op.CONSTANT, TRUE),), "-", "-") == [YES, YES]
    there = (A, (Op.IS_NULL, None), (Op.NOT, None))
    assert said(there, "x\x01y", "x\x01") == [YES, YES]
    assert said(there, "x\x01y", "x\x01", split=True) == [NO, YES]


@pytest.mark.parametrize(("op", "wanted"), [
    (Op.CONTAINS, [YES, YES, YES, YES, NO, NO]), (Op.STARTS, [YES, YES, NO, NO, NO, NO]),
    (Op.ENDS, [YES, NO, YES, NO, NO, NO]),
])  # fmt: skip
def test_a_text_within_a_text(op: Op, wanted: list[rows.Match]) -> None:
    values = ("xy", "xyx", "xxy", "xxyx", "x", "xzy")
    assert said((A, (op, "xy")), *values) == wanted
    opposite = [NO if one == YES else YES for one in wanted]
    assert said((A, (Op(op + 1), "xy")), *values) == opposite


@pytest.mark.parametrize(
    "value", ["1" * 16, "1e9", "5d", "-0", "NaN", "Infinity", " 6", "0x1p3", "6.."]
)
def test_of_a_double_that_is_not_plain_the_slow_way_is_asked(value: str) -> None:
    assert said((A, number(5.5), (Op.GREATER, None)), value, "1" * 15) == [OPEN, YES]


def test_what_other_bytes_may_be_decoded_to_and_sixteen_digits_are_asked_for() -> None:
    step = step_of(
        [b"a\x01\xff\x02b\x01\xfe\x02", b"a\x01x\x02b\x01\xfe\x02", b"a\x01\xe9\x02b\x01\xe9\x02"]
    )
    program = rows.tables(Program((A, (Op.PROPERTY, "b"), (Op.EQUAL, None)), 2))
    assert rows.judge(step.window, step.rows, False, program).tolist() == [OPEN, NO, YES]
    for odd in ("x\ufffd", "\ud800"):
        assert rows.tables(Program((A, text(odd), (Op.EQUAL, None)), 2)) is None
        assert rows.tables(Program((A, (Op.IN, ("x", odd))), 1)) is None
        assert rows.tables(Program((A, (Op.STARTS, odd)), 1)) is None
    assert rows.tables(Program((A, text("\U0001f600"), (Op.EQUAL, None)), 2)) is not None
    assert compared(b"0.1234567890123", Op.LESS, (rows.DOUBLE, 0.1234567890123)) == SAME
    assert compared(b"123456789012345", Op.LESS, (rows.DOUBLE, 123456789012345.0)) == SAME
    assert compared(b"1234567890123456", Op.LESS, (rows.DOUBLE, 1.0)) == ASKED


# --- Two values on the kernel's stack, compared as Java compares them, or left to the slow way.
Item = bytes | str | tuple[int, float]
TRUTH, FALSE = (rows.BOOLEAN, 1), (rows.BOOLEAN, 0)
SAME, LESS, MORE = (rows.OK, 0), (rows.OK, -1), (rows.OK, 1)
THROWN, ASKED = (rows.THROWS, 0), (rows.ASK, 0)


def compared(left: Item, op: Op, right: Item) -> tuple[int, int]:
    """Bytes are a text in the window, a str one in the program."""
    window, texts = bytearray(b"\x01"), bytearray(b"\x01\x01")
    stack, doubles = np.zeros((3, 3), np.int64), np.zeros(3)
    for place, item in enumerate((left, right), 1):
        if isinstance(item, tuple):
            stack[place, 0], doubles[place] = item
            stack[place, 1] = 0 if item[0] == rows.DOUBLE else int(item[1])
            continue
        raw, buffer = (item, window) if isinstance(item, bytes) else (item.encode(), texts)
        stack[place] = (rows.TEXT if buffer is window else rows.LITERAL, len(buffer),
                        len(buffer) + len(raw))  # fmt: skip
        buffer += raw + b"9"
    one, other = (np.frombuffer(bytes(each), np.uint8) for each in (window, texts))
    state, order = rows.compare(one, other, int(op), stack, doubles, 1)
    return state, order if state == rows.OK else 0


# fmt: off
COMPARED = (
    *((Op.EQUAL, *row) for row in (  # The same or not.
        (b"ab", "ab", SAME), ("ab", b"ab", SAME), (b"ab", b"ab", SAME), ("ab", "ab", SAME),
        (b"ab", "abc", MORE), (b"ab", b"ac", MORE), (b"", "", SAME), (b"\xff", "\xe9", MORE),
        (b"\xff", b"\xfe", ASKED), (b"\xff", b"\xff", SAME), (b"5", "5.0", MORE),
    )),
    *((Op.LESS, *row) for row in (  # In order, as doubles.
        (b"5", "5.0", SAME), (b"10", b"9", MORE), ("9.5", b"+10.", LESS), (b"x", "1", THROWN),
        (b"1", "x", THROWN), (b"-.5", b".5", LESS), (b"1e1", "1", ASKED), (b"", "1", ASKED),
        (b"NaN", "1", ASKED), (b"nan", "1", THROWN), (b"-0", "0", ASKED), (b"-0.0", "1", ASKED),
        (b"0", "-1", MORE),
    )),
    *((Op.EQUAL, *row) for row in (  # By the number's class.
        (b"5", (rows.INTEGER, 5), SAME), (b"5", (rows.LONG, 6), LESS), ((rows.LONG, 6), b"5", MORE),
        (b"5.0", (rows.INTEGER, 5), THROWN), (b"2147483648", (rows.INTEGER, 5), THROWN),
        (b"2147483648", (rows.LONG, 5), MORE), (b"9223372036854775808", (rows.LONG, 5), THROWN),
        (b"5.0", (rows.DOUBLE, 5.0), SAME), ((rows.INTEGER, 5), (rows.DOUBLE, 5.5), LESS),
        ((rows.INTEGER, -1), (rows.LONG, 1 << 40), LESS),
        ((rows.INTEGER, 7), (rows.INTEGER, 7), SAME),
    )),
    *((Op.EQUAL, *row) for row in (  # A boolean, with no number.
        (b"tRuE", TRUTH, SAME), (b"true ", TRUTH, LESS), (b"yes", FALSE, SAME),
        (TRUTH, FALSE, MORE), (TRUTH, b"true", THROWN), (TRUTH, "true", THROWN),
        (TRUTH, (rows.INTEGER, 1), LESS), ((rows.DOUBLE, 1.0), TRUTH, LESS),
        (b"TR\x55\x65", TRUTH, SAME),
        (b"TR\x15\x45", TRUTH, LESS),
    )),
)
# fmt: on


@pytest.mark.parametrize(("op", "left", "right", "result"), COMPARED)
def test_values_are_compared_as_java_does(op, left, right, result) -> None:
    assert compared(left, op, right) == result
