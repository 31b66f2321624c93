"""Finds a broker's configuration: the store's own, or one beside it that names the store."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reput
from reput.jobs.in_place.install import to_convert
from reput.jobs.opening.plan import kind_of_queues, make_plan
from reput.store_format.discover import config
from reput.store_format.discover.purpose import READ
from reput.store_format.discover.store import discover, store_at
from reput.store_format.faults import StoreError
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.layouts import QUEUE_ENTRY
from reput.store_format.notes import Notes
from reput.store_format.release.setting_table import SettingError
from tests import golden_stores
from tests.broker.change.expiring import a_store
from tests.broker.change.expiring import run as run_expire
from tests.broker.services.stores import LEVELS, T0, Clock, delayed, disk, half, timer, writing
from tests.memory_storage import MemoryStorage
from tests.store_format.rocksdb.stores import unpack

INDEX, SEGMENT = "messageIndexEnable", "mappedFileSizeCommitLog"
OFF = f"{INDEX}=false\n"


def in_store(**files: str) -> MemoryStorage:
    return MemoryStorage({f"store/{path}": text.encode("latin-1") for path, text in files.items()})


def beside(tmp_path: Path, name: str, text: str) -> str:
    """A store, and a file with this path beside it."""
    store = tmp_path / "store"
    store.mkdir()
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    return str(store)


PLACES = ["config/broker.properties", "broker.conf", "config/broker.conf", "conf/broker.conf"]


def test_segments_where_its_paths_lead_are_named() -> None:
    for named, segment, said in [("/a", "/a", True), ("store/commitlog,/a/", "/a", True),
        ("/a", "/b", False),  # a path of the machine that the store came from
        ("./store/commitlog/", "store/commitlog", False)]:  # fmt: skip
        storage = in_store(**{"broker.conf": f"storePathCommitLog={named}\n{OFF}"})
        storage.files[f"{segment}/{0:020d}"] = b"x"
        found = config.found_conf(Folder(storage, "store"))
        assert found is not None
        line = f"store/broker.conf: {segment} has segments, which are not read; --set storePath"
        assert [each.startswith(line) for each in found.warnings] == [True] * said
    for first in range(len(PLACES)):
        found = config.found_conf(Folder(in_store(**dict.fromkeys(PLACES[first:], OFF)), "store"))
        assert found == (f"store/{PLACES[first]}", {INDEX: "false"}, [])
    assert (
        config.found_conf(Folder(in_store(**{"notes.conf": OFF, "broker.conf/x": OFF}), "store"))
        is None
    )
    assert config.found_conf(Folder(MemoryStorage(), "store")) is None
    for more, found in [(0, True), (1, False)]:
        text = OFF.ljust((1 << 20) + more, "#")
        assert bool(config.found_conf(Folder(in_store(**{"broker.conf": text}), "store"))) is found


def test_paths_unknown_settings_and_wrong_values_are_left_out_and_said() -> None:
    text = f"storePathRootDir=/there\nstorePathCommitLog=/a\nbrokerNom=b\nx=1\n{OFF}"
    found = config.found_conf(Folder(in_store(**{"broker.conf": text}), "store"))
    assert found is not None
    said = "'brokerNom' (brokerName?), 'x': no settings of RocketMQ's, which it passes over"
    assert (found.settings, found.warnings) == ({INDEX: "false"}, [f"store/broker.conf: {said}"])
    found = config.found_conf(Folder(in_store(**{"broker.conf": f"{SEGMENT}=1g\n{OFF}"}), "store"))
    assert found is not None
    assert found.settings == {INDEX: "false"}
    (warning,) = found.warnings
    assert warning.startswith("store/broker.conf: ")
    assert SEGMENT in warning
    text = f"{SEGMENT}=4096\nmapedFileSizeCommitLog=8192\n"
    with pytest.raises(SettingError, match=r"^store/broker\.conf: "):
        config.found_conf(Folder(in_store(**{"broker.conf": text}), "store"))


@pytest.mark.parametrize("name", ["broker.conf", "conf/broker.conf"])
@pytest.mark.parametrize(
    ("root", "found"),
    [("{}", True), ("{}/", True), ("{}/../store", True), ("{}/config", False), (None, False)],
)
def test_beside_a_store_it_has_to_name_the_store(root, found, name: str, tmp_path: Path) -> None:
    named = "" if root is None else f"storePathRootDir={root.format(tmp_path / 'store')}\n"
    store = beside(tmp_path, name, named + OFF)
    assert bool(config.found_conf(Folder(LocalStorage(), store))) is found


def test_a_store_may_be_named_by_a_link_and_a_copy_without_kvstore_is_told(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "store")
    store = beside(tmp_path, "broker.conf", f"storePathRootDir={tmp_path}/link\n{OFF}")
    assert config.found_conf(Folder(LocalStorage(), store)) is not None
    # A broker gave none of 19 messages in flight again.
    (tmp_path / "1" / "config/consumerOffsets").mkdir(parents=True)
    assert config.not_derived(Folder(LocalStorage(), str(tmp_path / "1")), {}) == []
    (line,) = config.not_derived(Folder(LocalStorage(), str(tmp_path / "1")), KEPT)
    assert line.startswith(f"{tmp_path}/1/kvStore: is missing (popConsumerKVServiceEnable=true): ")
    rocksdb(tmp_path / "1" / "kvStore", OPENED)
    assert config.not_derived(Folder(LocalStorage(), str(tmp_path / "1")), KEPT) == []


# --- A broker's JSON in config/: the .bak where the file cannot be read, and what counts of it.
def store(**files: Any) -> MemoryStorage:
    """Files of config/: bytes, or what is written as JSON."""
    return MemoryStorage({f"store/config/{name.replace('_', '.')}": raw
        if isinstance(raw, bytes) else json.dumps(raw).encode()
        for name, raw in files.items()})  # fmt: skip


def topics(**about: Any) -> MemoryStorage:
    return store(topics_json={"topicConfigTable": about})


A: dict[str, Any] = {"topicConfigTable": {"A": {}}}
B: dict[str, Any] = {"topicConfigTable": {"B": {}}}


@pytest.mark.parametrize(("files", "found", "notes"), [
    ({"topics_json": A, "topics_json_bak": B}, "A", 0), ({"topics_json_bak": B}, "B", 0),
    ({"topics_json": b"", "topics_json_bak": B}, "B", 1),  # as a broker does
    ({"topics_json": b'{"topicConfigTable":{"A"', "topics_json_bak": B}, "B", 1),
    ({"topics_json": b"\xff\xfe", "topics_json_bak": B}, "B", 1),
    ({"topics_json": b"[" * 100_000, "topics_json_bak": B}, "B", 1),
    ({"topics_json": {"other": {}}, "topics_json_bak": B}, "B", 1),
    ({"topics_json": {"topicConfigTable": ["A"]}, "topics_json_bak": B}, "B", 1),
    ({"topics_json": [1], "topics_json_bak": b"null"}, None, 2), ({}, None, 0)])  # fmt: skip
def test_the_bak_is_read_where_the_file_is_missing_or_cannot_be_read(files, found, notes) -> None:
    noted = Notes()
    table = config.configured_topics(Folder(store(**files), "store"), noted)
    assert (None if table is None else list(table)) == (None if found is None else [found])
    assert len(noted.lines) == notes


def test_offsets_queues_and_attributes_are_by_topic() -> None:
    table = {"T@g": {"0": 5, "3": 7, "-1": 9, "x": 9, "1": "9", "2": None}, "U@g": {},
        "alone": {"0": 1}, "%RETRY%g@g": {"0": 2}, "V@g": [1]}  # fmt: skip
    notes = Notes()
    found = config.consumer_offsets(
        Folder(store(consumerOffset_json={"offsetTable": table}), "store"), notes
    )
    assert found == {("g", "T"): {0: 5, 3: 7}, ("g", "U"): {}, ("g", "%RETRY%g"): {0: 2}}
    assert len(notes.lines) == 1
    assert config.consumer_offsets(Folder(MemoryStorage(), "store"), notes) == {}
    raw = b'{"offsetTable":{"T@g":{0:5,1:7},"U@{1:2}":{ -1 : 3}}}'
    table = config.config_table(
        Folder(store(x_json=raw), "store"), "x.json", Notes(), "offsetTable"
    )
    assert table == {"T@g": {"0": 5, "1": 7}, "U@{1:2}": {"-1": 3}}
    there = topics(A={"attributes": {"queue.type": "BatchCQ"}},
        B={"attributes": {"queue.type": "SimpleCQ"}}, C={}, D="text", E={"attributes": None},
        F={"attributes": {"other": "BatchCQ"}})  # fmt: skip
    found = config.topic_attributes(Folder(there, "store"), Notes())
    assert [name for name, attributes in found.items() if attributes] == ["A", "B", "F"]
    assert set(found) == set("ABCDEF")
    assert config.batch_topics(Folder(there, "store"), Notes()) == ["A"]
    for about, count in [({"writeQueueNums": 8}, 8), ({"readQueueNums": 8}, 0),
        ({"writeQueueNums": "8"}, 0), ({"writeQueueNums": None}, 0), ([], 0)]:  # fmt: skip
        assert config.queues_of(Folder(topics(T=about), "store"), "T", Notes()) == count
        assert config.queues_of(Folder(topics(T=about), "store"), "U", Notes()) == 0


# --- A RocksDB beside a store's files is named where it has rows, and quiet where it has none.
# tests/rocketmq/test_in_rocksdb.py has what real brokers leave.
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
        lines = config.not_derived(Folder(LocalStorage(), str(tmp_path / str(number))), {})
        assert len(lines) == (2 if name == "rocksdbstore" else 1)  # these cannot be looked at
        for line in lines:
            assert line.startswith(f"{tmp_path / str(number) / name}: ")
            assert "in RocksDB" in line
    rocksdb(tmp_path / "empty" / name, OPENED)
    assert config.not_derived(Folder(LocalStorage(), str(tmp_path / "empty")), KEPT) == []
    rocksdb(tmp_path / "none" / name, {"notes.log": 7})  # no RocksDB is there
    assert config.not_derived(Folder(LocalStorage(), str(tmp_path / "none")), KEPT) == []


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


def test_expire_and_resolve_do_not_take_what_rocksdb_may_hold(tmp_path: Path) -> None:
    store = a_store(tmp_path / "store")
    rocksdb(store / "kvStore", OPENED)
    assert run_expire(store, dry_run=True).segments
    (store / "kvStore" / "000013.sst").write_bytes(b"x")
    with pytest.raises(StoreError, match=r"kvStore: .*; what it has in flight is not shown"):
        run_expire(store, dry_run=True)
    assert run_expire(store, dry_run=True, even_unread=True).segments
    root = tmp_path / "store1"
    with writing(disk(root), Clock(T0)) as writer:
        half(writer, "a")
    rocksdb(root / "config" / "rdb", WITH_ROWS[0])
    with pytest.raises(StoreError, match="config/rdb: RocksDB tells a broker up to where"):
        reput.resolve_transactions(str(root), decide="commit", rocketmq="5.5.0")
    (root / "config" / "rdb" / "CURRENT").unlink()
    done = reput.resolve_transactions(str(root), decide="commit", rocketmq="5.5.0")
    assert done.committed == 1
    root, clock = tmp_path / "store2", Clock(T0)
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
    there = config.config_in_rocksdb(Folder(LocalStorage(), str(store)), "consumerOffset.json")
    assert (there is None) == live
    found = config.consumer_offsets(Folder(LocalStorage(), str(store)), Notes())
    assert {group for group, _ in found} == {"other" if live else "reading"}
    assert ("consumerOffset.json" in to_convert(str(store), False, False).names) == (not live)


@pytest.mark.parametrize("live", ["topics", "metadata", "rdb"])
def test_of_several_rocksdbs_the_one_that_a_broker_wrote_last_counts(live: str, tmp_path) -> None:
    """useSingleRocksDBForAllConfigs (#9773), or configManagerVersion=v2, was put on, or off."""
    for name in ("topics", "metadata", "rdb"):
        rocksdb(tmp_path / "config" / name, WITH_ROWS[0])
        for path in (tmp_path / "config" / name).iterdir():
            os.utime(path, (9, 9) if name == live else (5, 5))
    there = config.config_in_rocksdb(Folder(LocalStorage(), str(tmp_path)), "topics.json")
    assert str(there) == f"{tmp_path}/config/{live}"


@pytest.mark.parametrize(("kept", "kind"), [(1, "files"), (0, "rocksdb")])
def test_queues_that_reach_further_in_the_log_are_live_whatever_the_times(
    kept: int, kind: str, tmp_path: Path
) -> None:
    """A copy of a store has the times of its copying."""
    store, offsets = both(tmp_path)
    os.utime(offsets, (0, 0) if kept else None)
    storage = LocalStorage()
    reach = config._reach_in_rocksdb(Folder(storage, str(store)))
    queue = store / "consumequeue" / "Live0" / "0"
    queue.mkdir(parents=True)
    entry = np.zeros(1, QUEUE_ENTRY)
    entry["physicalOffset"], entry["size"] = (reach or 0) + (1 if kept else -1), 100
    (queue / f"{0:020d}").write_bytes(entry.tobytes())
    assert config.files_are_live(Folder(storage, str(store))) == bool(kept)
    there = config.config_in_rocksdb(Folder(storage, str(store)), "consumerOffset.json")
    assert (there is None) == bool(kept)
    plan = make_plan(store_at(str(store)), discover(store_at(str(store)), READ), READ)
    assert kind_of_queues(plan, None, str(tmp_path / "set")) == kind
