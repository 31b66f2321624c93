"""The entries of queue and index files as Arrow batches: what the sources of these files yield."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from reput.store_format.derived.index_reader import IndexFileReader
from reput.store_format.derived.queue_files import QueueFiles, is_pre_blank
from reput.store_format.faults import StoreChanged
from reput.store_format.files.folder import Folder
from reput.store_format.files.protocol import FileState, InputStorage, Listed
from reput.udfs.table.columns import MessageColumn, column

_ENTRIES = 1 << 16  # read at a time
NO_STOP = 1 << 63  # up to the last entry

QUEUE_COLUMNS = (
    column("topic", pa.string(), "topic, by the folder's name"),
    column("queueId", pa.int32(), "queue, by the folder's name"),
    column("queueOffset", pa.int64(), "position of the entry, of a batch its first one"),
    column("physicalOffset", pa.int64(), "where the record starts in the CommitLog"),
    column("size", pa.int32(), "bytes of the record"),
    column("tagsCode", pa.int64(), "hash of the tags; on the schedule topic, when it is due"),
    column("messages", pa.int32(), "messages of a batch; 1 in other queues"),
    column("storeTimestampMillis", pa.int64(), "of a batch queue: when it was stored", True),
    column("batch", pa.bool_(), "whether it is a batch queue"),
)
INDEX_COLUMNS = (
    column("file", pa.string(), "name of the index file"),
    column("entry", pa.int32(), "number of the entry in the file, from 1 on"),
    column("slot", pa.int32(), "hash slot that its chain begins in"),
    column("keyHash", pa.int32(), "hash of topic#key"),
    column("physicalOffset", pa.int64(), "where the message's record starts in the CommitLog"),
    column("timeDiff", pa.int32(), "whole seconds after the file's beginTimestamp"),
    column("storeTimestampMillis", pa.int64(), "beginTimestamp and timeDiff together"),
    column("previous", pa.int32(), "number of the entry before in the same slot, 0 for none"),
)
QUEUES: dict[str, MessageColumn] = {each.field.name: each for each in QUEUE_COLUMNS}
INDEX: dict[str, MessageColumn] = {each.field.name: each for each in INDEX_COLUMNS}


class QueueRange(NamedTuple):
    """The entries at positions [first, stop) of one queue.

    there: the queue's files when the work was planned; all must still be there, and have entries up
    to `stop`. None: the files are listed in the task, and what is not there is left out.
    """

    folder: str
    topic: str
    queue_id: int
    batch: bool
    first: int = 0
    stop: int = NO_STOP
    there: tuple[Listed, ...] | None = None


class IndexPart(NamedTuple):
    """Entries [first, stop) of an index file."""

    path: str
    state: FileState
    slots: int
    most: int
    first: int
    stop: int


def queue_batches(
    storage: InputStorage, queues: tuple[QueueRange, ...], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The entries of queues, without pre-blanks. Raises BadQueue, StoreChanged, OSError."""
    for queue in queues:
        files, reached = (
            QueueFiles(Folder(storage, queue.folder), queue.batch, queue.there),
            queue.first,
        )
        for file in files.all:
            base = files.position(file, 0)
            if queue.first >= base + file.state.size // files.entry_bytes or queue.stop <= base:
                continue
            with files.open(file) as entries:
                end = min(entries.used(), queue.stop - base)
                reached = base + end
                for at in range(max(queue.first - base, 0), end, _ENTRIES):
                    some = entries.range(at, min(at + _ENTRIES, end))
                    positions = files.position(file, at) + np.arange(len(some))
                    if not queue.batch:
                        kept = ~is_pre_blank(some)
                        some, positions = some[kept], positions[kept]
                    if len(some):
                        yield _batch(_queue_columns(queue, some, positions), schema)
        if queue.there is not None and reached < queue.stop < NO_STOP:
            raise StoreChanged(
                f"{queue.folder}: had entries up to {queue.stop} when the work was planned, and "
                f"now up to {reached}: it was cut"
            )


def _queue_columns(queue: QueueRange, some: Any, positions: Any) -> dict[str, Any]:
    count = len(some)
    columns = {
        "topic": pa.repeat(queue.topic, count),
        "queueId": np.full(count, queue.queue_id, np.int32),
        "queueOffset": positions,
        "physicalOffset": some["physicalOffset"],
        "size": some["size"],
        "tagsCode": some["tagsCode"],
        "messages": np.ones(count, np.int32),
        "storeTimestampMillis": pa.nulls(count, pa.int64()),
        "batch": np.full(count, queue.batch),
    }
    if queue.batch:
        columns["queueOffset"] = some["baseOffset"]
        columns["messages"] = some["batchSize"]
        columns["storeTimestampMillis"] = some["storeTimestamp"]
    return columns


def index_batches(
    storage: InputStorage, part: IndexPart, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The entries of a part of an index file. Raises BadIndex, StoreChanged, OSError."""
    with IndexFileReader(storage, part.path, part.slots, part.most, part.state) as file:
        begin = file.header.begin_timestamp
        for at in range(part.first, part.stop, _ENTRIES):
            some = file.entries_at(at, min(_ENTRIES, part.stop - at))
            hashes, diffs = some["keyHash"].astype(np.int32), some["timeDiff"].astype(np.int64)
            columns = {
                "file": pa.repeat(part.path.rpartition("/")[2], len(some)),
                "entry": at + np.arange(len(some)),
                "slot": hashes.astype(np.int64) % part.slots,
                "keyHash": hashes,
                "physicalOffset": some["physicalOffset"],
                "timeDiff": diffs,
                "storeTimestampMillis": begin + diffs * 1000,
                "previous": some["previous"],
            }
            yield _batch(columns, schema)


def _batch(columns: dict[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    """A batch of the schema's columns. Arrow has no big-endian numbers, as the files have."""
    arrays = []
    for field in schema:
        values = columns[field.name]
        if isinstance(values, np.ndarray):
            native = values.astype(values.dtype.newbyteorder("="))
            values = pa.array(native).cast(field.type)
        arrays.append(values)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
