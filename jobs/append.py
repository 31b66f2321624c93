"""`reput append`: messages from a file, standard input or another store into a local store."""

import argparse
import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple

import pyarrow as pa

from reput.broker.services.files import add_topics
from reput.broker.writer.copies import Copied, CopyChoice, copy_messages
from reput.broker.writer.writer import CommitLogWriter
from reput.jobs.console import options
from reput.jobs.console.endings import room_of
from reput.jobs.console.progress import progress_of
from reput.jobs.console.voice import add_output, complain, remark
from reput.jobs.deriving.timers import mend_written
from reput.jobs.engines.signals import Stopped, StopSignals
from reput.jobs.exporting import append
from reput.jobs.exporting.files import export_manifest
from reput.jobs.exporting.read_back import exported_row, is_exported
from reput.jobs.opening.held import refuse_shared_files, refuse_what_is_no_store
from reput.jobs.opening.open_writer import local_store, local_store_at, open_writer, try_writer
from reput.jobs.outputs.output import inputs_of, refuse_overlap
from reput.jobs.outputs.report import counted as plain_count
from reput.jobs.outputs.report import era_lines, found_lines, guessed_lines
from reput.jobs.replicating.master import for_the_writer, slaves_of
from reput.store_format.discover.config import config_in_rocksdb, configured_topics
from reput.store_format.discover.sizes import SEGMENT
from reput.store_format.discover.store import NEW_STORE, RELEASE
from reput.store_format.dispatch.scan import record_rules
from reput.store_format.faults import REASONS, Fault, StoreError
from reput.store_format.files.by_url import place_at, storage_for
from reput.store_format.files.folder import Folder, Place
from reput.store_format.files.local import LocalStorage
from reput.store_format.message.refusals import DiskFull, Refused, Unavailable
from reput.store_format.names import COMMIT_LOG, CONFIG, CUT, TOPICS
from reput.store_format.notes import Done, Notes
from reput.store_format.query.offsets import MapLines
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import SettingError, merge_layers
from reput.udfs.table.json_lines import BODY_BASE64, JsonRows
from reput.udfs.table.message_rows import BadRow, append_arrow, message_from


class Appended(NamedTuple):
    """The messages appended, and the log's end before and after.

    next_skip: the value of `--skip` with which the next run goes on.
    """

    messages: int
    start: int
    end: int
    next_skip: int


class Counted:
    """Counts the appended messages. A signal is raised only after messages are counted."""

    def __init__(self, check: Callable[[], None] = lambda: None) -> None:
        """check: of StopSignals. `wait` returns when enough slaves have the log, or at once."""
        self.messages = 0
        self._check = check
        self.wait: Callable[[], None] = lambda: None

    def add(self, messages: int) -> None:
        """Count messages that were just appended. Raises Stopped, NotReplicated."""
        self.messages += messages
        self._check()
        self.wait()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = """\
examples:
  reput append /data/other --from messages.jsonl
  reput append /data/other --from-store /data/store --topic Orders --since 2026-01-31
"""
    parser.add_argument("store", metavar="STORE", help="a store's root; made where there is none")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--from",
        dest="source",
        metavar="FILE",
        help="file.jsonl, file.parquet or file.arrow, or a folder that `reput export` wrote; "
        "- reads JSON lines from standard input",
    )
    source.add_argument("--from-store", metavar="DIR", help="copy messages of another store")
    parser.add_argument(
        "--skip", type=_count, default=0, metavar="N",
        help="leave out the first N messages of the source: those that an earlier run appended",
    )  # fmt: skip
    parser.add_argument(
        "--topic", default="", help="of another store or an export: only this topic"
    )
    parser.add_argument(
        "--since", type=options.milliseconds, metavar="TIME",
        help=f"of another store or an export: stored then or later: {options.TIME_FORMS}",
    )  # fmt: skip
    parser.add_argument(
        "--until",
        type=options.milliseconds,
        metavar="TIME",
        help="of another store or an export: stored before that",
    )
    options.add_broker(parser, options.WRITES_AS)
    options.add_timezone(parser)
    options.add_consent(parser)
    parser.add_argument(
        "--offset-map", metavar="FILE",
        help="of another store or an export: write where its positions are in STORE, for `reput "
        "offsets map`",
    )  # fmt: skip
    parser.add_argument(
        "--no-dispatch",
        action="store_true",
        help="leave ConsumeQueue and Index to `reput rebuild` or to the broker",
    )
    parser.add_argument(
        "--preallocate",
        action="store_true",
        help="make each segment ahead, while the one before it is filled, as a broker does "
        "(AllocateMappedFileService)",
    )
    parser.add_argument(
        "--ha-listen",
        metavar="HOST:PORT",
        help="be the master of real brokers with brokerRole=SLAVE meanwhile; with --set "
        "brokerRole=SYNC_MASTER what is appended waits for them (slaveTimeout, inSyncReplicas)",
    )
    add_output(parser, times=True)


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError
    return number


