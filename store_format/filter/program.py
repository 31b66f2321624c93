"""What an expression is compiled to: a list of instructions for a machine with one stack.

Two modules run a program: `evaluate`, in Python, on one message, and `rows`, in a kernel, on all
messages of a window. Neither recurses, so no expression is too deep for them.

A value on the stack is one that Java's Expression.evaluate returns: null, a Boolean, an Integer, a
Long, a Double or a String. `ValueKind` keeps Integer and Long apart, because RocketMQ compares them
with a text in different ways.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple


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
    """A compiled expression."""

    instructions: Sequence[Instruction]
    depth: int  # most values on the stack


def tags_program(tags: Sequence[str]) -> Program:
    """The test whether the property TAGS is one of these texts."""
    return Program(((Op.PROPERTY, "TAGS"), (Op.IN, tuple(tags))), 1)
