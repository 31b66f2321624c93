"""What brokers keep in RocksDB is read, of live and killed ones; what is damaged there is named."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import reput
from reput import check, rebuild, verify
from reput.jobs.install import install_set
from reput.jobs.judging.rocksdb import NO_ROCKSDB
from reput.jobs.judging.shown import next_step
from tests.in_process import Session, as_text
from tests.jobs.judging.rocksdb_index_rows import rows as index_rows
from tests.rocketmq.driver import Driver, JobFailedError
from tests.rocketmq.fates import SETTINGS
from tests.rocketmq.live import SETTINGS as SETTINGS_OF_LIVE
from tests.rocketmq.live import TOPICS, Broker, Client, living, messages
from tests.rocketmq.rocksdb_stores import ALONE

pytestmark = [pytest.mark.rocketmq, pytest.mark.long]

VERSION = "5.5.1"


@pytest.mark.parametrize("version", ["5.2.0", "5.5.1"])
def test_queues_of_a_live_and_of_a_killed_broker_are_read(version: str, tmp_path: Path) -> None:
    given: dict[str, object] = {**SETTINGS, "storeType": "defaultRocksDB"}
    for killed in (False, True):
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
        assert report.undamaged, report.differences
        assert (report.crashed, bool(report.in_rocksdb)) == (killed, True)


def _positions(store: Path) -> set[tuple[str, int, int, str]]:
    """(topic, queue, position, UNIQ_KEY) of all messages of the client's topics, by the queues."""
    if not (store / "commitlog").exists():
        return set()
    with reput.open_store(str(store)) as asked:
        return {(topic, message.queue_id, message.queue_offset, message.unique_key or "")
                for topic in TOPICS for message in asked.messages(topic)}  # fmt: skip


@pytest.mark.parametrize(("version", "kept"), [("5.3.3", 40), ("5.5.1", 10)])
def test_levels_that_change_and_a_topic_that_is_made_again(version, kept, tmp_path) -> None:
    """5.3.3 leaves a deleted topic's rows, and its next message goes on behind them."""
    given: dict[str, Any] = {**SETTINGS, "storeType": "defaultRocksDB"}
    for life in range(3):
        given["messageDelayLevel"] = f"1s 5s {life + 1}d"
        with Driver(version) as client, Broker(version, tmp_path, **given) as broker:
            if life == 1:
                broker.driver.ask("broker.delete_topic", topic="Live1")
            asked = Client(client, broker.namesrv)
            some = [{**m, "t": "Live0"} for m in messages(12)]
            some += [{**m, "p": {**m["p"], "DELAY": "3"}} for m in some]
            some += [{**m, "t": "Live1"} for m in messages(30 - 10 * life)] if life != 1 else []
            asked.send(some, send_timeout_ms=60_000)
            broker.catch_up()
            time.sleep(1.5)  # what it keeps is persisted once a second
            broker.stop()  # a kill would lose the deletion: RocksDB has no log of writes
    assert len(_positions(tmp_path)) == 36 + kept
    report = check(Session(), str(tmp_path), rocketmq=version)
    assert not report.differences
    assert report.messages == 112


def _cut_log(store: Path) -> None:
    for path in sorted((store / "commitlog").iterdir())[-2:]:
        path.unlink()


def _expire(store: Path) -> None:
    for path in sorted((store / "commitlog").iterdir())[:2]:
        path.unlink()


def _lose_rows(store: Path, folder: str = "consumequeue") -> None:
    for path in (store / folder).glob("*.sst"):
        path.unlink()


def _kill_without_checkpoint(store: Path) -> None:
    (store / "checkpoint").unlink()
    (store / "abort").touch()


# what was done to the store, the state by `check`, what it says is next, and whether a broker
# starts; how many of the 120 messages of topic Early it then serves, of 540 in all
SITUATIONS: dict[str, tuple[Callable[[Path], Any], str, str, bool, int]] = {
    "#10417's kin": (_cut_log, "NOT sound", "look for what is missing", True, 120),
    "#8753's kin": (_expire, "sound", "", True, 0),
    "#8032's kin": (lambda s: shutil.rmtree(s / "consumequeue"), "NOT sound", "reput rebuild", True,
                    120),
    "CURRENT of 0 bytes": (lambda s: os.truncate(s / "consumequeue/CURRENT", 0), "NOT sound",
                           "reput rebuild", False, 0),
    "rows gone": (_lose_rows, "NOT sound", "reput rebuild", False, 0),
    "#9241": (_kill_without_checkpoint, "needs recovery", "start the broker", True, 120),
    "#3401's kin": (lambda s: os.truncate(s / "config/topics/CURRENT", 0), "NOT sound",
                    "put back a copy of", False, 0),
    "topics' rows gone": (lambda s: _lose_rows(s, "config/topics"), "NOT sound",
                          "put back a copy of", False, 0),
}  # fmt: skip


