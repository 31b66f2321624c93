"""The rows of the benchmark's table: each a function from a number of runs to one row."""

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.cluster import standalone, submit
from benchmarks.further_rows import against, bare_rebuild, cold_cache, huge_bodies, in_session
from benchmarks.limits import a_split_more, fewer_queues, installed, queues
from benchmarks.process_tree import Run, run
from benchmarks.put_messages import numbered
from benchmarks.rocksdb import in_rocksdb
from benchmarks.state import same_state
from benchmarks.stores import (
    LARGE,
    RELEASE,
    USUAL,
    Rebuilt,
    Shape,
    checked,
    costs,
    digests,
    log_bytes,
    look,
    make_store,
    median,
    median_stages,
    ours,
    output_folder,
    theirs,
)
from reput.jobs.engines.choice import ENGINES, LOCAL, SPARK
from tests.rocketmq.driver import remove_derived

Row = dict[str, Any]

SMALL_MESSAGES = Shape(body=60, keys=5)
LARGE_BODIES = Shape(messages=30_000, body=64 << 10)
SKEWED = Shape(hot_percent=90)
TINY = Shape(messages=2_000)
NO_CHECK = "--no-check-crc"
AROUND = ("check", "report", "stats", "delayed", "transactions", "jsonl out", "parquet out",
          "jsonl in")  # fmt: skip
TRIVIAL = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").getOrCreate()
spark.range(0, 2, 1, 2).mapInArrow(lambda batches: batches, "id long").toArrow()
spark.stop()
"""


def _ours_alone(shape: Shape, rebuilds: list[Rebuilt]) -> Row:
    """What is said of our runs, with or without RocketMQ's beside them."""
    seconds = median([one.run.seconds for one in rebuilds])
    size = log_bytes(make_store(shape))
    return {
        **shape._asdict(),
        "log_bytes": size,
        "reput_seconds": seconds,
        **costs(rebuilds),
        "messages_per_second": round(shape.messages / seconds),
        "bytes_per_second": round(size / seconds),
    }


