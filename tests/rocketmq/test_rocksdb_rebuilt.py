"""Real brokers go on with queues that reput has moved to RocksDB and back."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from reput.jobs.install import install_set
from reput.jobs.rebuild import rebuild
from reput.jobs.verify import verify
from tests.in_process import Session
from tests.jobs.deriving.rocksdb_rows import rows
from tests.jobs.judging.rocksdb_index_rows import rows as index_rows
from tests.rocketmq.driver import Driver
from tests.rocketmq.live import SETTINGS, TOPICS, Broker, Client, messages, until
from tests.rocketmq.rocksdb_stores import ALONE
from tests.trees import contents

pytestmark = [pytest.mark.rocketmq, pytest.mark.long]

VERSIONS = ["5.2.0", "5.3.3", "5.4.0", "5.5.0", "5.5.1"]
SIZES = {name: str(value) for name, value in SETTINGS.items()}
A_ROUND = 60


def proven(store: Path, against: Path, version: str) -> None:
    """All that is derived is as the log gives it: no message is lost, and none is there twice."""
    report = verify(Session(), str(store), against=str(against), rocketmq=version, settings=SIZES)
    assert report.same, report.differences


def rebuilt(store: Path, output: Path, version: str, queues: str) -> None:
    made = rebuild(
        Session(), str(store), str(output), rocketmq=version, settings=SIZES, queues=queues,
        replace=True,
    )  # fmt: skip
    assert made.queues_in == queues
    proven(store, output, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_three_rounds_lose_and_repeat_nothing(version: str, tmp_path: Path) -> None:
    store, consumed = tmp_path / "store", list[str]()
    with Driver(version) as driver:
        for number in range(6):  # queues in files, and in RocksDB, in turn
            in_rocksdb = number % 2 == 1
            with Broker(version, store, **(ALONE if in_rocksdb else {})) as broker:
                client = Client(driver, broker.namesrv)
                sent = [m["p"]["KEYS"] for m in messages(A_ROUND * number)]
                if number:  # what the conversion made is all there, and nothing is dispatched
                    found = client.read(group=f"all{number}")
                    assert sorted(message[7] for message in found) == sorted(sent)
                    assert broker.status()["dispatched"] == 0
                client.send(messages(A_ROUND, A_ROUND * number), send_timeout_ms=60_000)
                new = [m["p"]["KEYS"] for m in messages(A_ROUND, A_ROUND * number)]
                for at, topic in enumerate(TOPICS):
                    assert until(client, topic, set(new[at::3]), 30)
                # a group goes on where it was before the conversion
                found = client.read(group="reading", save=True, **{"from": "saved"})
                consumed += [message[7] for message in found]
                assert sorted(consumed) == sorted(sent + new)
                broker.catch_up()
                time.sleep(6)  # offsets are persisted every five seconds
                broker.stop()
            proven(store, store, version)
            if in_rocksdb:  # what the broker has by now is what the log gives, key by key
                rebuilt(store, tmp_path / "again", version, "rocksdb")
                assert rows(tmp_path / "again" / "consumequeue") == rows(store / "consumequeue")
            rebuilt(store, tmp_path / "set", version, "files" if in_rocksdb else "rocksdb")
            assert install_set(str(store), str(tmp_path / "set")).done


@pytest.mark.parametrize("version", ["5.3.3", "5.5.1"])
def test_config_of_v2_is_as_good_with_either_kind(version: str, tmp_path: Path) -> None:
    """It is in config/rdb with queues of either kind, and no conversion touches it."""
    store, sent, consumed = tmp_path / "store", list[str](), list[str]()
    with Driver(version) as driver:
        for number in range(4):  # queues in files, and in RocksDB, in turn
            in_rocksdb = number % 2 == 1
            given: dict[str, object] = {"configManagerVersion": "v2"}
            with Broker(version, store, **given, **(ALONE if in_rocksdb else {})) as broker:
                client = Client(driver, broker.namesrv)
                # such a broker forgets topics that it made by itself, so they are made anew
                client.send(messages(A_ROUND, A_ROUND * number), send_timeout_ms=60_000)
                sent += [m["p"]["KEYS"] for m in messages(A_ROUND, A_ROUND * number)]
                for at, topic in enumerate(TOPICS):
                    assert until(client, topic, set(sent[at::3]), 30)
                assert sorted(m[7] for m in client.read(group=f"all{number}")) == sorted(sent)
                found = client.read(group="reading", save=True, **{"from": "saved"})
                consumed += [message[7] for message in found]
                assert sorted(consumed) == sorted(sent)
                broker.catch_up()
                time.sleep(6)
                broker.stop()
            proven(store, store, version)
            rebuilt(store, tmp_path / "set", version, "files" if in_rocksdb else "rocksdb")
            before = contents(store / "config")
            assert install_set(str(store), str(tmp_path / "set")).done
            assert contents(store / "config") == before


@pytest.mark.parametrize("version", ["5.4.0", "5.5.0", "5.5.1"])
def test_a_broker_answers_by_an_index_that_reput_built(version: str, tmp_path: Path) -> None:
    store = tmp_path / "store"
    given = {
        **ALONE, "indexRocksDBEnable": True, "indexFileWriteEnable": False,
        "indexFileReadEnable": False,
    }  # fmt: skip
    settings = {**SIZES, "indexRocksDBEnable": "true", "indexFileWriteEnable": "false"}
    with Driver(version) as driver:
        for number in range(2):
            with Broker(version, store, **given) as broker:
                client = Client(driver, broker.namesrv)
                wanted = [m["p"]["KEYS"].split()[0] for m in messages(A_ROUND * number)]
                if wanted:
                    asked = [["Live0", key] for key in wanted[::3]]
                    found = client.ask("find", keys=asked, ids=[], times=[])["by_key"]
                    assert [len(each) for each in found] == [1] * len(asked)
                client.send(messages(A_ROUND, A_ROUND * number), send_timeout_ms=60_000)
                broker.catch_up()
                time.sleep(6)  # the index is written in batches, behind the queues
                broker.stop()
            made = rebuild(
                Session(), str(store), str(tmp_path / "set"), rocketmq=version, settings=settings,
                replace=True,
            )  # fmt: skip
            assert (made.queues_in, made.index_in) == ("rocksdb", "rocksdb")
            ours = index_rows(tmp_path / "set" / "rocksdbstore")
            assert ours == index_rows(store / "rocksdbstore")
            for against in (store, tmp_path / "set"):
                report = verify(
                    Session(), str(store), against=str(against), rocketmq=version, settings=settings
                )
                assert report.same, report.differences
            if not number:
                for folder in ("consumequeue", "rocksdbstore"):
                    shutil.rmtree(store / folder)
                assert install_set(str(store), str(tmp_path / "set")).done
