"""Give tasks to Spark and get few rows back; what a task raised about a store stays as it was."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from reput.jobs.spark.jvm import python_environment
from reput.store_format import faults
from reput.udfs.schemas import Task
from reput.udfs.settled import Settled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FULL_RETRY = "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch"
_RAISED = re.compile(r"reput\.store_format\.faults\.(\w+): (.*)")


def run_in_tasks(frame: "DataFrame", task: Task, columns: pa.Schema) -> "DataFrame":
    """What `task` makes of a frame's rows, partition by partition: rows with these columns."""
    from pyspark.sql.pandas.types import from_arrow_schema

    run_by_this_python(frame.sparkSession)
    # as a type, not as DDL: Spark's SQL parser takes 0.1 s for its first words
    return frame.mapInArrow(Settled(task), from_arrow_schema(columns))


def run_by_this_python(spark: Any) -> None:
    """Give this Python, and where our packages are, to the workers of a local session.

    PySpark runs them by PATH's python3 unless PYSPARK_PYTHON or the session's settings say
    otherwise, and that may know nothing of us: "No module named 'udfs'". On a cluster, what is
    there is its administrator's to say; Spark Connect has no context.
    """
    context = getattr(spark, "_sc", None)
    if context is None or not str(context.master).startswith("local["):
        return
    if context.pythonExec == sys.executable:  # asked first, as it costs nothing
        return
    # not SparkContext.getConf: it copies a hundred settings, each by two calls of the JVM
    if os.environ.get("PYSPARK_PYTHON") or spark.conf.get("spark.pyspark.python", None):
        return
    context.pythonExec = sys.executable
    ours = python_environment(context.environment)
    context.environment.update({name: ours[name] for name in ("PYTHONPATH", "PYTHONSAFEPATH")})


def collect(frame: "DataFrame") -> list[dict[str, Any]]:
    """All rows of a frame. Raises StoreError as the task did, else PySparkException."""
    with raised_in_tasks(), _attempts_may_differ(frame.sparkSession):
        return list(frame.toArrow().to_pylist())


@contextmanager
def raised_in_tasks() -> Iterator[None]:
    """Of what a task raises about a store, raise that: Spark has it in a text."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raised = _RAISED.search(str(error))
        kind = getattr(faults, raised[1], None) if raised else None
        if raised is None or kind is None:
            raise
        raise kind(raised[2]) from None


@contextmanager
def _attempts_may_differ(spark: "SparkSession") -> Iterator[None]:
    """Let Spark accept that a second attempt at a task gives other rows than the first one.

    Each attempt names files of its own in its rows; the files hold the same. If an executor is
    lost with its shuffle files, Spark (since 4.2) repeats its tasks, sees other rows, and runs all
    later stages again. It even fails the job if the last stage has given rows already.
    """
    from pyspark.errors import PySparkException

    try:
        before = spark.conf.get(_FULL_RETRY, None)
        spark.conf.set(_FULL_RETRY, "false")
    except PySparkException:  # somewhere nobody may set it
        yield
        return
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(_FULL_RETRY)
        else:
            spark.conf.set(_FULL_RETRY, before)
