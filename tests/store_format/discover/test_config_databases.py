"""A RocksDB beside a store's files is named where it has rows, and quiet where it has none.

tests/rocketmq/test_in_rocksdb.py has what real brokers leave.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import reput
from reput.store_format.discover.config import not_derived
from reput.store_format.faults import StoreError
from reput.store_format.files.local import LocalStorage
from tests import golden_stores
from tests.broker.change.expiring import a_store
from tests.broker.change.expiring import run as run_expire
from tests.broker.services.stores import LEVELS, T0, Clock, delayed, disk, half, timer, writing

# As 5.4.0, 5.5.0 and 5.5.1 leave it at each start, lengths in bytes.
OPENED = {"000004.log": 0, "CURRENT": 16, "IDENTITY": 36, "LOCK": 0, "MANIFEST-000005": 170,
          "OPTIONS-000009": 16038, "OPTIONS-000011": 16038}  # fmt: skip
WITH_ROWS = [OPENED | {"000013.sst": 1449}, OPENED | {"000004.log": 7}]


def rocksdb(folder: Path, files: dict[str, int]) -> None:
    folder.mkdir(parents=True)
    for name, length in files.items():
        (folder / name).write_bytes(bytes(length))


@pytest.mark.parametrize("name", ["rocksdbstore", "kvStore"])
def test_one_with_rows_is_named(name: str, tmp_path: Path) -> None:
    for number, files in enumerate(WITH_ROWS):
        rocksdb(tmp_path / str(number) / name, files)
        lines = not_derived(LocalStorage(), str(tmp_path / str(number)))
        assert len(lines) == (2 if name == "rocksdbstore" else 1)  # these cannot be looked at
        for line in lines:
            assert line.startswith(f"{tmp_path / str(number) / name}: ")
            assert "in RocksDB" in line
    rocksdb(tmp_path / "empty" / name, OPENED)
    assert not_derived(LocalStorage(), str(tmp_path / "empty")) == []
    rocksdb(tmp_path / "none" / name, {"notes.log": 7})  # no RocksDB is there
    assert not_derived(LocalStorage(), str(tmp_path / "none")) == []


@pytest.mark.parametrize("name", ["consumerOffsets", "metadata", "rdb"])
def test_groups_whose_offsets_are_in_rocksdb_are_not_reported_without_a_word(
    name: str, tmp_path: Path
) -> None:
    golden = golden_stores.unpack("small_all_5.5.0")
    store = golden_stores.copy_input(golden, tmp_path / "store")
    rocksdb(store / "config" / name, WITH_ROWS[0])
    with reput.open_store(str(store)) as opened:
        notes = opened.groups().notes
    told = " ".join(notes)
    assert f"{store}/config/{name}: the RocksDB cannot be read: " in told
    assert "; a broker reads it in place of consumerOffset.json" in told


def test_expire_does_not_take_what_pop_consumers_may_still_hold(tmp_path: Path) -> None:
    store = a_store(tmp_path / "store")
    rocksdb(store / "kvStore", OPENED)
    assert run_expire(store, dry_run=True).segments
    (store / "kvStore" / "000013.sst").write_bytes(b"x")
    with pytest.raises(StoreError, match="kvStore: what pop consumers still hold is in RocksDB"):
        run_expire(store, dry_run=True)
    assert run_expire(store, dry_run=True, even_unread=True).segments


def test_transactions_are_not_ended_whose_position_is_in_rocksdb(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with writing(disk(root), Clock(T0)) as writer:
        half(writer, "a")
    rocksdb(root / "config" / "rdb", WITH_ROWS[0])
    with pytest.raises(StoreError, match="config/rdb: RocksDB tells a broker up to where"):
        reput.resolve_transactions(str(root), decide="commit", rocketmq="5.5.0")
    (root / "config" / "rdb" / "CURRENT").unlink()
    done = reput.resolve_transactions(str(root), decide="commit", rocketmq="5.5.0")
    assert done.committed == 1


def test_timers_that_rocksdb_may_hold_are_not_delivered(tmp_path: Path) -> None:
    root, clock = tmp_path / "store", Clock(T0)
    with writing(disk(root), clock) as writer:
        for message in (delayed("a", 1), timer("t", 60_000)):
            writer.append(message)
    rocksdb(root / "rocksdbstore", WITH_ROWS[0])
    given = {"rocketmq": "5.5.0", "settings": {"messageDelayLevel": LEVELS}}
    with pytest.raises(StoreError, match="rocksdbstore: RocksDB may hold the timers"):
        reput.deliver_delayed(str(root), until=T0 + 90_000, **given)
    assert reput.deliver_delayed(str(root), until=T0 + 5000, **given).delivered == 1
    with reput.open_store(str(root)) as opened:
        assert "timerRocksDBEnable" in " ".join(opened.delayed().notes)
