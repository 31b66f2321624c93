"""Runs a program on the properties of one message, as ExpressionMessageFilter evaluates it."""

from collections.abc import Mapping
from typing import Any

from reput.store_format.filter.program import (
    FALSE,
    NULL,
    TRUE,
    Op,
    Program,
    Thrown,
    Value,
    ValueKind,
    compare,
    compare_ordered,
    negated,
)


def matches(program: Program, properties: Mapping[str, str]) -> bool:
    """Whether a broker would deliver a message with these properties.

    An expression that throws does not match (ExpressionMessageFilter.isMatchedByCommitLog).
    """
    try:
        return evaluate(program, properties) == TRUE
    except Thrown:
        return False


def evaluate(program: Program, properties: Mapping[str, str]) -> Value:
    """What Expression.evaluate returns for these properties. Raises Thrown."""
    instructions = program.instructions
    stack: list[Value] = []
    at = 0
    while at < len(instructions):
        op, argument = instructions[at]
        at += 1
        if op == Op.PROPERTY:
            text = properties.get(argument)  # type: ignore[arg-type]
            stack.append(NULL if text is None else Value(ValueKind.TEXT, text))
        elif op in (Op.CONSTANT, Op.COPY):
            stack.append(argument if op == Op.CONSTANT else stack[-1])  # type: ignore[arg-type]
        elif op in _OF_ONE:
            stack.append(_OF_ONE[op](stack.pop(), argument))
        elif op in _OF_TWO:
            right = stack.pop()
            stack.append(_OF_TWO[op](stack.pop(), right))
        elif op in _JUMPS:
            assert isinstance(argument, int)
            if stack[-1] == _JUMPS[op]:
                at += argument
        else:
            assert isinstance(argument, int)
            result, value = stack.pop(), stack.pop()
            stack.append(result)
            if result == (FALSE if op == Op.REST_UNLESS_FALSE else TRUE):
                at += argument
            else:
                stack.append(value)
    return stack.pop()


def _truth(holds: bool) -> Value:
    return TRUE if holds else FALSE


def _not(value: Value, _: Any) -> Value:
    return value if value == NULL else _truth(value == FALSE)


def _in(value: Value, texts: Any) -> Value:
    return value if value == NULL else _truth(value.of in texts)


def _text_test(test: Any, wanted: bool) -> Any:
    """A test of a text. Null and any other value give FALSE, also for NOT."""

    def result(value: Value, text: str) -> Value:
        return _truth(value.kind == ValueKind.TEXT and test(value.of, text) == wanted)

    return result


def _equal(left: Value, right: Value) -> Value:
    """ComparisonExpression.doCreateEqual."""
    if left == NULL:
        return TRUE if right == NULL else NULL
    if right == NULL:
        return FALSE
    return _truth(compare(left, right) == 0)


def _ordered(holds: Any) -> Any:
    """ComparisonExpression.evaluate. The left side is not null: a jump would skip this."""

    def result(left: Value, right: Value) -> Value:
        return NULL if right == NULL else _truth(holds(compare_ordered(left, right)))

    return result


def _logic(decides: Value, otherwise: Value) -> Any:
    """LogicExpression: AND, which FALSE decides, or OR. The left side does not: a jump would."""

    def result(left: Value, right: Value) -> Value:
        if right == decides:
            return right
        return NULL if NULL in (left, right) else otherwise

    return result


_OF_ONE: dict[Op, Any] = {
    Op.NEGATE: lambda value, _: negated(value),
    Op.NOT: _not,
    Op.CAST: lambda value, _: value if value == NULL else FALSE,
    Op.IS_NULL: lambda value, _: _truth(value == NULL),
    Op.IN: _in,
    Op.NOT_IN: lambda value, texts: _not(_in(value, texts), None),
    Op.CONTAINS: _text_test(str.__contains__, True),
    Op.NOT_CONTAINS: _text_test(str.__contains__, False),
    Op.STARTS: _text_test(str.startswith, True),
    Op.NOT_STARTS: _text_test(str.startswith, False),
    Op.ENDS: _text_test(str.endswith, True),
    Op.NOT_ENDS: _text_test(str.endswith, False),
}
_OF_TWO: dict[Op, Any] = {
    Op.EQUAL: _equal,
    Op.GREATER: _ordered(lambda order: order > 0),
    Op.GREATER_EQUAL: _ordered(lambda order: order >= 0),
    Op.LESS: _ordered(lambda order: order < 0),
    Op.LESS_EQUAL: _ordered(lambda order: order <= 0),
    Op.AND: _logic(FALSE, TRUE),
    Op.OR: _logic(TRUE, FALSE),
}
_JUMPS = {Op.JUMP_IF_NULL: NULL, Op.JUMP_IF_FALSE: FALSE, Op.JUMP_IF_TRUE: TRUE}
