"""Queries of a store, timed beside RocketMQ's own on the same store.

`python -m benchmarks.query [--large] [--runs N]` takes the store of the other benchmarks (made once
by the real RocketMQ), has RocketMQ derive its queues and index, and times, warm:

- `reput query` by key, the whole process;
- a key, and a time in a queue, in a store that is open;
- 20,000 keys, one after the other, in a store that is open;
- RocketMQ's `queryMessage` by the same keys, in a store that runs; its start is told apart.

It prints one JSON line.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.stores import RELEASE, Shape, make_store, theirs, warm
from reput.jobs.engine.open_store import Store, open_store
from tests.rocketmq.driver import Driver

USUAL, LARGE = Shape(), Shape(messages=32_000_000)
_KEYS = 20_000
_FAR = 1 << 62


def keys_of(store: Store, many: int) -> list[tuple[str, str]]:
    """(topic, unique key) of messages spread over the log."""
    found = []
    rows = store.queues()
    for row in rows:
        step = max(row.messages * len(rows) // many, 1)
        for position in range(row.min_offset, row.max_offset, step):
            (message,) = store.messages(row.topic, row.queue_id, position, 1)
            if message.unique_key:
                found.append((message.topic, message.unique_key))
    return found[:many]


def _milliseconds(ask: Callable[[], Any], runs: int) -> float:
    took = []
    for _ in range(runs):
        start = time.perf_counter()
        ask()
        took.append(time.perf_counter() - start)
    return round(statistics.median(took) * 1000, 3)


def ours(path: Path, runs: int) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """What our queries take, and the keys that were asked for."""
    with open_store(str(path)) as store:
        keys = keys_of(store, _KEYS)
        topic, key = keys[len(keys) // 2]
        (message,) = store.query(topic, key)
        time_at, queue = message.store_timestamp, message.queue_id
        by_time = {"begin": time_at, "end": time_at}
        row = {
            "open_key_ms": _milliseconds(lambda: list(store.query(topic, key)), 50),
            "open_time_ms": _milliseconds(
                lambda: list(store.messages(topic, queue, **by_time)), 50
            ),
        }
        start = time.perf_counter()
        missing = sum(not list(store.query(*each)) for each in keys)
        row["keys_per_second"] = round(len(keys) / (time.perf_counter() - start))
        assert not missing
    words = [sys.executable, "-m", "reput", "query", str(path), "--topic", topic, "--key", key]

    def whole() -> None:
        subprocess.run([*words, "--json"], check=True, stdout=subprocess.DEVNULL)

    whole()
    return {**row, "process_ms": _milliseconds(whole, 5 * runs)}, keys


def rocketmqs(path: Path, keys: list[tuple[str, str]]) -> dict[str, Any]:
    """What RocketMQ's store takes for the same keys: its start alone, and with the questions."""
    questions = [["key", topic, key, 32, 0, _FAR] for topic, key in keys]

    def seconds(asked: list[list[Any]]) -> float:
        with Driver(RELEASE) as driver:
            start = time.perf_counter()
            answer = driver.ask("query", store=str(path), settings={}, questions=asked)
            took = time.perf_counter() - start
        assert all(places for places, _, _ in answer["answers"])
        return took

    start = seconds(questions[:1])
    return {
        "rocketmq_start_seconds": round(start, 2),
        "rocketmq_keys_per_second": round(len(keys) / max(seconds(questions) - start, 0.001)),
    }


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
    row = {"log": path.name, **row, **rocketmqs(path, keys)}
    print(json.dumps(row))


if __name__ == "__main__":
    main()
