"""The rows that the stages of a rebuild hand to each other through Spark, as Arrow schemas.

The rows of other jobs are declared beside the stage that yields them. A row says where bytes are;
the bytes themselves are in staging files.
Offsets and lengths are in bytes unless named otherwise; timestamps are in milliseconds.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pyarrow as pa

# A task's function for `mapInArrow`: it is given a partition's rows, and yields its own.
Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_ROWS_A_BATCH = 1 << 10


def schema(**columns: pa.DataType) -> pa.Schema:
    """An Arrow schema from names and types."""
    return pa.schema([pa.field(name, kind) for name, kind in columns.items()])


def in_batches(rows: Iterator[dict[str, Any]], columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows in large batches, because a batch costs both sides as much as a hundred rows."""
    while some := list(islice(rows, _ROWS_A_BATCH)):
        yield pa.RecordBatch.from_pylist(some, columns)


def rows_of(batches: Iterator[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    """The rows that arrive at a task."""
    for batch in batches:
        yield from batch.to_pylist()


def ids_of(batches: Iterator[pa.RecordBatch]) -> Iterator[int]:
    """The numbers that arrive at a task in the column `id`."""
    for batch in batches:
        yield from batch.column("id").to_pylist()


# One row for each scanned stretch; see reput.store_format.dispatch.scan.End.
SCANNED = schema(
    split=pa.int64(),
    run=pa.string(),  # the name of its run files in staging
    first=pa.int64(),
    next=pa.int64(),
    fault=pa.int32(),
    size=pa.int64(),
    rest_is_zero=pa.bool_(),
    wrong_blank=pa.int64(),
    records=pa.int64(),
    index_puts=pa.int64(),
    last_record=pa.int64(),
    last_put=pa.int64(),
    last_timestamp=pa.int64(),
    last_dispatched=pa.int64(),
    sequence=pa.list_(pa.int64()),  # of a DLedger log, see Walk.sequence
    unsafe_topics=pa.list_(pa.string()),  # left out, escaped, at most a few
)

# One row for each run: a queue's entries from one part of one stretch. A stretch has several parts
# if the scan's buffers were full before its end.
RUN = schema(
    topic=pa.string(),
    queue_id=pa.int32(),
    batch=pa.bool_(),
    split=pa.int64(),
    part=pa.int32(),  # parts of a stretch are in the log's order
    entries_at=pa.int64(),  # in the stretch's entries file
    count=pa.int64(),  # entries
    offsets_at=pa.int64(),  # where its queueOffsets are in that file; -1: first, first + 1, ...
    first=pa.int64(),  # queueOffset of the first entry
    greatest=pa.int64(),  # the greatest queueOffset
    times_at=pa.int64(),  # where its storeTimestamps are in that file; -1: not asked for
)

# One row for each run and ConsumeQueue segment that it reaches into.
PLACED = RUN.append(pa.field("position", pa.int64()))  # the queue's next position before the run
# Where a queue's first queueOffsets are wrong (damage/queue_ends), the run's first `decided` entries
# count as having the queueOffsets decided_from, decided_from + 1, ...
PLACED = PLACED.append(pa.field("decided", pa.int64()))
PLACED = PLACED.append(pa.field("decided_from", pa.int64()))
# The positions of lost messages, each before an entry of the run: `gaps` rows of
# queue_gaps.GAP_COUNT in the staging file `gaps_name`, from byte `gaps_at` on.
PLACED = PLACED.append(pa.field("gaps_name", pa.string()))
PLACED = PLACED.append(pa.field("gaps_at", pa.int64()))
PLACED = PLACED.append(pa.field("gaps", pa.int64()))
PLACED = PLACED.append(pa.field("start", pa.int64()))  # the queue's first position
PLACED = PLACED.append(pa.field("segment", pa.int64()))  # number of the segment
# For files that are built already (small_queues), a PLACED row has only a key and this column:
# their BUILT rows as an Arrow stream. All other rows leave the column out.
PLACED = PLACED.append(pa.field("built", pa.binary()))

# One row for each index file and range of slots: see reput.store_format.derived.index_file.chain.
CHAINED = schema(
    file=pa.int64(),  # number of the index file, from 0
    range=pa.int64(),
    chain=pa.string(),  # the name of its chain file in staging
    puts=pa.int64(),  # puts of the file with a slot in the range
)

# One row for each output file, with the name that its task gave it in staging.
BUILT = schema(
    folder=pa.string(),  # below the store's root
    number=pa.int64(),  # of the segment or index file
    name=pa.string(),  # in staging; '' if no name can be given to the file (queues.can_be_named)
    length=pa.int64(),
    used=pa.int64(),  # bytes before the preallocated tail
    sha256=pa.string(),
    entries=pa.int64(),
    skipped=pa.int64(),  # queues: entries left out, their queueOffsets below the next position
    begin=pa.int64(),  # index files: the header's beginTimestamp
    end=pa.int64(),  # and endTimestamp
)
