"""Healthy stores as real brokers leave them, by what the broker has lived through."""

import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.rocketmq.driver import Driver
from tests.rocketmq.fates import TRANSACTIONS_IN_ROCKSDB
from tests.rocketmq.live import SETTINGS, Broker, Client, messages
from tests.rocketmq.whole.life import Size, live

_HOUR = 3_600_000
# Twenty segments of a few hundred messages each, several index files, queues of several files.
SMALL: dict[str, object] = {**SETTINGS, "mappedFileSizeCommitLog": 1 << 16,
                            "maxIndexNum": 900}  # fmt: skip
_MANY = 2400


@dataclass
class Life:
    """One broker's life: copies of its store are taken as it goes on."""

    version: str
    folder: Path
    client: Driver
    settings: Mapping[str, object] = field(default_factory=lambda: dict(SMALL))
    sent: int = 0

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @contextmanager
    def broker(self, **more: object) -> Iterator[tuple[Broker, Client]]:
        with Broker(self.version, self.store, **{**self.settings, **more}) as broker:
            yield broker, Client(self.client, broker.namesrv)

    def send(self, client: Client, count: int = 200, **each: Any) -> None:
        more = [{**message, **each} for message in messages(count, self.sent)]
        self.sent += count
        client.send(more)

    def copy(self, name: str) -> Path:
        """The store as its files are now: a running broker's, as a kill would leave them."""
        target = self.folder / name
        command = ["cp", "-r", "--sparse=always", str(self.store), str(target)]
        for _ in range(10):
            done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
            if done.returncode == 0:
                return target
            # the broker looks for what has expired every ten seconds: a file went meanwhile
            assert "No such file" in done.stderr, done.stderr
            shutil.rmtree(target)
        raise AssertionError(f"no copy in ten: {done.stderr}")


Stores = Iterator[Path]


def stopped_and_killed(life: Life) -> Stores:
    """Running, stopped, started without a message, stopped again, and killed."""
    with life.broker() as (broker, client):
        life.send(client, _MANY)
        broker.catch_up()
        yield life.copy("running")
        broker.stop()
    yield life.copy("once")
    with life.broker() as (broker, _):
        broker.stop()
    yield life.copy("twice")
    with life.broker() as (broker, client):
        life.send(client)
        broker.catch_up()
        broker.driver.kill()
    yield life.copy("killed")
    with life.broker() as (broker, client):
        life.send(client)
        broker.stop()
    yield life.copy("again")


def nothing(life: Life) -> Stores:
    """A broker whose messages have no keys. (A store without a segment is refused by all.)"""
    with life.broker() as (broker, client):
        client.send([{"t": "NoKeys", "b": 100} for _ in range(3)])
        broker.catch_up()
        yield life.copy("running")
        broker.stop()
    yield life.copy("stopped")


def expired(life: Life) -> Stores:
    """Segments deleted; then queue and index files; at each moment running, and stopped."""
    with life.broker() as (broker, client):
        client.send([{"t": "Idle", "b": 50, "p": {"KEYS": f"idle{n}"}} for n in range(150)])
        life.send(client, _MANY)
        broker.catch_up()
        broker.driver.ask("broker.clean")
        yield life.copy("log")
        life.send(client)
        broker.catch_up()
        broker.driver.ask("broker.clean", log=False, queues=True)
        yield life.copy("log-and-queues")
        life.send(client, _MANY // 2)
        broker.catch_up()
        broker.driver.ask("broker.clean")
        yield life.copy("log-again")
        broker.stop()
    yield life.copy("stopped")
    with life.broker() as (broker, client):
        life.send(client)
        for _ in range(3):
            broker.driver.ask("broker.clean", queues=True)
        broker.stop()
    yield life.copy("nearly-all")


def topic_deleted(life: Life) -> Stores:
    """A topic deleted while the broker runs."""
    with life.broker() as (broker, client):
        life.send(client, 600)
        client.send([{"t": "Gone", "b": 50, "p": {"KEYS": f"gone{n}"}} for n in range(250)])
        life.send(client, 100)
        broker.catch_up()
        broker.driver.ask("broker.delete_topic", topic="Gone")
        yield life.copy("running")
        life.send(client, 100)
        broker.stop()
    yield life.copy("stopped")
    with life.broker() as (broker, client):
        life.send(client, 100)
        broker.stop()
    yield life.copy("again")


def clock_set_back(life: Life) -> Stores:
    """The machine's clock goes back an hour, and comes back by half of it."""
    with life.broker(flushCommitLogThoroughInterval=200) as (broker, client):
        life.send(client, 700)
        broker.driver.ask("broker.clock", shift_ms=-_HOUR)
        life.send(client, 700)
        broker.catch_up()
        yield life.copy("running")
        broker.driver.ask("broker.clock", shift_ms=-_HOUR // 2)
        life.send(client, 700)
        broker.catch_up()
        broker.driver.kill()
    yield life.copy("killed")
    life = Life(life.version, life.folder / "other", life.client)
    with life.broker() as (broker, client):
        life.send(client, 700)
        broker.driver.ask("broker.clock", shift_ms=-_HOUR)
        life.send(client, 20)
        broker.stop()
    yield life.copy("stopped")


def all_that_waits(life: Life) -> Stores:
    """Delayed, timed and half messages, retries, LMQ, what is popped: running, and stopped."""
    made = live(life.version, life.folder, life.client, Size().on_this_machine())
    life.settings = made.settings
    yield Path(made.killed)
    yield Path(made.store)


def attributes(life: Life) -> Stores:
    """A compacted topic, and a batch queue; and their segments expire."""
    with life.broker() as (broker, client):
        broker.driver.ask("broker.topic", topic="Compact",
                          attributes={"cleanup.policy": "COMPACTION"})  # fmt: skip
        broker.driver.ask("broker.topic", topic="Batch", attributes={"queue.type": "BatchCQ"})
        for number in range(150):
            keys = {"KEYS": f"c{number % 7}"}
            client.send([{"t": "Compact", "q": 0, "b": 50, "p": keys},
                         {"t": "Batch", "q": number % 2, "b": 50, "p": keys}])  # fmt: skip
        life.send(client, 200)
        broker.catch_up()
        yield life.copy("running")
        life.send(client, _MANY)
        for number in range(50):
            client.send([{"t": "Batch", "q": number % 2, "b": 50, "p": {"KEYS": f"d{number}"}}])
        broker.catch_up()
        broker.driver.ask("broker.clean")
        yield life.copy("expired")
        broker.driver.ask("broker.clean", log=False, queues=True)
        yield life.copy("cleaned")
        broker.stop()
    yield life.copy("stopped")


def indexed_again(life: Life) -> Stores:
    """Half messages that RocksDB looks after: from 5.5.0 on each start behind a stop indexes the
    last message again, where it is not one of these, and the last of these is not at offset 0.
    """
    waiting = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "3600"}
    for number, count in enumerate((100, 30, 0, 30, 0)):
        with life.broker(**TRANSACTIONS_IN_ROCKSDB) as (broker, client):
            if count:
                (half,) = messages(1, 50_000 + number)
                half["p"] |= waiting
                client.ask("transactions", messages=[{**half, "outcome": "UNKNOW"}])
                life.send(client, count)
            broker.catch_up()
            broker.stop()
        yield life.copy(f"start-{number}")


EVERY: list[Callable[[Life], Stores]] = [stopped_and_killed, nothing, expired, topic_deleted,
                                         clock_set_back]  # fmt: skip
SINCE_5: list[Callable[[Life], Stores]] = [all_that_waits, attributes]
SINCE_5_4: list[Callable[[Life], Stores]] = [indexed_again]
