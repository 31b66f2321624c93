"""Queues and index read and streamed."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

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

from reput.jobs.sources.options import (
    COLUMNS,
    DATA_LOSS,
    EARLIEST,
    END,
    LATEST,
    MOST,
    PARTS,
    PATH,
    PATTERN,
    ROCKETMQ,
    START,
    TOPICS,
    OptionError,
    SourceOptions,
    arrow_schema,
    given_options,
    source_options,
    spark_schema,
)
from reput.store_format.derived.index_reader import BadIndex, IndexReader
from reput.store_format.derived.queue_files import QueueFiles, queue_folder
from reput.store_format.discover.sizes import settings_to_read
from reput.store_format.faults import StoreError
from reput.store_format.files.adapters import LiveFiles
from reput.store_format.files.by_url import storage_for
from reput.store_format.files.protocol import ANY_TIME, listed
from reput.store_format.names import BATCH_CONSUME_QUEUE, CONSUME_QUEUE, is_queue_id
from reput.store_format.query.reader import NEWEST
from reput.udfs.table.derived import (
    INDEX,
    QUEUES,
    IndexPart,
    QueueRange,
    index_batches,
    queue_batches,
)
from reput.udfs.worker_garbage import settle

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from reput.udfs.table.columns import MessageColumn

# ---
# `spark.readStream.format("consumequeue")` and `"indexfile"`: entries as brokers append them.
#
# The offset of a stream has, for each queue, the position of the next entry to read, or for each
# index file the number of the last entry read. It is kept in the query's checkpoint, so a repeated
# batch has the same rows.

Ends = dict[str, int]  # path of a queue, or name of an index file -> its part of the offset


class FollowedFiles(Protocol):
    """Files of one kind that a stream follows."""

    options: "SourceOptions"

    def there(self, start: Ends) -> dict[str, tuple[int, int]]:
        """Path or name -> (offset before the first entry, offset after all present entries).

        Raises StoreError if a queue or file of `start` lacks the entries to be read next.
        """

    def between(self, start: Ends, end: Ends) -> list[InputPartition]:
        """The partitions with the entries from `start` to `end`."""

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]: ...


class DerivedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows queue or index files to which a broker appends."""

    def __init__(self, files: FollowedFiles) -> None:
        """Raises OptionError."""
        options = files.options
        if options.end != LATEST:
            raise OptionError(f"option {END}: is for a batch; a stream goes on")
        if options.start not in (EARLIEST, LATEST):
            raise OptionError(f"option {START}={options.start}: earliest or latest is wanted")
        self.files = files
        self.target: Ends | None = None  # end for the trigger AvailableNow
        self.seen: Ends | None = None

    def initialOffset(self) -> Ends:  # noqa: N802 (Spark's name)
        return {} if self.files.options.start == EARLIEST else self._ends()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self.files.options.most_rows
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.target = self._ends()

    def _ends(self) -> Ends:
        return {name: end for name, (_, end) in self.files.there({}).items()}

    def latestOffset(self, start: Ends, limit: ReadLimit) -> Ends:  # noqa: N802
        there = self.files.there(start)
        self.seen = ends = {name: end for name, (_, end) in there.items()}
        if self.target is not None:
            ends = {
                name: max(min(end, self.target[name]), start.get(name, 0))
                for name, end in ends.items()
                if name in self.target
            }
        if isinstance(limit, ReadMaxRows):
            begun = {name: start.get(name, there[name][0]) for name in ends}
            ends = _at_most(limit.max_rows, start, begun, ends)
        return ends

    def reportLatestOffset(self) -> Ends | None:  # noqa: N802
        return self.seen

    def partitions(self, start: Ends, end: Ends) -> list[InputPartition]:
        """Raises StoreError if files no longer have these entries."""
        return self.files.between(start, end)

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        yield from self.files.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: no state is held for a batch."""


def _at_most(most: int, start: Ends, begun: Ends, ends: Ends) -> Ends:
    """The offset after the first `most` entries from `begun` on, queue by queue or file by file."""
    cut = {}
    for name, end in sorted(ends.items()):
        taken = min(end - begun[name], most)
        most -= taken
        if name in start or taken:
            cut[name] = begun[name] + taken
    return cut


# ---
# `spark.read.format("consumequeue")` and `"indexfile"`: entries of these files as rows.

_PARTS_A_CORE = 3
_OF_STREAMS = (START, MOST, DATA_LOSS)
_ENTRIES_A_PART = 1 << 21


class _Reader(DataSourceReader):
    """Reads files of one kind. A partition's value names the entries for `_read`."""

    def __init__(self, options: SourceOptions, schema: pa.Schema, cores: int) -> None:
        self.options, self.columns, self.cores = options, schema, cores
        there = storage_for(options.path)
        self.storage, self.store = LiveFiles(there), there.resolve(options.path)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is not None:  # Spark makes an empty partition if there are none
            yield from self._read(partition.value)
            settle()

    def _read(self, value: Any) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError


