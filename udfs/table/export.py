"""Exports parts of a log in tasks: files of Parquet or JSON lines in staging, and sums."""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from reput.store_format.files.protocol import Storage, Writer, Written
from reput.store_format.layouts import SYS_COMPRESSED, SYS_COMPRESSION_MASK
from reput.store_format.message.bodies import BodyError, decompressed
from reput.udfs.staging import Staging, attempt_name, ids_of, schema
from reput.udfs.table.columns import Choice, batches_of
from reput.udfs.table.json_lines import json_lines
from reput.udfs.table.log_parts import LogPart, LogParts, Tell
from reput.udfs.table.redaction import BODY_MOST, Redaction

if TYPE_CHECKING:
    from reput.store_format.filter.filters import Filter

# ---
# The files of an export, written batch by batch as they come: Parquet, or JSON lines.

PARQUET, JSONL = "parquet", "jsonl"
# In JSON a time is in milliseconds under RocketMQ's own name, as all other commands print it.
MILLISECONDS = {f"{name}Millis": name for name in ("storeTimestamp", "bornTimestamp")}

_ROWS_A_GROUP = 1 << 17
_BYTES_A_GROUP = 24 << 20
# Columns with few different values, which Parquet keeps once. In others looking only costs time.
_FEW_VALUES = [
    "topic", "queueId", "storeHost", "bornHost", "tags", "flag", "sysFlag", "reconsumeTimes",
    "preparedTransactionOffset", "properties.key_value.key",
]  # fmt: skip
# Columns of which each row group has the least and greatest value: those that readers search by.
# Such values of all columns would take a fourth of the time, and show values of messages.
_WITH_STATISTICS = [
    "topic", "queueId", "queueOffset", "physicalOffset", "storeTimestamp", "storeTimestampMillis",
    "bornTimestamp", "bornTimestampMillis", "size",
]  # fmt: skip


class ExportFile(Protocol):
    def add(self, batch: pa.RecordBatch) -> None: ...

    def finish(self) -> Written: ...

    def abandon(self) -> None: ...


class _Sink:
    """Makes a Writer a file for pyarrow."""

    closed = False

    def __init__(self, writer: Writer) -> None:
        self._writer, self.length = writer, 0

    def write(self, data: Any) -> int:
        size = len(memoryview(data))
        self._writer.write(data)
        self.length += size
        return size

    def tell(self) -> int:
        return self.length

    def flush(self) -> None: ...

    def close(self) -> None: ...


