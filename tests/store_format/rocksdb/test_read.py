"""What real brokers keep in RocksDB is read, and equals what the log alone tells."""

import os
import re
import sys
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest

import reput
from reput.broker.serving.store import ServedStore
from reput.jobs.cli import main
from reput.jobs.replicating.master import StoreLog
from reput.jobs.sources.opened_log import plan_of
from reput.jobs.sources.options import SourceOptions
from reput.store_format.derived.queue_reader import Boundary
from reput.store_format.discover.purpose import LOOK
from reput.store_format.discover.store import discover, store_at
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.notes import Notes
from reput.store_format.query.reader import NEWEST, OpenedStore
from reput.store_format.release.profiles import profile
from tests.store_format.rocksdb import damaged
from tests.store_format.rocksdb.stores import ALONE, CONFIG, DOUBLE, INDEX, NAMES, unpack

FROM_ROCKSDB = {"combineCQPreferCQType": "defaultRocksDB"}  # of the two of a double write


@pytest.fixture(params=NAMES)
def lived(request: Any, tmp_path: Path) -> tuple[str, Path, list[list[Any]]]:
    return (request.param, *unpack(request.param, tmp_path))


def opened(store: Path, **given: str) -> OpenedStore:
    return OpenedStore(
        Folder(LocalStorage(), str(store)), NEWEST, {**FROM_ROCKSDB, **given}, Notes()
    )


def files_of(store: Path) -> dict[str, tuple[int, int]]:
    """Every file with its length and when it was changed."""
    every = (path for path in store.rglob("*"))
    return {str(p): (p.stat().st_size, p.stat().st_mtime_ns) for p in every}


def test_every_message_is_found_by_position_key_and_time(lived) -> None:
    _, store, sent = lived
    before = files_of(store)
    with reput.open_store(str(store), settings=FROM_ROCKSDB) as asked:
        for topic in ("Live0", "Live1", "Live2"):
            there = list(asked.messages(topic))
            assert sorted((m.queue_id, m.queue_offset, m.unique_key) for m in there) == sorted(
                (queue, position, key) for t, queue, position, key, *_ in sent if t == topic
            )
            assert [m.physical_offset for m in there] == [
                m.physical_offset for m in asked.messages(topic, scan=True)
            ]
        for topic, queue, position, key, *_ in sent[::13]:
            (found,) = asked.messages(topic, queue, position, 1)
            assert found.unique_key == key
            (found,) = asked.query(topic, key)
            assert (found.queue_id, found.queue_offset) == (queue, position)
            at = found.store_timestamp
            assert key in {m.unique_key for m in asked.messages(topic, queue, begin=at, end=at)}
        assert not asked.notes
        assert list(asked.topics()) == list(asked.topics(scan=True))
        assert list(asked.queues()) == list(asked.queues(scan=True))
        assert [sum(row.messages) for row in asked.rates(3)] == [50, 50, 50]
    assert files_of(store) == before


@pytest.mark.parametrize("name", DOUBLE)
def test_both_kinds_of_one_store_say_the_same(name: str, tmp_path: Path) -> None:
    store, _ = unpack(name, tmp_path)
    with opened(store) as rocksdb, opened(store, combineCQPreferCQType="default") as files:
        assert type(rocksdb.queues) is not type(files.queues)
        assert rocksdb.queues.topics() == files.queues.topics()
        for topic in files.queues.topics():
            assert rocksdb.queues.of(topic) == files.queues.of(topic)
            for queue_id, _ in files.queues.of(topic):
                ours, theirs = (s.queue(topic, queue_id, False) for s in (rocksdb, files))
                _same(ours, theirs, files)


def _same(ours: Any, theirs: Any, store: OpenedStore) -> None:
    assert [e[:5] for e in ours.entries(0)] == [e[:5] for e in theirs.entries(0)]
    assert (ours.maximum(), ours.last()[:5]) == (theirs.maximum(), theirs.last()[:5])
    some = [e[:5] for e in ours.entries(3, 7)]
    assert some == [e[:5] for e in theirs.entries(3, 7)]
    columns = [[c.tolist() for c in astuple(each.some(2, 4))] for each in (ours, theirs)]
    assert columns[0] == columns[1]
    newest = profile(NEWEST)
    for entry in ours.entries(0):
        assert ours.minimum(entry.physical_offset, newest) == entry.position
        assert ours.end_within(entry.physical_offset + entry.size) == entry.position + 1
        assert ours.end_within(entry.physical_offset) == theirs.end_within(entry.physical_offset)
        for time in (entry.store_timestamp - 1, entry.store_timestamp, entry.store_timestamp + 1):
            for boundary in Boundary:
                assert ours.position_by_time(time, boundary, store.log, newest) == (
                    theirs.position_by_time(time, boundary, store.log, newest)
                )


