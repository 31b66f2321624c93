"""The Spark sources "consumequeue" and "indexfile": entries as rows, read and streamed."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

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
    said_first,
    source_options,
    spark_schema,
)
from reput.store_format.derived.index_reader import BadIndex, IndexFileReader, IndexReader
from reput.store_format.derived.queue_files import QueueFiles, queue_folder
from reput.store_format.discover.sizes import settings_to_read
from reput.store_format.faults import IS_GONE, StoreChanged, StoreError
from reput.store_format.files.adapters import LiveFiles
from reput.store_format.files.by_url import storage_for
from reput.store_format.files.folder import Folder
from reput.store_format.files.manifest_last import all_below
from reput.store_format.files.protocol import ANY_TIME, Listed
from reput.store_format.names import BATCH_CONSUME_QUEUE, CONSUME_QUEUE, is_queue_id
from reput.store_format.query.reader import NEWEST
from reput.udfs.table import derived
from reput.udfs.worker_garbage import settle

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from reput.udfs.table.columns import MessageColumn

# ---
# `spark.readStream.format("consumequeue")` and `"indexfile"`: entries as brokers append them.
#
# The offset of a stream has, for each queue, the position of the next entry to read, or for each
# index file the number of the last entry read; and of the last entry read its physicalOffset, by
# which another store is known. It is kept in the query's checkpoint, so a repeated batch has the
# same rows. What is gone stays in it: what comes back is not read twice.

Ends = dict[str, int]  # path of a queue, or name of an index file -> up to where
Offset = Mapping[str, int | list[int]]  # the same -> [up to where, physicalOffset]; a number: old


def _end(offset: Offset, name: str, missing: int = 0) -> int:
    value = offset.get(name, missing)
    return value if isinstance(value, int) else value[0]


def _place(offset: Offset, name: str) -> int | None:
    """The physicalOffset of the last entry read; None where the offset does not know it."""
    value = offset.get(name, 0)
    return None if isinstance(value, int) else value[1]


class DerivedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows queue or index files to which a broker appends."""

    def __init__(self, files: "QueueBatch | IndexBatch") -> None:
        """Raises OptionError."""
        options = files.options
        if options.end != LATEST:
            raise OptionError(f"option {END}: is for a batch; a stream goes on")
        if options.start not in (EARLIEST, LATEST) or options.choice.queues:
            raise OptionError(f"option {START}: expected earliest or latest")
        self.files = files
        self.target: Ends | None = None  # end for the trigger AvailableNow
        self.seen: Ends | None = None

    @said_first
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        return {} if self.files.options.start == EARLIEST else self._offset({}, self._ends())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self.files.options.most_rows
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    @said_first
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.target = self._ends()

    def _ends(self) -> Ends:
        return {name: end for name, (_, end) in self.files.there({}).items()}

    @said_first
    def latestOffset(self, start: Offset, limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        there = self.files.there(start)
        self.seen = ends = {name: end for name, (_, end) in there.items()}
        if self.target is not None:
            ends = {
                name: max(min(end, self.target.get(name, 0)), _end(start, name))
                for name, end in ends.items()
                if name in self.target or name in start
            }
        if isinstance(limit, ReadMaxRows):
            begun = {name: _end(start, name, there[name][0]) for name in ends}
            ends = _shared(limit.max_rows, begun, ends)
        return self._offset(start, ends)

    def _offset(self, start: Offset, ends: Ends) -> dict[str, Any]:
        """`start` moved on to `ends`."""
        found: dict[str, int | list[int]] = {**start}
        for name, end in ends.items():
            if name not in start or end != _end(start, name):
                place = self.files.place_before(name, end)
                found[name] = end if place is None else [end, place]
        return found

    def reportLatestOffset(self) -> Ends | None:  # noqa: N802
        return self.seen

    @said_first
    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Raises StoreError if files no longer have these entries."""
        return self.files.between(start, end)

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        yield from self.files.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: no state is held for a batch."""


def _shared(most: int, begun: Ends, ends: Ends) -> Ends:
    """The offset after some `most` entries from `begun` on, shared in proportion to what each queue
    or file has, at least one each (KafkaMicroBatchStream.rateLimit).
    """
    sizes = {name: max(end - begun[name], 0) for name, end in ends.items()}
    total = sum(sizes.values())
    if total <= most:
        return ends
    return {name: begun[name] + max(most * size // total, 1)
            for name, size in sizes.items() if size}  # fmt: skip


# ---
# `spark.read.format("consumequeue")` and `"indexfile"`: entries of these files as rows.

_PARTS_A_CORE, _BYTES_A_PART = 3, 256 << 20
_OF_STREAMS = (START, MOST, DATA_LOSS)
_ENTRIES_A_PART = 1 << 21


class _Reader(DataSourceReader):
    """Reads files of one kind. A partition's value names the entries for `_read`."""

    def __init__(self, options: SourceOptions, schema: pa.Schema, cores: int) -> None:
        """Raises StoreError if there is no such folder."""
        self.options, self.columns, self.cores = options, schema, cores
        self.whole = storage_for(options.path)
        self.storage, self.store = LiveFiles(self.whole), self.whole.resolve(options.path)
        try:
            self.storage.list(self.store)
        except (FileNotFoundError, NotADirectoryError):
            raise StoreError(f"{self.store}: no such folder") from None

    @said_first
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is not None:  # Spark makes an empty partition if there are none
            yield from self._read(partition.value)
            settle()

    def _read(self, value: Any) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError


class QueueBatch(_Reader):
    @said_first
    def partitions(self) -> list[InputPartition]:
        """Raises StoreError, UnsafeName, OSError."""
        return self._parts(list(self._queues().values()))

    def _parts(self, queues: list[derived.QueueRange]) -> list[InputPartition]:
        held = sum(state.size for queue in queues for _, state in queue.there or () if state)
        count = self.options.parts or max(self.cores * _PARTS_A_CORE, held // _BYTES_A_PART)
        size = max(-(-len(queues) // count), 1)
        if self.options.may_miss:  # then tasks list the files, and leave out what is not there
            queues = [queue._replace(there=None) for queue in queues]
        return [InputPartition(tuple(queues[at : at + size])) for at in range(0, len(queues), size)]

    def there(self, start: Offset) -> dict[str, tuple[int, int]]:
        """Path -> (offset before the first entry, offset after all present entries).

        Raises StoreError if what `start` names is gone, lacks the entries to be read next, or has
        another entry where the last one was read; not with failOnDataLoss=false.
        """
        self._followed = self._queues()
        self._check_gone(start, self._followed)
        return {name: self._there(name, queue, start) for name, queue in self._followed.items()}

    def between(self, start: Offset, end: Offset) -> list[InputPartition]:
        """The partitions with the entries from `start` to `end`. Raises as `there`."""
        wanted, queues = [], self._queues()
        self._check_gone(end, queues)
        for name, queue in queues.items():
            if name in end and _end(end, name) > _end(start, name, -1):
                self._there(name, queue, start)
                begun = queue._replace(first=_end(start, name), stop=_end(end, name))
                wanted.append(begun)
        return self._parts(wanted)

    def _check_gone(self, offset: Offset, queues: Mapping[str, derived.QueueRange]) -> None:
        """Raises StoreError where a queue of the offset is gone: what it had since is unknown."""
        gone = [name for name in offset if name not in queues and _end(offset, name)]
        if gone and not self.options.may_miss:
            raise StoreError(
                f"{self.store}/{gone[0]}: the queue is gone, with all that was not read of it yet "
                f"({len(gone)} such); option {DATA_LOSS}=false goes on with the others"
            )

    def place_before(self, name: str, end: int) -> int | None:
        """The last physicalOffset before `end` of a queue that `there` found; None: not there."""
        queue = self._followed[name]
        files = QueueFiles(Folder(self.storage, queue.folder), queue.batch, queue.there)
        return _place_before(files, end)

    def _there(self, name: str, queue: derived.QueueRange, start: Offset) -> tuple[int, int]:
        """(the queue's first position, the position after its last entry). Raises StoreError if a
        stream with failOnDataLoss cannot go on from `start`.
        """
        files = QueueFiles(Folder(self.storage, queue.folder), queue.batch, queue.there)
        first = end = files.position(files.all[0], 0) if files.all else 0
        for file in files.used()[-1:]:
            with files.open(file) as entries:
                end = files.position(file, entries.used())
        begun = _end(start, name, first)
        if self.options.may_miss:
            return first, end
        if not first <= begun <= end:
            raise StoreError(
                f"{queue.folder}: reading was to go on at position {begun}, but the queue has "
                f"{first} to {end}: its files were deleted before they were read, or it was cut; "
                f"option {DATA_LOSS}=false goes on with what is there"
            )
        place = _place(start, name)
        if begun < end and place is not None and _place_before(files, begun) not in (None, place):
            raise _other_store(f"{queue.folder}: the entry at {begun - 1}")
        return first, end

    def _queues(self) -> dict[str, derived.QueueRange]:
        """Folder below the store -> range with its files, for each chosen queue."""
        found = {}
        for kind in (CONSUME_QUEUE, BATCH_CONSUME_QUEUE):
            batch = kind == BATCH_CONSUME_QUEUE
            files: dict[str, dict[str, list[Listed]]] = {}
            for path, state in all_below(self.whole, f"{self.store}/{kind}"):
                topic, _, below = path.partition("/")
                queue, slash, name = below.partition("/")
                name = name.removesuffix("/")  # which a folder has
                if is_queue_id(queue) and slash and "/" not in name:
                    there = files.setdefault(topic, {}).setdefault(queue, [])
                    there += [Listed(name, state)] if name else []
            for topic in self.options.choice.of_topics(list(files)):
                for queue, there in files[topic].items():
                    folder = queue_folder(self.store, topic, int(queue), batch)
                    ranged = derived.QueueRange(
                        folder, topic, int(queue), batch, there=tuple(there)
                    )
                    found[f"{kind}/{topic}/{int(queue)}"] = ranged
        return found

    def _read(self, value: tuple[derived.QueueRange, ...]) -> Iterator[pa.RecordBatch]:
        return derived.queue_batches(self.storage, value, self.columns)


def _place_before(files: QueueFiles, end: int) -> int | None:
    """The physicalOffset of a queue's entry before position `end`; None if it is not there."""
    for file in files.all:
        number = end - 1 - files.position(file, 0)
        if 0 <= number < file.state.size // files.entry_bytes:
            with files.open(file) as entries:
                return int(entries[number]["physicalOffset"])
    return None


def _other_store(entry: str) -> StoreError:
    return StoreError(
        f"{entry} is not the one that was read: this is another store, or one that was cut and "
        f"written anew; option {DATA_LOSS}=false goes on all the same"
    )


class IndexBatch(_Reader):
    @said_first
    def partitions(self) -> list[InputPartition]:
        """Raises BadIndex, SettingError, OSError."""
        reader = self._reader()
        ends = {name: end for name, (_, end) in self._there(reader, {}).items()}
        return _parts(reader, {}, ends)

    def there(self, start: Offset) -> dict[str, tuple[int, int]]:
        """As of queues, by name; deleted files are left out, as a broker deletes what expires."""
        self._followed = self._reader()
        return self._there(self._followed, start)

    def between(self, start: Offset, end: Offset) -> list[InputPartition]:
        reader = self._reader()
        names = {name for name, _ in _numbers(reader)}
        gone = [name for name in end if name not in names and _end(end, name) > _end(start, name)]
        if gone and not self.options.may_miss:
            raise StoreChanged(f"{self.store}/index/{gone[0]}{IS_GONE}")
        return _parts(reader, start, end)

    def place_before(self, name: str, end: int) -> int | None:
        with self._followed.open(dict(_numbers(self._followed))[name]) as file:
            return file.entry(end).physical_offset if 0 < end < file.most else None

    def _there(self, reader: IndexReader, start: Offset) -> dict[str, tuple[int, int]]:
        found = {}
        for name, number in _numbers(reader):
            path, begun, place = reader.files[number][0], _end(start, name), _place(start, name)
            with reader.open(number) as file:
                last = min(file.header.entries, file.most - 1)
                found[name] = (0, last)
                if self.options.may_miss:
                    continue
                if last < begun:
                    raise StoreError(
                        f"{path}: reading was to go on after entry {begun}, but the file has "
                        f"{last}; option {DATA_LOSS}=false goes on after that"
                    )
                if place is not None and begun > 0 and file.entry(begun).physical_offset != place:
                    raise _other_store(f"{path}: entry {begun}")
        for name in start:
            if name not in found and not self.options.may_miss:
                self._check_gone(reader, start, name)
        return found

    def _check_gone(self, reader: IndexReader, start: Offset, name: str) -> None:
        """Raises StoreError if a file that is gone was not read to its end.

        The last file may have been made anew after a crash (IndexService.load deletes it, recovery
        dispatches its messages again): then a later file has the last entry that was read.
        """
        place, end = _place(start, name), _end(start, name)
        if not 0 < end < reader.most - 1:
            return
        for later, number in _numbers(reader):
            if later > name and place is not None:
                with reader.open(number) as file:
                    if _has_place(file, place):
                        return
        raise StoreError(
            f"{self.store}/index/{name}: is gone, and only its first {end} entries were read; "
            f"option {DATA_LOSS}=false goes on with the other files"
        )

    def _reader(self) -> IndexReader:
        release = self.options.rocketmq or NEWEST
        store = Folder(self.storage, self.store)
        settings, unknown = settings_to_read(store, dict(self.options.settings), release)
        if unknown is not None:
            raise BadIndex(f"{self.store}/index", 0, "length", 0, unknown)
        return IndexReader(store, settings)

    def _read(self, value: derived.IndexPart) -> Iterator[pa.RecordBatch]:
        return derived.index_batches(self.storage, value, self.columns)


def _numbers(reader: IndexReader) -> list[tuple[str, int]]:
    """The name of each index file and its number in the reader, oldest first."""
    there = enumerate(reader.files)
    return [(path.rpartition("/")[2], number) for number, (path, _) in there][::-1]


def _has_place(file: IndexFileReader, place: int) -> bool:
    """Whether an entry of the file has this physicalOffset; entries are in its order."""
    last = min(file.header.entries, file.most - 1)
    at = bisect_left(range(1, last + 1), place, key=lambda n: file.entry(n).physical_offset) + 1
    return at <= last and file.entry(at).physical_offset == place


def _parts(reader: IndexReader, start: Offset, end: Offset) -> list[InputPartition]:
    """Partitions with the entries of index files after those of `start`, up to those of `end`."""
    parts = []
    for name, number in _numbers(reader):
        path, state = reader.files[number]
        stop = _end(end, name) + 1
        for first in range(_end(start, name) + 1, stop, _ENTRIES_A_PART):
            part = derived.IndexPart(
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
    makes: ClassVar[type[QueueBatch] | type[IndexBatch]]

    def _options(self) -> SourceOptions:
        """Raises OptionError."""
        for name in given_options(self.options):
            if name not in self.takes:
                raise OptionError(
                    f"option {name}: is not for {self.name()}, which takes {', '.join(self.takes)}"
                )
        return source_options(self.options, self.known)

    @said_first
    def schema(self) -> "StructType":
        return spark_schema(self.known, self._options().columns)

    @said_first
    def reader(self, schema: "StructType") -> _Reader:
        for name in given_options(self.options):
            if name in _OF_STREAMS:
                raise OptionError(f"option {name}: is for a stream of {self.name()}")
        return self._files(schema)

    @said_first
    def streamReader(self, schema: "StructType") -> DerivedStream:  # noqa: N802 (Spark's name)
        return DerivedStream(self._files(schema))

    def _files(self, schema: "StructType") -> QueueBatch | IndexBatch:
        return self.makes(self._options(), arrow_schema(schema, self.known), self.cores)


class ConsumeQueueSource(_Source):
    """One row for each entry of a queue."""

    known, makes = derived.QUEUES, QueueBatch
    takes = (PATH, COLUMNS, TOPICS, PATTERN, PARTS, *_OF_STREAMS)

    @classmethod
    def name(cls) -> str:
        return "consumequeue"


class IndexFileSource(_Source):
    """One row for each entry of an index file."""

    known, makes = derived.INDEX, IndexBatch
    takes = (PATH, COLUMNS, ROCKETMQ, *_OF_STREAMS)

    @classmethod
    def name(cls) -> str:
        return "indexfile"
