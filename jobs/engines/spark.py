"""The Spark engine: DataFrames of a session. A task's StoreError is raised again as it was.

It uses the DataFrame API only, so that the same queries run by spark-submit, on Spark Connect and
on serverless. Rows with places of bytes cross a shuffle, and of bytes only those of short runs.
"""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from reput.jobs.engines.engine import Engine, TaskRows
from reput.jobs.engines.folders import our_packages
from reput.store_format import faults
from reput.udfs.staging import InTurn, Task
from reput.udfs.worker_garbage import Settled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FULL_RETRY = "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch"
_DESCRIPTION = "spark.job.description"
_RAISED = re.compile(r"reput\.store_format\.faults\.(\w+): (.*)")
_GONE = re.compile(r"^FileNotFoundError: \[Errno 2\] [^:\n]*: (['\"])(.+)\1$", re.M)
# local, local[4], local[*,2], local-cluster[2,4,1024]
_LOCAL = re.compile(r"local(?:-cluster)?(?:\[(\d+|\*)(?:,(\d+),\d+|,\d+)?\])?$")
# Where settings show no cores: so many, and perhaps more, which then need tasks too.
_CORES_THERE_ARE, _CORES_THERE_MAY_BE = 16, 128


class SparkEngine(Engine):
    def __init__(self, spark: "SparkSession") -> None:
        self.spark = spark
        self.cores = spark_cores(spark)
        # Whether all tasks run on the driver's machine, as far as the session's settings show.
        self.one_machine = setting_of(spark, "spark.master").startswith("local")
        self.most_cores = self.cores if self.one_machine else max(self.cores, _CORES_THERE_MAY_BE)

    def numbers(self, numbers: range, parts: int | None = None) -> "SparkRows":
        parts = max(1, min(len(numbers), parts or len(numbers)))
        rows = self.spark.range(numbers.start, numbers.stop, 1, parts)
        return SparkRows(rows, parts)

    def table(self, rows: pa.Table, parts: int) -> "SparkRows":
        return SparkRows(self.spark.createDataFrame(rows).repartition(parts), parts)

    def share_done(self) -> float | None:
        """The share of tasks that are done; None on Spark Connect, and between two stages."""
        context = getattr(self.spark, "_sc", None)
        if context is None:
            return None
        with suppress(Exception):  # the JVM may be gone, which the waiting query reports
            tracker = context.statusTracker()
            stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
            tasks = sum(stage.numTasks for stage in stages if stage)
            done = sum(stage.numCompletedTasks for stage in stages if stage)
            return done / tasks if tasks else None
        return None


@dataclass(frozen=True)
class SparkRows(TaskRows):
    frame: "DataFrame"
    parts: int  # 0: as the tasks before
    doing: tuple[str, ...] = ()  # what its tasks do, for Spark's UI

    def run(self, task: Task, columns: pa.Schema) -> "SparkRows":
        tasks = f" in {self.parts:,} tasks" if self.parts else ""
        doing = (*self.doing, doing_of(task) + tasks)
        return SparkRows(run_in_tasks(self.frame, task, columns), 0, doing)

    def by_key(self, parts: int, key: Sequence[str], order: Sequence[str]) -> "SparkRows":
        shared = self.frame.repartition(parts, *key)
        return replace(self, frame=shared.sortWithinPartitions(*key, *order), parts=parts)

    def also(self, other: TaskRows) -> "SparkRows":
        assert isinstance(other, SparkRows)
        both = (*self.doing, *other.doing)
        return SparkRows(self.frame.unionByName(other.frame), 0, both)

    def extremes(
        self, key: Sequence[str], greatest: Sequence[str] = (), least: Sequence[str] = ()
    ) -> "SparkRows":
        from pyspark.sql import functions as f

        asked = [f.max(name).alias(name) for name in greatest]
        asked += [f.min(name).alias(name) for name in least]
        return replace(self, frame=self.frame.groupBy(*key).agg(*asked))

    def as_table(self) -> pa.Table:
        """Run the plan and return its rows. Raises a task's own errors, else PySparkException."""
        with described(self.frame.sparkSession, ", ".join(self.doing)):
            return table_of(self.frame)


def doing_of(task: Task) -> str:
    """What a task does, by its name: "scan splits" is ScanSplits'."""
    if isinstance(task, InTurn):
        return ", ".join(f"{doing_of(each)} ({count:,})" for count, each in task.tasks)
    name = getattr(task, "__name__", type(task).__name__)
    return re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", name).lower()


