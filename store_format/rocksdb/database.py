"""RocksDB by rocksdict (reput[rocksdb]): databases read, tables written, databases made."""

import errno
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from heapq import merge
from itertools import chain
from typing import Any

import numpy as np

from reput.store_format.faults import StoreError
from reput.store_format.files.adapters import ReadBy
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.private import Scratch, scratch_folder
from reput.store_format.files.protocol import FileState, InputStorage
from reput.store_format.names import CONFIG, CONSUME_QUEUE

# ---
# A RocksDB, read by the library rocksdict (reput[rocksdb]); nothing is written to it.
#
# The library would write into the database's folder (rocksdict-config.json). So it opens a folder
# of our own, which has links to the tables, and copies of the files that name tables and of the
# write-ahead log. This folder is removed as soon as everything is open. A broker may have the
# database open meanwhile: rows that it has not flushed are not seen.

CURRENT = "CURRENT"  # every database has this file, which names the MANIFEST
_TABLE = re.compile(r"[0-9]+\.sst")
_COPIED = re.compile(r"CURRENT|MANIFEST-[0-9]+|[0-9]+\.log")
_LOOKS = 5  # at a changing database: a compaction removes tables
_CHUNK_BYTES = 8 << 20
_BLOCK_BYTES, _HEAD_BYTES = 32 << 10, 7  # of a MANIFEST; CRC, length, type
_TEXT_MOST, _SAID_LEAST = 190, 60  # characters of an error; of the library's text in it
# Long messages of the library, and what is said instead.
_SHORTER = (
    (re.compile(r".*While open a file for random read: (\S+): No such file.*"), r"\1 is missing"),
    (re.compile(r".*: does not match existing comparator (.*)"), r"its keys are ordered by \1"),
    (re.compile(r".*: no .* entry in MANIFEST.*"), "its MANIFEST ends too early"),
    (re.compile(r"(block checksum mismatch): .* in (\S+) offset (\d+).*"), r"\1, \2 offset \3"),
)
INSTALL = 'pip install "reput[rocksdb]"'


class RocksDBError(StoreError):
    """A RocksDB that cannot be read: which, why, what to do. reason: without its folder; remedy:
    what to do, with which the reason ends.
    """

    def __init__(self, folder: str, reason: str, remedy: str = "") -> None:
        self.reason, self.remedy = reason, remedy
        super().__init__(f"{folder}: {reason}")


class RocksDBMissing(RocksDBError):
    """The library that reads a RocksDB is not installed."""


