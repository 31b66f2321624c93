"""What all filters have in common, and the filter by tags."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from reput.store_format.faults import WrongFilter
from reput.store_format.filter.evaluate import matches
from reput.store_format.filter.program import Program, tags_program
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
