"""What commands that answer questions share: options in, rows out, bodies decompressed."""

import argparse
import json
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from reput.jobs.console import options, voice
from reput.jobs.console.progress import ShownProgress
from reput.jobs.console.store_there import check_store
from reput.jobs.opening.questions import Store, open_store
from reput.store_format.faults import StoreError
from reput.store_format.message import bodies
from reput.store_format.message.message import parse_properties
from reput.store_format.notes import Progress
from reput.store_format.query.reader import StoredMessage
from reput.store_format.release.profiles import RELEASES
from reput.store_format.release.settings import SettingError, merge_layers

# ---
# Shared by commands that answer questions about a store: options and rows.

NOTHING = "nothing was found"


def add_asked_store(parser: argparse.ArgumentParser, scan: bool = True) -> None:
    """Add STORE and options of a command that only reads it. scan: whether to add --scan."""
    options.add_store_path(parser)
    options.add_broker(
        parser,
        f"the release of its broker, {RELEASES[0]} .. {RELEASES[-1]}: answers differ where "
        "properties are malformed, and with --as-rocketmq",
        "one setting by RocketMQ's name; the files show sizes",
    )
    if scan:
        parser.add_argument(
            "--scan", action="store_true", help="read the log itself, not queues and index"
        )
    voice.add_output(parser, rows=True, times=True)


def add_listing(parser: argparse.ArgumentParser, scan: bool = True) -> None:
    """Add the options of a command that lists rows, each of a topic; `run_listing` obeys them."""
    add_asked_store(parser, scan)
    parser.add_argument("--topic", metavar="T", help="only rows of this topic")
    parser.add_argument(
        "--sort", metavar="NAME[,-NAME]",
        help="by these columns, named as in the table; -NAME: the greatest first",
    )  # fmt: skip
    add_limit(parser)


def add_limit(parser: "argparse._ActionsContainer", terminal: str = "") -> None:
    """Add --limit. terminal: help on what a terminal is shown without it."""
    parser.add_argument(
        "--limit", type=options.at_least_one, metavar="N",
        help=f"show the first N, and say how many more there are{terminal}",
    )  # fmt: skip


def add_message_id(parser: argparse.ArgumentParser) -> None:
    """Add ID, by position or as --message-id; `message_id` reads it."""
    what = "the client's id (UNIQ_KEY) or the broker's, as it is found"
    parser.add_argument("message", metavar="ID", nargs="?", help=f"a message: {what}")
    parser.add_argument("--message-id", metavar="ID", help="the same")


def message_id(arguments: argparse.Namespace) -> str | None:
    """The id that was given, if any. Raises StoreError for two."""
    if arguments.message is not None and arguments.message_id is not None:
        raise StoreError("ID and --message-id: one message is asked for at a time")
    given: str | None = arguments.message or arguments.message_id
    return given


def asked_store(arguments: argparse.Namespace) -> Store:
    """The store, opened. Raises StoreError, SettingError, UnknownRelease, OSError."""
    settings = merge_layers(*options.setting_layers(arguments))
    silent = voice.is_quiet() or os.path.sameopenfile(1, 2)  # no progress within the answer
    try:
        return open_store(
            arguments.store, rocketmq=arguments.rocketmq, settings=settings, tell=voice.remark,
            progress=Progress() if silent else ShownProgress(),
        )  # fmt: skip
    except StoreError:
        check_store(arguments.store, settings)  # its error may name the store that was meant
        raise


