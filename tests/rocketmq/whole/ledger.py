"""What each consumer got of a broker that ran past all due times: once, not early, not never."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.jobs.sockets.asking import Peer
from tests.rocketmq.driver import Driver
from tests.rocketmq.live import CHECK_SOON, Broker
from tests.rocketmq.whole.consumer import Consumer, PopConsumer
from tests.rocketmq.whole.life import Made, Reader, readers

# A timer is due to the second below (HookUtils.transformTimerMessage), and may be at its begin.
_EARLY_MS = 2000
_QUIET_SECONDS = 3.0
_REVIVED_SECONDS = 25.0  # what PopReviveService, and a check of transactions, take at most


@dataclass
class Expected:
    """What is to come, by reader, of a store that a command made of another one."""

    readers: list[Reader]
    keys: dict[str, Counter[str]]
    due: dict[str, int]
    last_due: float
    pending: int

    @classmethod
    def of(cls, made: Made) -> Expected:
        keys = {reader: Counter(each) for reader, each in made.expected.items()}
        return cls(readers(made.has), keys, made.due, made.last_due, len(made.pending))


@dataclass
class Ledger:
    """By reader, what each got, in its order."""

    got: dict[str, list[str]] = field(default_factory=dict)
    early: dict[str, list[str]] = field(default_factory=dict)

    def counts(self) -> dict[str, Counter[str]]:
        return {reader: Counter(keys) for reader, keys in self.got.items()}

    def wrong(self, expected: Expected) -> dict[str, str]:
        """By reader what is not each once; nothing where all is well."""
        said = {}
        for reader in map(str, expected.readers):
            wanted, got = expected.keys[reader], Counter(self.got.get(reader, ()))
            never, again = wanted - got, got - wanted
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
    """Whether a group that pops in order got its topic otherwise."""
    numbers = [int(key.rpartition("inorder")[2]) for key in keys if "inorder" in key]
    return reader.startswith("orderly") and numbers != sorted(numbers)


def run(
    version: str, store: Path, client: Driver, expected: Expected, settings: dict[str, Any]
) -> Ledger:
    """Start a broker on a store, with consumers and a producer that commits what it is asked about,
    until all is past.
    """
    with Broker(version, store, **settings, **CHECK_SOON) as broker:
        if expected.pending:
            client.tell(
                "await_checks", namesrv=broker.namesrv, topic="Checks", checks=expected.pending,
                seconds=_REVIVED_SECONDS + max(0.0, expected.last_due - time.time()),
            )  # fmt: skip
        with Peer(f"127.0.0.1:{broker.port}", 60) as peer:
            ledger = _read(peer, expected)
        if expected.pending:
            client.answer("await_checks")
        broker.stop()
    return ledger


def _read(peer: Peer, expected: Expected) -> Ledger:
    consumers = {str(each): _consumer(peer, each) for each in expected.readers}
    ledger = Ledger({reader: [] for reader in consumers})
    begun = time.time()
    end = max(expected.last_due, begun) + _REVIVED_SECONDS
    quiet = begun + _QUIET_SECONDS
    while (now := time.time()) < end and not (
        now > quiet and now > expected.last_due and not ledger.wrong(expected)
    ):
        for reader, consumer in consumers.items():
            for each in consumer.read():
                ledger.got[reader].append(each.key)
                quiet = time.time() + _QUIET_SECONDS
                if expected.due.get(each.key, 0) > time.time() * 1000 + _EARLY_MS:
                    ledger.early.setdefault(reader, []).append(each.key)
        time.sleep(0.2)
    return ledger


def _consumer(peer: Peer, reader: Reader) -> Consumer | PopConsumer:
    if reader.kind == "pull":
        return Consumer(peer, reader.group, reader.topic, reader.queues)
    return PopConsumer(peer, reader.group, reader.topic, reader.queues * (reader.kind == "ordered"))
