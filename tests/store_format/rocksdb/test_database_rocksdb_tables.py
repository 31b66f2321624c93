"""Tables and databases that are written, read back with the library itself."""

from pathlib import Path

import pytest
import rocksdict

from reput.store_format.faults import StoreError
from reput.store_format.rocksdb.database import TableWriter, make_database, table_options


def table(path: Path, rows: dict[bytes, bytes], compressed: bool = True) -> str:
    writer = TableWriter(str(path), table_options(compressed, universal=False))
    writer.put(rows.keys(), rows.values())
    writer.finish()
    return str(path)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    (tmp_path / "database").mkdir()
    return str(tmp_path / "database")


def test_a_database_has_the_rows_of_its_tables_and_no_file_of_the_library(
    tmp_path: Path, folder: str
) -> None:
    low = table(tmp_path / "1", {b"a": b"1", b"b": b""})
    high = table(tmp_path / "2", {b"c": b"3"})
    other = table(tmp_path / "3", {b"a": b"9"}, compressed=False)
    files = make_database(
        folder,
        {
            "default": (table_options(True, False), [low, high]),
            "offset": (table_options(False, True), [other]),
        },
    )
    kinds = {name.rstrip("0123456789") if "." not in name else name[-4:] for name in files}
    assert kinds == {"CURRENT", "MANIFEST-", ".sst", ".log"}
    assert len([name for name in files if name.endswith(".sst")]) == 3
    assert not any((tmp_path / name).exists() for name in "123")  # moved, not copied
    options = rocksdict.Options(raw_mode=True)
    families = dict.fromkeys(rocksdict.Rdict.list_cf(folder, options), options)
    assert sorted(families) == ["default", "offset"]
    with rocksdict.Rdict(folder, options, families) as database:
        assert list(database.items()) == [(b"a", b"1"), (b"b", b""), (b"c", b"3")]
        assert list(database.get_column_family("offset").items()) == [(b"a", b"9")]


def test_a_family_may_be_empty(folder: str) -> None:
    files = make_database(folder, {"default": (table_options(True, False), [])})
    assert not any(name.endswith(".sst") for name in files)
    assert "CURRENT" in files


@pytest.mark.parametrize("rows", [[b"b", b"a"], [b"a", b"a"]])
def test_keys_out_of_order_are_an_error_that_names_the_table(tmp_path, rows: list[bytes]) -> None:
    writer = TableWriter(str(tmp_path / "t"), table_options(True, False))
    with pytest.raises(StoreError, match=f"{tmp_path}/t: the RocksDB cannot be written"):
        writer.put(rows, rows)


def test_a_table_without_rows_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be written"):
        table(tmp_path / "t", {})


def test_a_key_without_a_value_is_an_error(tmp_path: Path) -> None:
    writer = TableWriter(str(tmp_path / "t"), table_options(True, False))
    with pytest.raises(StoreError):
        writer.put([b"a", b"b"], [b"1"])