@contextmanager
def described(spark: Any, doing: str) -> Iterator[None]:
    """Name the jobs of the block in Spark's UI. A tag has the name on Connect too, where none has
    a description; it ends with the block.
    """
    text = f"reput: {doing}"
    tag = re.sub(r"[^\w-]+", "-", text).strip("-")
    context = getattr(spark, "_sc", None)
    before = context.getLocalProperty(_DESCRIPTION) if context is not None else None
    try:
        with suppress(Exception):  # a name is not worth a failure: sessions may refuse it
            spark.addTag(tag)
            if context is not None:
                context.setLocalProperty(_DESCRIPTION, text)
        yield
    finally:
        with suppress(Exception):
            spark.removeTag(tag)
            if context is not None:
                context.setLocalProperty(_DESCRIPTION, before)


def run_in_tasks(frame: "DataFrame", task: Task, columns: pa.Schema) -> "DataFrame":
    """The rows that `task` makes from a frame's rows, by partition, with these columns."""
    from pyspark.sql.pandas.types import from_arrow_schema

    run_by_this_python(frame.sparkSession)
    # as a type, not as DDL: Spark's SQL parser takes 0.1 s for its first words
    return frame.mapInArrow(Settled(task), from_arrow_schema(columns))


def run_by_this_python(spark: Any) -> None:
    """Give this Python and the path of our packages to the workers of a local session.

    Without PYSPARK_PYTHON or a setting PySpark runs workers by PATH's python3, which may not find
    our packages: "No module named 'udfs'". On a cluster the administrator decides; Spark Connect
    has no context.
    """
    context = getattr(spark, "_sc", None)
    if context is None or not str(context.master).startswith("local["):
        return
    if context.pythonExec == sys.executable:  # checked first, as it costs nothing
        return
    # SparkContext.getConf would copy a hundred settings, each by two calls of the JVM
    if os.environ.get("PYSPARK_PYTHON") or setting_of(spark, "spark.pyspark.python"):
        return
    context.pythonExec = sys.executable
    context.environment.update(our_packages(context.environment))


def collect(frame: "DataFrame") -> list[dict[str, Any]]:
    """All rows of a frame. Raises as `table_of`."""
    return list(table_of(frame).to_pylist())


def table_of(frame: "DataFrame") -> pa.Table:
    """All rows of a frame. Raises a task's StoreError, else PySparkException."""
    with raised_in_tasks(), _attempts_may_differ(frame.sparkSession):
        return frame.toArrow()


@contextmanager
def raised_in_tasks() -> Iterator[None]:
    """Raise a task's StoreError, which Spark only has as a text in its own exception."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raised = _RAISED.search(str(error))
        kind = getattr(faults, raised[1], None) if raised else None
        if raised is not None and kind is not None:
            raise kind(raised[2]) from None
        if gone := _GONE.search(str(error)):
            raise faults.StoreChanged(f"{gone[2]}{faults.IS_GONE}") from None
        raise


@contextmanager
def _attempts_may_differ(spark: "SparkSession") -> Iterator[None]:
    """Let Spark accept that a second attempt at a task gives other rows than the first attempt.

    The rows of each attempt name files of its own, with the same content. If an executor is lost
    with its shuffle files, Spark (since 4.2) repeats its tasks, sees other rows, and runs all later
    stages again. It even fails the job if the last stage has given rows already.
    """
    from pyspark.errors import PySparkException

    before = setting_of(spark, _FULL_RETRY)
    try:
        spark.conf.set(_FULL_RETRY, "false")
    except PySparkException:  # the session does not allow this setting
        yield
        return
    try:
        yield
    finally:
        if before:
            spark.conf.set(_FULL_RETRY, before)
        else:
            spark.conf.unset(_FULL_RETRY)


def setting_of(spark: Any, name: str) -> str:
    """A session's setting; "" where it is not set, or where the session shows nobody its settings:
    serverless raises CONFIG_NOT_AVAILABLE for most of them, also where a default is given.
    """
    from pyspark.errors import PySparkException

    try:
        return spark.conf.get(name, "") or ""
    except PySparkException:
        return ""


def spark_cores(spark: "SparkSession") -> int:
    """The number of tasks that run at once, as far as the session's settings show it. It is only a
    floor: stages are sized by their data.
    """

    def number(name: str) -> int:
        said = setting_of(spark, name)
        return int(said) if said.isdecimal() else 0

    master = setting_of(spark, "spark.master")
    if known := number("spark.default.parallelism"):
        return known
    if found := _LOCAL.match(master):
        threads, cores = found[1] or "1", found[2] or "1"
        return (len(os.sched_getaffinity(0)) if threads == "*" else int(threads)) * int(cores)
    executors = number("spark.executor.instances")
    if setting_of(spark, "spark.dynamicAllocation.enabled") == "true":
        executors = max(executors, number("spark.dynamicAllocation.maxExecutors"))
    at_most = executors * (number("spark.executor.cores") or 1)
    return number("spark.cores.max") or at_most or _CORES_THERE_ARE