def _bytes_below(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def against_rocketmq(shape: Shape, runs: int) -> Row:
    """RocketMQ, ours, ours without the CRC check and ours on Spark, by turns; medians, and are the
    bytes the same?
    """
    store, output = make_store(shape), output_folder()
    ours(store, output)  # compiles the kernels
    shutil.rmtree(output)
    their_seconds, checking, not_checking, on_spark, same, written = [], [], [], [], True, 0
    for _ in range(runs):
        same_state(store)
        their_seconds.append(theirs(store).seconds)
        wanted = digests(store)
        remove_derived(store)  # or the log would no longer fit into the page cache
        for done, more, engine in (
            (checking, (), LOCAL), (not_checking, (NO_CHECK,), LOCAL), (on_spark, (), SPARK)
        ):  # fmt: skip
            same_state(store)
            done.append(ours(store, output, *more, engine=engine))
            same = same and digests(output) == wanted
            written = _bytes_below(output)
            shutil.rmtree(output)
    row = _ours_alone(shape, checking)
    unchecked = median([one.run.seconds for one in not_checking])
    rocketmq = median(their_seconds)
    return {
        **row,
        **against(rocketmq, row["reput_seconds"]),
        "no_check_seconds": unchecked,
        "no_check_ratio": round(rocketmq / unchecked, 2),
        "no_check_stages": median_stages(not_checking),
        **_on_spark(rocketmq, on_spark),
        "bare_work": bare_rebuild(store, shape.messages, written, runs),
        "same_bytes": same,
    }


def _on_spark(rocketmq: float, rebuilds: list[Rebuilt]) -> Row:
    seconds = median([one.run.seconds for one in rebuilds])
    return {
        "spark_seconds": seconds,
        "spark_ratio": round(rocketmq / seconds, 2),
        "spark_mib": max(one.run.all_mib for one in rebuilds),
    }


def usual(runs: int) -> Row:
    return against_rocketmq(USUAL, runs)


def large(runs: int) -> Row:
    return against_rocketmq(LARGE, runs)


def small_messages(runs: int) -> Row:
    return against_rocketmq(SMALL_MESSAGES, runs)


def large_bodies(runs: int) -> Row:
    return against_rocketmq(LARGE_BODIES, runs)


def skewed(runs: int) -> Row:
    """90% of the messages in one queue, all keys in one index file: are both cores busy?"""
    row = against_rocketmq(SKEWED, runs)
    store, output = make_store(SKEWED), output_folder()
    done = ours(store, output)
    shutil.rmtree(output)
    return {**row, "busy_cores": {name: round(done.busy(name), 2) for name in ("scan", "build")}}


def cores(runs: int, shape: Shape = USUAL) -> Row:
    """One core, the process tree pinned to it, against two: seconds of the scan and build.

    Beside them, a bare program that only moves the bytes, in one process and in two: what the
    machine's memory and disk leave to a second core.
    """
    store, output = make_store(shape), output_folder()
    one, two = [], []
    for _ in range(runs):
        same_state(store)
        one.append(ours(store, output, before=("taskset", "-c", "0")))
        same_state(store)
        two.append(ours(store, output))
    written = _bytes_below(output)
    shutil.rmtree(output)
    bare = [bare_rebuild(store, shape.messages, written, runs, count) for count in (1, 2)]
    first, second = (median([done.stages for done in made]) for made in (one, two))
    return {
        **_ours_alone(shape, one),
        "one_core_stages": first,
        "two_core_stages": second,
        "speed_up": round(first / second, 2),
        "bare_speed_up": round(bare[0] / bare[1], 2),
    }


def large_cores(runs: int) -> Row:
    return cores(runs, LARGE)


def cluster(runs: int) -> Row:
    """A standalone cluster of two one-core workers against local[2]: seconds of scan and build.

    Both by spark-submit and by turns, the second to fourth rebuild of an application: executors run
    by then. Beside them what queries of Spark's own take there and here (`benchmarks.submitted`):
    such that do nothing, and such that only read the log. By so much any job is slower.
    """
    store, output = make_store(USUAL), output_folder()
    made: list[tuple[Rebuilt, Rebuilt]] = []
    for _ in range(runs):
        same_state(store)
        with standalone() as url:
            there = submit(url, store, output, rebuilds=4)
        same_state(store)
        made.append((there, submit("local[2]", store, output, rebuilds=4)))
    shutil.rmtree(output)
    stages = [median([each[place].stages for each in made]) for place in (0, 1)]
    bare, work = (
        [median([each[place].said[name] for each in made]) for place in (0, 1)]
        for name in ("bare", "bare_work")
    )
    return {
        **USUAL._asdict(),
        "cluster_stages": stages[0],
        "local_stages": stages[1],
        "slower_percent": round(100 * (stages[0] / stages[1] - 1)),
        "cluster_bare": bare[0],
        "local_bare": bare[1],
        "cluster_bare_work": work[0],
        "local_bare_work": work[1],
    }


def tiny(runs: int) -> Row:
    """A store of 1 MB beside RocketMQ, ours on Spark, and a trivial job in a stock session."""
    store, output = make_store(TINY), output_folder()
    their_seconds, trivial, rebuilds, on_spark, bare = [], [], [], [], []
    for _ in range(runs):
        their_seconds.append(theirs(store).seconds)
        remove_derived(store)
        stock = {**os.environ, "PYSPARK_PYTHON": sys.executable}
        trivial.append(checked(run([sys.executable, "-c", TRIVIAL], stock)).seconds)
        rebuilds.append(ours(store, output))
        bare.append(checked(run([sys.executable, "-m", "benchmarks.bare_tiny"])).seconds)
        on_spark.append(ours(store, output, engine=SPARK))
    shutil.rmtree(output)
    row, rocketmq = _ours_alone(TINY, rebuilds), median(their_seconds)
    return {
        **row,
        **against(rocketmq, row["reput_seconds"]),
        **_on_spark(rocketmq, on_spark),
        "trivial_job_seconds": median(trivial),
        "bare_seconds": median(bare),
    }


def looks(runs: int) -> Row:
    """`check`, `verify` and `recover --dry-run` of the usual store with RocketMQ's own files: whole
    processes, on both engines.
    """
    store = make_store(USUAL)
    theirs(store)
    (store / "abort").unlink(missing_ok=True)
    row: Row = {**USUAL._asdict(), "log_bytes": log_bytes(store)}
    for word in ("check", "verify", "recover --dry-run"):
        for engine in ENGINES:
            seconds = []
            for _ in range(runs):
                same_state(store)
                seconds.append(look(word, store, engine).seconds)
            row[f"{word.split()[0]}_{engine}"] = median(seconds)
    remove_derived(store)
    return row


def around(runs: int, shape: Shape = USUAL) -> Row:
    """What else walks a log, beside `check`, and JSON lines out and in: whole processes by turns.

    Of each the seconds, the processor's seconds, messages for one of these, and the most memory of
    all its processes. report_of_check: processor's seconds.
    """
    store, folder = make_store(shape), output_folder()
    theirs(store)
    (store / "abort").unlink(missing_ok=True)
    folder.mkdir(exist_ok=True)
    lines, new = folder / "lines.jsonl", folder / "new"
    names = ("topic", "queue_id", "tags", "keys")
    with lines.open("w") as file:
        for message in map(numbered, range(shape.messages)):
            fields = {name: getattr(message, name) for name in names}
            body = message.body.decode().replace("\0", "x")  # as JSON has six bytes for a NUL
            file.write(json.dumps({**fields, "body": body}) + "\n")
    words = {
        "check": ["check", store],
        "report": ["report", store, "--output", folder / "page.html", "--replace"],
        **{name: [name, store] for name in ("stats", "delayed", "transactions")},
        **{f"{kind} out": ["export", store, "--as", kind, "--output", folder / kind, "--replace"]
           for kind in ("jsonl", "parquet")},
        "jsonl in": ["append", new, "--from", lines],
    }  # fmt: skip
    assert tuple(words) == AROUND
    made: dict[str, list[Run]] = {name: [] for name in words}
    for _ in range(runs):
        for name, each in words.items():
            same_state(store)
            shutil.rmtree(new, ignore_errors=True)
            command = [sys.executable, "-m", "reput", *map(str, each), "--rocketmq", RELEASE]
            made[name].append(checked(run(command)))
    shutil.rmtree(folder)
    remove_derived(store)
    row: Row = {**shape._asdict(), "log_bytes": log_bytes(store)}
    for name, done in made.items():
        cpu = median([one.cpu for one in done])
        row[name] = {
            "seconds": median([one.seconds for one in done]),
            "cpu": cpu,
            "messages_per_cpu": round(shape.messages / cpu),
            "mib": max(one.all_mib for one in done),
        }
    row["report_of_check"] = round(row["report"]["cpu"] / row["check"]["cpu"], 2)
    return row


ROWS: dict[str, Callable[[int], Row]] = {
    "usual": usual,
    "small messages": small_messages,
    "large bodies": large_bodies,
    "skewed": skewed,
    "one core": cores,
    "cluster": cluster,
    "in a session": in_session,
    "in RocksDB": in_rocksdb,
    "tiny": tiny,
    "looks": looks,
    "around": around,
    "installed by pip": installed,
    "a split more": a_split_more,
    "fewer queues": fewer_queues,
    "many queues": queues,
    "large": large,
    "large by cores": large_cores,
    "15 GB of large bodies": huge_bodies,
    "15 GB cold": cold_cache,
}
# What takes long, besides 50 GB of disk.
LONG = ("installed by pip", "a split more", "many queues", "large", "large by cores",
        "15 GB of large bodies", "15 GB cold", "fewer queues")  # fmt: skip
