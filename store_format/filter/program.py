"""What an expression is compiled to, a list of instructions for a machine with one stack; and how
RocketMQ compares two values.

Two modules run a program: `evaluate`, in Python, on one message, and `rows`, in a kernel, on all
messages of a window. Neither recurses, so no expression is too deep for them.

A value on the stack is one that Java's Expression.evaluate returns: null, a Boolean, an Integer, a
Long, a Double or a String. `ValueKind` keeps Integer and Long apart, because RocketMQ compares them
with a text in different ways.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from reput.store_format.java import parse_integer


class ValueKind(IntEnum):
    """The Java class of a value."""

    NULL = 0
    BOOLEAN = 1
    INTEGER = 2
    LONG = 3
    DOUBLE = 4
    TEXT = 5


class Value(NamedTuple):
    """One value; `of` is a bool, an int, a float or a str, and None for NULL."""

    kind: ValueKind
    of: bool | int | float | str | None


NULL = Value(ValueKind.NULL, None)
TRUE = Value(ValueKind.BOOLEAN, True)
FALSE = Value(ValueKind.BOOLEAN, False)


class Op(IntEnum):
    """What an instruction does with the top of the stack."""

    CONSTANT = 0  # push the argument, a Value
    PROPERTY = 1  # push the text of the property that the argument names, or null
    NEGATE = 2
    NOT = 3
    CAST = 4  # to a Boolean: a text becomes FALSE (UnaryExpression.createBooleanCast)
    IS_NULL = 5
    IN = 6  # the argument: a tuple of texts
    NOT_IN = 7
    # tests of a text; the argument is the text that is looked for
    CONTAINS = 8
    NOT_CONTAINS = 9
    STARTS = 10
    NOT_STARTS = 11
    ENDS = 12
    NOT_ENDS = 13
    # these take the two values on top
    EQUAL = 14
    GREATER = 15
    GREATER_EQUAL = 16
    LESS = 17
    LESS_EQUAL = 18
    AND = 19
    OR = 20
    COPY = 21  # push the top once more
    # jumps forward; the argument is the number of skipped instructions
    JUMP_IF_NULL = 22
    JUMP_IF_FALSE = 23
    JUMP_IF_TRUE = 24
    # For a BETWEEN, after its first comparison: the value is below the result on the stack. A
    # result that decides replaces it, and the rest is skipped; else the value comes to the top.
    REST_UNLESS_FALSE = 25
    REST_UNLESS_TRUE = 26


Argument = Value | str | tuple[str, ...] | int | None
Instruction = tuple[Op, Argument]


@dataclass(frozen=True)
class Program:
    instructions: Sequence[Instruction]
    depth: int  # most values on the stack


def tags_program(tags: Sequence[str]) -> Program:
    """The test whether the property TAGS is one of these texts."""
    return Program(((Op.PROPERTY, "TAGS"), (Op.IN, tuple(tags))), 1)


# ---
# How RocketMQ compares two values, and how Java reads numbers in texts.
#
# ComparisonExpression.__compare converts a text to the class of the other value, and throws if it
# cannot. If it throws, the whole expression does not match.

_BITS = {ValueKind.INTEGER: 32, ValueKind.LONG: 64}
_BLANKS = "".join(map(chr, range(0x21)))  # what Java's String.trim removes
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?")
_HEX = re.compile(r"[+-]?0[xX](?:[0-9A-Fa-f]+\.?|[0-9A-Fa-f]*\.[0-9A-Fa-f]+)[pP][+-]?[0-9]+[fFdD]?")
_NAMED = re.compile(r"([+-]?)(NaN|Infinity)")


class Thrown(Exception):
    """Java would throw a NumberFormatException or a ClassCastException here."""


def parse_double(text: str) -> float:
    """Double.valueOf of a text. Raises Thrown."""
    text = text.strip(_BLANKS)
    named = _NAMED.fullmatch(text)
    if named:
        return float(named[1] + named[2])
    if _DECIMAL.fullmatch(text):
        return float(text.rstrip("fFdD"))
    if _HEX.fullmatch(text):
        try:
            return float.fromhex(text.rstrip("fFdD") if text[-1] not in "0123456789" else text)
        except OverflowError:
            return float("-inf" if text[0] == "-" else "inf")
    raise Thrown


def _converted(text: str, kind: ValueKind) -> int | float:
    if kind == ValueKind.DOUBLE:
        return parse_double(text)
    try:
        return parse_integer(text, _BITS[kind])
    except ValueError:
        raise Thrown from None


def _order(left: int | float, right: int | float) -> int:
    return (left > right) - (left < right)


def _order_of_doubles(left: float, right: float) -> int:
    """Double.compare: -0.0 is less than 0.0, and NaN is greater than all and equals itself."""
    if left != left or right != right:
        return _order(left != left, right != right)
    if left == right == 0:
        return _order(str(right)[0] == "-", str(left)[0] == "-")
    return _order(left, right)


def compare(left: Value, right: Value) -> int:
    """ComparisonExpression.__compare of two values that are not null: negative, 0 or positive.

    A Boolean and a number give -1 in either order: neither is converted. Raises Thrown.
    """
    (left_kind, one), (right_kind, other) = left, right
    kinds = {left_kind, right_kind}
    if kinds == {ValueKind.TEXT}:
        return int(one != other)  # texts are only compared for equality
    if kinds == {ValueKind.BOOLEAN, ValueKind.TEXT}:
        if left_kind == ValueKind.BOOLEAN:
            raise Thrown  # RocketMQ casts the wrong side
        one, kinds = str(one).isascii() and str(one).lower() == "true", {ValueKind.BOOLEAN}
    elif ValueKind.BOOLEAN in kinds and len(kinds) > 1:
        return -1
    assert one is not None
    assert other is not None
    if isinstance(one, str):
        one = _converted(one, right_kind)
    if isinstance(other, str):
        other = _converted(other, left_kind)
    if ValueKind.DOUBLE in kinds:
        return _order_of_doubles(float(one), float(other))
    return _order(one, other)


def compare_ordered(left: Value, right: Value) -> int:
    """Compare for <, <=, > and >=: of two texts as doubles, else as `compare`. Raises Thrown."""
    if isinstance(left.of, str) and isinstance(right.of, str):
        return _order_of_doubles(parse_double(left.of), parse_double(right.of))
    return compare(left, right)


def negated(value: Value) -> Value:
    """UnaryExpression.negate: wraps at the class's least number; null for other values."""
    kind, of = value
    if kind == ValueKind.DOUBLE:
        assert isinstance(of, float)
        return Value(kind, -of)
    if kind in _BITS:
        assert isinstance(of, int)
        half = 1 << _BITS[kind] - 1
        return Value(kind, (-of + half) % (2 * half) - half)
    return Value(ValueKind.NULL, None)
