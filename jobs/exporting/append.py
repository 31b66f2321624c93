"""What `reput append` appends: an export, rows of files, JSON lines, a store's segments."""

import io
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

from reput.broker.writer.copies import CopyChoice, SourceSegment, append_stored
from reput.broker.writer.writer import CommitLogWriter
from reput.jobs.exporting.files import whole_export
from reput.jobs.exporting.read_back import UNREADABLE, batches_in, exported_parquet, is_exported
from reput.store_format.faults import StoreChanged
from reput.store_format.files.by_url import place_at, storage_for
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.protocol import Reader
from reput.store_format.log.record import Record
from reput.store_format.log.segments import Segment, find_segments
from reput.store_format.message.message import NAME_END, VALUE_END, encode_host
from reput.store_format.message.refusals import MessageTooLarge, Refused
from reput.store_format.names import COMMIT_LOG
from reput.store_format.release.settings import SettingError
from reput.udfs.table.message_rows import BadRow

# ---
# Appends the messages of an export, each to its topic and queue.
#
# Body, properties, flags, hosts and bornTimestamp are kept. queueOffset, physical offset and store
# time are new, as for messages copied from another store.

ALL = CopyChoice()


class FromExport(NamedTuple):
    """A message of an export. where: its file and number; row: its columns."""

    where: str
    row: dict[str, Any]


def exported_rows(folder: str, skip: int, wanted: CopyChoice = ALL) -> Iterator[FromExport]:
    """The wanted messages of an export after the first `skip` of them.

    The files are compared with the manifest first: length, SHA-256. Raises StoreError if the folder
    is no export, DamageFound if it is not whole, SettingError if it has no bodies.
    """
    at = place_at(folder)
    manifest = whole_export(at)
    if not manifest["chosen"].get("bodies"):
        raise SettingError(f"--from {at}: was exported with --no-bodies")
    return rows_of(batches_in(at, manifest), skip, wanted)


def rows_of(
    files: Iterable[tuple[str, Iterator[pa.RecordBatch]]], skip: int, wanted: CopyChoice = ALL
) -> Iterator[FromExport]:
    """The wanted messages in exported files, after the first `skip` of them."""
    for path, batches in files:
        number = 0
        try:
            for batch in batches:
                for row in batch.to_pylist():
                    number += 1
                    if not _is_wanted(row, wanted):
                        continue
                    if skip > 0:
                        skip -= 1
                        continue
                    yield FromExport(f"{path}: message {number}", row)
        except UNREADABLE as error:
            what = type(error).__name__  # its text may contain parts of a message
            raise BadRow(f"{path}: after message {number}: cannot be read ({what})") from None


def _is_wanted(row: dict[str, Any], wanted: CopyChoice) -> bool:
    if wanted == ALL:
        return True
    in_time = wanted.since <= row["storeTimestampMillis"] < wanted.until
    return in_time and wanted.topic in ("", row["topic"])


def append_exported(writer: CommitLogWriter, where: str, row: dict[str, Any]) -> None:
    """Append the message of a row. Raises Refused that begins with `where`."""
    try:
        append_stored(writer, stored_as(where, row, writer.profile.property_text_ends))
    except BadRow:
        raise
    except Refused as error:
        raise type(error)(f"{where}: {error}") from None


def stored_as(where: str, row: dict[str, Any], text_ends: bool = False) -> Record:
    """The record of a row. text_ends: Profile.property_text_ends. Raises BadRow."""
    try:
        return _stored(row, text_ends)
    except (KeyError, TypeError, AttributeError) as error:
        raise BadRow(f"{where}: lacks a column or has one of a wrong type: {error}") from None


def _stored(row: dict[str, Any], text_ends: bool) -> Record:
    # in the record's order, which was that of a broker's HashMap
    pairs = [f"{name}{NAME_END}{value}" for name, value in row["properties"]]
    ended = VALUE_END if pairs and text_ends else ""
    return Record(
        topic_bytes=row["topic"].encode("utf-8", "replace"),
        queue_id=row["queueId"],
        queue_offset=row["queueOffset"],
        physical_offset=row["physicalOffset"],
        size=row["size"],
        magic=0,
        body_crc=row["bodyCRC"],
        flag=row["flag"],
        sys_flag=row["sysFlag"],
        born_timestamp=row["bornTimestampMillis"],
        born_host=encode_host(row["bornHost"]),
        store_timestamp=row["storeTimestampMillis"],
        store_host=encode_host(row["storeHost"]),
        reconsume_times=row["reconsumeTimes"],
        prepared_offset=row["preparedTransactionOffset"],
        body_at=0,  # the new record has no place yet
        body_length=len(row["body"]),
        body=row["body"],
        properties=(VALUE_END.join(pairs) + ended).encode("utf-8", "replace"),
    )


# ---
# The inputs of `reput append`: rows of Parquet and Arrow files, JSON lines, a store's segments.

_ARROW_SUFFIXES = (".arrow", ".feather", ".ipc")
_BATCH_ROWS = 1 << 16
_BLOCK_BYTES = 4 << 20  # of JSON lines


class Line(NamedTuple):
    """A nonblank JSON line; its number counts from 1."""

    number: int
    text: bytes