class QueueBatch(_Reader):
    """Reads ConsumeQueues and BatchConsumeQueues."""

    def partitions(self) -> list[InputPartition]:
        """Raises StoreError, UnsafeName, OSError."""
        return self._parts(list(self._queues().values()))

    def _parts(self, queues: list[QueueRange]) -> list[InputPartition]:
        count = self.options.parts or self.cores * _PARTS_A_CORE
        size = max(-(-len(queues) // count), 1)
        return [InputPartition(tuple(queues[at : at + size])) for at in range(0, len(queues), size)]

    def there(self, start: Ends) -> dict[str, tuple[int, int]]:
        return {name: self._there(name, queue, start) for name, queue in self._queues().items()}

    def between(self, start: Ends, end: Ends) -> list[InputPartition]:
        wanted = []
        for name, queue in self._queues().items():
            if name in end and end[name] > start.get(name, -1):
                self._there(name, queue, start)
                wanted.append(queue._replace(first=start.get(name, 0), stop=end[name]))
        return self._parts(wanted)

    def _there(self, name: str, queue: QueueRange, start: Ends) -> tuple[int, int]:
        """(the queue's first position, the position after its last entry). Raises StoreError if a
        stream with failOnDataLoss cannot go on from `start`.
        """
        files = QueueFiles(self.storage, queue.folder, queue.batch)
        first = end = files.position(files.all[0], 0) if files.all else 0
        for file in files.used()[-1:]:
            with files.open(file) as entries:
                end = files.position(file, entries.used())
        begun = start.get(name, first)
        if not first <= begun <= end and not self.options.may_miss:
            raise StoreError(
                f"{queue.folder}: reading was to go on at position {begun}, but the queue has "
                f"{first} to {end}: its files were deleted before they were read, or it was cut; "
                f"option {DATA_LOSS}=false goes on with what is there"
            )
        return first, end

    def _queues(self) -> dict[str, QueueRange]:
        """Folder below the store -> range, for each chosen queue."""
        found = {}
        for kind in (CONSUME_QUEUE, BATCH_CONSUME_QUEUE):
            batch = kind == BATCH_CONSUME_QUEUE
            for topic in self.options.choice.of_topics(self._folders(kind)):
                for name in filter(is_queue_id, self._folders(f"{kind}/{topic}")):
                    folder = queue_folder(self.store, topic, int(name), batch)
                    found[f"{kind}/{topic}/{int(name)}"] = QueueRange(
                        folder, topic, int(name), batch
                    )
        return found

    def _folders(self, below: str) -> list[str]:
        there = listed(self.storage, f"{self.store}/{below}")
        return [name for name, state in there if state is None]

    def _read(self, value: tuple[QueueRange, ...]) -> Iterator[pa.RecordBatch]:
        return queue_batches(self.storage, value, self.columns)


class IndexBatch(_Reader):
    """Reads IndexFiles."""

    def partitions(self) -> list[InputPartition]:
        """Raises BadIndex, SettingError, OSError."""
        reader = self._reader()
        ends = {name: end for name, (_, end) in self._there(reader, {}).items()}
        return _parts(reader, {}, ends)

    def there(self, start: Ends) -> dict[str, tuple[int, int]]:
        """See derived_streams.FollowedFiles. Deleted files are left out."""
        return self._there(self._reader(), start)

    def between(self, start: Ends, end: Ends) -> list[InputPartition]:
        return _parts(self._reader(), start, end)

    def _there(self, reader: IndexReader, start: Ends) -> dict[str, tuple[int, int]]:
        found = {}
        for number in reversed(range(len(reader.files))):
            path = reader.files[number][0]
            name = path.rpartition("/")[2]
            with reader.open(number) as file:
                last = min(file.header.entries, file.most - 1)
            if last < start.get(name, 0) and not self.options.may_miss:
                raise StoreError(
                    f"{path}: reading was to go on behind entry {start[name]}, but the file has "
                    f"{last}; option {DATA_LOSS}=false goes on behind that"
                )
            found[name] = (0, last)
        return found

    def _reader(self) -> IndexReader:
        release = self.options.rocketmq or NEWEST
        settings, unknown = settings_to_read(
            self.storage, self.store, dict(self.options.settings), release
        )
        if unknown is not None:
            raise BadIndex(f"{self.store}/index", 0, "length", 0, unknown)
        return IndexReader(self.storage, self.store, settings)

    def _read(self, value: IndexPart) -> Iterator[pa.RecordBatch]:
        return index_batches(self.storage, value, self.columns)


def _parts(reader: IndexReader, start: Ends, end: Ends) -> list[InputPartition]:
    """Partitions with the entries of index files after those of `start`, up to those of `end`."""
    parts = []
    for path, state in reversed(reader.files):
        name = path.rpartition("/")[2]
        stop = end.get(name, 0) + 1
        for first in range(start.get(name, 0) + 1, stop, _ENTRIES_A_PART):
            part = IndexPart(
                path, state._replace(mtime=ANY_TIME), reader.slots, reader.most, first,
                min(first + _ENTRIES_A_PART, stop),
            )  # fmt: skip
            parts.append(InputPartition(part))
    return parts


class _Source(DataSource):
    """The base of both sources; `register` sets `cores` for the session."""

    cores = 2
    known: ClassVar[Mapping[str, "MessageColumn"]]
    takes: ClassVar[tuple[str, ...]]  # allowed options, besides settings
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
        for name in given_options(self.options):
            if name in _OF_STREAMS:
                raise OptionError(f"option {name}: is for a stream of {self.name()}")
        files: _Reader = self._files(schema)
        return files

    def streamReader(self, schema: "StructType") -> DerivedStream:  # noqa: N802 (Spark's name)
        return DerivedStream(self._files(schema))

    def _files(self, schema: "StructType") -> Any:
        return self.makes(self._options(), arrow_schema(schema, self.known), self.cores)


class ConsumeQueueSource(_Source):
    """One row for each entry of a queue."""

    known, makes = QUEUES, QueueBatch
    takes = (PATH, COLUMNS, TOPICS, PATTERN, PARTS, *_OF_STREAMS)

    @classmethod
    def name(cls) -> str:
        return "consumequeue"


class IndexFileSource(_Source):
    """One row for each entry of an index file."""

    known, makes = INDEX, IndexBatch
    takes = (PATH, COLUMNS, ROCKETMQ, *_OF_STREAMS)

    @classmethod
    def name(cls) -> str:
        return "indexfile"