class Database:
    """A RocksDB as it was when it was opened. Rows come in the order of their keys' bytes."""

    def __init__(self, folder: str, opened: Any, families: list[str], ours: str) -> None:
        """ours: the folder that the library opened, which its errors name."""
        self.folder, self.families, self._opened, self._ours = folder, families, opened, ours
        self._of = {name: opened.get_column_family(name) for name in families}

    def get(self, family: str, key: bytes) -> bytes | None:
        """The value of a key; None without such a row. Raises RocksDBError."""
        try:
            found: bytes | None = self._of[family].get(key)
        except Exception as error:  # noqa: BLE001 (the library raises nothing more special)
            raise self._failed(error) from None
        return found

    def rows(
        self, family: str, start: bytes = b"", stop: bytes | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """(key, value) of all keys in [start, stop); without stop, to the end.

        Raises RocksDBError, for a damaged block too, at which the library's own iterators just end.
        """
        if family not in self._of:
            return
        import rocksdict

        options = rocksdict.ReadOptions()
        if stop is not None:
            options.set_iterate_upper_bound(stop)
        try:
            rows = self._of[family].iter(options)
            rows.seek(start)
            while rows.valid():
                yield rows.key(), rows.value()
                rows.next()
            rows.status()
        except GeneratorExit:
            raise
        except Exception as error:  # noqa: BLE001
            raise self._failed(error) from None

    def check(self, folder: Folder) -> None:
        """Read each block of the tables. Raises RocksDBError, also where the MANIFEST in the
        database's folder was cut, so that tables are there which it does not name any more.
        """
        for family in self.families:
            deque(self.rows(family), 0)
        raw, at = folder.read(folder.read(CURRENT).decode().strip()), 0
        while at + _HEAD_BYTES <= len(raw):  # records, in blocks (log::Reader)
            if (room := _BLOCK_BYTES - at % _BLOCK_BYTES) < _HEAD_BYTES:
                at += room
            else:
                at += _HEAD_BYTES + int.from_bytes(raw[at + 4 : at + 6], "little")
        named = {each["name"].lstrip("/") for each in self._opened.live_files()}
        if at != len(raw) and (lost := _tables(folder) - named):
            what = f"its MANIFEST is cut, and names no {min(lost)}: a broker removes that table"
            raise RocksDBError(self.folder, what)

    def last_row(self, family: str, start: bytes, at: bytes) -> tuple[bytes, bytes] | None:
        """The row with the greatest key in [start, at]. Raises RocksDBError."""
        if family not in self._of:
            return None
        try:
            rows = self._of[family].iter()
            rows.seek_for_prev(at)
            found = (rows.key(), rows.value()) if rows.valid() else None
            rows.status()
        except Exception as error:  # noqa: BLE001
            raise self._failed(error) from None
        return found if found is not None and found[0] >= start else None

    def close(self) -> None:
        """Close the database. It cannot be read afterwards."""
        self._of = {}
        self._opened.close()

    def _failed(self, error: Exception) -> RocksDBError:
        return _error(self.folder, error, self._ours)


def open_database(folder: Folder) -> Database:
    """Open the RocksDB in a folder, which is only read. Raises RocksDBError.

    If a broker has it open and removes tables meanwhile, the open is tried again.
    """
    try:
        import rocksdict
    except ImportError:
        raise RocksDBMissing(folder.path, f"is a RocksDB: {INSTALL} reads it") from None
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(False)
    options.set_max_open_files(-1)  # so that opening it opens all tables
    # A killed writer's last rows may be torn. Earlier damage is an error, not the end of the rows.
    options.set_wal_recovery_mode(rocksdict.DBRecoveryMode.tolerate_corrupted_tail_records())
    for look in range(_LOOKS):
        with scratch_folder(Scratch.ROCKSDB) as ours:
            tables = _snapshot(folder, ours)
            try:
                families = rocksdict.Rdict.list_cf(ours, options)
                opened = rocksdict.Rdict(
                    ours,
                    options,
                    dict.fromkeys(families, options),
                    rocksdict.AccessType.read_only(False),
                )
                return Database(folder.path, opened, families, ours)
            except Exception as error:  # noqa: BLE001 (the library raises nothing more special)
                if look + 1 == _LOOKS or _tables(folder) == tables:
                    raise _error(folder.path, error, ours) from None
    raise AssertionError  # the last look returns or raises


def _snapshot(folder: Folder, ours: str) -> set[str]:
    """Put the database's files into our folder. Returns the names of its tables."""
    local = is_local(folder.storage)
    # The files that name tables are copied first: all tables that they name exist by then.
    for name, _ in sorted(_files(folder), key=lambda file: file[0] != CURRENT):
        if _COPIED.fullmatch(name):
            _copy(folder.storage, f"{folder}/{name}", f"{ours}/{name}")
    tables = _tables(folder)
    for name in tables:
        if local:
            os.symlink(os.path.abspath(f"{folder}/{name}"), f"{ours}/{name}")
        else:
            _copy(folder.storage, f"{folder}/{name}", f"{ours}/{name}")
    return tables


def _copy(storage: InputStorage, path: str, to: str) -> None:
    """Copy a file as it is now, unless it is gone meanwhile."""
    try:
        reader = storage.open(path)
    except FileNotFoundError:
        return
    at, length = 0, reader.state.size
    with closing(reader), open(to, "xb") as copy:
        while at < length:
            chunk = np.empty(min(_CHUNK_BYTES, length - at), np.uint8)
            reader.read_into(at, chunk)
            copy.write(chunk)
            at += len(chunk)


def _files(folder: Folder) -> list[tuple[str, FileState]]:
    return [(name, state) for name, state in folder.listed() if state is not None]


def _tables(folder: Folder) -> set[str]:
    return {name for name, _ in _files(folder) if _TABLE.fullmatch(name)}


def is_local(storage: Any) -> bool:
    """Whether tables can be opened in place; of other storages they are copied first."""
    while isinstance(storage, ReadBy):
        storage = storage.storage
    return isinstance(storage, LocalStorage)


def refuse_full_disk(error: Exception, path: str) -> None:
    """Raise OSError if the library found no room. path: where it would have written."""
    if os.strerror(errno.ENOSPC) in str(error):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path) from None


def _error(folder: str, error: Exception, ours: str) -> RocksDBError:
    """The library's error on one line, with the database's files by their own names.

    Raises OSError if the library found no room for its own files.
    """
    refuse_full_disk(error, ours)
    said = " ".join(str(error).split()).replace(f"{ours}/", "").replace(ours, folder)
    for pattern, short in _SHORTER:
        said = pattern.sub(short, said)
    room = max(_TEXT_MOST - len(folder) - len(remedy := _remedy(folder)), _SAID_LEAST)
    return RocksDBError(folder, f"the RocksDB cannot be read: {_cut(said, room)}: {remedy}", remedy)


def _remedy(folder: str) -> str:
    """What to do if a database of a store cannot be read."""
    *_, above, name = ("", *folder.split("/"))
    if above == CONFIG:
        return "put back a copy of it, or move it away: then config/*.json counts"
    if name.startswith(CONSUME_QUEUE):
        return "reput rebuild builds it from the log"
    return "put back a copy of it, or move it away; reput rebuild builds an index alone"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


# ---
# Tables (SST files) of a RocksDB, and a database made of them, by the library rocksdict.
#
# Their format is that of RocketMQ (RocksDBOptionsFactory): format_version 5, blocks of 32 KiB, a
# bloom filter of 16 bits a key. No two tables of a family may overlap. Then they go into the lowest
# level, and a broker that opens the database has nothing to compact.

