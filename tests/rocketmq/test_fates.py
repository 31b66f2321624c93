"""Brokers live every fate of a message; what is reported about their stores is what was done."""

import time
from pathlib import Path

import pytest

from reput.store_format.release.profiles import release_key
from reput.store_format.state_table import FILES, StateFile, row_of
from tests.rocketmq.driver import Driver
from tests.rocketmq.fates import again, delayed, in_rocksdb, timers, transactions
from tests.rocketmq.live import Broker, Client, messages
from tests.store_format.fate import judge

pytestmark = [pytest.mark.rocketmq, pytest.mark.timeout(600)]


@pytest.mark.long
def test_what_rocksdb_tells_a_broker_of_is_reported(tmp_path: Path) -> None:
    version, store = "5.5.1", tmp_path / "store"
    with Driver(version) as client:
        done = in_rocksdb(version, store, client)
        judge.compare_in_rocksdb(store, done)
        before, will_be = judge.given_back(store)
        asked = again(version, store, client)
    after, _ = judge.given_back(store)
    # the next broker does what was reported: it asks about those, and delivers these
    assert asked == {key for key, state in done["transactions"].items() if state == "asked"}
    assert {key for key in before if after[key] > before[key]} == will_be


# --- Brokers with the settings that write most: each of their files has its row in the state
# table.
# What a broker of a release, and of later ones, is asked to write more than by default.
Wants = tuple[tuple[str, dict[str, object]], ...]
IN_FILES: Wants = (
    ("4.9.3", {"enableLmq": True, "enableMultiDispatch": True}),
    ("5.0.0", {"timerWheelEnable": True}), ("5.1.0", {"enableCompaction": True}),
    ("5.3.2", {"popConsumerKVServiceEnable": True}),
    ("5.4.0", {"timerWheelSnapshotFlush": True, "timerWheelSnapshotIntervalMs": 500,
               "indexRocksDBEnable": True}),
)  # fmt: skip
IN_ROCKSDB: Wants = (
    ("5.3.3", {"storeType": "defaultRocksDB"}),
    ("5.4.0", {"timerRocksDBEnable": True, "transRocksDBEnable": True,
               "useSingleRocksDBForAllConfigs": True}),
    ("5.5.0", {"useSeparateStorePathForRocksdbCQ": True}),
)  # fmt: skip
CONFIG_V2: Wants = (("5.3.3", {"storeType": "defaultRocksDB", "configManagerVersion": "v2"}),)
CONTROLLED: Wants = (("5.3.3", {}),)
KINDS = {"files": IN_FILES, "rocksdb": IN_ROCKSDB, "config_v2": CONFIG_V2,
         "controller": CONTROLLED}  # fmt: skip
QUICK = [("4.1.0", "files"), ("5.5.0", "files"), ("5.4.0", "rocksdb")]
LONG = [("4.9.7", "files"), *(("5.5.1", kind) for kind in KINDS if kind != "files")]


def live(version: str, kind: str, folder: Path) -> Path:
    """The store of a broker that has delayed, timed and half messages, and is stopped."""
    store, settings = folder / "store", dict[str, object]()
    for since, more in KINDS[kind]:
        if release_key(version) >= release_key(since):
            settings |= more
    controller = folder / "controller" if kind == "controller" else None
    with (
        Driver(version) as client,
        Broker(version, store, controller=controller, **settings) as broker,
    ):
        asked = Client(client, broker.namesrv)
        asked.send(messages(20), send_timeout_ms=60_000)
        asked.send(delayed(3, 1, 100))
        if release_key(version) >= release_key("5.0.0"):
            asked.send(timers(3, 1, 200))
            asked.send(timers(3, 3600, 300))
        if release_key(version) >= release_key("4.3.0") and kind != "rocksdb":
            transactions(asked, ["COMMIT_MESSAGE", "UNKNOW"], 400)
        asked.read(group="reading")
        time.sleep(2.5)  # the wheel's snapshots, and what is persisted each second
        broker.stop()
    return store


def rows_of(store: Path) -> dict[str, StateFile | None]:
    paths = [path.relative_to(store).as_posix() for path in store.rglob("*") if path.is_file()]
    return {path: row_of(path) for path in paths}


@pytest.mark.parametrize(
    ("version", "kind"), [*QUICK, *(pytest.param(*each, marks=pytest.mark.long) for each in LONG)]
)
def test_each_file_of_a_broker_has_a_row_of_a_release_that_writes_it(
    version: str, kind: str, tmp_path: Path
) -> None:
    found = rows_of(live(version, kind, tmp_path))
    assert [path for path, row in found.items() if row is None] == []
    too_new = [path for path, row in found.items() if row is not None
               and release_key(row.first) > release_key(version)]  # fmt: skip
    assert too_new == []
    if kind == "files":
        written = {row.path for row in found.values() if row is not None}
        always = {"commitlog/<offset>", "checkpoint", "config/topics.json"}
        assert always <= written <= {row.path for row in FILES}
