"""The log as a table, and exports: `python -m benchmarks.tables [--runs N] [--large]`.

On the store of the other benchmarks, warm, with two tasks at a time. Prints one JSON line: of each
row the median seconds, and messages or bytes a second. Spark's start is not in it: one session, an
ordinary one, does all of it, and the first round of each is not counted.

- count: messages by topic from the source, `columns` topic;
- parquet: export of all columns without bodies; with bodies, also as MB a second of the log;
- delta: the same without bodies, by delta-rs;
- pulled (with --broker): what a user does today: RocketMQ's client pulls all messages of a broker
  on the same store and counts them by topic, two queues at a time, 32 messages a pull. It writes
  nothing: all that a user would do with them comes on top. The broker's start is listed apart.
"""

import argparse
import json
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import reput
from benchmarks.query import broker_on
from benchmarks.stores import (
    LARGE,
    RELEASE,
    USUAL,
    cache_folder,
    log_bytes,
    make_store,
    theirs,
    warm,
)
from reput.jobs.engines.java import find_java_home

_CORES = 2


def session() -> Any:
    import os

    from pyspark.sql import SparkSession

    os.environ["JAVA_HOME"] = str(find_java_home().home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(f"local[{_CORES}]").config("spark.ui.enabled", "false")
    return builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()


def timed(work: Callable[[], int], runs: int) -> tuple[float, int]:
    """The median of the seconds, and the messages; the first round warms up."""
    seconds, messages = [], work()
    for _ in range(runs):
        began = time.monotonic()
        assert work() == messages
        seconds.append(time.monotonic() - began)
    return statistics.median(seconds), messages


def rows(spark: Any, store: Path, out: Path) -> dict[str, Callable[[], int]]:
    def count() -> int:
        source = (
            spark.read.format("commitlog").option("rocketmq", RELEASE).option("columns", "topic")
        )
        found = source.load(str(store)).groupBy("topic").count().collect()
        return sum(row[1] for row in found)

    def export(kind: str, bodies: bool) -> int:
        shutil.rmtree(out, ignore_errors=True)
        done = reput.export(
            spark, str(store), str(out), format=kind, bodies=bodies, rocketmq=RELEASE
        )
        return done.messages

    return {
        "count_by_topic": count,
        "parquet_without_bodies": lambda: export("parquet", False),
        "parquet_with_bodies": lambda: export("parquet", True),
        "delta_without_bodies": lambda: export("delta", False),
    }


def pulled(store: Path) -> dict[str, Any]:
    """RocketMQ's own client on a broker of this store, both in JVMs of their own."""
    if not (store / "consumequeue").is_dir():
        theirs(store)
    topics = sorted(path.name for path in (store / "consumequeue").iterdir())
    queues = {name: len(list((store / "consumequeue" / name).iterdir())) for name in topics}
    with broker_on(store, topics) as (client, started):
        done = client.driver.ask("drain", timeout=3600, namesrv=client.namesrv, queues=queues)
    messages = sum(done["counts"].values())
    return {
        "messages": messages,
        "seconds": round(done["seconds"], 2),
        "messages_per_second": round(messages / done["seconds"]),
        "broker_start_seconds": round(started, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--broker", action="store_true", help="also pull all from a broker")
    arguments = parser.parse_args()
    store = make_store(LARGE if arguments.large else USUAL)
    out, size = cache_folder() / "table", log_bytes(store)
    warm(store)
    spark = session()
    reput.register(spark)
    result: dict[str, Any] = {"messages": 0, "log_bytes": size}
    try:
        for name, work in rows(spark, store, out).items():
            seconds, messages = timed(work, arguments.runs)
            result["messages"] = messages
            result[name] = {
                "seconds": round(seconds, 2),
                "messages_per_second": round(messages / seconds),
                "log_mb_per_second": round(size / seconds / 1e6),
            }
    finally:
        shutil.rmtree(out, ignore_errors=True)
        spark.stop()
    if arguments.broker:
        result["pulled"] = pulled(store)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