class Lines(NamedTuple):
    """Whole lines one after the other. first: the number of the first of them, from 1."""

    first: int
    raw: bytes

    def each(self) -> Iterator[Line]:
        for number, text in enumerate(io.BytesIO(self.raw), self.first):
            if text.strip():
                yield Line(number, text)


class NumberedRows(NamedTuple):
    """Rows of a table. first: number of the first row, counted from 1 in the file."""

    first: int
    batch: pa.RecordBatch


def source_of(
    name: str, skip: int, wanted: CopyChoice = ALL
) -> "Iterator[Lines | NumberedRows | FromExport]":
    """The messages of a file, of standard input, or of an export's folder.

    Raises OSError; SettingError or StoreError for what cannot be read.
    """
    if name != "-" and ("://" in name or Path(name).is_dir()):
        return exported_rows(name, skip, wanted)
    if wanted != ALL:
        raise SettingError(
            f"--from {name}: --topic, --since and --until choose messages of --from-store, or of a "
            "folder that `reput export` wrote"
        )
    return messages_of(name, skip)


def messages_of(name: str, skip: int) -> "Iterator[Lines | NumberedRows | FromExport]":
    """The messages of a file, or of standard input for `-`, after the first `skip`.

    The file is opened at once. Raises OSError; SettingError if it has not the format of its suffix.
    """
    if name == "-":
        return JsonLines(sys.stdin.buffer, skip)
    lower = name.lower()
    try:
        if lower.endswith(".parquet"):
            file = pyarrow.parquet.ParquetFile(name)
            if is_exported(file.schema_arrow.names):
                return rows_of([(name, exported_parquet(LocalStorage(), name))], skip)
            return _rows(file.iter_batches(_BATCH_ROWS), skip)
        if lower.endswith(_ARROW_SUFFIXES):
            return _rows(iter(_arrow_batches(name)), skip)
    except pa.ArrowInvalid as error:
        raise SettingError(f"--from {name}: {error}") from None
    if lower.endswith((".jsonl", ".json", ".ndjson")):
        return JsonLines(Path(name).open("rb"), skip)
    if not Path(name).exists():
        raise SettingError(f"--from {name}: No such file or directory")
    raise SettingError(f"--from {name}: expected .jsonl, .parquet or .arrow, or - for JSON lines")


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


@contextmanager
def closing_source(source: Any) -> Iterator[Any]:
    """The source, whose file is closed at the end, however often it was refused."""
    try:
        yield source
    finally:
        getattr(source, "close", int)()


def longest_line(body: int) -> int:
    """The bytes that a line of a message with `body` bytes may have: JSON escapes one by six."""
    return _ESCAPED * (body + _BESIDE_BODY)


_ESCAPED, _BESIDE_BODY = 6, 1 << 20


class JsonLines(Iterator[Lines]):
    """Blocks of whole lines after the first `skip` messages; of a pipe what has come so far.

    most: the bytes of a line that are taken before its end is known. Raises MessageTooLarge.
    """

    most = sys.maxsize

    def __init__(self, file: Any, skip: int) -> None:
        self._file, self._skip = file, skip
        self._blocks = self._all()

    def close(self) -> None:
        """Close the file, unless it is standard input."""
        if self._file is not sys.stdin.buffer:
            self._file.close()

    def __next__(self) -> Lines:
        return next(self._blocks)

    def _all(self) -> Iterator[Lines]:
        number, parts, held, skip = 1, list[bytes](), 0, self._skip
        while piece := self._file.read1(_BLOCK_BYTES):
            whole, end, rest = piece.rpartition(b"\n")
            if end:
                block = io.BytesIO(b"".join((*parts, whole, end)))
                parts.clear()
                held = 0
                while skip and (text := block.readline()):
                    number += 1
                    skip -= bool(text.strip())
                left = block.read()
                if left:
                    yield Lines(number, left)
                number += left.count(b"\n")
            parts.append(rest)
            held += len(rest)
            if held > self.most:
                raise MessageTooLarge(
                    f"line {number}: over {self.most:,} bytes: no message is so long"
                )
        last = b"".join(parts)
        if last.strip() and not skip:
            yield Lines(number, last)


class _Segments(list[SourceSegment]):
    """Segments, and the files from which they are read."""

    def __init__(self, files: ExitStack, segments: Iterable[SourceSegment]) -> None:
        super().__init__(segments)
        self.close = files.close


def segments_of(store: str) -> _Segments:
    """A store's segments, read-only; the largest sets their size. Raises OSError, StoreError."""
    storage = storage_for(store)
    folder = f"{storage.resolve(store)}/{COMMIT_LOG}"
    sizes = [listed.state.size for listed in storage.list(folder) if listed.state]
    segments = find_segments(storage, [folder], max(sizes, default=0))

    with ExitStack() as files:

        def source(segment: Segment) -> SourceSegment:
            reader = storage.open(segment.path, segment.state)
            files.enter_context(_closed(reader))
            return SourceSegment(segment.start, segment.end, segment.read_by(reader))

        found = [source(segment) for segment in segments]
        return _Segments(files.pop_all(), found)


@contextmanager
def _closed(reader: Reader) -> Iterator[None]:
    try:
        yield
    finally:
        with suppress(StoreChanged):  # a broker may be writing to the store
            reader.close()
