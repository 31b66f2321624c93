"""`reput append`: messages from a file, standard input or another store into a local store."""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet

from jobs.options import DAMAGE, DONE, USAGE, setting_layers
from jobs.plan import topic_attributes
from store_format.faults import REASONS, Fault, StoreError
from store_format.names import COMMIT_LOG
from store_format.profiles import RELEASES, profile
from store_format.rules import record_rules
from store_format.segments import Segment, find_segments
from store_format.setting_warnings import setting_warnings
from store_format.settings import SettingError, merge_layers
from store_format.storage import storage_for
from store_format.storage.local import LocalStorage
from store_format.writer.copying import SourceSegment, Wanted, copy_messages
from store_format.writer.errors import Refused
from store_format.writer.options import writer_settings_from
from store_format.writer.writer import DEFAULT_RELEASE, CommitLogWriter
from udfs.append import BadRow, append_arrow, message_from

_ARROW_SUFFIXES = (".arrow", ".feather", ".ipc")
_BATCH_ROWS = 1 << 16


class Appended(NamedTuple):
    """What was done: messages appended, and where the log stood before and after."""

    messages: int
    start: int
    end: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `reput append` understands."""
    parser.add_argument("store", metavar="STORE", help="a store's root; made where there is none")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--from",
        dest="source",
        metavar="FILE",
        help="file.jsonl, file.parquet or file.arrow; - reads JSON lines from standard input",
    )
    source.add_argument("--from-store", metavar="DIR", help="copy messages of another store")
    parser.add_argument("--topic", default="", help="with --from-store: only this topic")
    parser.add_argument(
        "--since", type=int, metavar="MS", help="with --from-store: stored at or after (epoch ms)"
    )
    parser.add_argument(
        "--until", type=int, metavar="MS", help="with --from-store: stored before (epoch ms)"
    )
    parser.add_argument(
        "--rocketmq", default=DEFAULT_RELEASE, metavar="VERSION",
        help=f"whose rules to follow, {RELEASES[0]} .. {RELEASES[-1]} (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--broker-conf", metavar="FILE", help="the broker's properties file")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", dest="assignments",
        help="one setting by RocketMQ's name, over the broker's file; may be repeated; "
        "docs/settings.md lists them, with what is done of each",
    )  # fmt: skip
    parser.add_argument(
        "--no-dispatch",
        action="store_true",
        help="leave ConsumeQueue and Index to `reput rebuild` or to the broker",
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on standard output, nothing else"
    )


def run(arguments: argparse.Namespace) -> int:
    """Append, and say what was. Returns the exit code: 0 done, 1 damage, 2 a message is refused.

    Raises SettingError, UnknownRelease, StoreError, OSError.
    """
    rules = profile(arguments.rocketmq)
    given = merge_layers(*setting_layers(arguments))
    settings = writer_settings_from(given, release=rules.release)
    warnings = setting_warnings(given, rules.release, "append")
    source = _source(arguments, rules.ipv6_hosts, rules.long_topics)
    if not isinstance(storage_for(arguments.store), LocalStorage):
        raise StoreError(f"{arguments.store}: append writes to a local store")
    topics = topic_attributes(LocalStorage(), arguments.store, warnings)
    writer = CommitLogWriter.open(
        arguments.store,
        settings,
        clock=lambda: time.time_ns() // 1_000_000,
        release=arguments.rocketmq,
        host=settings.store_host,
        batch_topics=[t for t, about in topics.items() if about.get("queue.type") == "BatchCQ"],
        dispatches=not arguments.no_dispatch,
    )
    refused: Refused | None = None
    stopped = ""
    count, start = 0, writer.log.end
    with writer:
        if arguments.from_store:
            copied = copy_messages(writer, source, record_rules(rules), _wanted(arguments))
            count = copied.copied
            if copied.fault not in (Fault.BLANK, Fault.ZEROS, Fault.NONE):
                field, reason = REASONS[copied.fault]
                stopped = (
                    f"{arguments.from_store}: stopped at {copied.stopped_at}: {field}: {reason}"
                )
        else:
            try:
                for done in _append_all(writer, source):
                    count += done
            except _Stopped as error:
                count, refused = count + error.done, error.reason
        writer.flush()
        end = writer.log.end
    _report(arguments, Appended(count, start, end), writer, warnings)
    if refused is not None:
        sys.stderr.write(
            f"reput: error: {arguments.source}: {refused} ({type(refused).__name__}, "
            f"{refused.status}); {count} messages before it were appended\n"
        )
        return USAGE
    if stopped:
        sys.stderr.write(f"reput: error: {stopped}\n")
        return DAMAGE
    return DONE


def _wanted(arguments: argparse.Namespace) -> Wanted:
    everything = Wanted()
    return Wanted(
        arguments.topic,
        everything.since if arguments.since is None else arguments.since,
        everything.until if arguments.until is None else arguments.until,
    )


# --- where messages come from --------------------------------------------------------------


def _source(arguments: argparse.Namespace, *_: bool) -> Any:
    """Opened before the store is: a missing file must not make one. Raises OSError, StoreError."""
    if arguments.from_store:
        return _source_segments(arguments.from_store)
    name = arguments.source
    if name == "-":
        return _lines(sys.stdin.buffer)
    lower = name.lower()
    if lower.endswith(".parquet"):
        file = pyarrow.parquet.ParquetFile(name)
        return file.iter_batches(_BATCH_ROWS)
    if lower.endswith(_ARROW_SUFFIXES):
        return iter(_arrow_batches(name))
    if lower.endswith((".jsonl", ".json", ".ndjson")):
        return _lines(Path(name).open("rb"))
    raise SettingError(f"--from {name}: .jsonl, .parquet or .arrow is wanted, or - for JSON lines")


def _arrow_batches(name: str) -> list[pa.RecordBatch]:
    """Both of Arrow's formats: files with an index at their end, and streams."""
    source = pa.memory_map(name)
    try:
        file = pa.ipc.open_file(source)
    except pa.ArrowInvalid:
        return list(pa.ipc.open_stream(source))
    return [file.get_batch(number) for number in range(file.num_record_batches)]


