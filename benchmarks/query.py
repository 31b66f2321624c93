"""Queries of a store, timed beside a running broker's on the same store.

`python -m benchmarks.query [--large] [--runs N]` takes the store of the other benchmarks (made once
by the real RocketMQ), has RocketMQ derive its queues and index, and times, warm:

- `reput query` by key, the whole process; wall and CPU time, the least of several;
- a key, and a time in a queue, in a store that is open; the least of many;
- 20,000 keys in a store that is open, one after the other and all at once;
- a test of a property and one of tags over the whole log, with the process's peak of memory;
- the same keys by `queryMessage` of RocketMQ's client, towards a broker that runs; the broker's
  start, recovery included, is listed apart.

It prints one JSON line.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.stores import LARGE, RELEASE, SIZES, USUAL, make_store, theirs, warm
from reput.jobs.opening.questions import Store, open_store
from tests.rocketmq.driver import Driver
from tests.rocketmq.live import Broker, Client

_KEYS = 20_000


def keys_of(store: Store, many: int, topics: Sequence[str] = ()) -> list[tuple[str, str]]:
    """(topic, a word of KEYS) of messages spread over these topics, or all."""
    rows = [row for row in store.queues() if not topics or row.topic in topics]
    step = max(sum(row.messages for row in rows) // many, 1)
    found = [
        (message.topic, message.keys[0])
        for row in rows
        for position in range(row.min_offset, row.max_offset, step)
        for message in store.messages(row.topic, row.queue_id, position, 1)
    ]
    return found[:many]


class Took(NamedTuple):
    """The least of several runs."""

    wall: float  # seconds
    cpu: float  # of all threads


def least(ask: Callable[[], Any], runs: int) -> Took:
    """Others may use the machine meanwhile: the least time is the one that says most."""
    walls, cpus = [], []
    for _ in range(runs):
        wall, cpu = time.perf_counter(), time.process_time()
        ask()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return Took(min(walls), min(cpus))


def _spent(name: str, took: Took) -> dict[str, float]:
    return {f"{name}_ms": round(took.wall * 1e3, 3), f"{name}_cpu_ms": round(took.cpu * 1e3, 3)}


def _rate(name: str, many: int, took: Took) -> dict[str, int]:
    """So many of something a second, by wall time and by CPU time."""
    rates = {"per_second": took.wall, "per_cpu_second": took.cpu}
    return {f"{name}_{rate}": round(many / seconds) for rate, seconds in rates.items()}


def ours(path: Path, runs: int) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """What our queries take, and the keys that were asked for."""
    with open_store(str(path), rocketmq=RELEASE) as store:
        keys = keys_of(store, _KEYS)
        topic, key = keys[len(keys) // 2]
        (message,) = store.query(topic, key)
        time_at, queue = message.store_timestamp, message.queue_id
        by_time = {"begin": time_at, "end": time_at}
        row: dict[str, Any] = {
            **_spent("open_key", least(lambda: list(store.query(topic, key)), 200)),
            **_spent(
                "open_time", least(lambda: list(store.messages(topic, queue, **by_time)), 200)
            ),
        }
        one_by_one = least(lambda: [list(store.query(*each)) for each in keys[::10]], runs)
        row |= _rate("keys_one_by_one", len(keys[::10]), one_by_one)
        row |= _many_keys(store, runs)
    return row | _process(path, topic, key, 5 * runs), keys


def _many_keys(store: Store, runs: int) -> dict[str, Any]:
    """20,000 keys of one topic, all over the log."""
    wanted = [key for _, key in keys_of(store, _KEYS, ["Bench0"])]
    assert len(list(store.query_keys("Bench0", wanted))) >= len(wanted)
    took = least(lambda: list(store.query_keys("Bench0", wanted)), 5 * runs)
    return {"keys": len(wanted), **_rate("keys_at_once", len(wanted), took)}


def scans(path: Path, runs: int) -> dict[str, Any]:
    """The whole log by a test that no message passes, of a number and of tags."""
    row: dict[str, Any] = {}
    with open_store(str(path), rocketmq=RELEASE) as store:
        messages = sum(each.messages for each in store.queues())
        for name, wanted in (("sql", {"sql": "price > 10"}), ("tags", {"tags": "none"})):
            where = store.filter(**wanted)
            took = least(lambda: list(store.messages(scan=True, where=where)), runs + 1)  # noqa: B023
            row |= _rate(f"{name}_messages", messages, took)
    words = ["--scan", "--sql", "price > 10"]
    _, _, row["sql_peak_mib"] = _whole(path, *words)
    return row


def _whole(path: Path, *words: str) -> tuple[float, float, int]:
    """Seconds, CPU seconds and MiB at most of one `reput query`."""
    command = [sys.executable, "-m", "reput", "query", str(path), "--json", *words]
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    took = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return took, used.ru_utime + used.ru_stime, used.ru_maxrss >> 10


def _process(path: Path, topic: str, key: str, runs: int) -> dict[str, float]:
    took = [_whole(path, "--topic", topic, "--key", key) for _ in range(runs)]
    return _spent("process", Took(min(wall for wall, *_ in took), min(cpu for _, cpu, _ in took)))


@contextmanager
def broker_on(path: Path, topics: Sequence[str]) -> Iterator[tuple[Client, float]]:
    """A client of a broker that runs on a benchmark's store, and the seconds of its start."""
    before = set(path.iterdir())
    configure_topics(path, sorted(topics))
    try:
        start = time.perf_counter()
        with Broker(RELEASE, path, **SIZES) as broker, Driver(RELEASE) as driver:
            yield Client(driver, broker.namesrv), time.perf_counter() - start
            broker.stop()
    finally:
        for new in set(path.iterdir()) - before:  # the other benchmarks know no config/
            shutil.rmtree(new) if new.is_dir() else new.unlink()


def rocketmqs(path: Path, keys: list[tuple[str, str]]) -> dict[str, Any]:
    """What a broker's start takes, and its answers to a client that asks for the same keys."""
    asked = [list(each) for each in keys]
    with broker_on(path, list({topic for topic, _ in keys})) as (client, started):
        client.ask("find", keys=asked[::10], ids=[], times=[])  # compiled by then
        answer = client.ask("find", keys=asked, ids=[], times=[])
    assert all(answer["by_key"])
    return {
        "broker_start_seconds": round(started, 2),
        "broker_keys_per_second": round(len(keys) / answer["key_seconds"]),
    }


def configure_topics(path: Path, topics: list[str]) -> None:
    """Have the broker know its topics: the store was made without one."""
    table = {
        topic: {"topicName": topic, "readQueueNums": 8, "writeQueueNums": 8, "perm": 6}
        for topic in topics
    }
    (path / "config").mkdir()
    (path / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--large", action="store_true", help="15 GB (40 GB of disk)")
    arguments = parser.parse_args()
    path = make_store(LARGE if arguments.large else USUAL)
    if not (path / "index").is_dir():
        theirs(path)
    warm(path)
    row, keys = ours(path, arguments.runs)
    row = {"log": path.name, **row, **scans(path, arguments.runs), **rocketmqs(path, keys)}
    print(json.dumps(row))


if __name__ == "__main__":
    main()