def run(arguments: argparse.Namespace) -> int:
    """Append, and report how many messages were appended, however the command ends.

    Returns the exit code: 0 done, 1 the source store is damaged, or the store's log had lost what
    its queues named before a crash, 2 a message is refused, 3 the
    store takes none now, as its disk is full; 130, 143 and 129 ended by SIGINT, SIGTERM and SIGHUP.

    Raises SettingError, UnknownRelease, StoreError, OSError.
    """
    store = local_store(arguments.store)
    is_new = not os.path.isdir(f"{store}/{COMMIT_LOG}") or not os.listdir(f"{store}/{COMMIT_LOG}")
    refuse_overlap(Place(LocalStorage(), store), _inputs(arguments))
    refuse_what_is_no_store(store)
    refuse_shared_files(store)
    if arguments.rocketmq:
        profile(arguments.rocketmq)
    settings = merge_layers(*options.setting_layers(arguments))
    listen = options.host_port("--ha-listen", arguments.ha_listen) if arguments.ha_listen else None
    # opened before the store, which must not be made if the file is missing
    with append.closing_source(_opened(arguments)) as source:
        return _run(arguments, store, settings, source, is_new, listen)


def _run(
    arguments: argparse.Namespace, store: str, settings: dict[str, str], source: Any, is_new: bool,
    listen: tuple[str, int] | None,
) -> int:  # fmt: skip
    warnings: list[str] = []
    discovered: dict[str, Any] = {}
    if is_new:
        settings = merge_layers(_sizes_of_source(arguments, source), settings)
    if arguments.dry_run:
        return _would_append(arguments, store, settings, source, is_new)
    if not is_new:
        options.consent(arguments.yes)(f"append to the log of {store}, in place")
    writer = open_writer(
        arguments.store,
        rocketmq=arguments.rocketmq,
        settings=settings if listen is None else for_the_writer(settings),
        dispatches=not arguments.no_dispatch,
        prepare_ahead=arguments.preallocate,
        warnings=warnings,
        discovered=discovered,
    )
    start = writer.log.end
    code, said, topics, waits = options.DONE, "", list[str](), list[str]()
    progress = progress_of(arguments)
    # until the writer is closed, no signal may end the process
    counted: Counted | None = None
    try:
        with StopSignals() as stop, writer, ExitStack() as stack:
            counted = Counted(stop.check)
            if writer.recovered is not None:  # before other records stand where the log was cut
                waits = mend_written(writer, store, settings)
            if (file := options.new_file(arguments, "offset_map", settings)) is not None:
                lines = MapLines(stack.enter_context(file.writing()))
                stack.callback(lines.end)
                writer.placed = lines.add
            if listen is not None:
                counted.wait = stack.enter_context(
                    slaves_of(writer, store, listen, settings, remark, stop.check)
                )

            def shown() -> Done:
                return Done(
                    None, f"{counted.messages:,} messages, {writer.log.end - start:,} bytes"
                )

            try:
                with progress.stage("append", shown):
                    code, said = _append_from(arguments, writer, source, counted, stop.waiting)
            except Unavailable as error:  # the store takes no message at all now
                code, said = (
                    options.FAILED,
                    f"{store}: {error} ({type(error).__name__}, {error.status})",
                )
                if isinstance(error, DiskFull):
                    said += f"; {room_of(store)}"
            except Refused as error:
                code, said = options.USAGE, _refusal(arguments, error)
            except Stopped as error:
                code, said = error.exit_code, str(error)
            writer.flush()
            end = writer.log.end
            topics = _add_topics(arguments, writer, warnings)
    except (StoreError, OSError):  # also from the last write, and from closing the writer
        # the caller reports the error, but only this function knows the count
        complain(_progress_of(arguments, counted.messages if counted else 0))
        raise
    assert counted is not None
    done = Appended(counted.messages, start, end, arguments.skip + counted.messages)
    discovered |= {
        n: {"value": v, "by": "by the store's files"} for n, v in writer.sizes_found.items()
    }
    _report(arguments, done, writer, warnings, discovered, topics, waits)
    if said:
        nothing = code == options.DAMAGE and not counted.messages
        complain(said if nothing else f"{said}; {_progress_of(arguments, counted.messages)}")
    return options.DAMAGE if code == options.DONE and writer.entries_cut else code