class ParquetFile:
    """A Parquet file. Holds the rows of one row group in memory."""

    def __init__(self, writer: Writer, schema: pa.Schema) -> None:
        self._writer, self._sink = writer, _Sink(writer)
        few = [name for name in _FEW_VALUES if name.split(".")[0] in schema.names]
        self._file = pq.ParquetWriter(
            self._sink, schema, use_dictionary=few, compression="snappy",
            write_statistics=[name for name in _WITH_STATISTICS if name in schema.names],
        )  # fmt: skip
        self._held: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows, which are written once they fill a row group."""
        self._held.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= _ROWS_A_GROUP or self._bytes >= _BYTES_A_GROUP:
            self._write()

    def _write(self) -> None:
        if self._held:
            self._file.write_table(pa.Table.from_batches(self._held), row_group_size=self._rows)
        self._held, self._rows, self._bytes = [], 0, 0

    def finish(self) -> Written:
        self._write()
        self._file.close()
        return self._writer.finish(self._sink.length)

    def abandon(self) -> None:
        self._writer.abandon()


class JsonLinesFile:
    """A JSON object for each message: columns by name, times in milliseconds, the body as base64.

    `storeTimestamp` in JSON is the column storeTimestampMillis.
    """

    def __init__(self, writer: Writer, schema: pa.Schema) -> None:
        self._writer, self._length = writer, 0
        self._names = [field.name for field in schema if not pa.types.is_timestamp(field.type)]

    def add(self, batch: pa.RecordBatch) -> None:
        names = [MILLISECONDS.get(name, name) for name in self._names]
        raw = json_lines(batch.select(self._names), names)
        self._writer.write(raw)
        self._length += len(raw)

    def finish(self) -> Written:
        return self._writer.finish(self._length)

    def abandon(self) -> None:
        self._writer.abandon()


_FILES: dict[str, Callable[[Writer, pa.Schema], ExportFile]] = {
    PARQUET: ParquetFile,
    JSONL: JsonLinesFile,
}


def new_file(kind: str, storage: Storage, path: str, schema: pa.Schema) -> ExportFile:
    return _FILES[kind](storage.create(path, digest=True), schema)


# ---
# Exports parts of a log in tasks: each part becomes a file in staging and a row.

_CRC_MASK = 0x7FFFFFFF  # of a bodyCRC
NOTES_MOST = 100  # most lines of a task about what was left out; more are only counted

# One row for each part.
EXPORTED = schema(
    part=pa.int64(),
    name=pa.string(),  # its file in staging; '' if it has no wanted message
    length=pa.int64(),
    sha256=pa.string(),
    messages=pa.int64(),
    places=pa.int64(),  # sum of the physicalOffsets, modulo 2^64
    crcs=pa.int64(),  # sum of the bodyCRCs
    sizes=pa.int64(),  # sum of the records' sizes
    first=pa.int64(),  # physicalOffset of the first message, -1 for none
    last=pa.int64(),
    end=pa.int64(),  # where the part's last record ends, wanted or not; -1 for none
    left_out=pa.int64(),  # places at which something was left out
    system=pa.int64(),  # messages of system topics that were left out
    notes=pa.list_(pa.string()),  # the first lines about what was left out
)
# The Sums of a task's rows.
SUMMED = schema(
    messages=pa.int64(), places=pa.int64(), crcs=pa.int64(), sizes=pa.int64(), first=pa.int64(),
    last=pa.int64(),
)  # fmt: skip
WRONG = schema(line=pa.string())


@dataclass
class MessageSums:
    """Sums over messages, by which two ways of reading them are compared."""

    messages: int = 0
    places: int = 0
    crcs: int = 0
    sizes: int = 0
    first: int = -1
    last: int = -1

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows that have physicalOffset, bodyCRC and size."""
        places = np.asarray(batch["physicalOffset"])
        if not len(places):
            return
        with np.errstate(over="ignore"):
            total = int(places.sum())
        crcs = int(np.asarray(batch["bodyCRC"]).sum(dtype=np.int64))
        sizes = int(np.asarray(batch["size"]).sum(dtype=np.int64))
        self.join(
            MessageSums(len(places), total, crcs, sizes, int(places.min()), int(places.max()))
        )

    def join(self, other: "MessageSums") -> None:
        if not other.messages:
            return
        self.messages += other.messages
        self.places = (self.places + other.places + (1 << 63)) % (1 << 64) - (1 << 63)
        self.crcs += other.crcs
        self.sizes += other.sizes
        self.first = other.first if self.first < 0 else min(self.first, other.first)
        self.last = max(self.last, other.last)


@dataclass(frozen=True)
class ChosenMessages:
    """Yields the chosen messages of those of `parts` whose indices arrive in the column `id`.

    decompress: yield bodies as their producers gave them; system_topics: also yield messages of
    brokers' own topics; redaction: what is taken out of the messages.
    """

    log: LogParts
    parts: tuple[LogPart, ...]
    choice: Choice
    wanted: "Filter | None"
    columns: pa.Schema
    decompress: bool = False
    body_most: int = BODY_MOST
    system_topics: bool = True
    redaction: Redaction | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in ids_of(batches):
            yield from self.rows(self.parts[number])

    def rows(
        self, part: LogPart, tell: Tell | None = None, left: Callable[[int], None] | None = None,
        reached: Callable[[int], None] | None = None,
    ) -> Iterator[pa.RecordBatch]:  # fmt: skip
        """The chosen messages of a part; tell, left, reached: as for `batches_of`."""
        for batch in batches_of(
            self.log, part, self.choice, self.columns, self.wanted, tell, reached,
            self.system_topics, left,
        ):  # fmt: skip
            if self.decompress:
                batch = decompress(batch, self.body_most)
            yield batch if self.redaction is None else self.redaction.apply(batch)


LEFT = "leftOfSystem"  # a column of `CountLeft`, and of no table


@dataclass(frozen=True)
class CountLeft:
    """The rows of `messages`, and one for each part where only the further column LEFT says
    something: how many messages of brokers' own topics the part leaves out.
    """

    messages: ChosenMessages

    @property
    def columns(self) -> pa.Schema:
        """The columns; those of the messages as they are, so LEFT alone is null in their rows."""
        return self.messages.columns.append(pa.field(LEFT, pa.int64()))

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        columns = self.columns
        for number in ids_of(batches):
            left: list[int] = []
            for rows in self.messages.rows(self.messages.parts[number], left=left.append):
                none = pa.nulls(rows.num_rows, pa.int64())
                yield pa.RecordBatch.from_arrays([*rows.columns, none], schema=columns)
            row = {each.name: _nothing(each) for each in self.messages.columns}
            yield pa.RecordBatch.from_pylist([{**row, LEFT: sum(left)}], columns)


