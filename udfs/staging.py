"""The staging folder, where tasks put bytes (runs of a scan, chains of the index, finished files),
and the rows in which one stage tells the next where they are.

Spark may run a task twice, so every file's name is unique to the attempt that wrote it. A row that
reached the driver says which of the files counts.
"""

import json
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reput.store_format.files.local import LocalStorage
from reput.store_format.files.manifest_last import ManifestLast
from reput.store_format.files.protocol import Storage, Writer

Bytes = npt.NDArray[np.uint8]

_PIECE_BYTES = 1 << 20

ENTRIES = ".entries"
HASHES = ".hashes"
MESSAGES = ".messages"
RUNS = ".runs"
SUMS = ".sums"
_SCAN, _QUEUE, _INDEX, _TABLE = "scan", "queue", "index", "table"  # what names of files begin with
PLACED_TREE = "placed"  # folder of files that have the same path below it as in the output


PAST = ".past"  # an empty file, whose name says how far a scan past damage has come


class Staging(NamedTuple):
    """The staging folder of one job and the storage that it is on."""

    storage: Storage
    folder: str

    def path(self, name: str) -> str:
        return f"{self.folder}/{name}"


def attempt_name(prefix: str) -> str:
    """A name that no other attempt at the same task gives to a file."""
    return f"{prefix}-{uuid.uuid4().hex}"


def scan_name(split: int) -> str:
    """The name, without its kind, of the files that a scan of this split writes."""
    return attempt_name(f"{_SCAN}-{split:08d}")


def split_of(name: str) -> int:
    return int(name.split("-")[1])


def queue_file_name() -> str:
    return attempt_name(_QUEUE)


def index_file_name() -> str:
    return attempt_name(_INDEX)


def table_file_name() -> str:
    return attempt_name(_TABLE)


def local_folder(staging: Staging) -> str | None:
    """The staging folder, if it is on a local disk, where any library can write."""
    local = isinstance(staging.storage, LocalStorage)
    return staging.folder if local and not isinstance(staging.storage, ManifestLast) else None


def is_derived_file(name: str) -> bool:
    return name.startswith((f"{_QUEUE}-", f"{_INDEX}-"))


def is_index_file(name: str) -> bool:
    return name.startswith(f"{_INDEX}-")


class LateFile:
    """A file of staging that the first bytes create: mostly there are none."""

    def __init__(self, staging: Staging, name: str) -> None:
        self._staging, self._name = staging, name
        self._output: Writer | None = None
        self.bytes = 0  # that were written

    @property
    def name(self) -> str:
        """Its name; '' where nothing was written."""
        return self._name if self._output else ""

    def write(self, data: npt.NDArray[Any] | bytes) -> None:
        size = memoryview(data).nbytes
        if not size:
            return
        if self._output is None:
            self._output = self._staging.storage.create(self._staging.path(self._name))
        self._output.write(data)
        self.bytes += size

    def finish(self) -> str:
        """Complete the file. Returns its name."""
        if self._output:
            self._output.finish(self.bytes)
        return self.name


class LineFile(LateFile):
    """Writes JSON lines to a staging file as they come."""

    _LINES = 1 << 12

    def __init__(self, staging: Staging) -> None:
        super().__init__(staging, attempt_name("lines"))
        self._lines: list[str] = []

    def add(self, row: dict[str, Any]) -> None:
        self._lines.append(json.dumps(row) + "\n")
        if len(self._lines) == self._LINES:
            self._give()

    def finish(self) -> str:
        self._give()
        return super().finish()

    def _give(self) -> None:
        self.write("".join(self._lines).encode())
        self._lines.clear()


def stage(staging: Staging, name: str, *pieces: Any) -> str:
    """Write a whole staging file, of arrays of bytes or what has such; returns its name."""
    output = staging.storage.create(staging.path(name))
    for piece in pieces:
        output.write(piece)
    output.finish(sum(memoryview(piece).nbytes for piece in pieces))
    return name


def past_name(run: str, done: int, ranges: int) -> str:
    """The name of a .past file: `done` bytes of the segment are searched, with `ranges` ranges."""
    return f"{run}.{done}.{ranges}{PAST}"


def past_of(names: Iterable[str]) -> tuple[int, int]:
    """(bytes, ranges) by the .past files: the sum of each segment's furthest one."""
    furthest: dict[str, tuple[int, int]] = {}
    for name in names:
        if name.endswith(PAST):
            run, done, ranges = name.removesuffix(PAST).rsplit(".", 2)
            split = run.split("-")[1]
            furthest[split] = max(furthest.get(split, (0, 0)), (int(done), int(ranges)))
    return sum(f[0] for f in furthest.values()), sum(f[1] for f in furthest.values())


def pieces_of(staging: Staging, name: str) -> Iterator[bytes]:
    """A staging file's content, in pieces of bounded size."""
    reader = staging.storage.open(staging.path(name))
    for at in range(0, reader.state.size, _PIECE_BYTES):
        piece = np.empty(min(_PIECE_BYTES, reader.state.size - at), np.uint8)
        reader.read_into(at, piece)
        yield piece.tobytes()
    reader.close()


