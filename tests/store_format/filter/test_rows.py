"""A program on many records at once: yes, no, or that the slow way must be asked."""

from typing import Any

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


def test_what_the_kernel_decides_alone() -> None:
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


def test_what_other_bytes_may_be_decoded_to_is_asked_for() -> None:
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
