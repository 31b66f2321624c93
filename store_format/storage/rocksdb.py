"""A RocksDB read as it stands, by the library rocksdict (reput[rocksdb]); nothing is written to it.

The library would write into the database's folder (rocksdict-config.json). So it never sees that:
it opens a folder of our own that has links to the tables, and copies of what names them and of the
write-ahead log. That folder is gone as soon as all of it is open, and a broker may have the
database open meanwhile: what that has not flushed is not seen.
"""

import errno
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np

from reput.store_format.faults import StoreError
from reput.store_format.names import CONFIG, CONSUME_QUEUE
from reput.store_format.storage.listing import listed
from reput.store_format.storage.local import LocalStorage
from reput.store_format.storage.protocol import FileState, InputStorage
from reput.store_format.storage.read_by import ReadBy

CURRENT = "CURRENT"  # a database always has it: it names the MANIFEST
_TABLE = re.compile(r"[0-9]+\.sst")
_COPIED = re.compile(r"CURRENT|MANIFEST-[0-9]+|[0-9]+\.log")
_LOOKS = 5  # at a database that changes: a compaction removes tables
_CHUNK_BYTES = 8 << 20
_TEXT_MOST, _SAID_LEAST = 190, 60  # characters of an error; of what the library says in it
# What the library says at length, and for its own people.
_SHORTER = (
    (re.compile(r".*While open a file for random read: (\S+): No such file.*"), r"\1 is missing"),
    (re.compile(r".*: does not match existing comparator (.*)"), r"its keys are ordered by \1"),
    (re.compile(r".*: no .* entry in MANIFEST.*"), "its MANIFEST ends too early"),
    (re.compile(r"(block checksum mismatch): .* in (\S+) offset (\d+).*"), r"\1, \2 offset \3"),
)
INSTALL = 'pip install "reput[rocksdb]"'


class RocksDBError(StoreError):
    """A RocksDB that cannot be read: which, why, what to do. reason: without its folder."""

    def __init__(self, folder: str, reason: str) -> None:
        self.reason = reason
        super().__init__(f"{folder}: {reason}")


class RocksDBMissing(RocksDBError):
    """The library that reads one is not installed."""


class Database:
    """A RocksDB as it was when it was opened. Rows come in the order of their keys' bytes."""

    def __init__(self, folder: str, opened: Any, families: list[str], ours: str) -> None:
        """ours: the folder that it was opened in, which errors name."""
        self.folder, self.families, self._opened, self._ours = folder, families, opened, ours
        self._of = {name: opened.get_column_family(name) for name in families}

    def get(self, family: str, key: bytes) -> bytes | None:
        """The value of a key; None where there is no such row. Raises RocksDBError."""
        try:
            found: bytes | None = self._of[family].get(key)
        except Exception as error:  # noqa: BLE001 (the library raises nothing more special)
            raise self._failed(error) from None
        return found

    def rows(
        self, family: str, start: bytes = b"", stop: bytes | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """(key, value) of all keys in [start, stop); without stop, to the end.

        Raises RocksDBError: the library's own iterators end without a word at a damaged block.
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
        """Let go of it. It cannot be read afterwards."""
        self._of = {}
        self._opened.close()

    def _failed(self, error: Exception) -> RocksDBError:
        return _error(self.folder, error, self._ours)


def open_database(storage: InputStorage, folder: str) -> Database:
    """Open the RocksDB in a folder, which is only read. Raises RocksDBError.

    Where a broker has it open it is looked at again while tables are removed under our hands.
    """
    try:
        import rocksdict
    except ImportError:
        raise RocksDBMissing(folder, f"is a RocksDB: {INSTALL} reads it") from None
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(False)
    options.set_max_open_files(-1)  # so that all tables are open once it is
    # A killed writer's last rows may be torn; damage before them is an error, and not their end.
    options.set_wal_recovery_mode(rocksdict.DBRecoveryMode.tolerate_corrupted_tail_records())
    for look in range(_LOOKS):
        with tempfile.TemporaryDirectory(prefix="reput-rocksdb-") as ours:
            tables = _snapshot(storage, folder, ours)
            try:
                families = rocksdict.Rdict.list_cf(ours, options)
                opened = rocksdict.Rdict(
                    ours,
                    options,
                    dict.fromkeys(families, options),
                    rocksdict.AccessType.read_only(False),
                )
                return Database(folder, opened, families, ours)
            except Exception as error:  # noqa: BLE001 (the library raises nothing more special)
                if look + 1 == _LOOKS or _tables(storage, folder) == tables:
                    raise _error(folder, error, ours) from None
    raise AssertionError  # the last look returns or raises


def _snapshot(storage: InputStorage, folder: str, ours: str) -> set[str]:
    """Put the database's files into a folder of ours; returns the names of its tables."""
    local = is_local(storage)
    # What names tables is copied before they are listed: those that it names are older.
    for name, _ in sorted(_files(storage, folder), key=lambda file: file[0] != CURRENT):
        if _COPIED.fullmatch(name):
            _copy(storage, f"{folder}/{name}", f"{ours}/{name}")
    tables = _tables(storage, folder)
    for name in tables:
        if local:
            os.symlink(os.path.abspath(f"{folder}/{name}"), f"{ours}/{name}")
        else:
            _copy(storage, f"{folder}/{name}", f"{ours}/{name}")
    return tables


def _copy(storage: InputStorage, path: str, to: str) -> None:
    """Copy a file as it is now; one that is gone meanwhile is left out."""
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


def _files(storage: InputStorage, folder: str) -> list[tuple[str, FileState]]:
    return [(name, state) for name, state in listed(storage, folder) if state is not None]


def _tables(storage: InputStorage, folder: str) -> set[str]:
    return {name for name, _ in _files(storage, folder) if _TABLE.fullmatch(name)}


def is_local(storage: Any) -> bool:
    """Whether tables are opened where they are; elsewhere they are copied first."""
    while isinstance(storage, ReadBy):
        storage = storage.storage
    return isinstance(storage, LocalStorage)


def refuse_full_disk(error: Exception, path: str) -> None:
    """Raise OSError where the library found no room. path: where it would have written."""
    if os.strerror(errno.ENOSPC) in str(error):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path) from None


def _error(folder: str, error: Exception, ours: str) -> RocksDBError:
    """What the library says, on one line, of the database's own files by their names.

    Raises OSError where it found no room for its own.
    """
    refuse_full_disk(error, ours)
    said = " ".join(str(error).split()).replace(f"{ours}/", "").replace(ours, folder)
    for pattern, short in _SHORTER:
        said = pattern.sub(short, said)
    room = max(_TEXT_MOST - len(folder) - len(remedy := _remedy(folder)), _SAID_LEAST)
    return RocksDBError(folder, f"the RocksDB cannot be read: {_cut(said, room)}: {remedy}")


def _remedy(folder: str) -> str:
    """What to do where a database of a store cannot be read."""
    *_, above, name = ("", *folder.split("/"))
    if above == CONFIG:
        return "put back a copy of it, or move it away: then config/*.json counts"
    if name.startswith(CONSUME_QUEUE):
        return "reput rebuild builds it from the log"
    return "put back a copy of it, or move it away; reput rebuild builds an index alone"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."
