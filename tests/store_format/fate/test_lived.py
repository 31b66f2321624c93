"""What is reported about stores that real brokers wrote is what was done there."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

import reput
from tests.store_format.fate.judge import compare_done, compare_in_rocksdb, compare_skipped
from tests.store_format.fate.stores import IN_ROCKSDB, LIVED, SKIPPED, unpack


@pytest.mark.parametrize("name", LIVED)
def test_what_was_done_is_reported(name: str, tmp_path: Path) -> None:
    store, done = unpack(name, tmp_path)
    compare_done(store, done)


def test_what_a_broker_skipped_is_reported(tmp_path: Path) -> None:
    store, done = unpack(SKIPPED, tmp_path)
    compare_skipped(store, done, {"before": "delivered", "meanwhile": "never delivered",
                                  "after": "delivered"})  # fmt: skip


@pytest.mark.parametrize("read", [True, False])
def test_what_rocksdb_tells_a_broker_of_is_known(read: bool, tmp_path: Path) -> None:
    store, done = unpack(IN_ROCKSDB, tmp_path)
    if not read:
        shutil.rmtree(store / "rocksdbstore")  # the log alone tells it
    compare_in_rocksdb(store, done)


@pytest.mark.parametrize(("given", "said"), [("true", False), ("false", True)])
def test_half_messages_that_a_broker_of_these_settings_does_not_ask_about(
    given: str, said: bool, tmp_path: Path
) -> None:
    """As RocketMQ 5.5.1, once transRocksDBEnable was taken off."""
    store, _ = unpack(IN_ROCKSDB, tmp_path)
    with reput.open_store(str(store), settings={"transRocksDBEnable": given}) as asked:
        notes = asked.transactions().notes
    assert any("transRocksDBEnable=true alone" in note for note in notes) == said


def test_without_the_library_what_is_not_known_is_said(tmp_path, monkeypatch) -> None:
    store, done = unpack(IN_ROCKSDB, tmp_path)
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    with reput.open_store(str(store)) as asked:
        (note,) = asked.transactions(everything=True).notes
        assert 'rocksdbstore: is a RocksDB: pip install "reput[rocksdb]" reads it' in note
        assert "transRocksDBEnable were checked or given up" in note
        rows = asked.delayed(everything=True)
        assert {row.unique_key for row in rows} == done["timers"].keys()
        assert "timerRocksDBEnable are delivered for good is not known" in " ".join(rows.notes)
