"""What each consumer got of a broker that ran past all due times: once, not early, not never."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.jobs.sockets.asking import Peer
from tests.rocketmq.driver import Driver
from tests.rocketmq.live import CHECK_SOON, Broker
from tests.rocketmq.whole.consumer import Consumer, PopConsumer
from tests.rocketmq.whole.life import QUEUES, READERS, Made, Reader, readers

# A timer is due to the second below (HookUtils.transformTimerMessage), and may be at its begin.
_EARLY_MS = 2000
_QUIET_SECONDS = 3.0
_REVIVED_SECONDS = 40.0  # what PopReviveService, and a check of transactions, take at most


@dataclass
class Expected:
    """What is to come, by reader, of a store that a command made of another one."""

    readers: list[Reader]
    keys: dict[str, Counter[str]]
    due: dict[str, int]
    last_due: float
    pending: int
    # Who may get messages again, as nothing else can be; what comes never is wrong all the same.
    may_repeat: frozenset[str] = frozenset()

    @classmethod
    def of(cls, made: Made) -> Expected:
        keys = {reader: Counter(each) for reader, each in made.expected.items()}
        # With check points in RocksDB a broker of 5.3.3 does not keep how far a group has popped.
        again = {str(each) for each in READERS["pop"][:1] if made.queues == "rocksdb"}
        return cls(readers(made.has), keys, dict(made.due), made.last_due, len(made.pending),
                   frozenset(again))  # fmt: skip


@dataclass
class Ledger:
    """By reader, what each got, in its order."""

    got: dict[str, list[str]] = field(default_factory=dict)
    early: dict[str, list[str]] = field(default_factory=dict)

    def wrong(self, expected: Expected, asked: Iterable[str] | None = None) -> dict[str, str]:
        """By reader what is not each once; nothing where all is well. asked: of these alone."""
        said = {}
        for reader in map(str, expected.readers) if asked is None else asked:
            wanted, got = expected.keys[reader], Counter(self.got.get(reader, ()))
            never, again = wanted - got, got - wanted
            if reader in expected.may_repeat:
                again = Counter[str]()
            parts = [
                f"{sum(never.values())} of {sum(wanted.values())} never" if never else "",
                f"{sum(again.values())} again or unasked" if again else "",
                f"{len(self.early[reader])} early" if self.early.get(reader) else "",
                "out of order" if _is_mixed(reader, self.got.get(reader, [])) else "",
            ]
            if any(parts):
                some = [*list(never)[:2], *list(again)[:2]]
                said[reader] = ", ".join(filter(None, parts)) + f" ({', '.join(some)})"
        return said


def _is_mixed(reader: str, keys: list[str]) -> bool:
    """Whether a group that pops in order got the messages of a store otherwise."""
    numbers: dict[str, list[int]] = {}
    for mark, _, number in (key.partition("inorder") for key in keys if "inorder" in key):
        numbers.setdefault(mark, []).append(int(number))
    return reader.startswith("orderly") and any(each != sorted(each) for each in numbers.values())


def run(
    version: str, store: Path, client: Driver, expected: Expected, settings: dict[str, Any]
) -> Ledger:
    """Start a broker on a store, with consumers, a producer that goes on, and one that commits what
    it is asked about, until all is past."""
    with Broker(version, store, **settings, **CHECK_SOON) as broker:
        with Peer(f"127.0.0.1:{broker.port}", 60) as peer:
            ledger = _Reading(peer, expected)
            ledger.read()
            _go_on(client, broker.namesrv, expected)
            if expected.pending:
                client.tell(
                    "await_checks", namesrv=broker.namesrv, topic="Checks", checks=expected.pending,
                    seconds=_REVIVED_SECONDS + max(0.0, expected.last_due - time.time()),
                )  # fmt: skip
            ledger.to_the_end()
        if expected.pending:
            client.answer("await_checks")
        broker.driver.kill()  # all is read; a JVM with RocksDB may crash in a clean stop
    return ledger.ledger


def _go_on(client: Driver, namesrv: str, expected: Expected) -> None:
    """New messages, which come as any others do: a plain one, a delayed one and a timer."""
    sent: list[dict[str, Any]] = []
    for topic in sorted({each.topic for each in expected.readers if each.kind == "pull"}):
        message: dict[str, Any] = {"t": topic, "q": 0, "p": {"KEYS": f"fresh {topic}"}}
        if topic.startswith("Timers"):
            due = int(time.time() * 1000) + 3000
            message["p"]["TIMER_DELIVER_MS"] = str(due)
            expected.due[message["p"]["KEYS"]] = due
        elif topic.startswith("Delayed"):
            message["delay"] = 1
        elif not topic.startswith("Plain"):
            continue
        sent.append(message)
        for reader in expected.readers:
            if reader.topic == topic:
                expected.keys[str(reader)] = expected.keys[str(reader)] + Counter(
                    [message["p"]["KEYS"]]
                )
    asked = {"messages": sent, "queues": QUEUES, "send_timeout_ms": 60_000}
    client.ask("send", namesrv=namesrv, **asked)


class _Reading:
    """Consumers of one broker, all of which are asked again and again."""

    def __init__(self, peer: Peer, expected: Expected) -> None:
        self._expected = expected
        self._consumers = {str(each): _consumer(peer, each) for each in expected.readers}
        self.ledger = Ledger({reader: [] for reader in self._consumers})
        self._quiet = 0.0

    def read(self) -> None:
        for reader, consumer in self._consumers.items():
            for each in consumer.read():
                self.ledger.got[reader].append(each.key)
                self._quiet = time.time() + _QUIET_SECONDS
                if self._expected.due.get(each.key, 0) > time.time() * 1000 + _EARLY_MS:
                    self.ledger.early.setdefault(reader, []).append(each.key)

    def to_the_end(self) -> None:
        """Until all has come and nothing more, or for longer than anything takes."""
        begun = time.time()
        end = max(self._expected.last_due, begun) + _REVIVED_SECONDS
        self._quiet = begun + _QUIET_SECONDS
        while (now := time.time()) < end and not (
            now > self._quiet and now > self._expected.last_due
            and not self.ledger.wrong(self._expected, self._consumers)
        ):  # fmt: skip
            self.read()
            time.sleep(0.2)


def _consumer(peer: Peer, reader: Reader) -> Consumer | PopConsumer:
    if reader.kind == "pull":
        return Consumer(peer, reader.group, reader.topic, reader.queues)
    return PopConsumer(peer, reader.group, reader.topic, reader.queues * (reader.kind == "ordered"))
