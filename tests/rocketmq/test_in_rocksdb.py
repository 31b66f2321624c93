"""What brokers from 5.4.0 on leave in RocksDB: nothing by default, and what is named otherwise."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import reput
from reput.store_format.discover.in_rocksdb import config_in_rocksdb, not_derived
from reput.store_format.storage.local import LocalStorage
from tests.quiet.said import run_check
from tests.rocketmq import build
from tests.rocketmq.driver import Driver
from tests.rocketmq.fates import FIVE, SETTINGS
from tests.rocketmq.live import Broker, Client, messages

pytestmark = [pytest.mark.rocketmq, pytest.mark.long]

VERSIONS = ["5.4.0", "5.5.0", "5.5.1"]


def lived(version: str, store: Path, killed: bool = False, **settings: object) -> list[str]:
    """What is reported about a store after a broker's start, ten messages and its end."""
    if reason := build.missing(version):
        pytest.skip(reason)
    given = {**SETTINGS, **FIVE, **settings}
    with Driver(version) as client, Broker(version, store, **given) as broker:  # type: ignore[arg-type]
        Client(client, broker.namesrv).send(messages(10), send_timeout_ms=60_000)
        while broker.status()["behind"]:
            time.sleep(0.05)
        if not killed:
            broker.stop()
    return not_derived(LocalStorage(), str(store))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_store_without_these_settings_is_quiet(version: str, tmp_path: Path) -> None:
    for killed in (False, True):  # as it is made and stopped; started again and killed
        assert lived(version, tmp_path, killed) == []
        assert (tmp_path / "rocksdbstore" / "CURRENT").exists()
    assert config_in_rocksdb(LocalStorage(), str(tmp_path), "topics.json") is None


@pytest.mark.parametrize("version", VERSIONS)
def test_an_index_in_rocksdb_is_named(version: str, tmp_path: Path) -> None:
    (line,) = lived(version, tmp_path, indexRocksDBEnable=True)
    assert line.startswith(f"{tmp_path}/rocksdbstore: an index,")
    given = {**SETTINGS, **FIVE, "indexRocksDBEnable": True}
    assert run_check(tmp_path, version, given).sound  # the index files are whole


@pytest.mark.parametrize("version", VERSIONS)
def test_a_config_in_rocksdb_is_named(version: str, tmp_path: Path) -> None:
    assert lived(version, tmp_path, configManagerVersion="v2") == []
    with reput.open_store(str(tmp_path)) as store:
        assert f"{tmp_path}/config/rdb: a broker reads this" in " ".join(store.groups().notes)