@pytest.mark.parametrize("name", INDEX)
def test_keys_are_found_in_rocksdb_as_in_the_log(name: str, tmp_path: Path) -> None:
    store, sent = unpack(name, tmp_path)
    with reput.open_store(str(store)) as asked:
        for key in ("key3", "all0", "T#A", sent[0][3], "no such key", "key"):
            ours = [m.physical_offset for m in asked.query("Live0", key)]
            assert ours == [m.physical_offset for m in asked.query("Live0", key, scan=True)]
            many = asked.query_keys("Live0", [key, "key6"])
            assert [m.physical_offset for m in many] == [
                m.physical_offset for m in asked.query_keys("Live0", [key, "key6"], scan=True)
            ]
        (found,) = asked.query("Live0", "key6")
        at = found.store_timestamp
        assert len(list(asked.query("Live0", "key6", begin=at, end=at))) == 1
        assert not list(asked.query("Live0", "key6", begin=at + 1))
        assert not asked.notes
        (found,) = asked.by_unique_key(sent[5][3])
        assert found.topic == sent[5][0]


@pytest.mark.parametrize("name", [*INDEX, ALONE[0]])
def test_a_store_in_rocksdb_is_served(name: str, tmp_path: Path) -> None:
    store, sent = unpack(name, tmp_path)
    served = ServedStore(lambda: opened(store), Notes())
    for topic, queue_id, position, *_ in sent:
        queue = served.queue(topic, queue_id)
        assert queue is not None
        assert queue.minimum <= position < queue.maximum
        assert len(queue.some(position, 1)) == 1
    assert next(served.log.records(served.served_end()), None) is None
    places, time, last = served.by_key("Live0", "all0", 5, 0, 1 << 62)
    assert len(places) == 5
    assert time > 0
    assert last > 0
    served.close()
    served.opened.close()


@pytest.mark.parametrize("name", [*CONFIG, ALONE[1], ALONE[2]])
def test_config_is_read(name: str, tmp_path: Path) -> None:
    store, _ = unpack(name, tmp_path)
    with reput.open_store(str(store)) as asked:
        groups = asked.groups()
        reading = {(r.queue_id, r.consumer_offset, r.lag) for r in groups if r.group == "reading"}
        assert len({queue for queue, _, _ in reading}) == 4, "no offsets of the group"
        assert all(lag == 0 for _, _, lag in reading)
        configured = {row.topic for row in asked.topics(everything=True) if row.configured}
        assert not groups.notes
    if not name.startswith("v2"):  # there RocketMQ persists no topic that is made by itself
        assert {"Live0", "Live1", "Live2"} <= configured


def test_without_the_library_the_log_is_read(tmp_path, monkeypatch) -> None:
    store, sent = unpack("index_5.4.0", tmp_path)
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    with reput.open_store(str(store)) as asked:
        (found,) = asked.query("Live0", sent[0][3])
        assert found.queue_offset == sent[0][2]
        assert len(list(asked.messages("Live0"))) == 50
        notes = " ".join(asked.notes)
    assert 'is a RocksDB: pip install "reput[rocksdb]" reads it' in notes


def _linked_table(folder: Path) -> None:
    table = min(folder.glob("*.sst"))
    os.symlink(table.rename(folder.parent / "elsewhere"), table)


@pytest.mark.parametrize(("damage", "said"), [
    *((each, damaged.DAMAGES[each]) for each in (
        damaged.missing_table, damaged.damaged_block, damaged.other_comparator)),
    (_linked_table, ""),
])  # fmt: skip
def test_what_cannot_be_read_is_told_and_the_log_is_read(damage, said: str, tmp_path: Path) -> None:
    store, _ = unpack("alone_5.3.3", tmp_path)
    damage(store / "consumequeue")
    before = files_of(store)
    with reput.open_store(str(store)) as asked:
        assert len(list(asked.messages("Live0"))) == 50
        assert files_of(store) == before
        told = " ".join(asked.notes)
    assert re.search(f"{store}/consumequeue: the RocksDB cannot be read: .*{said}", told)


def test_the_folder_shows_that_its_broker_is_of_5_4_or_later(tmp_path: Path) -> None:
    store, _ = unpack("index_5.5.1", tmp_path)
    found = discover(store_at(str(store), None, {}), LOOK)
    assert found.left == ("5.4.0", "5.5.0", "5.5.1")


# --- Commands that read a store's log alone take one whose queues are in RocksDB.
def test_such_a_store_is_exported_and_reported(tmp_path, capsys) -> None:
    store, sent = unpack("index_5.4.0", tmp_path / "unpacked")
    asked = ["--rocketmq", "5.4.0", "--set", "maxHashSlotNum=50", "--set", "maxIndexNum=600"]
    exported = ["export", str(store), "--output", str(tmp_path / "out"), "--as", "jsonl"]
    assert main([*exported, *asked]) == 0
    rows = [line for path in (tmp_path / "out").rglob("*.jsonl") for line in path.open()]
    assert len(rows) == len(sent)
    assert main(["report", str(store), "--output", str(tmp_path / "page.html"), *asked]) == 0
    assert "Sound: 150 messages" in capsys.readouterr().out


def test_such_a_log_is_a_table_of_spark_and_served_to_slaves(tmp_path: Path) -> None:
    """Both read the log alone; `spark.read.format("commitlog")`, `serve --ha-listen`."""
    store, _ = unpack("alone_5.2.0", tmp_path)
    plan = plan_of(SourceOptions(str(store), rocketmq="5.2.0"))
    served = StoreLog(store_at(str(store), "5.2.0")).now()
    assert (served.start, plan.segments[0].start) == (0, 0)
    assert served.end > 0
