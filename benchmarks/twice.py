"""Submitted by spark-submit: the same rebuild twice in one session.

Prints the stages of the second, and when it began and ended (seconds since 1970).
The first has executors start and workers load kernels, once for an application. Last, the least
that a rebuild asks of Spark: two queries of a few tasks that do nothing (bare, seconds).
"""

import json
import shutil
import sys
import time

from pyspark.sql import SparkSession

from reput.jobs.rebuild import rebuild

_TASKS = 8  # as a scan of 2 GB has


def two_queries(spark: SparkSession) -> float:
    began = time.monotonic()
    for _ in range(2):
        rows = spark.range(0, _TASKS, 1, _TASKS)
        rows.mapInArrow(lambda batches: batches, "id long").toArrow()
    return time.monotonic() - began


if __name__ == "__main__":
    store, output, release = sys.argv[1:]
    spark = SparkSession.builder.getOrCreate()
    for _ in range(2):
        shutil.rmtree(output, ignore_errors=True)
        began = time.time()
        summary = rebuild(spark, store, output, rocketmq=release)
        ended = time.time()
    two_queries(spark)
    bare = two_queries(spark)
    spark.stop()
    said = {"stages": summary.stages, "messages": summary.messages, "began": began, "ended": ended}
    print(json.dumps({**said, "bare": bare}))