DEFAULT = "default"
_BLOCK_BYTES, _METADATA_BLOCK_BYTES = 32 << 10, 4 << 10
_BLOOM_BITS, _HASH_RATIO, _FORMAT_VERSION = 16, 0.75, 5
# Files of the library that are no part of a database, or are made anew at each start.
_NOT_OURS = ("rocksdict-config.json", "LOCK", "LOG", "IDENTITY")


def require_library(folder: str) -> None:
    """Raise RocksDBMissing if no RocksDB can be written. folder: where it would be."""
    try:
        import rocksdict  # noqa: F401
    except ImportError:
        raise RocksDBMissing(folder, f"gets a RocksDB: {INSTALL} writes it") from None


def table_options(compressed: bool, universal: bool) -> Any:
    """RocksDBOptionsFactory.createCQCFOptions, or createOffsetCFOptions if not compressed."""
    import rocksdict

    table = rocksdict.BlockBasedOptions()
    table.set_format_version(_FORMAT_VERSION)
    table.set_block_size(_BLOCK_BYTES)
    table.set_metadata_block_size(_METADATA_BLOCK_BYTES)
    table.set_bloom_filter(_BLOOM_BITS, False)
    if compressed:
        table.set_data_block_index_type(rocksdict.DataBlockIndexType.binary_and_hash())
        table.set_data_block_hash_ratio(_HASH_RATIO)
    options = rocksdict.Options(raw_mode=True)
    options.set_block_based_table_factory(table)
    style = rocksdict.DBCompactionStyle
    options.set_compaction_style(style.universal() if universal else style.level())
    kind = rocksdict.DBCompressionType
    options.set_compression_type(kind.lz4() if compressed else kind.none())
    if compressed:
        options.set_bottommost_compression_type(kind.zstd())
    options.set_num_levels(7)
    options.set_max_open_files(-1)
    options.set_disable_auto_compactions(True)
    return options


class TableWriter:
    """A new table at a local path. Keys must come in ascending order, each once."""

    def __init__(self, path: str, options: Any) -> None:
        import rocksdict

        self._path, self._writer = path, rocksdict.SstFileWriter(options)
        self._writer.open(path)

    def put(self, keys: Iterable[bytes], values: Iterable[bytes]) -> None:
        put = self._writer.__setitem__
        try:
            for key, value in zip(keys, values, strict=True):
                put(key, value)
        except Exception as error:  # noqa: BLE001 (the library raises nothing more special)
            raise _failed(self._path, error) from None

    def finish(self) -> None:
        """Raises StoreError if the table has no row."""
        try:
            self._writer.finish()
        except Exception as error:  # noqa: BLE001
            raise _failed(self._path, error) from None


def make_database(folder: str, families: dict[str, tuple[Any, list[str]]]) -> list[str]:
    """Make a database in an empty local folder; returns the names of its files.

    families: by name, the options and the paths of the tables, of which no two may overlap. The
    tables must be on the same file system, and are moved into the database.
    """
    import rocksdict

    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_atomic_flush(True)
    options.set_max_open_files(-1)
    of = {name: about for name, (about, _) in families.items()}
    move = rocksdict.IngestExternalFileOptions()
    move.set_move_files(True)
    try:
        opened = rocksdict.Rdict(folder, options, of)
        try:
            for name, (_, tables) in families.items():
                if tables:
                    opened.get_column_family(name).ingest_external_file(tables, move)
        finally:
            opened.close()
    except Exception as error:  # noqa: BLE001
        raise _failed(folder, error) from None
    for name in os.listdir(folder):
        if name in _NOT_OURS or name.startswith(("OPTIONS-", "LOG.old.")):
            os.unlink(f"{folder}/{name}")
    return sorted(os.listdir(folder))


def copy_changed(
    database: Database, folder: str, changes: Mapping[str, Mapping[bytes, bytes | None]]
) -> None:  # fmt: skip
    """Make a database with another's rows in an empty local folder, but for changed ones.

    changes: by family and key; None for a row that goes. Its tables are made beside the folder.
    Raises StoreError, OSError.
    """
    options, families = table_options(True, False), dict[str, tuple[Any, list[str]]]()
    for number, family in enumerate(database.families):
        changed = changes.get(family, {})
        kept = ((key, value) for key, value in database.rows(family) if key not in changed)
        rows = merge(
            kept, sorted((key, value) for key, value in changed.items() if value is not None)
        )
        first = next(rows, None)
        families[family] = options, []
        if first is not None:
            writer = TableWriter(table := f"{folder}.{number}.sst", options)
            for key, value in chain([first], rows):
                writer.put([key], [value])
            writer.finish()
            families[family][1].append(table)
    make_database(folder, families)


def _failed(path: str, error: Exception) -> StoreError:
    """Raises OSError if there was no room."""
    refuse_full_disk(error, path)
    return StoreError(
        f"{path}: the RocksDB cannot be written: {' '.join(str(error).split())[:300]}"
    )
