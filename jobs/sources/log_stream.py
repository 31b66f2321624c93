"""`spark.readStream.format("commitlog")`: a growing log, batch after batch.

The offset of a stream is the physical offset at which the next record begins, or will begin. It is
kept in the query's checkpoint, so a batch repeated after a kill has the same rows.
"""

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from reput.jobs.opening.plan import Plan
from reput.jobs.sources.log_source import LogReading, checks_bodies
from reput.jobs.sources.opened_log import (
    checked_start,
    cut,
    end_of_log,
    log_now,
    offset_after,
    parts_log,
    place_of,
    plan_of,
)
from reput.jobs.sources.source_options import END, LATEST, OptionError, SourceOptions
from reput.jobs.sources.source_schema import arrow_schema
from reput.udfs.table.columns import BY_NAME
from reput.udfs.table.log_parts import LogParts

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_OFFSET = "physicalOffset"


class LogStream(LogReading, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows a log to which a broker or a copy appends."""

    def __init__(self, options: SourceOptions, schema: "StructType", cores: int) -> None:
        """Raises OptionError."""
        if options.end != LATEST:
            raise OptionError(f"option {END}: is for a batch; a stream goes on")
        self.options, self.cores = options, cores
        self.choice = options.choice
        self.columns = arrow_schema(schema, BY_NAME)
        self.check_body = checks_bodies(options, schema)
        self.target: int | None = None  # end for the trigger AvailableNow
        self.seen = -1  # the log's end when last looked for
        self._opened: tuple[Plan, LogParts] | None = None

    def _log(self) -> LogParts:
        """The log now: only its segments are listed anew each time, as Spark calls often."""
        if self._opened is None:
            plan = plan_of(self.options)
            self._opened = plan, parts_log(plan, self.options, self.check_body, grows=True)
        return log_now(*self._opened)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 (Spark's name)
        return {_OFFSET: place_of(self._log(), self.options.start)}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self.options.most_rows
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        log = self._log()
        self.target = end_of_log(log, log.segments[0].start)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        log = self._log()
        at = checked_start(log, start[_OFFSET])
        self.seen = end = end_of_log(log, max(at, self.seen))
        if self.target is not None:
            end = min(end, self.target)
        if isinstance(limit, ReadMaxRows) and end > at:
            end = offset_after(log, at, limit.max_rows, end)
        return {_OFFSET: max(end, start[_OFFSET])}

    def reportLatestOffset(self) -> dict[str, int] | None:  # noqa: N802
        return {_OFFSET: self.seen} if self.seen >= 0 else None

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """Raises StoreError if the log no longer has these offsets."""
        if start[_OFFSET] >= end[_OFFSET]:
            return []
        log = self._log()
        at = checked_start(log, start[_OFFSET])
        parts = cut(log, at, end[_OFFSET], self.cores, self.options.parts, known=True)
        return [InputPartition(log.around(part)) for part in parts]

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: no state is held for a batch."""
