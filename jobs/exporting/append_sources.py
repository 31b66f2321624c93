"""The inputs of `reput append`: rows of Parquet and Arrow files, JSON lines, a store's segments."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

from reput.broker.writer.copies import SourceSegment
from reput.store_format.files.by_url import storage_for
from reput.store_format.log.segments import Segment, find_segments
from reput.store_format.names import COMMIT_LOG
from reput.store_format.release.settings import SettingError

if TYPE_CHECKING:
    from reput.jobs.exporting.append_exported import FromExport

_ARROW_SUFFIXES = (".arrow", ".feather", ".ipc")
_BATCH_ROWS = 1 << 16


class Line(NamedTuple):
    """A nonblank JSON line; its number counts from 1."""

    number: int
    text: bytes


class NumberedRows(NamedTuple):
    """Rows of a table. first: number of the first row, counted from 1 in the file."""

    first: int
    batch: pa.RecordBatch


def source_of(name: str, skip: int) -> "Iterator[Line | NumberedRows | FromExport]":
    """The messages of a file, of standard input, or of an export's folder.

    Raises OSError; SettingError or StoreError for what cannot be read.
    """
    if name != "-" and ("://" in name or Path(name).is_dir()):
        from reput.jobs.exporting.append_exported import exported_rows

        return exported_rows(name, skip)
    return messages_of(name, skip)


def messages_of(name: str, skip: int) -> Iterator[Line | NumberedRows]:
    """The messages of a file, or of standard input for `-`, after the first `skip`.

    The file is opened at once. Raises OSError; SettingError if it has not the format of its suffix.
    """
    if name == "-":
        return _lines(sys.stdin.buffer, skip)
    lower = name.lower()
    try:
        if lower.endswith(".parquet"):
            return _rows(pyarrow.parquet.ParquetFile(name).iter_batches(_BATCH_ROWS), skip)
        if lower.endswith(_ARROW_SUFFIXES):
            return _rows(iter(_arrow_batches(name)), skip)
    except pa.ArrowInvalid as error:
        raise SettingError(f"--from {name}: {error}") from None
    if lower.endswith((".jsonl", ".json", ".ndjson")):
        return _lines(Path(name).open("rb"), skip)
    if not Path(name).exists():
        raise SettingError(f"--from {name}: No such file or directory")
    raise SettingError(f"--from {name}: .jsonl, .parquet or .arrow is wanted, or - for JSON lines")


def _arrow_batches(name: str) -> list[pa.RecordBatch]:
    """The batches of either Arrow format: files with an index at their end, and streams."""
    source = pa.memory_map(name)
    try:
        file = pa.ipc.open_file(source)
    except pa.ArrowInvalid:
        return list(pa.ipc.open_stream(source))
    return [file.get_batch(number) for number in range(file.num_record_batches)]


def _rows(batches: Iterator[pa.RecordBatch], skip: int) -> Iterator[NumberedRows]:
    first = 1
    for batch in batches:
        left_out = min(max(skip - first + 1, 0), len(batch))
        if left_out < len(batch):
            yield NumberedRows(first + left_out, batch.slice(left_out))
        first += len(batch)


def _lines(file: Any, skip: int) -> Iterator[Line]:
    seen = 0
    for number, text in enumerate(file, 1):
        if text.strip():
            seen += 1
            if seen > skip:
                yield Line(number, text)


def segments_of(store: str) -> list[SourceSegment]:
    """A store's segments, read-only; the largest sets their size. Raises OSError, StoreError."""
    storage = storage_for(store)
    folder = f"{storage.resolve(store)}/{COMMIT_LOG}"
    sizes = [listed.state.size for listed in storage.list(folder) if listed.state]
    segments = find_segments(storage, [folder], max(sizes, default=0))

    def source(segment: Segment) -> SourceSegment:
        reader = storage.open(segment.path, segment.state)
        return SourceSegment(segment.start, segment.end, segment.read_by(reader))

    return [source(segment) for segment in segments]
