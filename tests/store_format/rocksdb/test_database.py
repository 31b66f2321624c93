"""A RocksDB that is only read: rows by their keys, and what is said where it cannot be read."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import rocksdict

from reput.store_format.faults import StoreError
from reput.store_format.files.adapters import ReadBy
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.rocksdb import database as module
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
def database(folder: Path) -> Iterator[module.Database]:
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    made = module.open_database(Folder(LocalStorage(), str(folder)))
    yield made
    made.close()
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_a_value_is_found_by_its_whole_key_and_a_database_stays_as_it_was_when_it_was_opened(
    database, folder
) -> None:
    assert [database.get("default", key) for key in (b"a", b"ab", b"c")] == [b"1", b"", None]
    assert list(database.rows("offset")) == []
    assert database.last_row("offset", b"", b"\xff") is None
    for path in folder.glob("*.log"):
        path.rename(folder.parent / path.name)
    assert len(list(database.rows("default"))) == len(ROWS)
    for path in folder.parent.glob("*.log"):
        path.rename(folder / path.name)


@pytest.mark.parametrize(("name", "remedy"), [
    ("consumequeue", "reput rebuild builds it from the log"),
    ("config/topics", "then config/.*json counts"),
    ("rocksdbstore", "rebuild builds an index alone"),
])  # fmt: skip
def test_what_cannot_be_read_says_which_why_and_what_to_do(folder, name, remedy) -> None:
    place = folder.parent / "store" / name
    place.parent.mkdir(parents=True)
    folder.rename(place)
    (table,) = place.glob("*.sst")
    table.unlink()
    with pytest.raises(
        module.RocksDBError, match=f"^{place}: the RocksDB cannot be read: .*{remedy}"
    ):
        module.open_database(Folder(LocalStorage(), str(place)))


def test_tables_are_opened_on_local_disks_alone_and_a_full_disk_or_no_library_is_said(
    monkeypatch,
) -> None:
    assert module.is_local(LocalStorage())
    assert module.is_local(ReadBy(ReadBy(LocalStorage())))  # type: ignore[arg-type]
    assert not module.is_local(ReadBy(MemoryStorage()))
    with pytest.raises(OSError, match="No space left") as caught:
        module._error("s/db", Exception(f"IO error: {os.strerror(28)}: While appending"), "/t")
    assert (caught.value.errno, caught.value.filename) == (28, "/t")
    module.refuse_full_disk(Exception("Corruption"), "/t")
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    with pytest.raises(module.RocksDBMissing, match=r"^s/db: is a RocksDB: pip install .*rocksdb"):
        module.open_database(Folder(LocalStorage(), "s/db"))


# --- Tables and databases that are written, read back with the library itself.
def table(path: Path, rows: dict[bytes, bytes], compressed: bool = True) -> str:
    writer = module.TableWriter(str(path), module.table_options(compressed, universal=False))
    writer.put(rows.keys(), rows.values())
    writer.finish()
    return str(path)


@pytest.fixture
def rocksdb_folder(tmp_path: Path) -> str:
    (tmp_path / "database").mkdir()
    return str(tmp_path / "database")


def test_a_database_has_the_rows_of_its_tables_and_one_without_rows_is_an_error(
    tmp_path, rocksdb_folder
) -> None:
    low = table(tmp_path / "1", {b"a": b"1", b"b": b""})
    high = table(tmp_path / "2", {b"c": b"3"})
    other = table(tmp_path / "3", {b"a": b"9"}, compressed=False)
    files = module.make_database(rocksdb_folder, {
        "default": (module.table_options(True, False), [low, high]),
        "offset": (module.table_options(False, True), [other]),
    })  # fmt: skip
    kinds = {name.rstrip("0123456789") if "." not in name else name[-4:] for name in files}
    assert kinds == {"CURRENT", "MANIFEST-", ".sst", ".log"}
    assert len([name for name in files if name.endswith(".sst")]) == 3
    assert not any((tmp_path / name).exists() for name in "123")  # moved, not copied
    options = rocksdict.Options(raw_mode=True)
    families = dict.fromkeys(rocksdict.Rdict.list_cf(rocksdb_folder, options), options)
    assert sorted(families) == ["default", "offset"]
    with rocksdict.Rdict(rocksdb_folder, options, families) as database:
        assert list(database.items()) == [(b"a", b"1"), (b"b", b""), (b"c", b"3")]
        assert list(database.get_column_family("offset").items()) == [(b"a", b"9")]
    writer = module.TableWriter(str(tmp_path / "t"), module.table_options(True, False))
    with pytest.raises(StoreError):
        writer.put([b"a", b"b"], [b"1"])
    with pytest.raises(StoreError, match="cannot be written"):
        table(tmp_path / "t", {})


def test_a_family_may_be_empty(rocksdb_folder: str) -> None:
    files = module.make_database(
        rocksdb_folder, {"default": (module.table_options(True, False), [])}
    )
    assert not any(name.endswith(".sst") for name in files)
    assert "CURRENT" in files


@pytest.mark.parametrize("rows", [[b"b", b"a"], [b"a", b"a"]])
def test_keys_out_of_order_are_an_error_that_names_the_table(tmp_path, rows: list[bytes]) -> None:
    writer = module.TableWriter(str(tmp_path / "t"), module.table_options(True, False))
    with pytest.raises(StoreError, match=f"{tmp_path}/t: the RocksDB cannot be written"):
        writer.put(rows, rows)
