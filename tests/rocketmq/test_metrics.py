"""`reput metrics` beside a running broker: it is scraped without a gap, and its values are what
mqadmin's library says, on which rocketmq-exporter stands."""

import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.rocketmq.driver import Driver
from tests.rocketmq.live import QUEUES, TOPICS, Broker, Client, free_port, messages, warmed
from tests.rocketmq.real_clients import run
from tests.rocketmq.served import mqadmin

pytest.importorskip("prometheus_client")
pytestmark = [pytest.mark.rocketmq, pytest.mark.long]

ROOT = Path(__file__).parents[2]
Samples = dict[tuple[str, ...], float]


@contextmanager
def running(*words: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(words, text=True, **options) as process:
        try:
            yield process
        finally:
            process.terminate()


def asked(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        found: str = answer.read().decode()
    return found


def samples(text: str, name: str) -> Samples:
    """A series' values, by (group, queueId, topic) as it has them."""
    from prometheus_client.parser import text_string_to_metric_families

    own = ("group", "queueId", "topic")
    found = (each for family in text_string_to_metric_families(text) for each in family.samples)
    return {tuple(each.labels[label] for label in own if label in each.labels): each.value
            for each in found if each.name == name}  # fmt: skip


def under_load(client: Client, url: str) -> None:
    """Send, read and scrape for half a minute."""
    while not samples(asked(url), "reput_group_lag_seconds"):
        time.sleep(0.5)  # until the broker has written offsets
    for number in range(40):
        client.send(messages(120, 120 * number))
        if number % 4 == 3:
            client.read(TOPICS[:2], group="g", save=True, limit=300, **{"from": "saved"})
        text = asked(url)
        for name in ("reput_group_lag_seconds", "rocketmq_producer_offset"):
            # a push consumer may have an offset in the group's retry topic too
            assert sum(at[-1] in TOPICS for at in samples(text, name)) == len(TOPICS) * QUEUES
        time.sleep(0.3)


def test_beside_a_broker_under_load(tmp_path: Path) -> None:
    version = "5.5.0"
    store, at = tmp_path / "store", free_port()
    with Broker(version, store) as broker, Driver(version) as driver:
        client = warmed(driver, broker.namesrv)
        client.send(messages(60))
        # a push consumer: mqadmin of 4.9.7 asks for the group's %RETRY% topic
        client.ask("sql", group="g", topic=TOPICS[2], sql="n > 1000000000")
        client.read(group="g", save=True)
        words = ["-m", "reput", "metrics", str(store), "--listen", f"127.0.0.1:{at}"]
        with running(
            sys.executable, *words, "--every", "1s", stdout=subprocess.PIPE, cwd=ROOT
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("ready ")
            under_load(client, f"http://127.0.0.1:{at}/metrics")
            _has_what_the_broker_says(f"http://127.0.0.1:{at}/metrics", version, broker)


def _has_what_the_broker_says(url: str, version: str, broker: Broker) -> None:
    """Compare with mqadmin, after a while in which nothing was sent or read."""
    broker.catch_up()
    time.sleep(12)  # a broker writes offsets every five seconds
    to = ("-n", broker.namesrv)
    steps = [mqadmin("consumerProgress", *to, "-g", "g")]
    steps += [mqadmin("topicStatus", *to, "-t", topic) for topic in TOPICS]
    progress, *stats = (json.dumps(each) for each in run(version, broker.namesrv, steps))
    text = asked(url)
    ends, read, lags = (
        samples(text, f"rocketmq_{name}")
        for name in ("producer_offset", "consumer_offset", "group_diff")
    )
    rows = re.findall(r"(Live\d) +judge +(\d+) +(\d+) +(\d+) ", progress)
    assert len(rows) == len(TOPICS) * QUEUES
    for topic, queue, end, offset in rows:
        assert (ends[queue, topic], read["g", queue, topic]) == (int(end), int(offset))
        assert lags["g", queue, topic] == int(end) - int(offset)
    for topic, said in zip(TOPICS, stats, strict=True):
        found = {queue: int(end) for queue, end in re.findall(r"judge +(\d+) +\d+ +(\d+) ", said)}
        assert found == {queue: end for (queue, name), end in ends.items() if name == topic}
    maximum = samples(text, "rocketmq_brokeruntime_commitlog_maxoffset")
    assert maximum[()] == broker.status()["max_offset"]
