"""A RocksDB beside a store's files is named where it has rows, and quiet where it has none.

tests/rocketmq/test_in_rocksdb.py has what real brokers leave.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import reput
from reput.jobs.in_place.install import to_convert
from reput.jobs.opening.plan import kind_of_queues, make_plan
from reput.store_format.discover.config import (
    _reach_in_rocksdb,
    config_in_rocksdb,
    consumer_offsets,
    files_are_live,
    not_derived,
)
from reput.store_format.discover.purpose import READ
from reput.store_format.discover.store import discover, store_at
from reput.store_format.faults import StoreError
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.layouts import QUEUE_ENTRY
from reput.store_format.notes import Notes
from tests import golden_stores
from tests.broker.change.expiring import a_store
from tests.broker.change.expiring import run as run_expire
from tests.broker.services.stores import LEVELS, T0, Clock, delayed, disk, half, timer, writing
from tests.store_format.rocksdb.stores import unpack

# As 5.4.0, 5.5.0 and 5.5.1 leave it at each start, lengths in bytes.
OPENED = {"000004.log": 0, "CURRENT": 16, "IDENTITY": 36, "LOCK": 0, "MANIFEST-000005": 170,
          "OPTIONS-000009": 16038, "OPTIONS-000011": 16038}  # fmt: skip
KEPT = {"popConsumerKVServiceEnable": "true"}
WITH_ROWS = [OPENED | {"000013.sst": 1449}, OPENED | {"000004.log": 7}]


def rocksdb(folder: Path, files: dict[str, int]) -> None:
    folder.mkdir(parents=True)
    for name, length in files.items():
        (folder / name).write_bytes(bytes(length))


@pytest.mark.parametrize("name", ["rocksdbstore", "kvStore"])
def test_one_with_rows_is_named(name: str, tmp_path: Path) -> None:
    for number, files in enumerate(WITH_ROWS):
        rocksdb(tmp_path / str(number) / name, files)
        lines = not_derived(Folder(LocalStorage(), str(tmp_path / str(number))), {})
        assert len(lines) == (2 if name == "rocksdbstore" else 1)  # these cannot be looked at
        for line in lines:
            assert line.startswith(f"{tmp_path / str(number) / name}: ")
            assert "in RocksDB" in line
    rocksdb(tmp_path / "empty" / name, OPENED)
    assert not_derived(Folder(LocalStorage(), str(tmp_path / "empty")), KEPT) == []
    rocksdb(tmp_path / "none" / name, {"notes.log": 7})  # no RocksDB is there
    assert not_derived(Folder(LocalStorage(), str(tmp_path / "none")), KEPT) == []


def test_a_copy_without_pop_s_rocksdb_is_told(tmp_path: Path) -> None:
    """A broker gave none of 19 messages in flight again."""
    (tmp_path / "config/consumerOffsets").mkdir(parents=True)
    assert not_derived(Folder(LocalStorage(), str(tmp_path)), {}) == []
    (line,) = not_derived(Folder(LocalStorage(), str(tmp_path)), KEPT)
    assert line.startswith(f"{tmp_path}/kvStore: is missing (popConsumerKVServiceEnable=true): ")
    rocksdb(tmp_path / "kvStore", OPENED)
    assert not_derived(Folder(LocalStorage(), str(tmp_path)), KEPT) == []


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
    with pytest.raises(StoreError, match=r"kvStore: .*; what it has in flight is not shown"):
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


def both(tmp_path: Path) -> tuple[Path, str]:
    """A store whose broker had storeType=defaultRocksDB, with the JSON of an older or newer life;
    the path of that.
    """
    store, _ = unpack("alone_5.3.3", tmp_path)
    offsets = store / "config" / "consumerOffset.json"
    offsets.write_text('{"offsetTable":{"Live0@other":{0:3}}}')
    return store, str(offsets)


@pytest.mark.parametrize(("later", "live"), [(10, True), (-10, False)])
def test_of_two_copies_of_config_the_one_that_a_broker_wrote_last_counts(
    later: int, live: bool, tmp_path: Path
) -> None:
    """A storeType was given up again (#8600): what RocksDB has is what it was then."""
    store, offsets = both(tmp_path)
    rows = [path.stat().st_mtime for path in (store / "config" / "consumerOffsets").iterdir()]
    os.utime(offsets, (max(rows) + later,) * 2)
    there = config_in_rocksdb(Folder(LocalStorage(), str(store)), "consumerOffset.json")
    assert (there is None) == live
    found = consumer_offsets(Folder(LocalStorage(), str(store)), Notes())
    assert {group for group, _ in found} == {"other" if live else "reading"}
    assert ("consumerOffset.json" in to_convert(str(store), False, False).names) == (not live)


@pytest.mark.parametrize("live", ["topics", "metadata", "rdb"])
def test_of_several_rocksdbs_the_one_that_a_broker_wrote_last_counts(
    live: str, tmp_path: Path
) -> None:
    """useSingleRocksDBForAllConfigs (#9773), or configManagerVersion=v2, was put on, or off."""
    for name in ("topics", "metadata", "rdb"):
        rocksdb(tmp_path / "config" / name, WITH_ROWS[0])
        for path in (tmp_path / "config" / name).iterdir():
            os.utime(path, (9, 9) if name == live else (5, 5))
    there = config_in_rocksdb(Folder(LocalStorage(), str(tmp_path)), "topics.json")
    assert str(there) == f"{tmp_path}/config/{live}"


@pytest.mark.parametrize(("kept", "kind"), [(1, "files"), (0, "rocksdb")])
def test_queues_that_reach_further_in_the_log_are_live_whatever_the_times(
    kept: int, kind: str, tmp_path: Path
) -> None:
    """A copy of a store has the times of its copying."""
    store, offsets = both(tmp_path)
    os.utime(offsets, (0, 0) if kept else None)
    storage = LocalStorage()
    reach = _reach_in_rocksdb(Folder(storage, str(store)))
    queue = store / "consumequeue" / "Live0" / "0"
    queue.mkdir(parents=True)
    entry = np.zeros(1, QUEUE_ENTRY)
    entry["physicalOffset"], entry["size"] = (reach or 0) + (1 if kept else -1), 100
    (queue / f"{0:020d}").write_bytes(entry.tobytes())
    assert files_are_live(Folder(storage, str(store))) == bool(kept)
    there = config_in_rocksdb(Folder(storage, str(store)), "consumerOffset.json")
    assert (there is None) == bool(kept)
    plan = make_plan(store_at(str(store)), discover(store_at(str(store)), READ), READ)
    assert kind_of_queues(plan, None, str(tmp_path / "set")) == kind
