"""Delta tables by Delta's own library in a Spark session: many machines, clustered tables.

A session has Delta on Databricks always, in a command's local session by LOCAL_SETTINGS, elsewhere
by delta-spark's jars and its two settings.
Nothing here uses the JVM directly, so Spark Connect works too.
"""

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from reput.jobs.engines.spark import collect, raised_in_tasks, run_in_tasks, spark_cores
from reput.jobs.exporting.chosen_log import ChosenLog
from reput.jobs.exporting.delta_table import CLUSTERED_BY, Commit, LastMessage, Range
from reput.jobs.sources.opened_log import cut
from reput.store_format.release.settings import SettingError
from reput.udfs.staging import Staging
from reput.udfs.table.columns import SCHEMA
from reput.udfs.table.export import (
    EXPORTED,
    SUMMED,
    WRONG,
    ChosenMessages,
    ExportParts,
    MessageSums,
    compare_bodies,
    sum_up,
)
from reput.udfs.table.log_parts import FAIL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"
SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
# Of the 33 jars that delta-spark asks for, Spark has most, and these tables need two.
_LEFT_OUT = (
    "com.*:*,org.*:*,javax.*:*,commons-*:*,io.airlift:*,io.unitycatalog:*,io.delta:delta-kernel-*"
)
# Spark fetches the jars once, from Maven Central into its own cache (~/.ivy2.5.2).
LOCAL_SETTINGS = {
    **SETTINGS,
    "spark.jars.packages": PACKAGE,
    "spark.jars.excludes": _LEFT_OUT,
    # By default Delta runs 50 tasks each time that it reads a table's log.
    "spark.databricks.delta.snapshotPartitions": "2",
    # Each message is a row, which takes several times as long without generated code.
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}
_COMMITS_LOOKED_AT = 1000  # ours is the newest commit, unless somebody ran OPTIMIZE or the like
_ADDED_UP = ("physicalOffset", "bodyCRC", "size")


