"""RocksDB is asked only where the log has what it may know of, and what it lacks is told."""

from __future__ import annotations

from pathlib import Path

import pytest
import rocksdict

from reput.store_format.fate.delays import Read
from reput.store_format.fate.gather import Gathered
from reput.store_format.fate.known import half_rows, with_timers
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.notes import Notes
from reput.store_format.query.reader import NEWEST, OpenedStore
from reput.store_format.rocksdb.rows import HALVES, TIMERS, HalfRows
from tests.store_format.fate.logs import T0, SmallLog

UNREAD = Read({1: 2}, None, 0, True)


def logged() -> SmallLog:
    """A timer, then a half message of RocksDB's topic."""
    log = SmallLog()
    log.timer("t", T0 + 90_000)
    log.rocksdb_half("h")
    return log


def only(kept: Gathered, *numbers: int) -> Gathered:
    return kept._replace(marks=kept.marks[list(numbers)])


@pytest.fixture(scope="module")
def gathered() -> Gathered:
    return logged().gather(lambda marks: marks["kind"] >= 0)


@pytest.fixture
def store(tmp_path: Path) -> OpenedStore:
    root = tmp_path / "store"
    for path, content in logged().files().items():
        file = tmp_path / path
        file.parent.mkdir(parents=True)
        file.write_bytes(content)
    return OpenedStore(Folder(LocalStorage(), str(root)), NEWEST, {}, Notes())


def put_rows(store: OpenedStore) -> Path:
    """A row for the timer at 0, and one for the half message at 100, checked 3 times."""
    folder = Path(store.path) / "rocksdbstore"
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    families = dict.fromkeys((TIMERS, HALVES), options)
    with rocksdict.Rdict(str(folder), options, families) as database:
        timer = (T0).to_bytes(8, "big") + b"t"
        database.get_column_family(TIMERS)[timer] = bytes(4) + (0).to_bytes(8, "big")
        half = (100).to_bytes(8, "big") + b"@Orders@h"
        database.get_column_family(HALVES)[half] = (3).to_bytes(4, "big") + bytes(4)
    return folder


def test_a_log_with_both_gets_both(store: OpenedStore, gathered: Gathered) -> None:
    put_rows(store)
    notes = Notes()
    assert half_rows(store, gathered, notes) == HalfRows({100: 3}, 100)
    read = with_timers(store, gathered, UNREAD, notes)
    assert read.timers is not None
    assert read.timers.waiting.tolist() == [0]
    assert read._replace(timers=None) == UNREAD
    assert notes.lines == []


def test_a_log_without_such_messages_leaves_it_closed(
    store: OpenedStore, gathered: Gathered
) -> None:
    folder = put_rows(store)
    for file in folder.iterdir():
        file.write_bytes(b"no RocksDB")
    notes = Notes()
    assert half_rows(store, only(gathered, 0), notes) is None
    assert with_timers(store, only(gathered, 1), UNREAD, notes) is UNREAD
    assert half_rows(store, only(gathered), notes) is None
    assert notes.lines == []


def test_a_store_without_a_database_knows_of_none(store: OpenedStore, gathered: Gathered) -> None:
    notes = Notes()
    assert half_rows(store, gathered, notes) is None
    assert with_timers(store, gathered, UNREAD, notes) == UNREAD
    assert notes.lines == []


def test_what_cannot_be_read_is_noted_and_the_rest_goes_on(
    store: OpenedStore, gathered: Gathered
) -> None:
    folder = put_rows(store)
    for file in folder.glob("MANIFEST-*"):
        file.write_bytes(b"damaged")
    notes = Notes()
    assert half_rows(store, gathered, notes) is None
    assert with_timers(store, gathered, UNREAD, notes) == UNREAD
    assert [line.rpartition(": ")[2] for line in notes.lines] == [
        "which half messages of transRocksDBEnable were checked or given up is not known",
        "which timers of timerRocksDBEnable are delivered for good is not known",
    ]
