"""`reput dump FILE`: the content of one file of a store, or a RocksDB, as a table or JSON lines.

Files are read range by range, so that a segment of a GiB needs no more memory than a small one.
What senders put into messages (bodies, properties) is only shown on request.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from reput.jobs.console.dump_text import Item, TextTable
from reput.jobs.console.options import DAMAGE, DONE, add_broker, broker_conf
from reput.jobs.console.voice import CSV, add_output, csv_text
from reput.store_format.derived.queue_files import entry_bytes
from reput.store_format.describe.files import (
    FileKind,
    IndexFileView,
    describe_checkpoint,
    describe_queue,
    describe_small,
    describe_tiered_index,
    first_offset,
    index_sizes,
    kind_of,
)
from reput.store_format.describe.log import ShownContent, describe_segment
from reput.store_format.describe.rocksdb import describe_database
from reput.store_format.discover.config import has_database
from reput.store_format.discover.delay_levels import SETTING
from reput.store_format.discover.purpose import LOOK
from reput.store_format.discover.sizes import ENTRIES, SLOTS, SeenFile, pair_of, seen_index
from reput.store_format.discover.store import Discovered, StoreAt, discover
from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.faults import StoreError
from reput.store_format.files.by_url import place_at, storage_for
from reput.store_format.files.folder import Folder
from reput.store_format.files.protocol import Reader
from reput.store_format.layouts import INDEX_HEADER_BYTES, RECORD_HEAD
from reput.store_format.log.rules import NO_HEADS
from reput.store_format.log.segments import is_dledger
from reput.store_format.names import COMPACTION_QUEUE, segment_start, tiered_start
from reput.store_format.release.profiles import RELEASES, UnknownRelease, profile
from reput.store_format.release.setting_table import BY_NAME, SettingError
from reput.store_format.release.settings import Settings, parse_assignments, settings_from
from reput.store_format.rocksdb.database import open_database

PARTS = ("header", "entries", "slots")
_LISTED = ("record", "entry", "slot", "row")  # kinds of items that --limit counts
_SMALL_MAX = 1 << 20

_EPILOG = """\
--from and --limit count, by the kind of file: physical offsets and records (commitlog), positions
in the queue and entries (consumequeue, batchconsumequeue), entry numbers or, with --part slots,
slots (index). A file's first position follows from its name. A folder with a RocksDB is shown row
by row.

examples:
  reput dump /data/store/consumequeue/Orders/0/00000000000000000000 --limit 5
  reput dump /data/store/commitlog/00000000000000000000 --properties --json
  reput dump /data/store/consumequeue --limit 5

exit codes: 0 nothing wrong, 1 damage found in the file, 2 wrong usage or no such file,
3 the file could not be read, or changed meanwhile
"""


class DumpError(StoreError):
    """The file cannot be dumped as asked; the message says why."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument(
        "file", metavar="FILE", help="a file of a store, or a folder with a RocksDB"
    )
    parser.add_argument(
        "--kind", choices=[str(kind) for kind in FileKind],
        help="what the file is, where its name and folders do not tell",
    )  # fmt: skip
    add_output(parser, rows=True, times=True)
    parser.add_argument(
        "--from", dest="first", type=_number, metavar="N", help="begin at this offset or number"
    )
    parser.add_argument("--limit", type=_number, metavar="N", help="list at most N")
    parser.add_argument("--part", choices=PARTS, help="of an index file, only this part")
    parser.add_argument("--bodies", action="store_true", help="show message bodies")
    parser.add_argument("--properties", action="store_true", help="show message properties")
    add_broker(
        parser,
        f"the release that wrote it, {RELEASES[0]} .. {RELEASES[-1]}; without it, as its store "
        "tells",
        "a broker setting, such as maxHashSlotNum=100",
    )


