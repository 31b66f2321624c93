"""Delta tables by delta-rs in this process, or by Delta's library in a Spark session."""

import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from queue import Empty, Queue
from threading import Thread
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from reput.jobs.engines.spark import collect, raised_in_tasks, run_in_tasks, spark_cores
from reput.jobs.exporting.chosen import ChosenLog
from reput.jobs.exporting.delta_table import (
    ABOUT,
    APPEND_ONLY,
    CLUSTERED_BY,
    Commit,
    LastMessage,
    Range,
)
from reput.jobs.sources.opened_log import cut
from reput.store_format.faults import StoreChanged, StoreError
from reput.store_format.release.settings import SettingError
from reput.udfs.staging import Staging
from reput.udfs.table.columns import SCHEMA
from reput.udfs.table.export import (
    EXPORTED,
    LEFT,
    SUMMED,
    WRONG,
    ChosenMessages,
    CountLeft,
    ExportParts,
    MessageSums,
    compare_bodies,
    sum_up,
    wrong_bodies,
)
from reput.udfs.table.log_parts import FAIL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# ---
# Delta tables by delta-rs (package deltalake), in this process, without Spark or Java.
#
# Tables are on a local disk, or at a URL that delta-rs supports. It takes credentials from the
# environment, as store_format/files does.

_ROWS_A_GROUP = 1 << 17
_FILE_BYTES = 128 << 20
# delta-rs accepts further schemes, but then writes to another host than the URL names.
_SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss")