def _opened(arguments: argparse.Namespace) -> Any:
    """The opened source. Raises SettingError if it is missing or unreadable, StoreError."""
    try:
        if arguments.from_store:
            return append.segments_of(arguments.from_store)
        return append.source_of(arguments.source, arguments.skip, _wanted(arguments))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError) as error:
        option = "--from-store" if arguments.from_store else "--from"
        name, why = arguments.from_store or arguments.source, os.strerror(error.errno or 0)
        raise SettingError(f"{option} {name}: {why}") from None


def _sizes_of_source(arguments: argparse.Namespace, source: Any) -> dict[str, str]:
    """The size of segments where the messages come from, which a new store gets too."""
    if arguments.from_store:
        size = max((each.end - each.start for each in source), default=0)
    elif arguments.source != "-" and ("://" in arguments.source or os.path.isdir(arguments.source)):
        size = export_manifest(place_at(arguments.source)).get("segment_bytes")
    else:
        return {}
    return {SEGMENT: str(size)} if isinstance(size, int) and size > 0 else {}


def _would_append(
    arguments: argparse.Namespace, store: str, settings: dict[str, str], source: Any, is_new: bool
) -> int:
    """--dry-run: count the messages, and say to what they would be appended; or what is refused."""
    trial = try_writer(local_store_at(store, arguments.rocketmq, settings))
    counted = Counted()
    try:
        code, said = _append_from(arguments, trial, source, counted)
    except Refused as error:
        code, said = options.USAGE, _refusal(arguments, error)
    messages = counted.messages
    whole = {"messages": messages, "store": store, "new": is_new, "dry_run": True}
    what = "which would be made" if is_new else "whose log goes on"
    options.show(
        arguments, whole, f"would append {plain_count(messages, 'message')} to {store}, {what}"
    )
    if said:
        complain(said)
    return options.DAMAGE if messages and code == options.DONE else code


def _append_from(
    arguments: argparse.Namespace, writer: CommitLogWriter, source: Any, counted: Counted,
    waiting: Callable[[Any], Any] = iter,
) -> tuple[int, str]:  # fmt: skip
    """Append a source; (exit code, text) of its damage, or that it has nothing of the topic."""
    code, said = options.DONE, ""
    if arguments.from_store:
        copied = copy_messages(
            writer, source, record_rules(writer.profile), _wanted(arguments), arguments.skip,
            counted.add,
        )  # fmt: skip
        code, said = _source_damage(arguments.from_store, copied)
    else:
        if isinstance(source, append.JsonLines):
            source.most = append.longest_line(writer.settings.max_message_size)
        _append_all(writer, waiting(source), counted)
    if arguments.topic and not (said or counted.messages or arguments.skip):
        where = arguments.from_store or arguments.source
        code, said = options.DAMAGE, f"{where}: has no such message of topic {arguments.topic!r}"
    return code, said


def _refusal(arguments: argparse.Namespace, error: Refused) -> str:
    where = arguments.from_store or arguments.source
    return f"{where}: {error} ({type(error).__name__}, {error.status})"


def _add_topics(
    arguments: argparse.Namespace, writer: CommitLogWriter, warnings: list[str]
) -> list[str]:
    """Add the topics of what was appended to config/topics.json; those that were not there."""
    grown, store = writer.appender.queues_grown(), local_store(arguments.store)
    if config_in_rocksdb(Folder(LocalStorage(), store), TOPICS) is not None:
        return []
    like: Mapping[str, Any] = {}
    if arguments.from_store:
        like = configured_topics(place_at(arguments.from_store), Notes()) or {}
    try:
        return add_topics(writer.store.files, grown, like, writer.profile, writer.clock())
    except StoreError as error:
        warnings.append(f"{error}; a broker may have no route to {', '.join(sorted(grown))}")
        return []


def _progress_of(arguments: argparse.Namespace, messages: int) -> str:
    were = "was" if messages == 1 else "were"
    return (
        f"{plain_count(messages, 'message')} {were} appended: "
        f"--skip {arguments.skip + messages} goes on after them"
    )