def _number(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if value < 0:
        raise argparse.ArgumentTypeError(f"{value} is negative")
    return value


def run(args: argparse.Namespace) -> int:
    try:
        return _dump(args, sys.stdout.write)
    except FileNotFoundError as error:
        raise DumpError(f"{error.filename}: no such file") from None


def _dump(args: argparse.Namespace, write: Callable[[str], Any]) -> int:
    folder = place_at(args.file)
    path = folder.path
    try:
        reader = folder.storage.open(path)
        _ = reader.state
    except (OSError, StoreError):
        if _is_folder(folder):
            if has_database(folder):
                return _dump_database(args, folder, write)
            raise DumpError(f"{args.file}: is a folder; dump takes one file of a store") from None
        raise
    try:
        kind = _kind(args, path, reader)
        return _show(args, _items(args, kind, path, reader), write)
    finally:
        reader.close()


def _dump_database(
    args: argparse.Namespace, path: Folder, write: Callable[[str], Any]
) -> int:  # fmt: skip
    if args.kind or args.part or args.bodies or args.first is not None:
        raise DumpError(f"{path}: is a RocksDB: without --kind, --part, --bodies and --from")
    with closing(open_database(path)) as database:
        return _show(args, describe_database(database, args.properties), write)


def _show(args: argparse.Namespace, items: Iterator[Item], write: Callable[[str], Any]) -> int:
    show = CsvLines().show if args.format == CSV else TextTable().show
    damaged = False
    for item in _limited(items, args.limit):
        damaged |= item["kind"] == "damage"
        write(f"{json.dumps(item)}\n" if args.json else show(item))
    return DAMAGE if damaged else DONE


def _is_folder(path: Folder) -> bool:
    try:
        path.storage.list(path.path)
    except (OSError, StoreError):
        return False
    return True


class CsvLines:
    """Items as CSV, with a heading wherever the kind of item changes."""

    def __init__(self) -> None:
        self._columns: list[str] = []

    def show(self, item: Item) -> str:
        """An item's line, after a heading if the kind changes."""
        heading = [] if self._columns == list(item) else [list(item)]
        self._columns = list(item)
        return csv_text([*heading, list(item.values())])


def _limited(items: Iterable[Item], limit: int | None) -> Iterator[Item]:
    listed = 0
    for item in items:
        if item["kind"] in _LISTED:
            if listed == limit:
                return
            listed += 1
        yield item


def _kind(args: argparse.Namespace, path: str, reader: Reader) -> FileKind:
    # `path` is absolute: its folders show the kind, also of a file in the working folder
    kind = FileKind(args.kind) if args.kind else kind_of(tuple(path.split("/")), _head(reader))
    if kind is None:
        raise DumpError(
            f"{path}: no file of a store by its name, folders and first bytes; if it is one, "
            f"--kind says which: {', '.join(FileKind)}"
        )
    if args.part and kind != FileKind.INDEX:
        raise DumpError(f"{path}: --part is for index files; this is of kind {kind}")
    if (args.bodies or args.properties) and kind != FileKind.COMMIT_LOG:
        raise DumpError(f"{path}: only a commitlog holds messages; this is of kind {kind}")
    return kind


def _head(reader: Reader) -> bytes:
    return _bytes(reader, min(RECORD_HEAD.itemsize, reader.state.size))


def _bytes(reader: Reader, length: int) -> bytes:
    head = np.empty(length, np.uint8)
    reader.read_into(0, head)
    return head.tobytes()


def _settings(args: argparse.Namespace) -> Settings:
    conf: dict[str, str] = {}
    if args.broker_conf:
        conf = broker_conf(args.broker_conf)
    return settings_from(conf, parse_assignments(args.assignments))


def _items(args: argparse.Namespace, kind: FileKind, path: str, reader: Reader) -> Iterator[Item]:
    length, settings = reader.state.size, _settings(args)
    if args.rocketmq:
        profile(args.rocketmq)  # refuse an unknown release even if this kind of file needs none
    if kind == FileKind.COMMIT_LOG:
        found = _found(path, args)
        rules = profile(args.rocketmq or (found.release if found else RELEASES[-1]))
        start = first_offset(path.rpartition("/")[2], _head(reader))
        end = start + length
        _check_first(args.first, start, end, "physical offsets")

        def read(at: int, buffer: npt.NDArray[np.uint8]) -> None:
            reader.read_into(at - start, buffer)

        shown = ShownContent(args.bodies, args.properties)
        first = start if args.first is None else args.first
        heads = start if is_dledger(path.split("/")) else NO_HEADS
        scanned = scan_rules(rules, settings, (), heads_from=heads)
        if found:
            text = found.settings.get(SETTING, settings.message_delay_level)
            known = replace(settings, message_delay_level=text)
            scanned = replace(scanned, delays=known.delays, older_delays=found.older_delays)
        return describe_segment(read, start, end, first, scanned, shown)
    if kind in (FileKind.CONSUME_QUEUE, FileKind.BATCH_CONSUME_QUEUE):
        batch = kind == FileKind.BATCH_CONSUME_QUEUE
        start = _first_of_queue(path)
        low = start // entry_bytes(batch)
        high = (start + length) // entry_bytes(batch)
        _check_first(args.first, low, high, "positions")
        return describe_queue(reader.read_into, length, start, batch, args.first or 0)
    if kind == FileKind.TIERED_INDEX:
        _check_first(args.first, 0, length, "numbers")
        return describe_tiered_index(reader.read_into, length, args.first or 0)
    if kind == FileKind.INDEX:
        return _index_items(args, path, reader, _slots(args, path, reader, settings))
    if length > _SMALL_MAX:
        raise DumpError(f"{path}: {length} bytes are too many for a file of kind {kind}")
    raw = _bytes(reader, length)
    return describe_checkpoint(raw) if kind == FileKind.CHECKPOINT else describe_small(kind, raw)


def _found(path: str, args: argparse.Namespace) -> Discovered | None:
    """What the file's store shows; None if nothing."""
    store = path.rsplit("/", 3 if is_dledger(path.split("/")) else 2)[0]
    given = parse_assignments(args.assignments)
    if args.broker_conf and SETTING not in given:
        conf = broker_conf(args.broker_conf)
        given |= {SETTING: conf[SETTING]} if SETTING in conf else {}
    with suppress(UnknownRelease, OSError, SettingError, StoreError):
        return discover(StoreAt(storage_for(path), store, args.rocketmq, given), LOOK)
    return None


def _slots(args: argparse.Namespace, path: str, reader: Reader, settings: Settings) -> int:
    """The number of slots of an index file: as given, else by its content, else the default."""
    given = {BY_NAME[name].name for name in parse_assignments(args.assignments)}
    if SLOTS in given or reader.state.size < INDEX_HEADER_BYTES:
        return settings.max_hash_slot_num
    usual = {SLOTS: settings.max_hash_slot_num, ENTRIES: settings.max_index_num}
    seen = seen_index(SeenFile(path, reader.state.size, reader.read_into))
    pair = pair_of([seen], {}, usual)
    return pair[0] if pair else settings.max_hash_slot_num


def _index_items(args: argparse.Namespace, path: str, reader: Reader, slots: int) -> Iterator[Item]:
    try:
        sizes = index_sizes(reader.state.size, slots)
    except ValueError as error:
        raise DumpError(
            f"{path}: {error}; --set maxHashSlotNum=N gives the number its broker was configured "
            "with"
        ) from None
    view = IndexFileView(reader.read_into, sizes)
    _check_first(args.first, 0, sizes.slots if args.part == "slots" else sizes.entries, "numbers")
    parts = {
        "header": view.describe_header(),
        "entries": view.describe_entries(args.first or 1),
        "slots": view.describe_slots(args.first or 0) if args.part or not args.first else iter(()),
    }
    return chain.from_iterable(parts[part] for part in PARTS if args.part in (None, part))


def _check_first(first: int | None, low: int, high: int, what: str) -> None:
    if first is not None and not low <= first < max(high, low + 1):
        raise DumpError(f"--from {first}: the file's {what} are {low} to {high - 1}")


def _first_of_queue(path: str) -> int:
    """The byte offset in its queue at which a file begins, by the file's name."""
    *folders, name = path.split("/")
    if COMPACTION_QUEUE in folders[-3:]:
        return 0  # it has the name of its log file; positions count from the file's start
    start = segment_start(name)
    start = tiered_start(name) if start is None else start
    return start or 0  # a copy under another name: positions then count from its start
