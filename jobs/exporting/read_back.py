"""Reads the files of an export, batch by batch, with the columns of a table."""

import base64
import hashlib
import json
from collections.abc import Collection, Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from reput.store_format.files.folder import Folder
from reput.store_format.files.protocol import InputStorage, Reader
from reput.udfs.table.columns import SCHEMA
from reput.udfs.table.export import JSONL, MILLISECONDS, PARQUET
from reput.udfs.table.json_lines import BODY_BASE64

# What reading raises if a file is not as an export writes it.
UNREADABLE = (pa.ArrowException, ValueError, KeyError, TypeError, AttributeError)

_ROWS = 1 << 14
_PIECE = 1 << 20
_COLUMNS = {field.name: field for field in SCHEMA if not pa.types.is_timestamp(field.type)}


class _File:
    """A Reader as a file for pyarrow."""

    closed = False

    def __init__(self, reader: Reader) -> None:
        self._reader, self._at, self._size = reader, 0, reader.state.size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def tell(self) -> int:
        return self._at

    def seek(self, to: int, whence: int = 0) -> int:
        self._at = to + (0, self._at, self._size)[whence]
        return self._at

    def read(self, count: int = -1) -> bytes:
        left = max(self._size - self._at, 0)
        buffer = np.empty(left if count < 0 else min(count, left), np.uint8)
        if len(buffer):
            self._reader.read_into(self._at, buffer)
        self._at += len(buffer)
        return buffer.tobytes()

    def close(self) -> None:
        self._reader.close()


def file_digest(storage: InputStorage, path: str) -> str:
    """The SHA-256 of a file, in hex."""
    digest = hashlib.sha256()
    with closing(_File(storage.open(path))) as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def batches_in(
    folder: Folder, manifest: dict[str, Any]
) -> Iterator[tuple[str, Iterator[pa.RecordBatch]]]:
    """(path, batches) of each file in an export's manifest, in the log's order.

    Only the columns of times in milliseconds are read. Raises OSError, and UNREADABLE.
    """
    for listed in manifest["files"]:
        path = f"{folder}/{listed['path']}"
        read = exported_parquet if path.endswith(PARQUET) else _lines
        assert path.endswith((PARQUET, JSONL))
        yield path, read(folder.storage, path)


def exported_parquet(storage: InputStorage, path: str) -> Iterator[pa.RecordBatch]:
    """The batches of an exported Parquet file, without the columns that only people read."""
    with closing(_File(storage.open(path))) as file:
        there = pq.ParquetFile(pa.PythonFile(file, mode="r"))
        names = [name for name in there.schema_arrow.names if name in _COLUMNS]
        yield from there.iter_batches(_ROWS, columns=names)


def _lines(storage: InputStorage, path: str) -> Iterator[pa.RecordBatch]:
    file = _File(storage.open(path))
    rows: list[dict[str, Any]] = []
    rest = b""
    try:
        while piece := file.read(_PIECE):
            *lines, rest = (rest + piece).split(b"\n")
            rows += [_row(line) for line in lines]
            if len(rows) >= _ROWS:
                yield _batch(rows)
                rows = []
        if rest:
            rows.append(_row(rest))
        if rows:
            yield _batch(rows)
    finally:
        file.close()


def _row(line: bytes) -> dict[str, Any]:
    row = json.loads(line)
    if not isinstance(row, dict):
        raise ValueError("a line is not a JSON object")
    return exported_row(row)


def is_exported(columns: Collection[str]) -> bool:
    """Whether a row has columns that only an export writes: no message to be appended has them."""
    return {"physicalOffset", "queueOffset", "bodyCRC"} <= set(columns)


def exported_row(row: dict[str, Any]) -> dict[str, Any]:
    """The columns of the JSON object of an exported message. Raises UNREADABLE."""
    for column, name in MILLISECONDS.items():
        if name in row:  # older exports have the columns' names
            row[column] = row.pop(name)
    if BODY_BASE64 in row:
        row["body"] = base64.b64decode(row.pop(BODY_BASE64), validate=True)
    row["properties"] = list(row.get("properties", {}).items())
    return row


def _batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    schema = pa.schema([field for name, field in _COLUMNS.items() if name in rows[0]])
    return pa.RecordBatch.from_pylist(rows, schema)
