"""The log and its derived files as Spark data sources."""

from typing import TYPE_CHECKING

from reput.jobs.engines.spark import run_by_this_python, spark_cores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# ---
# `register`: makes the sources of reput known to a session by name.

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def register(spark: "SparkSession") -> None:
    """Let `spark.read.format` read stores: "commitlog", "consumequeue" and "indexfile"; and
    `spark.readStream.format("commitlog")`.

    Call it again where the session's spark.sql.python.filterPushdown.enabled changes: Spark refuses
    a source that takes filters where that is off.
    """
    from reput.jobs.sources.derived_source import ConsumeQueueSource, IndexFileSource
    from reput.jobs.sources.log_source import CommitLogSource

    run_by_this_python(spark)
    pushes = (spark.conf.get(_PUSHDOWN, "false") or "").lower() == "true"
    known = {"cores": spark_cores(spark), "pushes": pushes}
    for source in (CommitLogSource, ConsumeQueueSource, IndexFileSource):
        spark.dataSource.register(type(source.__name__, (source,), known))
