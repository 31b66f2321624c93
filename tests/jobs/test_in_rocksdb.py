"""What repair and replicate do with a store that keeps queues, index and config in RocksDB."""

import json
from pathlib import Path

import pytest

import reput
from reput.jobs.check import check
from reput.jobs.repair import repair
from reput.jobs.replicate import replicate
from reput.jobs.verify import verify
from reput.store_format.layouts import RECORD_AT
from reput.store_format.rocksdb.queues import ENTRIES
from tests.in_process import Session
from tests.jobs.deriving.rocksdb_rows import rows
from tests.jobs.judging.rocksdb_index_rows import rows as index_rows
from tests.store_format.rocksdb.stores import unpack
from tests.trees import flip


def offsets(store: Path) -> list[tuple[str | None, str | None, int | None, int | None]]:
    with reput.open_store(str(store)) as asked:
        found = asked.groups()
        assert not found.notes
        return sorted((r.group, r.topic, r.queue_id, r.consumer_offset) for r in found)


def topics(store: Path) -> set[str]:
    with reput.open_store(str(store)) as asked:
        return {row.topic for row in asked.topics(everything=True) if row.configured}


def damage(store: Path) -> int:
    """Take a record's magic number away, so that its message is lost; its physical offset."""
    with reput.open_store(str(store)) as asked:
        place = list(asked.messages("Live1"))[20].physical_offset
    (log,) = (store / "commitlog").iterdir()
    flip(log, place + RECORD_AT.magic, 0xFF)
    return place


@pytest.mark.parametrize("name", ["alone_5.5.0", "single_5.5.0", "v2_5.4.0"])
def test_a_repaired_store_has_its_queues_and_config_in_rocksdb(name: str, tmp_path: Path) -> None:
    store, _ = unpack(name, tmp_path / "made")
    wanted = offsets(store), topics(store)
    entries, place = rows(store / "consumequeue")[ENTRIES], damage(store).to_bytes(8, "big")
    output, release = tmp_path / "out", name.partition("_")[2]
    summary = repair(Session(), str(store), str(output), rocketmq=release)
    assert (offsets(output), topics(output)) == wanted
    made = rows(output / "consumequeue")[ENTRIES]
    assert made.keys() == entries.keys()  # a filler stands for the lost message
    (lost,) = (key for key in entries if made[key] != entries[key])
    assert made[lost][:12] == entries[lost][:12]
    assert entries[lost][:8] == place
    assert not [each for each in summary.warnings if "not copied" in each]
    report = verify(Session(), str(output), rocketmq=release)
    assert report.same, report.differences


def test_a_repaired_store_has_its_index_in_rocksdb(tmp_path: Path) -> None:
    store, _ = unpack("index_5.5.1", tmp_path / "made")
    wanted, place = index_rows(store / "rocksdbstore"), damage(store).to_bytes(8, "big")
    given = {"indexRocksDBEnable": "true", "indexFileWriteEnable": "false"}
    repair(Session(), str(store), str(tmp_path / "out"), rocketmq="5.5.1", settings=given)
    made = index_rows(tmp_path / "out" / "rocksdbstore")
    lost = {key for key in wanted if key[-8:] == place}
    assert lost
    assert not (tmp_path / "out" / "index").exists()
    assert {k: v for k, v in made.items() if k in wanted} == {
        k: v for k, v in wanted.items() if k not in lost
    }


def test_of_queues_of_both_kinds_a_repaired_store_has_files(tmp_path: Path) -> None:
    store, _ = unpack("double_5.3.3", tmp_path / "made")
    damage(store)
    output, sizes = tmp_path / "out", {"mappedFileSizeConsumeQueue": "2000"}
    repair(Session(), str(store), str(output), rocketmq="5.3.3", settings=sizes)
    assert not (output / "consumequeue" / "CURRENT").exists()
    assert check(Session(), str(output), rocketmq="5.3.3", settings=sizes).sound


@pytest.mark.parametrize("name", ["alone_5.2.0", "index_5.5.1", "single_5.5.0", "v2_5.4.0"])
def test_a_replica_has_files_and_all_that_a_broker_needs_beside_them(name: str, tmp_path) -> None:
    store, _ = unpack(name, tmp_path / "made")
    replica, release = tmp_path / "replica", name.partition("_")[2]
    about = replicate(str(store), str(replica), rocketmq=release)
    assert not about.warnings
    assert offsets(replica) == offsets(store)
    assert topics(replica) == topics(store)
    assert json.loads((replica / "config" / "consumerOffset.json").read_text())["offsetTable"]
    assert not list(replica.rglob("CURRENT"))
    assert check(Session(), str(replica), rocketmq=release).sound
    again = replicate(str(store), str(replica), rocketmq=release)
    assert not again.warnings


def test_what_cannot_be_read_of_its_config_is_said(tmp_path: Path) -> None:
    store, _ = unpack("alone_5.5.0", tmp_path / "made")
    next((store / "config" / "topics").glob("*.sst")).unlink()
    about = replicate(str(store), str(tmp_path / "replica"), rocketmq="5.5.0")
    *_, warning = about.warnings
    assert warning.startswith(f"{store}/config/topics: the RocksDB cannot be read: ")
    assert warning.endswith("config/topics.json is left out")
    assert (tmp_path / "replica" / "config" / "consumerOffset.json").exists()
