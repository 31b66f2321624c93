"""Queues in RocksDB from bad input: it is said what is wrong and where, and nothing is written."""

import multiprocessing
import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import rocksdict

from reput.jobs.install import install_set
from reput.jobs.rebuild import rebuild
from reput.jobs.verify import verify
from reput.store_format.faults import StoreError
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.rocksdb.database import RocksDBError, open_database
from reput.store_format.rocksdb.queues import OFFSETS
from tests.in_process import Session
from tests.jobs.deriving.rocksdb_rows import rows
from tests.store_format.rocksdb.damaged import DAMAGES, missing_table
from tests.store_format.rocksdb.stores import unpack
from tests.trees import contents, flip


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return unpack("alone_5.3.3", tmp_path / "made")[0]


def made(store: Path, output: Path, **options: Any) -> Any:
    return rebuild(Session(), str(store), str(output), rocketmq="5.3.3", **options)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_rebuild_asks_the_log_alone(damage, store: Path, tmp_path) -> None:
    wanted = rows(store / "consumequeue")
    damage(store / "consumequeue")
    before = contents(store)
    assert made(store, tmp_path / "out").queues_in == "rocksdb"
    assert rows(tmp_path / "out" / "consumequeue") == wanted
    assert contents(store) == before
    install_set(str(store), str(tmp_path / "out"))
    assert rows(store / "consumequeue") == wanted


def test_a_changed_table_and_a_set_of_another_store_are_not_installed(store, tmp_path) -> None:
    made(store, tmp_path / "out")
    table = max((tmp_path / "out" / "consumequeue").glob("*.sst"), key=os.path.getsize)
    flip(table, -1)
    before = contents(store)
    with pytest.raises(StoreError):
        install_set(str(store), str(tmp_path / "out"))
    assert {k: v for k, v in contents(store).items() if k != "lock"} == before
    (tmp_path := tmp_path / "1").mkdir()
    made(store, tmp_path / "out")
    (log,) = (store / "commitlog").iterdir()
    raw = bytearray(log.read_bytes())
    for place in rows(store / "consumequeue")[OFFSETS].values():
        at = int.from_bytes(place[:8], "big")
        raw[at : at + 4] = (1000).to_bytes(4, "big") if len(place) == 16 else raw[at : at + 4]
    log.write_bytes(raw)
    before = {k: v for k, v in contents(store).items() if k != "lock"}
    with pytest.raises(StoreError, match="no such record: it is a set of another store"):
        install_set(str(store), str(tmp_path / "out"))
    assert {k: v for k, v in contents(store).items() if k != "lock"} == before


def _killed(folder: str, family: str, keys: list[bytes]) -> None:
    """Put rows and die: they are in the write-ahead log alone."""
    options = rocksdict.Options(raw_mode=True)
    families = rocksdict.Rdict.list_cf(folder, options)
    opened = rocksdict.Rdict(folder, options, dict.fromkeys(families, options))
    put = opened.get_column_family(family)  # it would be flushed, were it let go of
    for key in keys:
        put[key] = b"x" * 40
    os._exit(0)


def write_ahead(folder: Path, family: str, keys: list[bytes]) -> Path:
    """The write-ahead log of a database whose writer was killed."""
    spawn = multiprocessing.get_context("spawn")
    writer = spawn.Process(target=_killed, args=(str(folder), family, keys))
    writer.start()
    writer.join()
    (folder / "rocksdict-config.json").unlink()
    return max(folder.glob("*.log"), key=os.path.getsize)


KEYS = [b"\0" * 7 + bytes([n]) + b"of a timer" for n in range(1, 9)]


def _timers(folder: Path) -> dict[bytes, bytes]:
    with closing(open_database(Folder(LocalStorage(), str(folder)))) as database:
        return dict(database.rows("timer"))


@pytest.mark.parametrize("cut", [1, 30, 90])
def test_of_a_torn_write_ahead_log_what_is_whole_is_read(cut: int, tmp_path: Path) -> None:
    """As a broker reads it, which was killed while it wrote."""
    folder = unpack("index_5.5.1", tmp_path)[0] / "rocksdbstore"
    log = write_ahead(folder, "timer", KEYS)
    assert list(_timers(folder)) == KEYS
    log.write_bytes(log.read_bytes()[:-cut])
    before = contents(folder)
    assert list(_timers(folder)) == KEYS[: -1 - cut // 90]
    assert contents(folder) == before


def test_a_flipped_bit_in_a_write_ahead_log_and_a_lost_table_are_said(tmp_path: Path) -> None:
    store = unpack("index_5.5.1", tmp_path)[0]
    log = write_ahead(store / "rocksdbstore", "timer", KEYS)
    flip(log, log.stat().st_size // 2)
    before = contents(store)
    report = verify(Session(), str(store), rocketmq="5.5.1")
    (difference,) = report.differences
    assert difference.path == f"{store}/rocksdbstore"
    assert "the RocksDB cannot be read: Corruption: " in difference.text()
    with pytest.raises(StoreError, match=r"rocksdbstore: the RocksDB cannot be read: Corruption"):
        install_index(store, tmp_path / "out")
    assert {k: v for k, v in contents(store).items() if k != "lock"} == before
    (tmp_path := tmp_path / "later").mkdir()
    store = unpack("index_5.5.1", tmp_path)[0]
    missing_table(store / "rocksdbstore")
    (difference,) = verify(Session(), str(store), rocketmq="5.5.1").differences
    assert difference.path == f"{store}/rocksdbstore"
    assert "is missing" in difference.field


def install_index(store: Path, output: Path) -> None:
    rebuild(Session(), str(store), str(output), rocketmq="5.5.1", index="rocksdb")
    install_set(str(store), str(output))


@pytest.mark.parametrize("name", ["config/topics", "config/consumerOffsets", "config/metadata"])
def test_nothing_is_installed_where_the_config_cannot_be_read(name: str, tmp_path: Path) -> None:
    of = "single_5.5.0" if name.endswith("metadata") else "alone_5.5.0"
    store = unpack(of, tmp_path)[0]
    rebuild(Session(), str(store), str(tmp_path / "out"), rocketmq="5.5.0", queues="files")
    missing_table(store / name)
    before = contents(tmp_path)
    for dry_run in (True, False):
        with pytest.raises(
            RocksDBError, match=f"{name}: the RocksDB cannot be read: .* is missing"):  # fmt: skip
            install_set(str(store), str(tmp_path / "out"), dry_run)
        assert {k: v for k, v in contents(tmp_path).items() if k != "store/lock"} == before
