"""The log and its derived files as Spark data sources."""

from typing import TYPE_CHECKING

from reput.jobs.engines.spark import run_by_this_python, spark_cores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# ---
# `register`: makes the sources of reput known to a session by name.


def register(spark: "SparkSession") -> None:
    """Let `spark.read.format` read stores: "commitlog", "consumequeue" and "indexfile"; and
    `spark.readStream.format` follow them.
    """
    from reput.jobs.sources.derived_source import ConsumeQueueSource, IndexFileSource
    from reput.jobs.sources.log_source import CommitLogSource

    run_by_this_python(spark)
    known = {"cores": spark_cores(spark)}
    for source in (CommitLogSource, ConsumeQueueSource, IndexFileSource):
        spark.dataSource.register(type(source.__name__, (source,), known))
