"""Submitted by spark-submit: the same rebuild twice in one session; prints the second's stages.

The first has executors start and workers load kernels, once for an application.
"""

import json
import shutil
import sys

from pyspark.sql import SparkSession

from reput.jobs.rebuild import rebuild

if __name__ == "__main__":
    store, output, release = sys.argv[1:]
    spark = SparkSession.builder.getOrCreate()
    for _ in range(2):
        shutil.rmtree(output, ignore_errors=True)
        summary = rebuild(spark, store, output, rocketmq=release)
    spark.stop()
    print(json.dumps({"stages": summary.stages, "messages": summary.messages}))