def _source_damage(store: str, copied: Copied) -> tuple[int, str]:
    """(exit code, text) about damage in the source of a copy; no text if its log was sound."""
    if copied.fault in (Fault.BLANK, Fault.ZEROS, Fault.NONE):
        return options.DONE, ""
    field, reason = REASONS[copied.fault]
    return options.DAMAGE, f"{store}: stopped at {copied.stopped_at}: {field}: {reason}"


def _inputs(arguments: argparse.Namespace) -> list[Place]:
    """The inputs, to which nothing may be appended, as the command would read its own output."""
    if arguments.from_store:
        return inputs_of(place_at(arguments.from_store), {})
    if arguments.source == "-":
        return []
    return [Place(storage_for(arguments.source), arguments.source)]


def _wanted(arguments: argparse.Namespace) -> CopyChoice:
    everything = CopyChoice()
    return CopyChoice(
        arguments.topic,
        everything.since if arguments.since is None else arguments.since,
        everything.until if arguments.until is None else arguments.until,
    )


def _append_all(
    writer: CommitLogWriter,
    source: Iterator[append.Lines | append.NumberedRows | append.FromExport],
    counted: Counted,
) -> None:
    """Append a source's messages. Raises Refused at the first refusal, naming line or row."""
    rows = JsonRows(writer.profile.property_map_capacity)
    try:
        for item in source:
            if isinstance(item, append.NumberedRows):
                append_arrow(writer, item.batch, item.first, counted.add)
            elif isinstance(item, append.FromExport):
                append.append_exported(writer, item.where, item.row)
                counted.add(1)
            else:
                _append_lines(writer, item, rows, counted)
    except pa.ArrowException as error:
        raise BadRow(f"cannot be read: {error}") from None


def _append_lines(
    writer: CommitLogWriter, lines: append.Lines, rows: JsonRows, counted: Counted
) -> None:
    """Append lines as a table's rows if they can be; from what is refused on one by one."""
    before, table = counted.messages, rows.table(lines.raw)
    if table is not None:
        with suppress(Refused, pa.ArrowException):
            append_arrow(writer, table, done=counted.add)
            return
    for line in itertools.islice(lines.each(), counted.messages - before, None):
        _append_line(writer, line)
        counted.add(1)


def _append_line(writer: CommitLogWriter, line: append.Line) -> None:
    try:
        fields = json.loads(line.text)
        if not isinstance(fields, dict):
            raise BadRow("expected a JSON object")
        if not is_exported(fields):
            writer.append(message_from(fields))
        elif BODY_BASE64 in fields:
            append.append_exported(writer, "of an export", exported_row(fields))
        else:
            raise BadRow("was exported with --no-bodies")
    except Refused as error:
        raise type(error)(f"line {line.number}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise BadRow(f"line {line.number}: {error}") from None


def _report(
    arguments: argparse.Namespace, done: Appended, writer: CommitLogWriter, warnings: list[str],
    discovered: dict[str, Any], topics: list[str], waits: list[str],
) -> None:  # fmt: skip
    recovered = writer.recovered
    whole = {
        **done._asdict(),
        "store": local_store(arguments.store),
        "recovered": recovered is not None,
        "cut_bytes": recovered.cut_bytes if recovered else 0,
        "entries_cut": writer.entries_cut,
        "discovered": discovered,
        "topics": topics,
        "waits": waits,
        "warnings": warnings,
    }
    many = plain_count(done.messages, "message")
    lines = [f"{many} appended to {arguments.store}, offsets {done.start:,} to {done.end:,}"]
    lines += era_lines(discovered)
    release = discovered.get(RELEASE, {})
    if release.get("by") == NEW_STORE:
        lines.append(f"  new       as RocketMQ {release['value']} would: {NEW_STORE}")
    if recovered is not None:
        cut = plain_count(recovered.cut_bytes, "byte")
        kept = f", and are kept in {CUT}/" if recovered.cut_bytes else ""
        lines.append(f"  recovered up to {recovered.end:,} first, as the store was not closed: "
                     f"{cut} after it were cut off{kept}")  # fmt: skip
    if writer.entries_cut:
        entries = plain_count(writer.entries_cut, "queue entry")
        lines.append(f"  lost      {entries} of messages that the log no longer had: cut")
    if topics:
        lines.append(f"  topics    {', '.join(topics)}: added to {CONFIG}/{TOPICS}")
    lines += guessed_lines(discovered) if done.messages else []
    lines += [f"  waits     {line}" for line in waits]
    lines += [f"  warning   {warning}" for warning in warnings]
    options.show(arguments, whole, "\n".join(lines), found_lines(discovered))