class DeltaSpark:
    """A DeltaTables writer on a session."""

    counts_system = False  # its tasks read the messages

    def __init__(self, spark: "SparkSession") -> None:
        """Raises SettingError if the session has no Delta."""
        from pyspark.errors import PySparkException

        self.spark, self.errors = spark, (PySparkException,)
        try:
            with _unlogged():
                spark.sql("DESCRIBE DETAIL delta.`/`").collect()
        except PySparkException as error:
            if "DELTA_" not in str(error):
                confs = " ".join(f"--conf {name}={value}" for name, value in SETTINGS.items())
                raise SettingError(
                    f"--engine spark: this session has no Delta; start it by spark-submit with "
                    f"--packages {PACKAGE} {confs}"
                ) from None

    def description(self, path: str) -> str | None:
        """As in DeltaTables. Raises SettingError if the session cannot open the URL."""
        try:
            (about,) = self.spark.sql(f"DESCRIBE DETAIL {_named(path)}").collect()
        except Exception as error:  # of PySpark's classes, or of py4j or Connect
            if "[DELTA_" in str(error):  # DELTA_TABLE_NOT_FOUND, DELTA_MISSING_DELTA_TABLE, ...
                return None
            if "://" not in path:
                raise
            raise SettingError(
                f"--engine spark: this session does not open {path} ({_cause(str(error))}): "
                "docs/export.md says what its Hadoop needs; --engine local writes to s3://, "
                "gs:// and abfss:// without it"
            ) from None
        return about["description"] or ""

    def create(self, path: str, name: str, columns: pa.Schema, about: str) -> None:
        clustered = set(CLUSTERED_BY) <= set(columns.names)
        cluster = f" CLUSTER BY ({', '.join(CLUSTERED_BY)})" if clustered else ""
        self.spark.sql(
            f"CREATE TABLE {_named(path)} ({', '.join(_declared(columns))}) USING delta{cluster} "
            f"COMMENT {_quoted(about)} TBLPROPERTIES ('delta.appendOnly' = 'true')"
        )

    def committed(self, path: str, app: str) -> int | None:
        history = self.spark.sql(f"DESCRIBE HISTORY {_named(path)} LIMIT {_COMMITS_LOOKED_AT}")
        texts = [row[0] or "" for row in history.select("userMetadata").collect()]
        split = [text.rpartition(":") for text in texts]
        return max((int(end) for ours, _, end in split if ours == app), default=None)

    def add_messages(self, path: str, job: ChosenLog, which: Range, commit: Commit) -> list[str]:
        """As in DeltaTables. Raises the errors of reading the log, PySparkException."""
        parts = cut(
            job.log, which.start, which.end, spark_cores(self.spark), None, known=True
        )  # fmt: skip
        task = job.messages(False, tuple(parts))
        rows = run_in_tasks(self._numbers(len(parts)), task, job.chosen.columns)
        self._append(path, rows, commit)
        if job.chosen.on_damage == FAIL:
            return []  # nothing is ever left out
        added_up = ChosenMessages(
            job.log, task.parts, task.choice, task.wanted, _columns(_ADDED_UP)
        )
        work = ExportParts(added_up, "", Staging(job.target, job.folder))
        asked = collect(run_in_tasks(self._numbers(len(parts)), work, EXPORTED))
        return [note for row in sorted(asked, key=lambda row: row["part"]) for note in row["notes"]]

    def _numbers(self, count: int) -> "DataFrame":
        return self.spark.range(0, count, 1, max(count, 1))

    def add_row(self, path: str, row: pa.RecordBatch, commit: Commit) -> None:
        self._append(path, self.spark.createDataFrame(pa.Table.from_batches([row])), commit)

    def _append(self, path: str, rows: "DataFrame", commit: Commit) -> None:
        """Append rows. Delta skips a commit whose version is not above the last one of its app."""
        with raised_in_tasks():
            (
                rows.write.format("delta").mode("append")
                .option("txnAppId", commit.app).option("txnVersion", commit.version)
                .option("userMetadata", commit.text).save(path)
            )  # fmt: skip

    def rows(self, path: str) -> list[dict[str, Any]]:
        return collect(self.spark.read.format("delta").load(path))

    def sums(self, path: str, start: int, end: int) -> MessageSums:
        sums = MessageSums()
        for row in collect(run_in_tasks(self._read(path, _ADDED_UP, start, end), sum_up, SUMMED)):
            sums.join(MessageSums(**row))
        return sums

    def last(self, path: str, start: int, end: int) -> LastMessage | None:
        names = ("physicalOffset", "size", "bodyCRC")
        found = self._read(path, names, start, end).orderBy("physicalOffset", ascending=False)
        return next((LastMessage(*row) for row in found.limit(1).collect()), None)

    def wrong_bodies(self, path: str) -> Iterator[str]:
        rows = self._read(path, ("physicalOffset", "bodyCRC", "body"), 0, 1 << 62)
        for row in collect(run_in_tasks(rows, partial(compare_bodies, path), WRONG)):
            yield row["line"]

    def _read(self, path: str, names: Sequence[str], start: int, end: int) -> "DataFrame":
        there = self.spark.read.format("delta").load(path)
        return there.where(f"physicalOffset >= {start} AND physicalOffset < {end}").select(*names)


@contextmanager
def _unlogged() -> Iterator[None]:
    """Keep PySpark from logging a failed query, as here a failure may be the expected answer."""
    from pyspark.logger import PySparkLogger

    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


def _cause(text: str) -> str:
    """The root cause of a Java error with its trace, in one line."""
    reasons = re.findall(r"^(?:Caused by)?: ((?:[\w$]+\.)+[\w$]+(?:: .*)?)$", text, re.MULTILINE)
    return str(reasons[-1] if reasons else text.partition("\n")[0])


def _columns(names: Sequence[str]) -> pa.Schema:
    return pa.schema([SCHEMA.field(name) for name in names])


def _declared(columns: pa.Schema) -> Iterator[str]:
    """The declarations of the columns in SQL."""
    from pyspark.sql.pandas.types import from_arrow_type

    for field in columns:
        comment = (field.metadata or {}).get(b"comment", b"").decode()
        kind = from_arrow_type(field.type).simpleString()
        null = "" if field.nullable else " NOT NULL"
        yield f"{field.name} {kind}{null}" + (f" COMMENT {_quoted(comment)}" if comment else "")


def _named(path: str) -> str:
    return "delta.`{}`".format(path.replace("`", "``"))


def _quoted(text: str) -> str:
    return "'{}'".format(text.replace("\\", "\\\\").replace("'", "\\'"))
