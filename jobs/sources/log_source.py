"""The Spark source "commitlog": the messages of a log as rows, read and streamed, by a topic's
queues where they can be used.

Spark makes the reader in a process beside the driver, which opens the store and cuts its log
(`opened_log`). It calls `read` in tasks. `register` makes the source known to Spark.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from reput.jobs.opening.plan import Plan
from reput.jobs.sources import opened_log
from reput.jobs.sources.options import (
    DATA_LOSS,
    END,
    LATEST,
    MOST,
    START,
    OptionError,
    SourceOptions,
    arrow_schema,
    said_first,
    source_options,
    spark_schema,
)
from reput.store_format.derived.queue_files import BadQueue, QueueFiles, is_pre_blank, queue_folder
from reput.store_format.discover.config import queues_of
from reput.store_format.faults import StoreError
from reput.store_format.files.adapters import LiveFiles
from reput.store_format.files.folder import Folder
from reput.store_format.log.reader import LogReader
from reput.store_format.names import BATCH_CONSUME_QUEUE, UnsafeName, is_queue_id
from reput.store_format.notes import Notes
from reput.udfs.table.columns import batches_of
from reput.udfs.table.log_parts import FAIL, LogPart, LogParts, logger
from reput.udfs.table.queue_parts import Doubt, QueuedParts, TopicQueue
from reput.udfs.worker_garbage import settle

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

# ---
# Decides up to where a topic's queues can be used to find its records (queue_parts.py).
#
# The queues must belong to this log: the last entry of each queue points to a record of that queue
# and position. And no file may be missing, cut, or deleted while the log has records of it. They
# are used up to the least of their ends; from there on the log is walked.


def by_queues(plan: Plan, log: LogParts, topic: str) -> tuple[QueuedParts, int]:
    """(the log of a topic by its queues, the physical offset up to which the queues are complete).
    Raises StoreError with the reason why the queues cannot be used.
    """
    if log.on_damage != FAIL:
        raise Doubt("only with onDamage=fail")
    storage = LiveFiles(log.storage)
    try:
        above = queue_folder(plan.store, topic, 0).rpartition("/")[0]
        batch = queue_folder(plan.store, topic, 0, True).rpartition("/")[0]
    except UnsafeName as error:
        raise Doubt(str(error)) from None
    ids = sorted(int(name) for name, state in Folder(storage, above).listed()
                 if state is None and is_queue_id(name))  # fmt: skip
    if Folder(storage, batch).listed() or topic in plan.batch_topics:
        raise Doubt(f"its queues are in {BATCH_CONSUME_QUEUE}/")
    configured = queues_of(plan.folder, topic, Notes())
    if not ids or ids != list(range(max(configured, len(ids)))):
        raise Doubt(f"{above}: not all of its queues are there")
    queues = tuple(TopicQueue(number, f"{above}/{number}") for number in ids)
    parts = QueuedParts(**vars(log), topic=topic, queues=queues)
    with LogReader(storage, list(log.segments), log.rules.records) as reader:
        return parts, min(_end(parts, reader, queue) for queue in queues)


def _end(parts: QueuedParts, log: LogReader, queue: TopicQueue) -> int:
    """The physical offset up to which a queue has all of its records. Raises StoreError."""
    files, last = QueueFiles(Folder(log.storage, queue.folder)), None
    for number, file in enumerate(files.all):
        if file.state.size != files.all[0].state.size or file.state.size % files.entry_bytes:
            raise BadQueue(file.path, 0, "length", file.state.size, "is not that of the others")
        with files.open(file) as entries:
            used = entries.used()
            if number == 0 and used and file.start:
                _refuse_later(int(entries[0]["physicalOffset"]), log.start, file.path)
            if used < file.state.size // files.entry_bytes and number < len(files.all) - 1:
                raise Doubt(f"{file.path}: has no entry {used}, and files follow")
            if used and not is_pre_blank(entries[used - 1]):
                last = entries[used - 1], files.position(file, used - 1)
    return log.start if last is None else max(parts.check(log, queue, *last), log.start)


def _refuse_later(first: int, log_start: int, path: str) -> None:
    if first >= log_start:
        raise Doubt(f"{path}: files before it are missing, of which the log may have records")


NAME = "commitlog"
_BODIES = {"body", "value"}


class CommitLogSource(DataSource):
    """The source; `register` sets its values for the session.

    cores: number of tasks that run at once.
    """

    cores = 2

    @classmethod
    def name(cls) -> str:
        return NAME

    def _options(self) -> SourceOptions:
        return source_options(self.options)

    @said_first
    def schema(self) -> "StructType":
        options = self._options()
        return spark_schema(options.known, options.columns)

    @said_first
    def reader(self, schema: "StructType") -> "LogBatch":
        return LogBatch(self._options(), schema, self.cores)

    @said_first
    def streamReader(self, schema: "StructType") -> "LogStream":  # noqa: N802 (Spark's name)

        return LogStream(self._options(), schema, self.cores)


class LogReading:
    """The reading of a partition in a task, for batch and stream."""

    def __init__(self, options: SourceOptions, schema: "StructType", cores: int) -> None:
        self.options, self.cores = options, cores
        self.choice = options.choice
        self.columns = arrow_schema(schema, options.known)
        asked = not _BODIES.isdisjoint(schema.fieldNames())
        self.check_body = asked if options.check_body is None else options.check_body

    @said_first
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition, whose value is (LogParts, LogPart)."""
        if partition.value is not None:  # Spark makes an empty partition if there are none
            log, part = partition.value
            yield from batches_of(log, part, self.choice, self.columns)
            settle()