@pytest.fixture(scope="module")
def early(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """(store, settings): a topic's messages first, then those of others."""
    store = tmp_path_factory.mktemp("early") / "store"
    given = {"storeType": "defaultRocksDB", "mappedFileSizeCommitLog": 1 << 15}
    with living(VERSION, store, **given) as (_, asked):
        asked.send(messages(3), send_timeout_ms=60_000)
        asked.send([{**m, "t": "Early", "q": 0} for m in messages(120)], send_timeout_ms=60_000)
        asked.send(messages(417, 3), send_timeout_ms=60_000)
    return store, given


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_reported_situation_in_rocksdb(early: Any, name: str, tmp_path: Path) -> None:
    version = VERSION
    (made, given), (change, state, following, starts, served) = early, SITUATIONS[name]
    store = Path(shutil.copytree(made, tmp_path / "store"))
    change(store)
    settings = as_text({**SETTINGS_OF_LIVE, **given})
    report = check(Session(), str(store), rocketmq=version, settings=settings)
    assert report.state == state, (report.findings, report.differences)
    assert next_step(report).startswith(following)
    if not starts:
        with pytest.raises(JobFailedError, match="refused the store"):
            Broker(version, store, **given)
        return
    with Driver(version) as client, Broker(version, store, **given) as broker:
        broker.catch_up()
        asked = Client(client, broker.namesrv)
        before = len(asked.ask("pull", group="r", queues={"Live0": 1})["messages"])
        read = asked.ask("pull", group="r", queues={"Live0": 1, "Early": 1})["messages"]
        assert len(read) - before == served
        [sent] = asked.send([{**messages(1, 999)[0], "t": "Early", "q": 0}], send_timeout_ms=60_000)
        assert sent[2] == 120  # it goes on where the queue had ended


def test_a_broker_that_begins_with_rocksdb_leaves_out_the_log_s_first_message(tmp_path) -> None:
    version = VERSION
    double: dict[str, Any] = {"rocksdbCQDoubleWriteEnable": True, "combineCQUseRocksdbForLmq": True}
    alone, said = {"storeType": "defaultRocksDB"}, []
    for life, given in enumerate((double, {}, double)):  # a double write is off for a life (#8589)
        with living(version, tmp_path, **given) as (_, client):
            some = messages(60, 60 * life)
            client.send(some, send_timeout_ms=60_000)
        settings = as_text({**SETTINGS_OF_LIVE, **double})
        report = check(Session(), str(tmp_path), rocketmq=version, settings=settings)
        said.append(any("missing in RocksDB" in each.text() for each in report.differences))
    assert said == [False, True, True]
    for path in (tmp_path / "consumequeue").iterdir():
        if path.is_file():
            path.unlink()
    settings = as_text({**SETTINGS_OF_LIVE, **alone})
    report = check(Session(), str(tmp_path), rocketmq=version, settings=settings)
    assert any(NO_ROCKSDB in each.text() for each in report.differences)
    with Driver(version) as client, Broker(version, tmp_path, **alone) as broker:
        asked = Client(client, broker.namesrv)
        asked.read(group="awaiting")
        read = {message[7] for message in asked.read(group="reading")}
    assert read == {message["p"]["KEYS"] for message in messages(180)[1:]}


# --- An index in RocksDB. Queues that reput has moved there and back: whole/cases.py.
SIZES = {name: str(value) for name, value in SETTINGS_OF_LIVE.items()}
A_ROUND = 60


def test_a_broker_answers_by_an_index_that_reput_built(tmp_path: Path) -> None:
    version, store = VERSION, tmp_path / "store"
    given = {**ALONE, "indexRocksDBEnable": True, "indexFileWriteEnable": False,
             "indexFileReadEnable": False}  # fmt: skip
    settings = {**SIZES, "indexRocksDBEnable": "true", "indexFileWriteEnable": "false"}
    with Driver(version) as driver:
        for number in range(2):
            with living(version, store, **given, driver=driver) as (broker, client):
                wanted = [m["p"]["KEYS"].split()[0] for m in messages(A_ROUND * number)]
                if wanted:
                    asked = [["Live0", key] for key in wanted[::3]]
                    found = client.ask("find", keys=asked, ids=[], times=[])["by_key"]
                    assert [len(each) for each in found] == [1] * len(asked)
                client.send(messages(A_ROUND, A_ROUND * number), send_timeout_ms=60_000)
                broker.catch_up()
                time.sleep(6)  # the index is written in batches, behind the queues
            made = rebuild(Session(), str(store), str(tmp_path / "set"), rocketmq=version,
                           settings=settings, replace=True)  # fmt: skip
            assert (made.queues_in, made.index_in) == ("rocksdb", "rocksdb")
            ours = index_rows(tmp_path / "set" / "rocksdbstore")
            assert ours == index_rows(store / "rocksdbstore")
            for against in (store, tmp_path / "set"):
                report = verify(Session(), str(store), against=str(against), rocketmq=version,
                                settings=settings)  # fmt: skip
                assert report.same, report.differences
            if not number:
                for folder in ("consumequeue", "rocksdbstore"):
                    shutil.rmtree(store / folder)
                assert install_set(str(store), str(tmp_path / "set")).done
