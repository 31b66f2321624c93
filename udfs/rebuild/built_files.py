"""What grows with the number of files, done by tasks: the driver gets a row for each task.

Millions of rows are more than an engine takes to the driver (spark.driver.maxResultSize), and than
the driver's memory holds. So tasks put the rows of what they built into staging, and give the files
their names.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, NamedTuple

import pyarrow as pa

from reput.store_format.derived.queue_files import is_batch, segment_bytes
from reput.store_format.files.manifest_last import AT_ONCE
from reput.store_format.message.message import SCHEDULE_TOPIC
from reput.store_format.names import CONSUME_QUEUE, INDEX, LMQ_PREFIX, SHARDS, segment_name
from reput.udfs.staging import BUILT, Staging, attempt_name, rows_of, schema, stage

Row = dict[str, Any]

KEPT = schema(
    name=pa.string(),  # of a Parquet file in staging, of BUILT rows that only need names; or ''
    others=pa.string(),  # of one with the rows that say more, which the driver reads; or ''
    files=pa.int64(),  # the rows of the first
    queues=pa.int64(),  # how many of these are the first ones of their queues
)
MOVE = schema(name=pa.string(), path=pa.string())  # in staging; in the set
MOVED = schema(files=pa.int64())
NAMES = schema(shard=pa.int64(), names=pa.list_(pa.string()))  # number of a shard; KEPT files
# A shard of a manifest, see `PublishFiles`: its path in the set, and how many files it lists.
SHARD = schema(path=pa.string(), length=pa.int64(), sha256=pa.string(), files=pa.int64())

_FILES_OF_A_SHARD = 1000
_DELAYED = f"{CONSUME_QUEUE}/{SCHEDULE_TOPIC}/"


@dataclass(frozen=True)
class QueueBytes:
    """The length of a queue file in a folder, in bytes, by RocketMQ's two settings."""

    queue: int
    batch: int

    def __call__(self, folder: str) -> int:
        batch = is_batch(folder)
        return segment_bytes(self.batch if batch else self.queue, batch)


@dataclass(frozen=True)
class KeepRows:
    """Puts the BUILT rows that arrive into files in staging; a KEPT row for each."""

    staging: Staging

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plain, others = list[Row](), list[Row]()
        for row in rows_of(batches):
            (others if _says_more(row) else plain).append(row)
            if len(plain) == _FILES_OF_A_SHARD:
                yield self._kept(plain, [])
                plain = []
        if plain or others:
            yield self._kept(plain, others)

    def _kept(self, plain: list[Row], others: list[Row]) -> pa.RecordBatch:
        row = {"name": self._keep(plain), "others": self._keep(others), "files": len(plain),
               "queues": sum(row["first"] for row in plain)}  # fmt: skip
        return pa.RecordBatch.from_pylist([row], KEPT)

    def _keep(self, rows: list[Row]) -> str:
        import pyarrow.parquet as pq

        if not rows:
            return ""
        sink, name = pa.BufferOutputStream(), attempt_name("rows")
        pq.write_table(pa.Table.from_pylist(rows, BUILT), sink, compression="zstd")
        return stage(self.staging, name, sink.getvalue())


def _says_more(row: Row) -> bool:
    """Whether a set says more of a file than that it is there: index files get names by their
    times, of others messages are in no queue (publish.of_queues), delayed ones have levels.
    """
    folder, odd = row["folder"], row["odd"]
    if folder == INDEX or not row["name"] or row["skipped"] or row["ended"]:
        return True
    lmq = f"/{LMQ_PREFIX}" in folder
    again = any(p < 0 or not (o or lmq) for o, p in zip(odd[::3], odd[1::3], strict=True))
    return again or (row["first"] and folder.startswith(_DELAYED))


def kept_rows(staging: Staging, names: Iterable[str]) -> Iterator[Row]:
    """The rows of KEPT files, file by file."""
    import pyarrow.parquet as pq

    paths = (staging.path(name) for name in names if name)
    with ThreadPoolExecutor(AT_ONCE) as pool:  # a file a task: one by one they would take minutes
        while some := list(islice(paths, AT_ONCE)):
            for raw in pool.map(staging.storage.read_bytes, some):
                yield from pq.read_table(pa.BufferReader(raw)).to_pylist()


class KeptFiles(NamedTuple):
    """Files in staging whose rows tasks have kept (KEPT), so that the driver has none of them."""

    staging: Staging
    queue_bytes: QueueBytes
    rows: Sequence[Row] = ()

    @property
    def files(self) -> int:
        return sum(row["files"] for row in self.rows)

    @property
    def queues(self) -> int:
        return sum(row["queues"] for row in self.rows)

    def built(self) -> Iterator[Row]:
        """The BUILT rows, each with its `path` in a set."""
        for row in kept_rows(self.staging, (row["name"] for row in self.rows)):
            yield {**row, "path": queue_path(row, self.queue_bytes)}

    def shards(self) -> pa.Table:
        """NAMES rows, of up to so many files each."""
        names: list[list[str]] = []
        room = 0
        for row in self.rows:
            if row["files"] > room:
                names.append([])
                room = _FILES_OF_A_SHARD
            if row["files"]:
                names[-1].append(row["name"])
                room -= row["files"]
        return pa.table([range(len(names)), names], schema=NAMES)


def queue_path(row: Row, queue_bytes: Any) -> str:
    """The path in a set of a queue file, by its BUILT row."""
    return f"{row['folder']}/{segment_name(row['number'] * queue_bytes(row['folder']))}"


@dataclass(frozen=True)
class PublishFiles:
    """Gives the files of NAMES rows their names in a set's folder, and writes the shard of its
    manifest that lists them; yields SHARD rows.

    A shard has a line of JSON for each file, as an entry of a whole manifest's `files`. A second
    attempt writes the same.
    """

    staging: Staging
    target: str
    queue_bytes: QueueBytes

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for row in rows_of(batches):
            yield pa.RecordBatch.from_pylist([self._shard(row["shard"], row["names"])], SHARD)

    def _shard(self, number: int, names: list[str]) -> Row:
        storage, path = self.staging.storage, f"{SHARDS}/{number:08d}.jsonl"
        rows = [(queue_path(row, self.queue_bytes), row) for row in kept_rows(self.staging, names)]
        rows.sort(key=lambda each: each[0])
        text_of = json.JSONEncoder(sort_keys=True).encode
        lines = (
            text_of({"path": path, "length": row["length"], "sha256": row["sha256"],
                     "entries": row["entries"], "written": row["used"]})
            for path, row in rows
        )  # fmt: skip
        content, name = "".join(f"{line}\n" for line in lines).encode(), attempt_name("shard")
        output = storage.create(self.staging.path(name), digest=True)
        output.write(content)
        written = output.finish(len(content))
        for below in dict.fromkeys([SHARDS, *(row["folder"] for _, row in rows)]):
            storage.make_folders(f"{self.target}/{below}")
        moves = chain(((row["name"], path) for path, row in rows), [(name, path)])
        storage.move_all((self.staging.path(old), f"{self.target}/{new}") for old, new in moves)
        return {"path": path, "length": written.length, "sha256": written.sha256,
                "files": len(rows)}  # fmt: skip


@dataclass(frozen=True)
class MoveFiles:
    """Gives the files of MOVE rows their paths below a folder; yields MOVED rows."""

    staging: Staging
    target: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            moves = ((row["name"], row["path"]) for row in batch.to_pylist())
            self.staging.storage.move_all(
                (self.staging.path(name), f"{self.target}/{path}") for name, path in moves
            )
            yield pa.RecordBatch.from_pylist([{"files": batch.num_rows}], MOVED)
