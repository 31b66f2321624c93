"""A store that a real broker made, and all that clients and tools ask of whoever serves it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.rocketmq import real_clients
from tests.rocketmq.driver import Driver
from tests.rocketmq.live import TOPICS, Broker, Client, messages
from tests.rocketmq.real_clients import Step

SENT = 600
NAME = "judge"  # of the broker and its cluster: Broker.java
GROUP = "readers-of-old"  # has come part of the way


@dataclass(frozen=True)
class Made:
    """A store after a clean stop, and where its broker listened: its messages' ids say so."""

    version: str
    store: Path
    port: int
    sent: list[list[Any]]
    stamps: list[int]  # some storeTimestamps
    ended: int  # when the broker stopped, in milliseconds

    def copy(self, to: Path) -> Path:
        """Another store like it, for one that may change it."""
        shutil.copytree(self.store, to)
        return to


def make(version: str, folder: Path) -> Made:
    """Three topics of four queues; a group with offsets, and one that read all."""
    store = folder / "made"
    with Driver(version) as client, Broker(version, store) as broker:
        asking = Client(client, broker.namesrv)
        sent = asking.send(messages(SENT))
        asking.read(("Live0",), group=GROUP, save=True, limit=20)
        asking.ask("sql", group="pushed", topic="Live1", sql="n > 100")
        from reput.jobs.engine.open_store import open_store

        with open_store(str(store), rocketmq=version) as opened:
            stamps = sorted({each.store_timestamp for each in opened.messages(scan=True)})
        broker.stop()
        port = broker.port
    return Made(version, store, port, sent, stamps[:: len(stamps) // 4], int(time.time() * 1000))


@contextmanager
def by_broker(made: Made, folder: Path) -> Iterator[str]:
    """The real name server and broker on a copy; gives the name server's address."""
    store = made.copy(folder / "real")
    with Broker(made.version, store, port=made.port) as broker:
        yield broker.namesrv


def mqadmin(*words: object) -> Step:
    return {"do": "mqadmin", "words": [str(word) for word in words]}


def tool_steps(made: Made, namesrv: str) -> list[Step]:
    """mqadmin's commands that read."""
    to = ("-n", namesrv)
    broker = ("-b", f"127.0.0.1:{made.port}")
    topic, queue, offset, unique, of_broker = made.sent[7]
    return [
        mqadmin("topicList", *to),
        mqadmin("topicList", *to, "-c", NAME),
        *(mqadmin("topicStatus", *to, "-t", name) for name in (*TOPICS, "NoSuchTopic")),
        mqadmin("topicRoute", *to, "-t", "Live0"),
        mqadmin("topicRoute", *to, "-t", "NoSuchTopic"),
        mqadmin("topicClusterList", *to, "-t", "Live0"),
        mqadmin("consumerProgress", *to),
        mqadmin("consumerProgress", *to, "-g", GROUP),
        mqadmin("consumerProgress", *to, "-g", "pushed"),
        mqadmin("consumerProgress", *to, "-g", "no-such-group"),
        mqadmin("consumerConnection", *to, "-g", "no-such-group"),
        mqadmin("queryMsgById", *to, "-i", of_broker, "-t", topic),
        mqadmin("queryMsgById", *to, "-i", unique, "-t", topic),
        mqadmin("queryMsgByKey", *to, "-t", topic, "-k", "key7"),
        mqadmin("queryMsgByKey", *to, "-t", topic, "-k", "all1"),
        mqadmin("queryMsgByKey", *to, "-t", topic, "-k", "no such key"),
        mqadmin("queryMsgByUniqueKey", *to, "-t", topic, "-i", unique),
        mqadmin("queryMsgByOffset", *to, "-t", topic, "-b", NAME, "-i", queue, "-o", offset),
        mqadmin("queryMsgByOffset", *to, "-t", topic, "-b", NAME, "-i", queue, "-o", 10**6),
        mqadmin("printMsg", *to, "-t", "Live0", "-d", "false"),
        mqadmin("printMsg", *to, "-t", "Live0", "-d", "false", "-s", "A"),
        mqadmin("printMsg", *to, "-t", "Live0", "-d", "false", "-b", made.stamps[1], "-e", made.stamps[2]),
        mqadmin("printMsgByQueue", *to, "-t", "Live0", "-a", NAME, "-i", 0, "-p", "true", "-d", "false"),
        mqadmin("queryCq", *to, "-t", "Live0", "-q", 0, "-i", 0, "-c", 3),
        mqadmin("queryCq", *to, "-t", "Live0", "-q", 0, "-i", 0, "-c", 3, *broker),
        mqadmin("brokerStatus", *to, *broker),
        mqadmin("brokerConsumeStats", *to, *broker),
        mqadmin("statsAll", *to),
        mqadmin("statsAll", *to, "-a", "-t", "Live0"),
        mqadmin("clusterList", *to),
        mqadmin("clusterList", *to, "-m"),
        mqadmin("getBrokerConfig", *to, *broker),
        mqadmin("getConsumerConfig", *to, "-g", GROUP),
        mqadmin("getNamesrvConfig", *to),
        mqadmin("haStatus", *to, *broker),
        mqadmin("producer", *to, *broker),
        mqadmin("allocateMQ", *to, "-t", "Live0", "-i", "10.0.0.1,10.0.0.2"),
        mqadmin("exportMetadata", *to, "-c", NAME, "-f", "/dev/null/none"),
    ]  # fmt: skip


def ask(version: str, namesrv: str, steps: list[Step], **options: Any) -> list[Any]:
    return real_clients.run(version, namesrv, steps, **options)
