"""Submitted by spark-submit: STORE OUTPUT RELEASE REBUILDS, so many rebuilds in one session.

The first has executors start and workers load kernels, once for an application, and is not counted.
Prints the median stages of the others, and when the last began and ended (seconds since 1970).
After each of them two plain queries of Spark's own, in medians (seconds): `bare`, tasks that do
nothing, the least that a rebuild asks of Spark; `bare_work`, as many tasks as a rebuild of 2 GB
has, each query's of which read the log and take CRCs. What a cluster takes longer for these it
takes without reput.
"""

import json
import os
import shutil
import statistics
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from reput.jobs.rebuild import rebuild

_TASKS = (8, 3)  # of the scan and of the build
_WINDOW = 2 << 20


def share_read(paths: list[str], tasks: int, batches: Iterator[Any]) -> Iterator[Any]:
    """Read task `id`'s share of each file, and take its CRC."""
    buffer = bytearray(_WINDOW)
    for batch in batches:
        for task in batch.column(0).to_pylist():
            for path in paths:
                with open(path, "rb", buffering=0) as file:
                    length = os.fstat(file.fileno()).st_blocks * 512 // tasks
                    file.seek(task * length)
                    for _ in range(0, length, _WINDOW):
                        file.readinto(buffer)
                        zlib.crc32(buffer)
        yield batch


def two_queries(spark: SparkSession, work: Callable[[int], Callable[..., Any]]) -> float:
    began = time.monotonic()
    for tasks in _TASKS:
        rows = spark.range(0, tasks, 1, tasks)
        rows.mapInArrow(work(tasks), "id long").toArrow()
    return time.monotonic() - began


def main() -> None:
    store, output, release, count = sys.argv[1:]
    log = sorted(str(path) for path in (Path(store) / "commitlog").iterdir())
    spark = SparkSession.builder.getOrCreate()
    stages: list[dict[str, float]] = []
    bare, bare_work = [], []
    for number in range(int(count)):
        shutil.rmtree(output, ignore_errors=True)
        began = time.time()
        summary = rebuild(spark, store, output, rocketmq=release)
        ended = time.time()
        for seconds, work in (
            (bare, lambda _: lambda batches: batches),
            (bare_work, lambda tasks: partial(share_read, log, tasks)),
        ):
            taken = two_queries(spark, work)
            if number:
                seconds.append(taken)
        if number:
            stages.append(summary.stages)
    spark.stop()
    print(json.dumps({
        "stages": {name: statistics.median([each[name] for each in stages]) for name in stages[0]},
        "messages": summary.messages,
        "began": began,
        "ended": ended,
        "bare": statistics.median(bare),
        "bare_work": statistics.median(bare_work),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
