"""A master and its slave under a real controller, in JVMs that can be stopped and killed."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.processes import until
from tests.rocketmq.driver import Driver
from tests.rocketmq.live import QUEUES, TOPICS, Broker, Client, living, messages

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


def killed_behind(
    master: Broker, slave: Broker, client: Client, some: list[dict[str, Any]],
    before_the_kill: Callable[[], None] = lambda: None,
) -> list[list[Any]]:  # fmt: skip
    """Kill a master that has acknowledged messages while its slave did nothing; these as sent.

    The client ends after the kill: its end asks each broker to forget it, and waits for a slave
    that does nothing for longer than the controller waits for it."""
    with _stopped(slave):
        before = _dispatched(master)
        client.driver.tell("send", namesrv=client.namesrv, messages=some, queues=QUEUES)
        assert until(lambda: _dispatched(master) == before + len(some))
        time.sleep(1)  # the last acknowledgement is on its way
        before_the_kill()
        master.driver.kill()
    sent: list[list[Any]] = client.driver.answer("send", timeout=300)["sent"]
    return sent


def large(count: int, first: int) -> list[dict[str, Any]]:
    """More bytes than the sockets between two brokers hold."""
    return [{**each, "b": 100_000} for each in messages(count, first=first)]


@contextmanager
def _stopped(broker: Broker) -> Iterator[None]:
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


def ends(broker: Broker) -> int:
    return int(broker.status()["max_offset"])


def _dispatched(broker: Broker) -> int:
    return int(broker.status()["dispatched"])


# --- Brokers and their replicas: logs, and what a client reads.

SLAVE = {"brokerRole": "SLAVE", "brokerId": 1}


def log_of(store: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((store / "commitlog").iterdir())}


def consumed(version: str, store: Path) -> list[str]:
    """The messages that a client reads from a broker that starts on a copy."""
    with living(version, store) as (_, client):
        return sorted(map(str, client.read(TOPICS)))
