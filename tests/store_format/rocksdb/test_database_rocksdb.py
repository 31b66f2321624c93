"""A RocksDB that is only read: rows by their keys, and what is said where it cannot be read."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import rocksdict

from reput.store_format.files.adapters import ReadBy
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.rocksdb.database import (
    Database,
    RocksDBError,
    RocksDBMissing,
    is_local,
    open_database,
    refuse_full_disk,
)
from tests.memory_storage import MemoryStorage

ROWS = {b"a": b"1", b"ab": b"", b"b": b"2", b"\xff": b"3"}


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two rows in a table, and two in the write-ahead log."""
    tmp_path = tmp_path_factory.mktemp("live")
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    made = rocksdict.Rdict(str(tmp_path / "live"), options)
    for number, (key, value) in enumerate(ROWS.items()):
        made[key] = value
        if number == 1:
            made.flush()
    shutil.copytree(tmp_path / "live", tmp_path / "consumequeue")  # closing would flush
    made.close()
    return tmp_path / "consumequeue"


@pytest.fixture
def folder(left: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(left, tmp_path / "consumequeue"))


@pytest.fixture
def database(folder: Path) -> Iterator[Database]:
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    made = open_database(Folder(LocalStorage(), str(folder)))
    yield made
    made.close()
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("start", "stop", "keys"),
    [
        (b"", None, [b"a", b"ab", b"b", b"\xff"]),
        (b"a", b"b", [b"a", b"ab"]),
        (b"aa", b"\xff", [b"ab", b"b"]),
        (b"b", b"b", []),
        (b"\xff\0", None, []),
    ],
)
def test_rows_come_in_order_from_a_key_up_to_another(
    database: Database, start: bytes, stop: bytes | None, keys: list[bytes]
) -> None:
    assert list(database.rows("default", start, stop)) == [(key, ROWS[key]) for key in keys]


@pytest.mark.parametrize(
    ("start", "at", "key"),
    [(b"", b"\xff\xff", b"\xff"), (b"", b"aa", b"a"), (b"a", b"a", b"a"), (b"aa", b"aa", None),
     (b"", b"A", None)],
)  # fmt: skip
def test_the_last_row_up_to_a_key(
    database: Database, start: bytes, at: bytes, key: bytes | None
) -> None:
    assert database.last_row("default", start, at) == (key and (key, ROWS[key]))


def test_a_value_is_found_by_its_whole_key_and_an_unknown_family_is_empty(
    database: Database,
) -> None:
    assert [database.get("default", key) for key in (b"a", b"ab", b"c")] == [b"1", b"", None]
    assert list(database.rows("offset")) == []
    assert database.last_row("offset", b"", b"\xff") is None


def test_a_database_stays_as_it_was_when_it_was_opened(database: Database, folder: Path) -> None:
    for path in folder.glob("*.log"):
        path.rename(folder.parent / path.name)
    assert len(list(database.rows("default"))) == len(ROWS)
    for path in folder.parent.glob("*.log"):
        path.rename(folder / path.name)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("consumequeue", "reput rebuild builds it from the log"),
        ("config/topics", "then config/.*json counts"),
        ("rocksdbstore", "rebuild builds an index alone"),
    ],
)
def test_what_cannot_be_read_says_which_why_and_what_to_do(
    folder: Path, name: str, remedy: str
) -> None:
    place = folder.parent / "store" / name
    place.parent.mkdir(parents=True)
    folder.rename(place)
    (table,) = place.glob("*.sst")
    table.unlink()
    with pytest.raises(RocksDBError, match=f"^{place}: the RocksDB cannot be read: .*{remedy}"):
        open_database(Folder(LocalStorage(), str(place)))


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    with pytest.raises(RocksDBMissing, match=r"^s/db: is a RocksDB: pip install .*rocksdb"):
        open_database(Folder(LocalStorage(), "s/db"))


def test_tables_are_opened_in_place_on_local_disks_alone() -> None:
    assert is_local(LocalStorage())
    assert is_local(ReadBy(ReadBy(LocalStorage())))  # type: ignore[arg-type]
    assert not is_local(ReadBy(MemoryStorage()))


def test_a_full_disk_is_an_error_of_the_disk() -> None:
    with pytest.raises(OSError, match="No space left") as caught:
        refuse_full_disk(Exception(f"IO error: {os.strerror(28)}: While appending"), "/t")
    assert (caught.value.errno, caught.value.filename) == (28, "/t")
    refuse_full_disk(Exception("Corruption"), "/t")
