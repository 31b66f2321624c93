"""`register`: has a session know the sources of reput by name."""

from typing import TYPE_CHECKING

from reput.jobs.engine.pipeline import spark_cores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def register(spark: "SparkSession") -> None:
    """Let `spark.read.format("commitlog")` and `spark.readStream` read stores.

    Call it again where the session's spark.sql.python.filterPushdown.enabled changes: Spark refuses
    a source that takes filters where that is off.
    """
    from reput.jobs.engine.log_source import CommitLogSource

    pushes = (spark.conf.get(_PUSHDOWN, "false") or "").lower() == "true"
    known = {"cores": spark_cores(spark), "pushes": pushes}
    for source in (CommitLogSource,):
        spark.dataSource.register(type(source.__name__, (source,), known))
