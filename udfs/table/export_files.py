"""The files of an export, written batch by batch as they come: Parquet, or JSON lines."""

import base64
import json
from collections.abc import Callable
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from reput.store_format.files.protocol import StagingStorage, Writer, Written

PARQUET, JSONL = "parquet", "jsonl"
BODY_BASE64 = "bodyBase64"  # a body in JSON lines
# In JSON a time is in milliseconds under RocketMQ's own name, as all other commands print it.
MILLISECONDS = {f"{name}Millis": name for name in ("storeTimestamp", "bornTimestamp")}

_ROWS_A_GROUP = 1 << 17
_BYTES_A_GROUP = 64 << 20
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
    """One file of an export."""

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
        """Write the remaining rows, and the file's end."""
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
        lines = []
        columns = batch.select(self._names)
        names = [MILLISECONDS.get(name, name) for name in self._names]
        for row in columns.rename_columns(names).to_pylist():
            row["properties"] = dict(row["properties"])
            if "body" in row:
                row[BODY_BASE64] = base64.b64encode(row.pop("body")).decode()
            lines.append(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")
        raw = "".join(lines).encode()
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


def new_file(kind: str, storage: StagingStorage, path: str, schema: pa.Schema) -> ExportFile:
    """A new file of this kind for rows of this schema."""
    return _FILES[kind](storage.create(path, digest=True), schema)
