"""`spark.read.format("consumequeue")` and `"indexfile"`: entries of these files as rows."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from reput.jobs.engine.source_options import (
    COLUMNS,
    PARTS,
    PATH,
    PATTERN,
    ROCKETMQ,
    TOPICS,
    OptionError,
    SourceOptions,
    given_options,
    source_options,
)
from reput.jobs.engine.source_schema import arrow_schema, spark_schema
from reput.store_format.derived.index_reader import BadIndex, IndexReader
from reput.store_format.derived.queue_files import queue_folder
from reput.store_format.names import BATCH_CONSUME_QUEUE, CONSUME_QUEUE
from reput.store_format.query.opened import NEWEST, Growing, is_queue_id
from reput.store_format.query.sizes import told_settings
from reput.store_format.storage import storage_for
from reput.store_format.storage.listing import listed
from reput.store_format.storage.protocol import ANY_TIME
from reput.udfs.derived_batches import (
    INDEX,
    QUEUES,
    IndexPart,
    Queue,
    index_batches,
    queue_batches,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from reput.udfs.message_columns import Column

_PARTS_A_CORE = 3
_ENTRIES_A_PART = 1 << 21


class _Reader(DataSourceReader):
    """Reads files of one kind: the partitions' values say what, `_read` how."""

    def __init__(self, options: SourceOptions, schema: pa.Schema, cores: int) -> None:
        self.options, self.columns, self.cores = options, schema, cores
        self.storage: Any = Growing(storage_for(options.path))
        self.store = self.storage.storage.resolve(options.path)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition."""
        if partition.value is not None:  # Spark makes one of nothing where there are none
            yield from self._read(partition.value)

    def _read(self, value: Any) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError


class QueueBatch(_Reader):
    """Reads ConsumeQueues and BatchConsumeQueues."""

    def partitions(self) -> list[InputPartition]:
        """Raises StoreError, UnsafeName, OSError."""
        queues = self._queues()
        count = self.options.parts or self.cores * _PARTS_A_CORE
        size = max(-(-len(queues) // count), 1)
        return [InputPartition(tuple(queues[at : at + size])) for at in range(0, len(queues), size)]

    def _queues(self) -> list[Queue]:
        found = []
        for kind in (CONSUME_QUEUE, BATCH_CONSUME_QUEUE):
            batch = kind == BATCH_CONSUME_QUEUE
            for topic in self.options.choice.of_topics(self._folders(kind)):
                for name in filter(is_queue_id, self._folders(f"{kind}/{topic}")):
                    folder = queue_folder(self.store, topic, int(name), batch)
                    found.append(Queue(folder, topic, int(name), batch))
        return found

    def _folders(self, below: str) -> list[str]:
        there = listed(self.storage, f"{self.store}/{below}")
        return [name for name, state in there if state is None]

    def _read(self, value: tuple[Queue, ...]) -> Iterator[pa.RecordBatch]:
        return queue_batches(self.storage, value, self.columns)


class IndexBatch(_Reader):
    """Reads IndexFiles."""

    def partitions(self) -> list[InputPartition]:
        """Raises BadIndex, SettingError, OSError."""
        release = self.options.rocketmq or NEWEST
        settings, unknown = told_settings(
            self.storage, self.store, dict(self.options.settings), release
        )
        if unknown is not None:
            raise BadIndex(f"{self.store}/index", 0, "length", 0, unknown)
        reader = IndexReader(self.storage, self.store, settings)
        parts = []
        for number in reversed(range(len(reader.files))):
            path, state = reader.files[number]
            with reader.open(number) as file:
                stop = min(file.header.entries + 1, file.most)
            for first in range(1, stop, _ENTRIES_A_PART):
                part = IndexPart(
                    path, state._replace(mtime=ANY_TIME), reader.slots, reader.most, first,
                    min(first + _ENTRIES_A_PART, stop),
                )  # fmt: skip
                parts.append(InputPartition(part))
        return parts

    def _read(self, value: IndexPart) -> Iterator[pa.RecordBatch]:
        return index_batches(self.storage, value, self.columns)


class _Source(DataSource):
    """One of the two; `register` sets what it knows of the session."""

    cores = 2
    pushes = False
    known: ClassVar[Mapping[str, "Column"]]
    takes: ClassVar[tuple[str, ...]]  # options, besides settings
    makes: ClassVar[type[_Reader]]

    def _options(self) -> SourceOptions:
        """Raises OptionError."""
        for name in given_options(self.options):
            if name not in self.takes:
                raise OptionError(
                    f"option {name}: is not for {self.name()}, which takes {', '.join(self.takes)}"
                )
        return source_options(self.options, tuple(self.known))

    def schema(self) -> "StructType":
        return spark_schema(self.known, self._options().columns)

    def reader(self, schema: "StructType") -> _Reader:
        return self.makes(self._options(), arrow_schema(schema, self.known), self.cores)

    def streamReader(self, schema: "StructType") -> NoReturn:  # noqa: N802 (Spark's name)
        """Raises OptionError: what grows is the log, and these files follow it."""
        raise OptionError(
            f"{self.name()} is no stream: readStream.format('commitlog') follows the log that "
            "these files are made of"
        )


class ConsumeQueueSource(_Source):
    """An entry of a queue a row."""

    known, makes = QUEUES, QueueBatch
    takes = (PATH, COLUMNS, TOPICS, PATTERN, PARTS)

    @classmethod
    def name(cls) -> str:
        return "consumequeue"


class IndexFileSource(_Source):
    """An entry of an index file a row."""

    known, makes = INDEX, IndexBatch
    takes = (PATH, COLUMNS, ROCKETMQ)

    @classmethod
    def name(cls) -> str:
        return "indexfile"