class LogBatch(LogReading, DataSourceReader):
    """Reads a log as a batch.

    It takes no filters of Spark's (`pushFilters`): 4.2.0 keeps a query's filters for the next
    query of the same DataFrame, which then lacks rows (decision 0030). Options choose rows instead.
    """

    def __init__(self, options: SourceOptions, schema: "StructType", cores: int) -> None:
        """Raises OptionError."""
        if options.start == LATEST:
            raise OptionError(f"option {START}=latest: a batch has nothing to read from there on")
        if options.most_rows is not None:
            raise OptionError(f"option {MOST}: is for a stream; a batch takes {END}")
        super().__init__(options, schema, cores)

    @said_first
    def partitions(self) -> list[InputPartition]:
        """Raises StoreError, SettingError, UnknownRelease, OSError."""
        plan = opened_log.plan_of(self.options)
        log = opened_log.parts_log(plan, self.options, self.check_body, grows=False)
        log = opened_log.judged(plan, self.options, log, grows=False)
        start = log.segments[0].start
        if self.options.start >= 0:
            start = opened_log.place_of(log, self.options.start)
        stop = log.segments[-1].end if plan.splits.limit is None else plan.splits.limit
        if self.options.end >= 0:
            stop = min(stop, self.options.end)
        if log.judged_to >= 0:
            stop = min(stop, log.judged_to)
        queued, reach = self._by_queues(plan, log, start)
        found = [(queued, part) for part in self._cut(queued, start, min(reach, stop))]
        found += [(log, part) for part in self._cut(log, max(start, reach), stop)]
        return [InputPartition(whole.around(part)) for whole, part in found]

    def _cut(self, log: LogParts, start: int, stop: int) -> list[LogPart]:
        return (
            opened_log.cut(log, start, stop, self.cores, self.options.parts) if start < stop else []
        )

    def _by_queues(self, plan: Plan, log: LogParts, start: int) -> tuple[LogParts, int]:
        """(the log by the queues of the single wanted topic, the physical offset up to which they
        are used). Whether queues are used is logged.
        """
        topics = self.choice.topics
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


# ---
# `spark.readStream.format("commitlog")`: a growing log, batch after batch.
#
# The offset of a stream is the physical offset at which the next record begins, or will begin, and
# the CRC of the bytes before it, by which another log is known. It is kept in the query's
# checkpoint, so a batch repeated after a kill has the same rows.

_OFFSET, _BEFORE = "physicalOffset", "crcBefore"


def _offset(log: LogParts, at: int) -> dict[str, int]:
    before = opened_log.crc_before(log, at)
    return {_OFFSET: at} if before is None else {_OFFSET: at, _BEFORE: before}


class LogStream(LogReading, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows a log to which a broker or a copy appends."""

    def __init__(self, options: SourceOptions, schema: "StructType", cores: int) -> None:
        """Raises OptionError."""
        if options.end != LATEST:
            raise OptionError(f"option {END}: is for a batch; a stream goes on")
        super().__init__(options, schema, cores)
        self.target: int | None = None  # end for the trigger AvailableNow
        self.seen = -1  # the log's end when last looked for
        self._opened: tuple[Plan, LogParts] | None = None

    def _log(self) -> LogParts:
        """The log now: only its segments are listed anew each time, as Spark calls often."""
        if self._opened is None:
            plan = opened_log.plan_of(self.options)
            log = opened_log.parts_log(plan, self.options, self.check_body, grows=True)
            self._opened = plan, opened_log.judged(plan, self.options, log, grows=True)
        return opened_log.log_now(*self._opened)

    @said_first
    def initialOffset(self) -> dict[str, int]:  # noqa: N802 (Spark's name)
        log = self._log()
        return _offset(log, opened_log.place_of(log, self.options.start))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self.options.most_rows
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    @said_first
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        log = self._log()
        self.target = opened_log.end_of_log(log, log.segments[0].start)

    @said_first
    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        log = self._log()
        at = self._start(log, start)
        self.seen = end = opened_log.end_of_log(log, max(at, self.seen))
        if self.target is not None:
            end = min(end, self.target)
        if isinstance(limit, ReadMaxRows) and end > at:
            end = opened_log.offset_after(log, at, limit.max_rows, end)
        return _offset(log, end) if end > start[_OFFSET] else start

    def _start(self, log: LogParts, start: dict[str, int]) -> int:
        """As checked_start. Raises StoreError also where other bytes than those read are before."""
        at, known = opened_log.checked_start(log, start[_OFFSET]), start.get(_BEFORE)
        if (
            known is not None
            and not log.may_miss
            and opened_log.crc_before(log, at) not in (None, known)
        ):
            raise StoreError(
                f"{self.options.path}: before physical offset {at} is not what was read: this is "
                f"another log, or one that was cut and written anew; option {DATA_LOSS}=false goes "
                "on all the same"
            )
        return at

    def reportLatestOffset(self) -> dict[str, int] | None:  # noqa: N802
        return {_OFFSET: self.seen} if self.seen >= 0 else None

    @said_first
    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """Raises StoreError if the log no longer has these offsets."""
        if start[_OFFSET] >= end[_OFFSET]:
            return []
        log = self._log()
        at = self._start(log, start)
        parts = opened_log.cut(log, at, end[_OFFSET], self.cores, self.options.parts, known=True)
        return [InputPartition(log.around(part)) for part in parts]

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: no state is held for a batch."""