def _nothing(column: pa.Field) -> object:
    """A value that says nothing; Spark takes no null where a column declares none."""
    kind = column.type
    if column.nullable:
        return None
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        return []
    return "" if pa.types.is_string(kind) else b"" if pa.types.is_binary(kind) else 0


@dataclass(frozen=True)
class ExportParts:
    """Exports those parts of `messages` whose indices arrive in the column `id`.

    kind: PARQUET or JSONL; '' to write nothing and only sum up.
    """

    messages: ChosenMessages
    kind: str
    staging: Staging

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in ids_of(batches):
            yield pa.RecordBatch.from_pylist([self._export(number)], EXPORTED)

    def _export(self, number: int) -> dict[str, object]:
        name = attempt_name(f"export-{number:08d}") if self.kind else ""
        notes: list[str] = []
        sums, file, written = MessageSums(), None, None
        ends, system = [-1], list[int]()
        part = self.messages.parts[number]
        try:
            for batch in self.messages.rows(part, notes.append, system.append, ends.append):
                sums.add(batch)
                if self.kind:
                    if file is None:
                        path = self.staging.path(name)
                        file = new_file(
                            self.kind, self.staging.storage, path, self.messages.columns
                        )
                    file.add(batch)
            if file is not None:
                written = file.finish()
        except BaseException:
            if file is not None:
                file.abandon()
            raise
        return {
            "part": number,
            "name": name if written else "",
            "length": written.length if written else 0,
            "sha256": written.sha256 if written else "",
            **vars(sums),
            "end": max(ends),
            "left_out": len(notes),
            "system": sum(system),
            "notes": notes[:NOTES_MOST],
        }


def sum_up(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a task: the rows that arrive as one SUMMED row."""
    sums = MessageSums()
    for batch in batches:
        sums.add(batch)
    yield pa.RecordBatch.from_pylist([vars(sums)], SUMMED)


def compare_bodies(path: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a task: a WRONG row for each arriving row whose body does not fit its bodyCRC."""
    for batch in batches:
        lines = list(wrong_bodies(path, batch))
        if lines:
            yield pa.RecordBatch.from_pydict({"line": lines}, WRONG)


def wrong_bodies(path: str, batch: pa.RecordBatch) -> Iterator[str]:
    """A line for each body that does not fit its bodyCRC."""
    if "body" not in batch.schema.names:
        return
    bodies, crcs = batch["body"], batch["bodyCRC"].to_pylist()
    for number, crc in enumerate(crcs):
        body = bodies[number].as_buffer()
        if body is not None and body.size and zlib.crc32(body) & _CRC_MASK != crc:
            place = batch["physicalOffset"][number].as_py()
            yield f"{path}: message at {place}: bodyCRC does not match the body"


def decompress(batch: pa.RecordBatch, most: int) -> pa.RecordBatch:
    """The batch with bodies as their producers gave them, and the sysFlag and bodyCRC of these.

    A body that contradicts its sysFlag, or is longer than `most` bytes, stays as it is.
    """
    if "body" not in batch.schema.names:
        return batch
    flags = np.asarray(batch["sysFlag"])
    marked = np.flatnonzero(flags & SYS_COMPRESSED)
    if not len(marked):
        return batch
    bodies, crcs, flags = batch["body"].to_pylist(), np.array(batch["bodyCRC"]), np.array(flags)
    for number in marked.tolist():
        try:
            body = decompressed(bodies[number], int(flags[number]), most)
        except BodyError:
            continue
        bodies[number], crcs[number] = body, zlib.crc32(body) & _CRC_MASK
        flags[number] &= ~(SYS_COMPRESSED | SYS_COMPRESSION_MASK)
    new = {"body": pa.array(bodies, pa.binary()), "bodyCRC": pa.array(crcs),
           "sysFlag": pa.array(flags)}  # fmt: skip
    return pa.RecordBatch.from_arrays(
        [new.get(name, batch[name]) for name in batch.schema.names], schema=batch.schema
    )