class RowWriter:
    """Writes rows for programs: JSON lines, or CSV with a heading."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._csv = arguments.format == voice.CSV
        self._columns: list[str] = []

    def write(self, row: Mapping[str, Any]) -> None:
        """Write a row. CSV has only the columns of the first row."""
        if not self._csv:
            sys.stdout.write(json.dumps(row) + "\n")
            return
        if not self._columns:
            self._columns = list(row)
            sys.stdout.write(voice.csv_text([self._columns]))
        sys.stdout.write(voice.csv_text([[row.get(name) for name in self._columns]]))


def for_programs(arguments: argparse.Namespace) -> bool:
    """Whether rows are wanted as JSON or CSV."""
    return bool(arguments.json or arguments.format == voice.CSV)


# ---
# Shared by commands that list rows of a store, as a table, JSON lines or CSV.


def at(milliseconds: int) -> str | None:
    """A time for a table; None if negative."""
    return None if milliseconds < 0 else voice.time_text(milliseconds)


class OutputColumn(NamedTuple):
    """A column of a table. value: row -> what is sorted by; text: whether cells are text, aligned
    left; shown: value (of several, their texts) -> cell, None for none.
    """

    name: str
    value: Callable[[Any], Any]
    text: bool = False
    shown: Callable[[Any], Any] = str

    @property
    def title(self) -> str:
        return voice.in_zone(self.name) if self.shown is at else self.name

    def cell(self, row: Any) -> str:
        value = self.value(row)
        value = " ".join(map(str, value)) if isinstance(value, (list, tuple)) else value
        cell = None if value is None else self.shown(value)
        return "-" if cell is None else voice.safe(str(cell))


def time_column(name: str, value: Callable[[Any], int | None]) -> OutputColumn:
    """A column of times. value: row -> milliseconds."""
    return OutputColumn(name, value, True, at)


def columns_of(*texts: str | OutputColumn) -> tuple[OutputColumn, ...]:
    """Columns by their texts, as in page/model.py: `name=field`, or a field's name alone; of
    numbers with a # at the end, of times with an @.
    """
    found = []
    for each in texts:
        if isinstance(each, str):
            name, _, field = each.rstrip("#@").partition("=")
            value: Any = attrgetter(field or name)
            is_time = each.endswith("@")
            text = not each.endswith("#")
            each = time_column(name, value) if is_time else OutputColumn(name, value, text)
        found.append(each)
    return tuple(found)


def write_table(columns: Sequence[OutputColumn], rows: Iterable[Any]) -> None:
    texts = [[column.title for column in columns]]
    texts += [[column.cell(row) for column in columns] for row in rows]
    widths = [max(map(len, cells)) for cells in zip(*texts, strict=True)]
    for row in texts:
        cells = [
            cell.ljust(width) if column.text else cell.rjust(width)
            for column, cell, width in zip(columns, row, widths, strict=True)
        ]
        sys.stdout.write("  ".join(cells).rstrip() + "\n")


def in_order(rows: Sequence[Any], columns: Sequence[OutputColumn], order: str | None) -> list[Any]:
    """Rows by the columns of --sort, those alike as they came. Raises SettingError."""
    known, found = {column.name: column.value for column in columns if column.name}, list(rows)
    for word in reversed(order.split(",") if order else ()):
        value = known.get(word.removeprefix("-"))
        if value is None:
            raise SettingError(f"--sort {word!r}: expected one of {', '.join(known)}")
        keyed = [(((cell := value(row)) is not None, cell), row) for row in found]
        found = [row for _, row in sorted(keyed, key=itemgetter(0), reverse=word[:1] == "-")]
    return found


def run_listing(
    arguments: argparse.Namespace, rows_of: Callable[[Store], Sequence[Any]],
    columns: Sequence[OutputColumn], as_table: Callable[[Sequence[Any]], None] | None = None,
    as_row: Callable[[Any], Mapping[str, Any]] = lambda row: row._asdict(),
) -> int:  # fmt: skip
    """Show NamedTuples as rows; the exit code, 1 where the answer lacks something (Store.lacking).
    as_table: shows them to people, in place of one table; as_row: a row's fields, for programs.
    Raises StoreError, SettingError, OSError.
    """
    topic = getattr(arguments, "topic", None)
    with asked_store(arguments) as store:
        found = [row for row in rows_of(store) if topic in (None, row.topic)]
        show_rows(arguments, found, columns, as_table, as_row)
        return options.DAMAGE if store.lacking else options.DONE


def show_rows(
    arguments: argparse.Namespace, found: Sequence[Any], columns: Sequence[OutputColumn],
    as_table: Callable[[Sequence[Any]], None] | None = None,
    as_row: Callable[[Any], Mapping[str, Any]] = lambda row: row._asdict(),
) -> None:  # fmt: skip
    """Show rows, by --sort and --limit where a command has them. Raises SettingError."""
    limit = getattr(arguments, "limit", None)
    found = in_order(found, columns, getattr(arguments, "sort", None))
    rows = found[:limit]
    if for_programs(arguments):
        writer = RowWriter(arguments)
        for row in rows:
            writer.write(voice.camel_case(as_row(row)))
    elif as_table is not None:
        as_table(rows)
    elif rows:
        write_table(columns, rows)
    if len(found) > len(rows):
        voice.remark(f"{len(found) - len(rows):,} more: --limit {limit} leaves them out")
    if not rows:
        voice.remark(NOTHING)


# ---
# Reads the file of --keys-file: one key a line.


def read_keys(path: str) -> list[str]:
    """The lines of a file that are not empty; path `-` is standard input.

    Raises StoreError if the file cannot be read, or a line is no UTF-8.
    """
    try:
        raw = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise StoreError(f"--keys-file {path}: {error.strerror}") from None
    keys = []
    for number, line in enumerate(raw.split(b"\n"), 1):
        try:
            key = line.removesuffix(b"\r").decode()
        except UnicodeDecodeError:
            raise StoreError(f"--keys-file {path}: line {number} is not UTF-8") from None
        if key:
            keys.append(key)
    return keys


# ---
# Decompresses bodies for output, and takes inner batches apart.


def body_of(message: StoredMessage, decompress: bool) -> bytes:
    """The body, decompressed if `decompress`, or as stored if it cannot be decompressed.
    A line on standard error tells the reason, or that the body's CRC is wrong.
    """
    body, record = message.body(), message.record
    if body and zlib.crc32(body) & 0x7FFFFFFF != record.body_crc:
        voice.remark(f"physical offset {record.physical_offset}: bodyCRC does not match the body")
    if not decompress:
        return body
    try:
        return bodies.decompressed(body, message.record.sys_flag, bodies.BODY_MOST)
    except bodies.BodyError as error:
        voice.remark(
            f"physical offset {message.physical_offset}: {error}; it is shown as it stands"
        )
        return body


def inner_of(message: StoredMessage, body: bytes) -> list[bodies.InnerMessage]:
    """The messages in an inner batch's decompressed body; empty if the message is no batch.
    Of a damaged body the messages before the damage, with a line on standard error.
    """
    found: list[bodies.InnerMessage] = []
    if bodies.is_batch(message.record.sys_flag):
        try:
            found.extend(bodies.inner_messages(body))
        except bodies.BodyError as error:
            voice.remark(f"physical offset {message.physical_offset}: {error}")
    return found


def inner_row(message: StoredMessage, number: int, inner: bodies.InnerMessage) -> dict[str, Any]:
    """The fields of an inner message except its body. number: its place in the batch, from 0.
    Its other fields are those of the record (MessageDecoder.decodeMessage).
    """
    return {
        "queueOffset": message.queue_offset + number,
        "flag": inner.flag,
        "properties": parse_properties(inner.properties),  # batches came after the old split
    }