def read_range(staging: Staging, name: str, at: int, length: int) -> Bytes:
    """Bytes [at, at + length) of a staging file, as a new uint8 array."""
    buffer = np.empty(length, np.uint8)
    if length:
        reader = staging.storage.open(staging.path(name))
        reader.read_into(at, buffer)
        reader.close()
    return buffer


# ---
# The rows that the stages of a rebuild hand to each other through Spark, as Arrow schemas.
#
# The rows of other jobs are declared beside the stage that yields them. A row says where bytes are;
# the bytes themselves are in staging files.
# Offsets and lengths are in bytes unless named otherwise; timestamps are in milliseconds.

# A task's function for `mapInArrow`: it is given a partition's rows, and yields its own.
Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_ROWS_A_BATCH = 1 << 10


def schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field(name, kind) for name, kind in columns.items()])


def in_batches(rows: Iterator[dict[str, Any]], columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows in large batches, because a batch costs both sides as much as a hundred rows."""
    while some := list(islice(rows, _ROWS_A_BATCH)):
        yield pa.RecordBatch.from_pylist(some, columns)


def rows_of(batches: Iterator[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        yield from batch.to_pylist()


def rows_in(table: pa.Table) -> Iterator[dict[str, Any]]:
    """The rows of a table, few of them as dicts at a time: a dict takes ten times as much."""
    yield from rows_of(iter(table.to_batches(_ROWS_A_BATCH)))


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
    first_timestamp=pa.int64(),
    last_timestamp=pa.int64(),
    fell_at=pa.int64(),  # the record whose storeTimestamp is furthest below that of the one before
    fell_by=pa.int64(),  # milliseconds
    last_dispatched=pa.int64(),
    sequence=pa.list_(pa.int64()),  # of a DLedger log, see Walk.sequence
    unsafe_topics=pa.list_(pa.string()),  # left out, escaped, at most a few
    runs=pa.int64(),  # how many RUN rows it has
    queues=pa.int64(),  # at least so many queues
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

# A run with its bytes, where it is short: its entries, then its queueOffsets if they are listed.
# Then it may stand for several runs that follow each other in its queue.
CARRIED = RUN.append(pa.field("carried", pa.binary()))
TIMED = CARRIED.append(pa.field("times", pa.binary()))  # and its storeTimestamps

# One row for each run and ConsumeQueue segment that it reaches into.
PLACED = CARRIED.append(pa.field("position", pa.int64()))  # the queue's next, before the run
# Where a queue's first queueOffsets are wrong (damage/queue_ends), the run's first `decided`
# entries count as having the queueOffsets decided_from, decided_from + 1, ...
PLACED = PLACED.append(pa.field("decided", pa.int64()))
PLACED = PLACED.append(pa.field("decided_from", pa.int64()))
# The positions of lost messages, each before an entry of the run: `gaps` rows of
# queue_ends.GAP_COUNT in the staging file `gaps_name`, from byte `gaps_at` on.
PLACED = PLACED.append(pa.field("gaps_name", pa.string()))
PLACED = PLACED.append(pa.field("gaps_at", pa.int64()))
PLACED = PLACED.append(pa.field("gaps", pa.int64()))
PLACED = PLACED.append(pa.field("start", pa.int64()))  # the queue's first position
PLACED = PLACED.append(pa.field("segment", pa.int64()))  # number of the segment
PLACED = PLACED.append(pa.field("shift", pa.int64()))  # `Numbered.shift` before the run
PLACED = PLACED.append(pa.field("ended", pa.int64()))  # entries of earlier lives before the run
PLACED = PLACED.append(pa.field("opens", pa.bool_()))  # whether its file is `first` of BUILT
# For files that are built already (`SmallQueues`), a PLACED row has only a key and this column:
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
    sha256=pa.string(),  # of these
    entries=pa.int64(),
    skipped=pa.int64(),  # queues: entries left out, their queueOffsets below the next position
    ended=pa.int64(),  # queues: entries left out, as they are of an earlier life of the topic
    # queues: where entries are not at their queueOffsets, see `runs.Numbered.odd`
    odd=pa.list_(pa.int64()),
    begin=pa.int64(),  # index files: the header's beginTimestamp
    end=pa.int64(),  # and endTimestamp
    first=pa.bool_(),  # queues: whether it is the first file with a name of its queue
)


# ---
# Several tasks as one, so that Spark plans one query of the plainest kind for all of them.


@dataclass(frozen=True)
class InTurn:
    """Gives the numbers that arrive in `id` to several tasks: the first ones to the first task.

    tasks: each with how many numbers it gets, counted from 0 for it. All yield one kind of row.
    """

    tasks: tuple[tuple[int, Task], ...]

    @property
    def total(self) -> int:
        return sum(count for count, _ in self.tasks)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in ids_of(batches):
            for count, task in self.tasks:
                if number < count:
                    yield from task(iter([pa.RecordBatch.from_pydict({"id": [number]})]))
                    break
                number -= count
