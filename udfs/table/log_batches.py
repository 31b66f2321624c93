"""A part of a log as Arrow batches, which a task of the Spark source or of an export yields."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from reput.store_format.filter.rows import Match
from reput.store_format.log.reader import records_of
from reput.store_format.log.record import Record
from reput.store_format.log.walk import Step
from reput.store_format.message.message import parse_properties
from reput.store_format.names import SYSTEM_PREFIX, SYSTEM_TOPICS
from reput.udfs.table.log_choice import Choice
from reput.udfs.table.log_columns import StepRows, batch_of
from reput.udfs.table.log_parts import LogPart, LogParts, Tell

if TYPE_CHECKING:
    from reput.store_format.filter.filters import Filter


def batches_of(  # noqa: PLR0913 (a filter, and who is told what)
    log: LogParts, part: LogPart, choice: Choice, schema: pa.Schema, wanted: "Filter | None" = None,
    tell: Tell | None = None, reached: Callable[[int], None] | None = None,
    system_topics: bool = True, left: Callable[[int], None] | None = None,
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    """The wanted rows of a part, with the columns of `schema`, a batch a window.

    wanted: a filter; None takes all messages.
    tell: called with a line for each thing that is left out; by default the task's log gets it.
    reached: called again and again with the offset up to which the log was read.
    system_topics: also yield messages of brokers' own topics; else `left` is called with how many
    of them are left out. Raises DamageFound, StoreChanged, OSError.
    """
    rules, split = log.rules.records, log.rules.dispatch.split_properties
    for step in log.steps(part) if tell is None else log.steps(part, tell):
        if reached is not None:
            reached(step.next)
        if wanted is not None:
            step = step._replace(rows=step.rows[_wanted(log, step, wanted)])
        rows = StepRows(step, None, rules, split, log.body)
        numbers = choice.numbers(rows)
        if numbers is not None:
            rows = StepRows(step, numbers, rules, split, log.body)
        if not system_topics and len(rows):
            own = _of_system_topics(rows.column("topic"))
            if left is not None:
                left(int(np.count_nonzero(own)))
            kept = np.arange(len(step.rows)) if numbers is None else numbers
            rows = StepRows(step, kept[~own], rules, split, log.body)
        if len(rows):
            yield batch_of(rows, schema)


def _of_system_topics(topics: pa.Array) -> npt.NDArray[np.bool_]:
    named = pc.is_in(topics, value_set=pa.array(sorted(SYSTEM_TOPICS)))
    found = pc.or_(named, pc.starts_with(topics, SYSTEM_PREFIX))
    return np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)


def _wanted(log: LogParts, step: Step, wanted: "Filter") -> npt.NDArray[np.bool_]:
    """One bool for each row: whether the filter wants it."""
    split = log.rules.dispatch.split_properties
    verdicts = wanted.judge(step, split)
    asked = np.flatnonzero(verdicts == Match.ASK)
    for number, record in zip(
        asked.tolist(), records_of(step, asked, log.rules.records), strict=True
    ):
        properties = parse_properties(record.properties, split)
        if wanted.matches(record, properties, partial(_body, log, record)):
            verdicts[number] = Match.YES
    found: npt.NDArray[np.bool_] = verdicts == Match.YES
    return found


def _body(log: LogParts, record: Record) -> bytes:
    return log.body(record.body_at, record.body_length)
