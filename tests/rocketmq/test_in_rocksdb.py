"""What brokers from 5.4.0 on leave in RocksDB: nothing by default, and what is named otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

import reput
from reput.jobs.check import check
from reput.store_format.discover.config import config_in_rocksdb, not_derived
from reput.store_format.files.local import LocalStorage
from tests.in_process import Session
from tests.quiet.said import run_check
from tests.rocketmq.driver import Driver, JobFailedError
from tests.rocketmq.fates import FIVE, SETTINGS
from tests.rocketmq.live import TOPICS, Broker, Client, messages

pytestmark = [pytest.mark.rocketmq, pytest.mark.long]

VERSIONS = ["5.4.0", "5.5.0", "5.5.1"]


def lived(version: str, store: Path, killed: bool = False, **settings: object) -> list[str]:
    """What is reported about a store after a broker's start, ten messages and its end."""
    given = {**SETTINGS, **FIVE, **settings}
    with Driver(version) as client, Broker(version, store, **given) as broker:  # type: ignore[arg-type]
        Client(client, broker.namesrv).send(messages(10), send_timeout_ms=60_000)
        broker.catch_up()
        if not killed:
            broker.stop()
    return not_derived(LocalStorage(), str(store), {})


@pytest.mark.parametrize("version", VERSIONS)
def test_a_store_without_these_settings_is_quiet(version: str, tmp_path: Path) -> None:
    for killed in (False, True):  # as it is made and stopped; started again and killed
        assert lived(version, tmp_path, killed) == []
        assert (tmp_path / "rocksdbstore" / "CURRENT").exists()
    assert config_in_rocksdb(LocalStorage(), str(tmp_path), "topics.json") is None


@pytest.mark.parametrize("version", VERSIONS)
def test_an_index_in_rocksdb_is_compared(version: str, tmp_path: Path) -> None:
    assert lived(version, tmp_path, indexRocksDBEnable=True) == []
    given = {**SETTINGS, **FIVE, "indexRocksDBEnable": True}
    report = run_check(tmp_path, version, given)
    assert report.sound  # the index files are whole, and so are the rows
    assert report.in_rocksdb
    assert not report.warnings


@pytest.mark.parametrize("version", ["5.2.0", "5.3.3", *VERSIONS])
def test_queues_of_a_live_and_of_a_killed_broker_are_read(version: str, tmp_path: Path) -> None:
    given: dict[str, object] = {**SETTINGS, "storeType": "defaultRocksDB"}
    for killed in (False, True, True):
        before = _positions(tmp_path)
        with Driver(version) as client, Broker(version, tmp_path, **given) as broker:  # type: ignore[arg-type]
            sent = Client(client, broker.namesrv).send(messages(300), send_timeout_ms=60_000)
            broker.catch_up()
            folder = set((tmp_path / "consumequeue").iterdir())
            assert _positions(tmp_path) == before | {(s[0], s[1], s[2], s[3]) for s in sent}
            assert set((tmp_path / "consumequeue").iterdir()) == folder
            assert check(Session(), str(tmp_path), rocketmq=version).sound  # while it runs
            if not killed:
                broker.stop()
        assert _positions(tmp_path) == before | {(s[0], s[1], s[2], s[3]) for s in sent}
        report = check(Session(), str(tmp_path), rocketmq=version)
        assert report.sound, report.differences
        assert report.in_rocksdb


def _positions(store: Path) -> set[tuple[str, int, int, str]]:
    """(topic, queue, position, UNIQ_KEY) of all messages of the client's topics, by the queues."""
    if not (store / "commitlog").exists():
        return set()
    with reput.open_store(str(store)) as asked:
        return {
            (topic, message.queue_id, message.queue_offset, message.unique_key or "")
            for topic in TOPICS for message in asked.messages(topic)
        }  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
def test_a_config_in_rocksdb_is_read(version: str, tmp_path: Path) -> None:
    assert lived(version, tmp_path, configManagerVersion="v2") == []
    with reput.open_store(str(tmp_path)) as store:
        assert store.groups().notes == []


@pytest.mark.parametrize("version", ["5.3.3", "5.5.1"])
def test_rocketmq_itself_cannot_read_batch_queues_in_rocksdb(version: str, tmp_path: Path) -> None:
    """So `rebuild --queues rocksdb` refuses a batch queue: of a batch RocksDB has the row of its
    first queueOffset alone, and a queue ends behind the row of its last batch.
    """
    read = {}
    for kind, given in (("files", {}), ("rocksdb", {"storeType": "defaultRocksDB"})):
        store = tmp_path / kind
        with Driver(version) as driver, Broker(version, store, **given) as broker:
            batch = {"attributes": {"queue.type": "BatchCQ"}, "topic": "Batch", "queues": 1}
            broker.driver.ask("broker.topic", **batch)
            client = Client(driver, broker.namesrv)
            client.send(messages(1), send_timeout_ms=60_000)  # its route leads to the broker
            for number in range(3):
                some = [{**m, "t": "Batch", "q": 0} for m in messages(5, 5 * number)]
                client.send(some, as_batch=True, send_timeout_ms=60_000)
            broker.catch_up()
            said, found = "", []
            try:
                queues = {"Live0": 1, "Batch": 1}
                found = client.ask("pull", group="reading", queues=queues)["messages"][1:]
            except JobFailedError as error:  # the broker answers with an exception of its own
                said = str(error)
            assert not said or (kind == "rocksdb" and "NullPointer" in said)
            read[kind] = [message[7] for message in found]
    wanted = [m["p"]["KEYS"] for m in messages(15)]
    assert read["files"] == wanted
    assert read["rocksdb"] != wanted