def _lines(file: Any) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(file, 1):
        if line.strip():
            yield number, line


def _source_segments(store: str) -> list[SourceSegment]:
    """The log of a store, read only; its segment size is that of its files."""
    storage = storage_for(store)
    folder = f"{storage.resolve(store)}/{COMMIT_LOG}"
    sizes = [listed.state.size for listed in storage.list(folder) if listed.state]
    segments = find_segments(storage, [folder], max(sizes, default=0))

    def source(segment: Segment) -> SourceSegment:
        reader = storage.open(segment.path, segment.state)
        return SourceSegment(segment.start, segment.end, segment.read_by(reader))

    return [source(segment) for segment in segments]


class _Stopped(Exception):
    def __init__(self, done: int, reason: Refused) -> None:
        super().__init__(str(reason))
        self.done, self.reason = done, reason


def _append_all(writer: CommitLogWriter, source: Iterator[Any]) -> Iterator[int]:
    """Append what a source yields; yields counts. Raises _Stopped at the first refusal."""
    for item in source:
        try:
            if isinstance(item, pa.RecordBatch):
                yield append_arrow(writer, item).messages
            else:
                _append_line(writer, *item)
                yield 1
        except Refused as error:
            raise _Stopped(0, error) from None


def _append_line(writer: CommitLogWriter, number: int, line: bytes) -> None:
    try:
        fields = json.loads(line)
        if not isinstance(fields, dict):
            raise BadRow("a JSON object is wanted")
        writer.append(message_from(fields))
    except Refused as error:
        raise type(error)(f"line {number}: {error}") from None
    except ValueError as error:
        raise BadRow(f"line {number}: {error}") from None


def _report(
    arguments: argparse.Namespace, done: Appended, writer: CommitLogWriter, warnings: list[str]
) -> None:
    recovered = writer.recovered
    if arguments.json:
        whole = {
            **done._asdict(),
            "store": os.path.abspath(arguments.store),
            "recovered": recovered is not None,
            "cut_bytes": recovered.cut_bytes if recovered else 0,
            "warnings": warnings,
        }
        sys.stdout.write(json.dumps(whole) + "\n")
        return
    for warning in warnings:
        sys.stderr.write(f"reput: warning: {warning}\n")
    if recovered is not None:
        sys.stdout.write(
            f"the store was not closed; recovered up to {recovered.end}, "
            f"{recovered.cut_bytes} bytes after it were cut off\n"
        )
    sys.stdout.write(
        f"{done.messages} messages appended to {arguments.store}, offsets {done.start} to "
        f"{done.end}\n"
    )
