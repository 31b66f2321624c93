"""A live broker, what it is sent, and everything a client can ask of it."""

import itertools
import os
import random
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from tests.rocketmq.driver import Answer, Driver, JobFailedError, remove_derived
from tests.rocketmq.judge import Reput, derived_files

TOPICS = ("Live0", "Live1", "Live2")
QUEUES = 4
SETTINGS: dict[str, object] = {
    "mappedFileSizeCommitLog": 1 << 20, "mappedFileSizeConsumeQueue": 2000, "maxHashSlotNum": 1000,
    "maxIndexNum": 4000,
}  # fmt: skip
# A pending transaction is asked about soon. (Before 4.3 there is no check-back.)
CHECK_SOON = {"transactionTimeOut": 1000, "transactionCheckInterval": 2000}


# Each of pytest's processes has ports of its own, and gives each once before it begins again: what
# another test has picked, and its broker not yet bound, is free to see.
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % 4
_PORTS = range(20_002 + 3_000 * _WORKER, 23_000 + 3_000 * _WORKER, 4)
_next = itertools.count(random.randrange(len(_PORTS)))


def free_port() -> int:
    """A port with its neighbours free: two below a slave asks for topics (the VIP channel), one
    above is replication. It is below those that the kernel gives to connections, of which any may
    otherwise take one of the three before a broker is there, or while it is being restarted."""
    while True:
        port = _PORTS[next(_next) % len(_PORTS)]
        with suppress(OSError), ExitStack() as stack:
            for each in (port - 2, port, port + 1):
                stack.enter_context(socket.create_server(("127.0.0.1", each)))
            return port


class Broker:
    """One JVM with a name server and a broker on a store."""

    def __init__(
        self, version: str, store: Path, port: int | None = None, namesrv: str = "",
        controller: Path | str | None = None, **settings: object,
    ):  # fmt: skip
        """controller: a folder, where one is started that elects this broker; or the address of
        one that is there."""
        self.driver = Driver(version, log_level="WARN")
        job: dict[str, Any] = {"store": str(store), "settings": {**SETTINGS, **settings},
                               "port": port or free_port()}  # fmt: skip
        if namesrv:
            job["namesrv"] = namesrv
        if controller:
            name = "controllerAddr" if isinstance(controller, str) else "controller"
            job[name] = str(controller)
        try:
            self.started = self.driver.ask("broker.start", timeout=120, **job)
        except BaseException:
            self.driver.close()
            raise
        self.namesrv: str = self.started["namesrv"]
        self.port: int = self.started["port"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.driver.close()

    def status(self) -> Answer:
        return self.driver.ask("broker.status", timeout=60)

    def catch_up(self) -> None:
        """Wait until all is dispatched."""
        while self.status()["behind"]:
            time.sleep(0.05)

    def stop(self) -> Answer:
        """A clean stop, as an operator's."""
        return self.driver.ask("broker.stop", timeout=120)


class Client:
    """The real client, in a JVM of its own, towards one broker."""

    def __init__(self, driver: Driver, namesrv: str) -> None:
        self.driver, self.namesrv = driver, namesrv

    def ask(self, command: str, **job: Any) -> Answer:
        return self.driver.ask(command, timeout=300, namesrv=self.namesrv, **job)

    def send(self, messages: list[dict[str, Any]], **options: Any) -> list[list[Any]]:
        return self.ask("send", messages=messages, queues=QUEUES, **options)["sent"]

    def read(self, topics: tuple[str, ...] = TOPICS, **options: Any) -> list[list[Any]]:
        queues = dict.fromkeys(topics, QUEUES)
        return self.ask("pull", queues=queues, **options)["messages"]


@contextmanager
def living(
    version: str, store: Path, *places: Any, driver: Driver | None = None, **settings: Any
) -> Iterator[tuple[Broker, Client]]:
    """A broker and a client of it; stopped in the end, when all is dispatched."""
    with ExitStack() as stack:
        driver = driver or stack.enter_context(Driver(version))
        broker = stack.enter_context(Broker(version, store, *places, **settings))
        yield broker, Client(driver, broker.namesrv)
        broker.catch_up()
        broker.stop()


def warmed(driver: Driver, namesrv: str) -> Client:
    """A client that has asked for something: where a machine is busy, the first answer between two
    new JVMs comes too late for a producer."""
    client = Client(driver, namesrv)
    with suppress(JobFailedError):
        client.read(("TBW102",), limit=1)
    return client


def killed_while_sending(
    version: str, store: Path, client: Driver, first: int, wait: Callable[[], None],
    **settings: Any,
) -> list[list[Any]]:  # fmt: skip
    """What a broker had acknowledged when it was killed: after so many messages at first, and
    `wait`, while a client goes on to send."""
    with Broker(version, store, **settings) as broker:
        asking = Client(client, broker.namesrv)
        sent = asking.send(messages(first))

        def kill() -> None:
            wait()
            broker.driver.kill()

        killer = threading.Thread(target=kill)
        killer.start()
        sent += asking.send(messages(20_000, first), until_killed=True, send_timeout_ms=1000)
        killer.join()
    return sent


def messages(count: int, first: int = 0) -> list[dict[str, Any]]:
    """Plain messages for all queues; property n is for SQL filters."""
    return [
        {
            "t": TOPICS[n % 3], "q": n // 3 % QUEUES, "b": 40 + n % 300, "bs": n,
            "p": {"KEYS": f"key{n} all{n % 3}", "TAGS": "AB"[n % 2], "n": str(n)},
        }
        for n in range(first, first + count)
    ]  # fmt: skip


def replace_derived(
    reput: Reput, version: str, store: Path, scratch: Path, settings: Mapping[str, object]
) -> None:
    """Our derived files in the place of RocketMQ's; CommitLog and config stay as they were."""
    reput.rebuild(version, settings, store, scratch)
    remove_derived(store)
    for name in ("consumequeue", "batchconsumequeue", "index", "checkpoint"):
        if (scratch / name).exists():
            shutil.move(scratch / name, store / name)


def contents(store: Path) -> dict[str, bytes]:
    """Queue files without their unused tails: what must still begin them when others follow."""
    return {name: path.read_bytes().rstrip(b"\0") for name, path in derived_files(store)
            if not name.startswith("index/")}  # fmt: skip
