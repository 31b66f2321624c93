"""How RocketMQ compares two values, and how Java reads numbers in texts.

ComparisonExpression.__compare converts a text to the class of the other value, and throws if it
cannot. If it throws, the whole expression does not match.
"""

import re

from reput.store_format.filter.program import Value, ValueKind
from reput.store_format.java import parse_integer

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
    """As `compare`, for <, <=, > and >=: two texts are converted to doubles. Raises Thrown."""
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
