"""What all filters have in common, the filter by tags, and how a message is asked."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from reput.store_format.faults import WrongFilter
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
    tags_program,
)
from reput.store_format.filter.rows import Match, Verdicts, judge, tables
from reput.store_format.kernels.java_text import hash_text
from reput.store_format.log.record import Record
from reput.store_format.log.walk import Step

_BLANKS = "".join(map(chr, range(0x21)))  # what Java's String.trim removes


class WrongTags(WrongFilter):
    """RocketMQ refuses these tags."""


class Filter:
    """Tells which messages are wanted: one message, or all messages in a window at once.

    A method that a kind of filter does not define wants every message.
    """

    def matches(
        self, record: Record, properties: Mapping[str, str], body: Callable[[], bytes]
    ) -> bool:
        """Whether the message is wanted.

        properties: as RocketMQ reads them (message.parse_properties).
        body: returns the body as it is in the log; called only if it is needed.
        """
        return True

    def judge(self, step: Step, split_properties: bool) -> Verdicts:
        """A Match for each row of a step: the answer of `matches`, or that it must be asked.

        split_properties: Profile.split_properties.
        """
        return np.full(len(step.rows), Match.YES, np.uint8)

    def may_match(self, tags_code: int) -> bool:
        """Whether a queue's entry with this tagsCode may belong to a wanted message. Not for the
        schedule topic, whose tagsCode is a time.
        """
        return True


class EveryMessage(Filter):
    """The subscription `*`."""


class ProgramFilter(Filter):
    """A filter by a program, which only looks at properties."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._tables: Any = tables(program)

    def matches(
        self, record: Record, properties: Mapping[str, str], body: Callable[[], bytes]
    ) -> bool:
        return matches(self.program, properties)

    def judge(self, step: Step, split_properties: bool) -> Verdicts:
        if self._tables is None:
            return np.full(len(step.rows), Match.ASK, np.uint8)
        return judge(step.window, step.rows, split_properties, self._tables)


class TagFilter(ProgramFilter):
    """A consumer's subscription by tags. The broker compares hash codes, the client the texts."""

    def __init__(self, tags: tuple[str, ...]) -> None:
        super().__init__(tags_program(tags))
        self.tags = tags
        self.codes = {hash_text(tag) for tag in tags}

    def may_match(self, tags_code: int) -> bool:
        """See Filter. The broker checks no more than the lower 32 bits of tagsCode
        (ExpressionMessageFilter.isMatchedByConsumeQueue).
        """
        return ((tags_code + (1 << 31)) & 0xFFFFFFFF) - (1 << 31) in self.codes


class FromOffsets(Filter):
    """The messages of some topics, of their queues from an offset on. offsets: (topic, queueId) ->
    queueOffset; the topics' other queues have none.
    """

    def __init__(self, offsets: Mapping[tuple[str, int], int]) -> None:
        self.offsets, self.topics = offsets, {topic for topic, _ in offsets}

    def matches(
        self, record: Record, properties: Mapping[str, str], body: Callable[[], bytes]
    ) -> bool:
        start = self.offsets.get((record.topic, record.queue_id), 0)
        return record.topic in self.topics and record.queue_offset >= start

    def judge(self, step: Step, split_properties: bool) -> Verdicts:
        return np.full(len(step.rows), Match.ASK, np.uint8)


class AllOf(Filter):
    """The messages that each of these filters wants."""

    def __init__(self, *filters: Filter) -> None:
        self.filters = filters

    def matches(
        self, record: Record, properties: Mapping[str, str], body: Callable[[], bytes]
    ) -> bool:
        return all(one.matches(record, properties, body) for one in self.filters)

    def judge(self, step: Step, split_properties: bool) -> Verdicts:
        verdicts = np.full(len(step.rows), Match.YES, np.uint8)
        for one in self.filters:
            found = one.judge(step, split_properties)
            wanted = (verdicts != Match.NO) & (found != Match.NO)
            verdicts = np.where(wanted, np.maximum(verdicts, found), np.uint8(Match.NO))
        return verdicts

    def may_match(self, tags_code: int) -> bool:
        return all(one.may_match(tags_code) for one in self.filters)


def tag_filter(text: str) -> TagFilter | EveryMessage:
    """`A || B`, or `*` for all, as FilterAPI.buildSubscriptionData reads it. Raises WrongTags."""
    if text in ("", "*"):
        return EveryMessage()
    parts = text.split("||")
    if not any(parts):
        raise WrongTags(f"tags {text!r}: no tag stands before or after ||")
    trimmed = dict.fromkeys(part.strip(_BLANKS) for part in parts)
    return TagFilter(tuple(tag for tag in trimmed if tag))


# ---
# Runs a program on the properties of one message, as ExpressionMessageFilter evaluates it.


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
