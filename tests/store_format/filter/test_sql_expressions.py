"""What the `create` methods of RocketMQ's expressions make of their parts, and what they refuse."""

from typing import Any

import pytest

from reput.store_format.filter.evaluate import evaluate
from reput.store_format.filter.program import FALSE, Op, Value, ValueKind
from reput.store_format.filter.sql import WrongExpression, parse


def code(text: str) -> list[Any]:
    return list(parse(text, True).program.instructions)


@pytest.mark.parametrize(
    ("literal", "kind", "of"),
    [
        ("0", ValueKind.INTEGER, 0), ("2147483647", ValueKind.INTEGER, 2147483647),
        ("2147483648", ValueKind.LONG, 2147483648), ("5L", ValueKind.INTEGER, 5),
        ("9223372036854775807l", ValueKind.LONG, 9223372036854775807),
        (".5", ValueKind.DOUBLE, 0.5),
        ("5.", ValueKind.DOUBLE, 5.0), ("1e3", ValueKind.DOUBLE, 1000.0),
        ("4.9e-324", ValueKind.DOUBLE, 4.9e-324), ("''", ValueKind.TEXT, ""),
    ],
)  # fmt: skip
def test_a_literal_has_the_smallest_class_that_holds_it(
    literal: str, kind: ValueKind, of: object
) -> None:
    assert code(f"a = {literal}")[1] == (Op.CONSTANT, Value(kind, of))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "a = 9223372036854775808", "a = 0.0", "a = 0e5", "a = 1e-400", "a = 1e309",
        "a > 'x'", "'x' > a", "a > TRUE", "a > NULL", "a > (b > 5)", "a BETWEEN 'x' AND 'y'",
        "a = NULL", "NULL <> a", "TRUE = 5", "FALSE = 'x'",
        "a BETWEEN 7 AND 1", "a BETWEEN 1.5 AND 1", "a BETWEEN NULL AND 1",
        "5 IN ('x')", "'x' IN ('x')", "(a = 1) IN ('x')",
        "5", "'x'", "-5", "NOT 5", "a = 1 AND 'x'", "5 OR a = 1",
    ],
)  # fmt: skip
def test_what_rocketmq_refuses(text: str) -> None:
    with pytest.raises(WrongExpression) as raised:
        parse(text, True)
    assert "stands where" not in raised.value.reason  # the grammar itself takes it


@pytest.mark.parametrize(
    "text",
    ["5 = TRUE", "5 = 'x'", "a BETWEEN -1 AND -7", "a NOT BETWEEN 7 AND 1", "a BETWEEN 1 AND 1",
     "a > b", "NULL IS NULL"],
)  # fmt: skip
def test_what_it_takes_though_it_looks_wrong(text: str) -> None:
    assert parse(text, True).rest is None


def test_a_refusal_is_at_the_part_that_is_wrong() -> None:
    for text, column in (("a > 'x'", 5), ("a BETWEEN 7 AND 1", 11), ("a = 1 AND\t5", 11)):
        with pytest.raises(WrongExpression) as raised:
            parse(text, True)
        assert (raised.value.line, raised.value.column) == (1, column)


@pytest.mark.parametrize("test", ["CONTAINS", "NOT CONTAINS", "STARTSWITH", "NOT ENDSWITH"])
def test_a_test_for_the_empty_text_is_false_whatever_is_on_its_left(test: str) -> None:
    assert code(f"-(a > 5) {test} ''") == [(Op.CONSTANT, FALSE)]


@pytest.mark.parametrize(
    ("text", "a", "value"),
    [
        ("a BETWEEN 1 AND b", "0", FALSE),  # 'x' is not a number, but is not looked at any more
        ("a NOT BETWEEN 1 AND b", "0", Value(ValueKind.BOOLEAN, True)),
        ("a = 'y' AND b > 5", "x", FALSE),
        ("a = 'x' OR b > 5", "x", Value(ValueKind.BOOLEAN, True)),
        ("c > 5 = TRUE", "x", Value(ValueKind.NULL, None)),
    ],
)
def test_what_is_decided_is_not_evaluated_on(text: str, a: str, value: Value) -> None:
    assert evaluate(parse(text, True).program, {"a": a, "b": "x"}) == value


@pytest.mark.parametrize(
    ("text", "depth"),
    [("a = 1", 2), ("a = 1 AND b = 2", 3), ("(a = 1 AND b = 2) AND c = 3", 3), ("a IS NULL", 1),
     ("a = 1 AND (b = 2 AND c = 3)", 4), ("a BETWEEN 1 AND 2", 3)],
)  # fmt: skip
def test_the_depth_is_the_most_values_on_the_stack(text: str, depth: int) -> None:
    assert parse(text, True).program.depth == depth
