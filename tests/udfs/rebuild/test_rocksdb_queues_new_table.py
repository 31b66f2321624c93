"""A table in staging: written on a local disk, wherever staging is, and only if it has a row."""

import tempfile
from pathlib import Path

import pytest

from reput.store_format.faults import StoreError
from reput.store_format.files.local import LocalStorage
from reput.udfs.rebuild.rocksdb_queues import NewTable, copy_in
from reput.udfs.staging import Staging
from tests.memory_storage import MemoryStorage
from tests.udfs.tables import rows_in

ROWS = [(b"a", b"1"), (b"b", b""), (b"c", b"3")]


def write(table: NewTable) -> str:
    with table:
        table.put_rows([b"a", b"b"], [b"1", b""])
        table.put_rows([b"c"], [b"3"])
        table.finish()
    return table.name


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_where_staging_is_no_local_folder_the_table_is_copied_in(tmp_path, temporary: Path) -> None:
    storage = MemoryStorage()
    name = write(NewTable(Staging(storage, "staging")))
    assert list(storage.files) == [f"staging/{name}"]
    assert rows_in({name: storage.files[f"staging/{name}"]}, tmp_path) == ROWS
    assert list(temporary.iterdir()) == []


def test_on_a_local_disk_it_is_written_where_it_stays(tmp_path: Path, temporary: Path) -> None:
    staging = tmp_path / "staging"
    staging.mkdir()
    name = write(NewTable(Staging(LocalStorage(), str(staging))))
    assert [path.name for path in staging.iterdir()] == [name]
    assert rows_in({name: (staging / name).read_bytes()}, tmp_path) == ROWS
    assert list(temporary.iterdir()) == []


def test_without_rows_there_is_no_table(temporary: Path) -> None:
    storage = MemoryStorage()
    with NewTable(Staging(storage, "staging")) as table:
        table.finish()
    assert storage.files == {}


def test_what_fails_leaves_nothing_in_staging_nor_on_the_disk(temporary: Path) -> None:
    storage = MemoryStorage()
    with NewTable(Staging(storage, "staging")) as table:
        with pytest.raises(StoreError, match="cannot be written"):
            table.put_rows([b"b", b"a"], [b"1", b"2"])
        assert len(list(temporary.iterdir())) == 1
    assert storage.files == {}
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("length", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1])
def test_a_copy_has_all_bytes(tmp_path: Path, length: int) -> None:
    raw = (b"0123456789" * (length // 10 + 1))[:length]
    (tmp_path / "file").write_bytes(raw)
    storage = MemoryStorage()
    copy_in(Staging(storage, "staging"), str(tmp_path / "file"), "name")
    assert storage.files == {"staging/name": raw}
