"""Submitted by spark-submit: the same rebuild twice in one session.

Prints the stages of the second, and when it began and ended (seconds since 1970).
The first has executors start and workers load kernels, once for an application.
"""

import json
import shutil
import sys
import time

from pyspark.sql import SparkSession

from reput.jobs.rebuild import rebuild

if __name__ == "__main__":
    store, output, release = sys.argv[1:]
    spark = SparkSession.builder.getOrCreate()
    for _ in range(2):
        shutil.rmtree(output, ignore_errors=True)
        began = time.time()
        summary = rebuild(spark, store, output, rocketmq=release)
        ended = time.time()
    spark.stop()
    said = {"stages": summary.stages, "messages": summary.messages, "began": began, "ended": ended}
    print(json.dumps(said))
