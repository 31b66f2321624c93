"""`spark.read.format("commitlog")`: the messages of a log as rows.

Spark makes the reader in a process beside the driver, which opens the store and cuts its log
(`opened_log`). It calls `read` in tasks (`udfs/log_batches`). `register` makes it known to Spark.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from reput.jobs.opening.plan import Plan
from reput.jobs.sources.opened_log import cut, parts_log, place_of, plan_of
from reput.jobs.sources.queue_choice import by_queues
from reput.jobs.sources.source_options import (
    END,
    LATEST,
    MOST,
    START,
    OptionError,
    SourceOptions,
    source_options,
)
from reput.jobs.sources.source_schema import arrow_schema, spark_schema
from reput.store_format.faults import StoreError
from reput.udfs.table import columns as log_choice
from reput.udfs.table.columns import BY_NAME, Choice, Condition, batches_of
from reput.udfs.table.log_parts import LogPart, LogParts, logger
from reput.udfs.worker_garbage import settle

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from reput.jobs.sources.log_stream import LogStream

NAME = "commitlog"
_BODY = "body"

# The conditions and columns that may be pushed down. Spark applies all filters again.
_OPERATIONS: dict[Any, str] = {
    EqualTo: log_choice.EQUAL, In: log_choice.IS_IN, StringStartsWith: log_choice.STARTS,
    LessThan: log_choice.LESS, LessThanOrEqual: log_choice.LESS_EQUAL,
    GreaterThan: log_choice.GREATER, GreaterThanOrEqual: log_choice.GREATER_EQUAL,
}  # fmt: skip
_PUSHED = {
    "topic": str, "queueId": int, "queueOffset": int, "physicalOffset": int,
    "storeTimestampMillis": int,
}  # fmt: skip


class CommitLogSource(DataSource):
    """The source; `register` sets its values for the session.

    cores: number of tasks that run at once; pushes: whether the session pushes filters down.
    """

    cores = 2
    pushes = False

    @classmethod
    def name(cls) -> str:
        return NAME

    def _options(self) -> SourceOptions:
        return source_options(self.options, tuple(BY_NAME))

    def schema(self) -> "StructType":
        return spark_schema(BY_NAME, self._options().columns)

    def reader(self, schema: "StructType") -> "LogBatch":
        kind = PushingLogBatch if self.pushes else LogBatch
        return kind(self._options(), schema, self.cores)

    def streamReader(self, schema: "StructType") -> "LogStream":  # noqa: N802 (Spark's name)
        from reput.jobs.sources.log_stream import LogStream

        return LogStream(self._options(), schema, self.cores)


def checks_bodies(options: SourceOptions, schema: "StructType") -> bool:
    """Whether body CRCs are checked: by the option, else if the column of bodies is wanted."""
    asked = _BODY in schema.fieldNames()
    return asked if options.check_body is None else options.check_body


class LogReading:
    """The reading of a partition in a task, for batch and stream."""

    choice: Choice
    columns: pa.Schema

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition, whose value is (LogParts, LogPart)."""
        if partition.value is not None:  # Spark makes an empty partition if there are none
            log, part = partition.value
            yield from batches_of(log, part, self.choice, self.columns)
            settle()


class LogBatch(LogReading, DataSourceReader):
    """Reads a log as a batch."""

    def __init__(self, options: SourceOptions, schema: "StructType", cores: int) -> None:
        """Raises OptionError."""
        if options.start == LATEST:
            raise OptionError(f"option {START}=latest: a batch has nothing to read from there on")
        if options.most_rows is not None:
            raise OptionError(f"option {MOST}: is for a stream; a batch takes {END}")
        self.options, self.cores = options, cores
        self.choice = options.choice
        self.columns = arrow_schema(schema, BY_NAME)
        self.check_body = checks_bodies(options, schema)

    def partitions(self) -> list[InputPartition]:
        """Raises StoreError, SettingError, UnknownRelease, OSError."""
        plan = plan_of(self.options)
        log = parts_log(plan, self.options, self.check_body, grows=False)
        start = log.segments[0].start
        if self.options.start >= 0:
            start = place_of(log, self.options.start)
        stop = log.segments[-1].end if plan.splits.limit is None else plan.splits.limit
        if self.options.end >= 0:
            stop = min(stop, self.options.end)
        first, last = self.choice.places
        start, stop = max(start, first), stop if last is None else min(stop, last)
        queued, reach = self._by_queues(plan, log, start)
        found = [(queued, part) for part in self._cut(queued, start, min(reach, stop))]
        found += [(log, part) for part in self._cut(log, max(start, reach), stop)]
        return [InputPartition(whole.around(part)) for whole, part in found]

    def _cut(self, log: LogParts, start: int, stop: int) -> list[LogPart]:
        return cut(log, start, stop, self.cores, self.options.parts) if start < stop else []

    def _by_queues(self, plan: Plan, log: LogParts, start: int) -> tuple[LogParts, int]:
        """(the log by the queues of the single wanted topic, the physical offset up to which they
        are used). Whether queues are used is logged.
        """
        topics = self.choice.only_topics
        if not self.options.by_queues:
            return log, start
        try:
            if topics is None or len(topics) != 1:
                raise StoreError("only for a single topic")
            queued, reach = by_queues(plan, log, topics[0])
        except (StoreError, FileNotFoundError) as error:
            logger.warning(f"{plan.store}: the log is walked, not the queues: {error}")
            return log, start
        logger.warning(
            f"{plan.store}: queues of {topics[0]!r} are used up to {reach}, then the log"
        )
        return queued, reach


class PushingLogBatch(LogBatch):
    """A LogBatch for sessions that push filters down. If a session does not, Spark refuses a reader
    with `pushFilters` (spark.sql.python.filterPushdown.enabled).
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 (Spark's name)
        """Take the filters that can be applied here; Spark applies all filters again."""
        more = tuple(each for each in map(_condition, filters) if each is not None)
        self.choice = Choice(self.choice.topics, self.choice.pattern, self.choice.since, more)
        return filters


def _condition(pushed: Any) -> Condition | None:
    operation = _OPERATIONS.get(type(pushed))
    if operation is None or len(pushed.attribute) != 1:
        return None
    column = pushed.attribute[0]
    kind = _PUSHED.get(column)
    values = pushed.value if operation == log_choice.IS_IN else (pushed.value,)
    if kind is None or not all(type(value) is kind for value in values):
        return None
    if kind is str and operation not in (log_choice.EQUAL, log_choice.IS_IN, log_choice.STARTS):
        return None
    return Condition(column, operation, pushed.value)
