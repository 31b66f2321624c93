"""A store that a real broker made, and all that clients and tools ask of whoever serves it."""

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.rocketmq.driver import Driver
from tests.rocketmq.live import TOPICS, Broker, free_port, messages, warmed
from tests.rocketmq.real_clients import Step

SENT = 600
EACH = SENT // len(TOPICS)  # messages of a topic
NAME = "judge"  # of the broker and its cluster: Broker.java
CONSUMER = "@kept"  # for Tools.java: the id of the consumer that push.start began
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
    with Driver(version) as client, Broker(version, store, free_port()) as broker:
        asking = warmed(client, broker.namesrv)
        sent = asking.send(messages(SENT))
        asking.read(("Live0",), group=GROUP, save=True, limit=20)
        asking.ask("sql", group="pushed", topic="Live1", sql="n > 100")
        from reput.jobs.opening.questions import open_store

        with open_store(str(store), rocketmq=version) as opened:
            stamps = sorted({each.store_timestamp for each in opened.messages(scan=True)})
        broker.stop()
        port = broker.port
    return Made(version, store, port, sent, stamps[:: len(stamps) // 4], int(time.time() * 1000))


@contextmanager
def by_broker(made: Made, folder: Path, **settings: Any) -> Iterator[str]:
    """The real name server and broker on a copy; gives the name server's address."""
    store = made.copy(folder / "real")
    # A broker that may only be read, as ours: routes and refusals say so.
    with Broker(
        made.version, store, port=made.port, **{"brokerPermission": 4, **settings}
    ) as broker:
        yield broker.namesrv


@contextmanager
def by_reput(made: Made, *options: str) -> Iterator[str]:
    """`reput serve` on the store, where its broker listened; gives the address."""
    command = [
        *(sys.executable, "-m", "reput", "serve", str(made.store)),
        *("--rocketmq", made.version, "--listen", f"127.0.0.1:{made.port}"),
        *("--set", f"brokerName={NAME}", "--set", f"brokerClusterName={NAME}", *options),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            word, _, address = process.stdout.readline().strip().partition(" ")
            assert word == "ready", "reput serve did not begin"
            yield address
            assert process.poll() is None, "reput serve ended by itself"
        finally:
            process.terminate()
    assert process.returncode == 0


def mqadmin(*words: object) -> Step:
    return {"do": "mqadmin", "words": [str(word) for word in words]}


def tool_steps(made: Made, namesrv: str) -> list[Step]:
    """mqadmin's commands that read."""
    to = ("-n", namesrv)
    broker = ("-b", f"127.0.0.1:{made.port}")
    topic, queue, offset, unique, of_broker = made.sent[7]
    return [
        mqadmin("topicList", *to), mqadmin("topicList", *to, "-c", NAME),
        *(mqadmin("topicStatus", *to, "-t", name) for name in (*TOPICS, "NoSuchTopic")),
        mqadmin("topicRoute", *to, "-t", "Live0"), mqadmin("topicRoute", *to, "-t", "NoSuchTopic"),
        mqadmin("topicClusterList", *to, "-t", "Live0"), mqadmin("consumerProgress", *to),
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
        mqadmin("queryMsgByOffset", *to, "-t", topic, "-b", NAME, "-i", queue, "-o", EACH // 4),
        mqadmin("printMsg", *to, "-t", "Live0", "-d", "false"),
        mqadmin("printMsg", *to, "-t", "Live0", "-d", "false", "-s", "A"),
        mqadmin("printMsg", *to, "-t", "Live0", "-d", "false",
                "-b", made.stamps[1], "-e", made.stamps[2]),
        mqadmin("printMsgByQueue", *to, "-t", "Live0", "-a", NAME, "-i", 0, "-p", "true",
                "-d", "false"),
        mqadmin("queryCq", *to, "-t", "Live0", "-q", 0, "-i", 0, "-c", 3),
        mqadmin("queryCq", *to, "-t", "Live0", "-q", 0, "-i", 0, "-c", 3, *broker),
        mqadmin("brokerStatus", *to, *broker), mqadmin("brokerConsumeStats", *to, *broker),
        mqadmin("statsAll", *to), mqadmin("statsAll", *to, "-a", "-t", "Live0"),
        mqadmin("clusterList", *to), mqadmin("clusterList", *to, "-m"),
        mqadmin("getBrokerConfig", *to, *broker), mqadmin("getConsumerConfig", *to, "-g", GROUP),
        mqadmin("getNamesrvConfig", *to), mqadmin("haStatus", *to, *broker),
        mqadmin("producer", *to, *broker),
        mqadmin("allocateMQ", *to, "-t", "Live0", "-i", "10.0.0.1,10.0.0.2"),
        mqadmin("exportMetadata", *to, "-c", NAME, "-f", "/dev/null/none"),
        mqadmin("getColdDataFlowCtrInfo", *to, *broker),
        mqadmin("checkRocksdbCqWriteProgress", *to, "-c", NAME),
        # a broker of 5.3.0 or later commits no offset of a group that it has not heard of
        mqadmin("cloneGroupOffset", *to, "-s", GROUP, "-d", "unheard", "-t", "Live0", "-o", "true"),
    ]  # fmt: skip


def client_steps(made: Made) -> list[Step]:
    """Each kind of consumer, look-ups, and what writes."""
    return [
        {"do": "push", "group": "new", "topic": "Live0", "least": EACH},
        {"do": "push", "group": "tagged", "topic": "Live0", "tags": "A", "least": EACH // 2},
        {"do": "push", "group": "selecting", "topic": "Live0", "sql": "n > 100 AND n < 300"},
        {"do": "push", "group": "ordered", "topic": "Live0", "orderly": True, "members": 2,
         "least": EACH},
        {"do": "push", "group": "all", "topic": "Live0", "broadcast": True, "members": 2,
         "least": 2 * EACH},
        {"do": "push", "group": "new", "topic": "Live0", "least": 0},
        mqadmin("topicList"),  # each group that was heard of has its %RETRY% topic by now
        {"do": "push", "group": "pushed", "topic": "Live1", "least": 0},
        {"do": "push", "group": "wrong", "topic": "Live0", "sql": "n >", "least": 0},
        {"do": "pull", "group": GROUP, "topic": "Live0", "save": True},
        {"do": "pull", "group": "pulling", "topic": "Live2", "tags": "B", "batch": 7},
        {"do": "lite", "group": "lite", "topic": "Live1", "least": EACH},
        {"do": "lite", "group": "lite", "topic": "Live1"},
        {"do": "lite", "group": "assigned", "topic": "Live1", "assign": True,
         "time": made.stamps[2], "least": 1},
        {"do": "find", "times": [["Live0", time] for time in (0, *made.stamps, 1 << 42)],
         "keys": [["Live0", "key0"], ["Live2", "all2"], ["Live1", "no such key"],
                  ["Live1", "all1", made.stamps[1], made.stamps[2], 5]],
         "ids": [[message[0], message[4]] for message in made.sent[:3]]
         + [[message[0], message[3]] for message in made.sent[5:8]]},
        {"do": "send", "topic": "Live0"},
    ]  # fmt: skip


def seen_steps(made: Made) -> list[Step]:
    """What tools tell of a consumer that is there."""
    return [
        # it tells how far it has come every five seconds, for the first time after ten; of its
        # retry topic after the first pull, which a broker holds for up to twenty
        {"do": "push.start", "group": "seen", "topic": "Live2", "quiet_ms": 28_000},
        mqadmin("consumerProgress", "-g", "seen"), mqadmin("consumerConnection", "-g", "seen"),
        mqadmin("queryMsgById", "-i", made.sent[2][4], "-t", "Live2"),
        mqadmin("consumerStatus", "-g", "seen", "-s"),
        mqadmin("consumerStatus", "-g", "no-such-group"),
        mqadmin("getConsumerStatus", "-g", "seen", "-t", "Live2"), dashboard_step(made),
        {"do": "push.stop"},
    ]  # fmt: skip


def dashboard_step(made: Made) -> Step:
    """The calls of MQAdminExt that RocketMQ's dashboard makes."""
    broker = f"127.0.0.1:{made.port}"
    return {
        "do": "admin",
        "calls": [
            ["examineBrokerClusterInfo"], ["fetchAllTopicList"], ["fetchTopicsByCLuster", NAME],
            ["getTopicClusterList", "Live0"], ["examineTopicStats", "Live0"],
            ["examineTopicRouteInfo", "Live0"], ["examineTopicConfig", broker, "Live0"],
            ["examineSubscriptionGroupConfig", broker, "pushed"], ["examineConsumeStats", "pushed"],
            ["examineConsumeStats", GROUP, "Live0"], ["examineConsumeStats", "no-such-group"],
            ["examineConsumerConnectionInfo", "seen"],
            ["examineConsumerConnectionInfo", "no-such-group"],
            ["examineProducerConnectionInfo", "no-such-group", "Live0"],
            ["queryTopicConsumeByWho", "Live0"], ["queryTopicsByConsumer", GROUP],
            ["querySubscription", "seen", "Live2"], ["queryConsumeTimeSpan", "Live0", GROUP],
            ["fetchBrokerRuntimeStats", broker],
            ["viewBrokerStatsData", broker, "TOPIC_PUT_NUMS", "Live0"],
            ["fetchConsumeStatsInBroker", broker, False, 3000],
            ["getAllSubscriptionGroup", broker, 3000], ["getUserSubscriptionGroup", broker, 3000],
            ["getAllTopicConfig", broker, 3000], ["getUserTopicConfig", broker, False, 3000],
            ["getBrokerConfig", broker], ["getAllProducerInfo", broker],
            ["viewMessage", "Live0", made.sent[0][4]],
            ["getConsumerRunningInfo", "seen", CONSUMER, True],
            ["getConsumerRunningInfo", "seen", "nobody", False],
            ["consumeMessageDirectly", "seen", CONSUMER, "Live2", made.sent[2][4]],
            ["resetOffsetByTimestamp", "NoSuchTopic", "pushed", 0, True],
            ["resetOffsetByTimestamp", "Live0", "no-such-group", 0, True],
            ["resetOffsetByTimestamp", "Live0", "pushed", 0, True],
            ["resetOffsetByTimestamp", "Live2", "seen", made.stamps[2], True],
            # these change the broker's store, and are refused here
            ["deleteTopicInBroker", [broker], "Live0"],
            ["deleteSubscriptionGroup", broker, "pushed"],
            ["createAndUpdateKvConfig", "N", "K", "V"], ["cleanUnusedTopicByAddr", broker],
        ],
    }  # fmt: skip
