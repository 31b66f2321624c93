"""A replica of a master under a real controller that is killed, so that another takes its place."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reput.jobs.replicate import replicate_from
from reput.jobs.replicating.replica_report import Replicated
from reput.jobs.replicating.target import ReplicaDiffers
from tests.rocketmq.driver import Driver
from tests.rocketmq.live import Broker, Client, messages
from tests.rocketmq.replicas import consumed, log_of, until

pytestmark = [pytest.mark.rocketmq, pytest.mark.long, pytest.mark.timeout(900)]
VERSION = "5.3.3"


@contextmanager
def two_brokers(folder: Path) -> Iterator[tuple[Broker, Broker, Client, Path]]:
    """The master, its slave, a client of both, and the slave's store."""
    with Driver(VERSION, log_level="WARN") as control, Driver(VERSION) as driver:
        there = control.ask("controller.start", timeout=120, folder=str(folder / "controller"))
        options = {"namesrv": there["namesrv"], "controller": there["controller"]}
        with (
            Broker(VERSION, folder / "0", **options) as first,
            Broker(VERSION, folder / "1", **options) as second,
        ):
            both = [first, second]
            assert until(lambda: sorted(map(is_master, both)) == [False, True])
            master, slave = sorted(both, key=is_master, reverse=True)
            yield master, slave, Client(driver, there["namesrv"]), folder / str(both.index(slave))


@contextmanager
def stopped(broker: Broker) -> Iterator[None]:
    """It does nothing meanwhile: for less than the 10 s after which its controller gives it up."""
    process = broker.driver.pid
    assert process
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


def is_master(broker: Broker) -> bool:
    return "MASTER" in broker.status()["role"]


def copied(broker: Broker, replica: Path) -> Replicated:
    return replicate_from(f"127.0.0.1:{broker.port + 1}", str(replica), controller=True)


def ends(broker: Broker) -> int:
    return int(broker.status()["max_offset"])


@pytest.mark.parametrize("lost", [False, True])
def test_the_replica_goes_on_with_the_log_that_survived_or_says_why_not(
    lost: bool, tmp_path: Path, needs_rocketmq: Callable[[str], None]
) -> None:
    """lost: the master had records that its slave had not yet, and that the replica has."""
    needs_rocketmq(VERSION)
    replica = tmp_path / "replica"
    with two_brokers(tmp_path) as (master, slave, client, store):
        client.send(messages(3000))
        assert copied(master, replica).records == 3000
        assert until(lambda: ends(slave) == ends(master))
        if lost:
            with stopped(slave):  # more than what the sockets between the two hold
                client.send([{**each, "b": 100_000} for each in messages(300, first=3000)])
                assert copied(master, replica).records == 300
                master.driver.kill()
        master.driver.kill()
        assert until(lambda: is_master(slave), 120)
        if lost:
            with pytest.raises(ReplicaDiffers, match="the master's log ends at"):
                copied(slave, replica)
        client.send(messages(1500, first=5000))
        if lost:
            client.send([{**each, "b": 100_000} for each in messages(300, first=7000)])
            with pytest.raises(ReplicaDiffers, match="is no beginning of that log"):
                copied(slave, replica)
            replica = tmp_path / "another"
        copied(slave, replica)
        found = sorted(map(str, client.read()))
        slave.stop()
    assert log_of(replica) == log_of(store)
    assert consumed(VERSION, replica) == found
