"""Real brokers on the other side of the wire: as the master that is copied, and as our slave."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reput import replicate_from
from reput.broker.wire.peers import FLUSH_SLAVE_TIMEOUT, PUT_OK
from reput.jobs.replicating.master import HaMaster, StoreLog
from reput.store_format.discover.store import StoreAt
from reput.store_format.files.local import LocalStorage
from tests.in_process import as_text
from tests.processes import until
from tests.rocketmq.live import SETTINGS, TOPICS, Broker, free_port, living, messages
from tests.rocketmq.two_brokers import SLAVE, consumed, log_of

pytestmark = [pytest.mark.rocketmq, pytest.mark.long, pytest.mark.timeout(1200)]
SIZES = [word for name, size in SETTINGS.items() for word in ("--set", f"{name}={size}")]
Written = tuple[str, Path, list[str]]  # a release, a store that its broker has closed, its messages


def assert_prefix(replica: Path, source: Path, end: int) -> None:
    """The replica's log is the source's up to `end`."""
    ours, theirs = log_of(replica), log_of(source)
    for name, data in ours.items():
        within = min(max(end - int(name), 0), len(data))
        assert data[:within] == theirs[name][:within], name
    assert max(int(name) + len(data) for name, data in ours.items()) >= end


@pytest.fixture(scope="module", params=["4.9.7", "5.5.0"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Written:
    version, store = request.param, tmp_path_factory.mktemp("written") / "master"
    with living(version, store) as (_, client):
        client.send(messages(3000))
        found = sorted(map(str, client.read()))
    return version, store, found


@contextmanager
def served_store(store: Path, *words: str) -> Iterator[str]:
    """`reput serve` on a store; its address."""
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "reput", "serve", str(store), "--listen", address]
    with subprocess.Popen([*command, *words, *SIZES], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            word, _, address = process.stdout.readline().strip().partition(" ")
            assert word == "ready", "reput serve did not begin"
            yield address
        finally:
            process.terminate()
    assert process.returncode == 0


@pytest.mark.parametrize(("version", "under"), [("4.9.7", None), ("5.3.3", "controller")])
def test_a_live_master_is_copied_and_the_copy_serves(version, under, tmp_path) -> None:
    """All of its log, which a new slave of RocketMQ does not get (#9580), while it is written.

    Under a controller its AutoSwitchHAService wants a handshake, and sends epochs."""
    master, replica = tmp_path / "master", tmp_path / "replica"
    controller = tmp_path / under if under else None
    with living(version, master, controller=controller) as (broker, client):
        client.send(messages(6000))
        address = f"127.0.0.1:{broker.port + 1}"
        assert until(lambda: broker.status()["behind"] == 0)
        about = replicate_from(address, str(replica), controller=bool(under))
        assert (about.records, about.warnings) == (6000, [])
        client.send(messages(1000, first=6000))
        about = replicate_from(address, str(replica), controller=bool(under))
        assert about.resumed_at > 1 << 20
        assert about.records == 1000
        found = sorted(map(str, client.read()))
    assert log_of(replica) == log_of(master)
    with living(version, replica) as (broker, client):
        assert broker.status()["dispatched"] == 0
        assert sorted(map(str, client.read(TOPICS))) == found


def test_a_real_slave_copies_and_then_serves(written: Written, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("reput.broker.wire.peers.HOUSEKEEPING_SECONDS", 10.0)
    version, master, found = written
    slave = tmp_path / "slave"
    shutil.copytree(master / "config", slave / "config")
    log = StoreLog(StoreAt(LocalStorage(), str(master), version, as_text(SETTINGS)))
    end = log.now().end
    with HaMaster(log, ("127.0.0.1", 0)) as ours:
        options = {**SLAVE, "haHousekeepingInterval": 10_000,
                   "haMasterAddress": f"{ours.address[0]}:{ours.address[1]}"}  # fmt: skip
        with Broker(version, slave, **options) as broker:
            assert ours.wait_for(end, 60) == PUT_OK
            assert ours.wait_for(end + 1, 0.1) == FLUSH_SLAVE_TIMEOUT
            assert until(lambda: broker.status()["behind"] == 0)
            time.sleep(12)  # longer than haHousekeepingInterval: heartbeats keep both
            assert ours.acked() == [end]
            broker.stop()
    assert_prefix(slave, master, end)
    assert consumed(version, slave) == found


def test_what_is_appended_waits_for_a_real_slave(written: Written, tmp_path: Path) -> None:
    """`reput append --ha-listen` as a SYNC_MASTER: when it ends, the slave has all."""
    version, source, found = written
    if version < "5":
        pytest.skip("the other one has inSyncReplicas too")
    master, slave = Path(shutil.copytree(source, tmp_path / "master")), tmp_path / "slave"
    shutil.copytree(master / "config", slave / "config")
    more = tmp_path / "more.jsonl"
    each = ({"topic": "Live0", "queue_id": n % 4, "body": f"more{n}"} for n in range(200))
    more.write_text("".join(f"{json.dumps(message)}\n" for message in each))
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "reput", "append", str(master), "--from", str(more), "--json",
               "--yes", "--rocketmq", version, "--ha-listen", address, "--set",
               "brokerRole=SYNC_MASTER", "--set", "slaveTimeout=20000", "--set", "inSyncReplicas=2",
               *SIZES]  # fmt: skip
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process,
        Broker(version, slave, **SLAVE, haMasterAddress=address) as broker,
    ):
        reported, _ = process.communicate(timeout=300)
        end = json.loads(reported)["end"]
        assert broker.status()["max_offset"] == end
        assert until(lambda: broker.status()["behind"] == 0)
        broker.stop()
    assert process.returncode == 0
    assert_prefix(slave, master, end)
    read = consumed(version, slave)
    assert len(read) == len(found) + 200
    assert set(found) <= set(read)


def test_a_slave_is_reported_all_by_reput_serve(written: Written, tmp_path: Path) -> None:
    """`reput serve --ha-listen` is its name server and its master: log, topics, offsets."""
    (version, master, found), slave = written, tmp_path / "slave"
    end = StoreLog(StoreAt(LocalStorage(), str(master), version, as_text(SETTINGS))).now().end
    words = ("--rocketmq", version, "--ha-listen", "127.0.0.1:0")
    with (
        served_store(master, *words) as address,
        Broker(version, slave, namesrv=address, **SLAVE) as broker,
    ):
        assert until(lambda: broker.status()["max_offset"] == end, 90)
        topics = slave / "config/topics.json"
        assert until(lambda: topics.exists() and "Live0" in topics.read_text(), 90)
        broker.stop()
    assert_prefix(slave, master, end)
    assert consumed(version, slave) == found