class DeltaRs:
    """A DeltaTables writer. Each table is opened once."""

    errors = (DeltaError, pa.ArrowException, OSError)

    def __init__(self) -> None:
        self._tables: dict[str, DeltaTable] = {}

    def about(self, path: str) -> str | None:
        """As DeltaTables. Raises SettingError for a URL that delta-rs does not write to."""
        scheme, apart, _ = path.partition("://")
        if apart and scheme not in _SCHEMES:
            raise SettingError(
                f"--as delta: deltalake does not write to {scheme}://, but to s3://, gs:// and "
                "abfss://; --engine spark does where its Hadoop knows it"
            )
        if path not in self._tables and not DeltaTable.is_deltatable(path, _storage()):
            return None
        said = self._open(path).metadata()
        return said.configuration.get(ABOUT) or said.description or ""

    def _open(self, path: str) -> DeltaTable:
        if path not in self._tables:
            self._tables[path] = DeltaTable(path, storage_options=_storage())
        return self._tables[path]

    def create(self, path: str, columns: pa.Schema, about: str) -> None:
        """Make an empty table, without clusters, which delta-rs cannot make."""
        with _alone(path):
            self._tables[path] = DeltaTable.create(
                path, columns, configuration={APPEND_ONLY: "true", ABOUT: about},
                storage_options=_storage(), raise_if_key_not_exists=False,
            )  # fmt: skip

    def committed(self, path: str, app: str) -> int | None:
        return self._open(path).transaction_version(app)

    def add_messages(self, path: str, job: ChosenLog, which: Range, commit: Commit) -> list[str]:
        """Add a range's messages in one commit, and return notes. Raises StoreError, DeltaError,
        and what reading the log raises.
        """
        notes: list[str] = []
        raised: list[Exception] = []

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                yield from job.batches(which.start, which.end, notes, raw=False)
            except Exception as error:
                raised.append(error)  # delta-rs turns it into a text
                raise

        try:
            self._append(path, batches(), job.chosen.columns, commit)
        except DeltaError:
            if raised:
                raise raised[0] from None
            raise
        return notes

    def add_row(self, path: str, row: pa.RecordBatch, commit: Commit) -> None:
        self._append(path, iter([row]), row.schema, commit)

    def _append(
        self, path: str, batches: Iterator[pa.RecordBatch], columns: pa.Schema, commit: Commit
    ) -> None:
        table = self._open(path)
        features = table.protocol().writer_features or []
        if "clustering" in features:
            raise StoreError(f"{path}: is clustered, so that only --engine spark adds to it")
        with _alone(path):
            write_deltalake(
                table, pa.RecordBatchReader.from_batches(columns, batches), mode="append",
                commit_properties=CommitProperties(
                    app_transactions=[Transaction(*commit)],
                    custom_metadata={"userMetadata": commit.text},
                ),
                writer_properties=WriterProperties(
                    max_row_group_size=_ROWS_A_GROUP, compression="SNAPPY"
                ),
                target_file_size=_FILE_BYTES,
            )  # fmt: skip
        table.update_incremental()

    def rows(self, path: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._open(path).to_pyarrow_table().to_pylist()
        return found

    def sums(self, path: str, start: int, end: int) -> MessageSums:
        sums = MessageSums()
        for batch in self._batches(path, ["physicalOffset", "bodyCRC", "size"], start, end):
            sums.add(batch)
        return sums

    def last(self, path: str, start: int, end: int) -> LastMessage | None:
        found = None
        for batch in self._batches(path, ["physicalOffset", "size", "bodyCRC"], start, end):
            for row in batch.sort_by("physicalOffset").slice(max(len(batch) - 1, 0)).to_pylist():
                found = max(found or LastMessage(-1, 0, 0), LastMessage(*row.values()))
        return found

    def wrong_bodies(self, path: str) -> Iterator[str]:
        for batch in self._batches(path, ["physicalOffset", "bodyCRC", "body"], 0, 1 << 62):
            yield from wrong_bodies(path, batch)

    def _batches(
        self, path: str, names: list[str], start: int, end: int
    ) -> Iterator[pa.RecordBatch]:
        place = pc.field("physicalOffset")
        within = (place >= start) & (place < end)
        there = self._open(path).to_pyarrow_dataset()
        yield from there.to_batches(columns=names, filter=within, batch_size=1 << 16)


@contextmanager
def _alone(path: str) -> Iterator[None]:
    """Raise StoreChanged where another export has written to a table at the same time."""
    try:
        yield
    except DeltaError as error:
        meanwhile = isinstance(error, CommitFailedError) or "already exists" in str(error)
        if not meanwhile:
            raise
        raise StoreChanged(
            f"{path}: another process has written to the table meanwhile; what this run began is "
            "not in it: run it again, it adds what is new once"
        ) from None


def _storage() -> dict[str, str]:
    """Options of delta-rs that it does not read from the environment itself."""
    named = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    options = {"AWS_ENDPOINT_URL": named} if named else {}
    if named.startswith("http://"):
        options["AWS_ALLOW_HTTP"] = "true"
    return options


# ---
# Delta tables by Delta's own library in a Spark session: many machines, clustered tables.
#
# A session has Delta on Databricks always, in a command's local session by LOCAL_SETTINGS,
# elsewhere by delta-spark's jars and its two settings. Nothing here uses the JVM directly, so Spark
# Connect works too.

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
_ANSWER_S = 60  # for what Spark has seen by then
_COMMITS_LOOKED_AT = 100  # ours is the newest commit, unless somebody ran OPTIMIZE or the like
_ADDED_UP = ("physicalOffset", "bodyCRC", "size")


class DeltaSpark:
    """A DeltaTables writer on a session."""

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

    def about(self, path: str) -> str | None:
        """As DeltaTables. Raises SettingError if the session cannot open the URL."""
        try:
            (said,) = self.spark.sql(f"DESCRIBE DETAIL {_named(path)}").collect()
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
        return said["properties"].get(ABOUT) or said["description"] or ""

    def create(self, path: str, columns: pa.Schema, about: str) -> None:
        clustered = set(CLUSTERED_BY) <= set(columns.names)
        cluster = f" CLUSTER BY ({', '.join(CLUSTERED_BY)})" if clustered else ""
        self.spark.sql(
            f"CREATE TABLE {_named(path)} ({', '.join(_declared(columns))}) USING delta{cluster} "
            f"TBLPROPERTIES ('{APPEND_ONLY}' = 'true', '{ABOUT}' = {_quoted(about)})"
        )

    def committed(self, path: str, app: str) -> int | None:
        for limit in (f" LIMIT {_COMMITS_LOOKED_AT}", ""):
            history = self.spark.sql(f"DESCRIBE HISTORY {_named(path)}{limit}")
            texts = [row[0] or "" for row in history.select("userMetadata").collect()]
            split = [text.rpartition(":") for text in texts]
            found = max((int(end) for ours, _, end in split if ours == app), default=None)
            if found is not None or len(texts) < _COMMITS_LOOKED_AT:
                break
        return found

    def add_messages(self, path: str, job: ChosenLog, which: Range, commit: Commit) -> list[str]:
        """Add a range's messages in one commit, and return notes. Raises PySparkException, and what
        reading the log raises.
        """
        parts = cut(
            job.log, which.start, which.end, spark_cores(self.spark), None, known=True
        )  # fmt: skip
        task = job.messages(False, tuple(parts))
        numbers = self._numbers(len(parts))
        if job.chosen.with_system:
            self._append(path, run_in_tasks(numbers, task, job.chosen.columns), commit)
        else:
            job.leave(self._add_and_count(path, numbers, CountLeft(task), commit))
        if job.chosen.on_damage == FAIL:
            return []  # nothing is ever left out
        added_up = ChosenMessages(
            job.log, task.parts, task.choice, task.wanted, _columns(_ADDED_UP)
        )
        work = ExportParts(added_up, "", Staging(job.target, job.folder))
        asked = collect(run_in_tasks(numbers, work, EXPORTED))
        return [note for row in sorted(asked, key=lambda row: row["part"]) for note in row["notes"]]

    def _add_and_count(
        self, path: str, numbers: "DataFrame", task: CountLeft, commit: Commit
    ) -> int | None:
        """Append a task's rows; how many messages it left out, None where Spark does not say."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        seen = Observation()
        rows = run_in_tasks(numbers, task, task.columns).observe(seen, f.sum(LEFT).alias(LEFT))
        self._append(path, rows.where(f.col(LEFT).isNull()).drop(LEFT), commit)
        said: Queue[int | None] = Queue()
        # Without an answer it would wait for ever: Delta runs nothing for a commit it has already.
        Thread(target=lambda: said.put(seen.get.get(LEFT)), daemon=True).start()
        try:
            return said.get(timeout=_ANSWER_S)
        except Empty:
            return None

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
