"""Which rows of a window somebody wants: by topic, by time, and by what Spark pushed down.

All rows of a window are looked at together, by Arrow; a pattern is matched by RE2, which takes the
time of one pass over the text, whatever the pattern.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from reput.udfs.table.log_columns import StepRows

LESS, LESS_EQUAL, GREATER, GREATER_EQUAL = "less", "less_equal", "greater", "greater_equal"
EQUAL, STARTS, IS_IN = "equal", "starts_with", "is_in"


_ONE = pa.array([""])


def whole_matches(texts: pa.Array, pattern: str) -> pa.Array:
    """Which texts a regular expression (RE2) matches as a whole. Raises ArrowInvalid for none."""
    pc.match_substring_regex(_ONE, pattern)  # `a)|(?:b` is one only in the brackets below
    return pc.match_substring_regex(texts, f"^(?:{pattern})$")


class Condition(NamedTuple):
    """One condition on a column: its name, an operation (LESS, ... above), the value."""

    column: str
    operation: str
    value: Any


@dataclass(frozen=True)
class Choice:
    """Which rows are wanted; by default all.

    topics: any of these; pattern: a regular expression that a whole topic matches; since: stored at
    that time or later, in milliseconds; conditions: all of them hold.
    """

    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    since: int | None = None
    conditions: tuple[Condition, ...] = ()

    def numbers(self, rows: StepRows) -> npt.NDArray[np.int64] | None:
        """The numbers of the wanted rows; None for all."""
        mask = _all_of(self._masks(rows))
        if mask is None:
            return None
        return np.flatnonzero(pc.fill_null(mask, False).to_numpy(zero_copy_only=False))

    @property
    def only_topics(self) -> tuple[str, ...] | None:
        """The named topics that a wanted row may have; None: any topic."""
        found = self.topics
        for column, operation, value in self.conditions:
            if column == "topic" and operation in (EQUAL, IS_IN):
                named = (value,) if operation == EQUAL else tuple(value)
                found = named if found is None else tuple(t for t in found if t in named)
        return found

    def of_topics(self, topics: list[str]) -> list[str]:
        """The wanted ones of these topics."""
        there = pa.array(topics, pa.string())
        mask = _all_of(self._topic_masks(lambda: there))
        wanted: list[str] = topics if mask is None else there.filter(mask).to_pylist()
        return wanted

    def _topic_masks(self, topics: Callable[[], pa.Array]) -> Iterator[pa.Array]:
        if self.topics is not None:
            yield pc.is_in(topics(), value_set=pa.array(self.topics, pa.string()))
        if self.pattern is not None:
            yield whole_matches(topics(), self.pattern)

    def _masks(self, rows: StepRows) -> Iterator[pa.Array]:
        yield from self._topic_masks(lambda: rows.column("topic"))
        if self.since is not None:
            yield pc.greater_equal(rows.column("storeTimestampMillis"), self.since)
        for condition in self.conditions:
            column = rows.column(condition.column)
            if condition.operation == STARTS:
                yield pc.starts_with(column, condition.value)
            elif condition.operation == IS_IN:
                yield pc.is_in(column, value_set=pa.array(condition.value, column.type))
            else:
                value = pa.scalar(condition.value, column.type)
                yield getattr(pc, condition.operation)(column, value)

    @property
    def places(self) -> tuple[int, int | None]:
        """[start, stop) of the physicalOffsets that the conditions allow; None: up to the end."""
        start, stop = 0, None
        for column, operation, value in self.conditions:
            if column == "physicalOffset":
                if operation in (GREATER, GREATER_EQUAL, EQUAL):
                    start = max(start, value + (operation == GREATER))
                if operation in (LESS, LESS_EQUAL, EQUAL):
                    end = value + (operation != LESS)
                    stop = end if stop is None else min(stop, end)
        return start, stop


def _all_of(masks: Iterator[pa.Array]) -> pa.Array | None:
    """All masks joined by `and`; None without a mask."""
    found = next(masks, None)
    for more in masks:
        found = pc.and_(found, more)
    return found


EVERYTHING = Choice()
