"""verify judges an index in RocksDB by its rows, and rebuild makes the very rows of a broker."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rocksdict

from reput.jobs.install import install_set, undo_install
from reput.jobs.judging.rocksdb import NO_INDEX
from reput.jobs.pipeline.pipeline import Cut
from reput.jobs.rebuild import rebuild
from reput.jobs.verify import verify
from reput.store_format.faults import StoreError
from reput.store_format.rocksdb.rows import FAMILY, LAST_OFFSET
from reput.udfs.table import rocksdb_index
from tests.in_process import Session
from tests.jobs.judging.rocksdb_index_rows import Rows, rows
from tests.store_format.rocksdb.stores import INDEX, unpack


@pytest.mark.parametrize(("name", "ranges"), [(INDEX[0], 1), (INDEX[1], 4)])
def test_the_rows_are_a_brokers_own(name: str, ranges: int, tmp_path, monkeypatch) -> None:
    if ranges > 1:
        monkeypatch.setattr(rocksdb_index, "_ROWS_A_BATCH", 7)
        monkeypatch.setattr(rocksdb_index, "_ROWS_A_RUN", 100)
    store, _ = unpack(name, tmp_path)
    release = name.partition("_")[2]
    summary = rebuild(
        Session(ranges), str(store), str(tmp_path / "out"), rocketmq=release, index="rocksdb",
        cut=Cut(index_ranges=ranges, split_bytes=9000 * ranges),
    )  # fmt: skip
    assert (summary.index_in, summary.index_keys) == ("rocksdb", 600)
    assert rows(tmp_path / "out" / "rocksdbstore") == rows(store / "rocksdbstore")
    assert not (tmp_path / "out" / "index").exists()
    report = verify(Session(), str(store), against=str(tmp_path / "out"), rocketmq=release)
    assert report.same, report.differences
    assert report.in_rocksdb[-1] == "600 rows of the index"


def test_it_is_installed_and_taken_back(tmp_path: Path) -> None:
    store, _ = unpack("index_5.5.1", tmp_path)
    wanted = rows(store / "rocksdbstore")
    rebuild(Session(), str(store), str(tmp_path / "out"), rocketmq="5.5.1", index="rocksdb")
    changed(store, lambda family: family.delete(min(wanted)))
    install_set(str(store), str(tmp_path / "out"))
    assert rows(store / "rocksdbstore") == wanted
    undo_install(str(store))
    assert rows(store / "rocksdbstore") == {k: v for k, v in wanted.items() if k != min(wanted)}


def test_timers_are_not_lost(tmp_path: Path) -> None:
    store, _ = unpack("index_5.5.1", tmp_path)
    rebuild(Session(), str(store), str(tmp_path / "out"), rocketmq="5.5.1", index="rocksdb")
    changed(store, lambda family: family.put(b"\0" * 8 + b"of a timer", b"\0" * 12), "timer")
    with pytest.raises(StoreError, match="has rows in 'timer'"):
        install_set(str(store), str(tmp_path / "out"))


def changed(store: Path, change: Callable[[Any], Any], family: str = FAMILY) -> None:
    folder = f"{store}/rocksdbstore"
    options = rocksdict.Options(raw_mode=True)
    families = rocksdict.Rdict.list_cf(folder, options)
    with rocksdict.Rdict(folder, options, dict.fromkeys(families, options)) as database:
        change(database.get_column_family(family))
        database.get_column_family(family).flush()
    (store / "rocksdbstore" / "rocksdict-config.json").unlink(missing_ok=True)


def _middle(found: Rows, number: int) -> bytes:
    return sorted(found)[number]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda found, family: family.delete(_middle(found, 3)), "1 rows are missing in RocksDB"),
        (
            lambda found, family: family.put(_middle(found, 3)[:-9] + b"x@" + bytes(8), bytes(8)),
            "1 rows are in RocksDB that the log does not give, first of the message at 0",
        ),
        (
            lambda found, family: family.put(_middle(found, 3), bytes(8)),
            "1 rows have another storeTimestamp in RocksDB",
        ),
    ],
)
def test_a_row_that_is_not_as_the_log_gives_it_is_a_difference(
    change: Callable[[Rows, Any], Any], said: str, tmp_path: Path
) -> None:
    store, _ = unpack("index_5.5.1", tmp_path)
    found = rows(store / "rocksdbstore")
    changed(store, lambda family: change(found, family))
    report = verify(Session(), str(store), rocketmq="5.5.1")
    (difference,) = report.differences
    assert difference.path == f"{store}/rocksdbstore"
    assert f"index: {said}" in difference.text()


def test_what_is_dispatched_again_is_only_behind(tmp_path: Path) -> None:
    store, _ = unpack("index_5.4.0", tmp_path)
    found = rows(store / "rocksdbstore")
    newest = max((k for k in found if k[:1] == b"\0"), key=lambda key: key[-8:])
    changed(store, lambda family: family.delete(newest))
    assert found[LAST_OFFSET] == newest[-8:]
    report = verify(Session(), str(store), rocketmq="5.4.0")
    assert report.differences == []
    assert len(report.behind) == 1


def test_an_index_that_was_switched_on_late_is_sound(tmp_path: Path) -> None:
    store, _ = unpack("index_5.4.0", tmp_path)
    found = rows(store / "rocksdbstore")
    places = sorted({key[-8:] for key in found if key[:1] == b"\0"})
    early = [key for key in found if key[:1] == b"\0" and key[-8:] < places[50]]
    changed(store, lambda family: [family.delete(key) for key in early])
    report = verify(Session(), str(store), rocketmq="5.4.0")
    assert report.differences == []
    begin = int.from_bytes(places[50], "big")
    assert f"{store}/rocksdbstore: its index begins with the message at {begin}" in report.notes


def test_no_index_in_its_only_place_is_a_difference(tmp_path: Path) -> None:
    store, _ = unpack("index_5.5.1", tmp_path)
    shutil.rmtree(store / "rocksdbstore")
    given = {"indexRocksDBEnable": "true", "indexFileWriteEnable": "false"}
    report = verify(Session(), str(store), rocketmq="5.5.1", settings=given)
    assert [each.field for each in report.differences] == [NO_INDEX]
