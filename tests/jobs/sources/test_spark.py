"""The source in a real session: what only Spark can tell, in as few queries as that takes."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, InputPartition
from pyspark.sql.types import StructType

import reput
from reput.jobs.engines.spark import SparkEngine
from reput.jobs.exporting.delta import writer_of
from reput.store_format.release.settings import SettingError
from tests import golden_stores
from tests.damaged import damaged, messages
from tests.jobs.sources.reading import table, up_to, write
from tests.pages import ROOT, blocks
from tests.quiet.small_stores import made

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
KEEPS_FILTERS = ("4.2.0",)  # releases of Spark with the fault of decision 0030


@pytest.mark.long
def test_all_columns_arrive_as_they_are(spark: "SparkSession") -> None:
    store = golden_stores.unpack("small_odd_5.5.0").input
    reput.register(spark)
    frame = spark.read.format("commitlog").option("minPartitions", 3).load(str(store))
    found = frame.toArrow().sort_by("physicalOffset").to_pylist()
    assert found == table(store).to_pylist()
    assert frame.schema["body"].metadata["comment"].startswith("as it stands")
    kafka = spark.read.format("commitlog").option("schema", "kafka").load(str(store))
    first = kafka.selectExpr("CAST(key AS STRING)", "value", "partition", "offset", "headers")
    for row, native in zip(first.collect(), found, strict=True):
        assert row["key"] == (native["uniqueKey"] or dict(native["properties"]).get("KEYS"))
        assert (row["value"], row["partition"], row["offset"]) == (
            native["body"], native["queueId"], native["queueOffset"])  # fmt: skip
        assert [(h["key"], h["value"].decode()) for h in row["headers"]] == native["properties"]


def _ten_rows() -> type[DataSource]:
    """A source of ten rows that takes `a = N` from Spark; made here, so that workers get it too."""

    class Reader(DataSourceReader):
        wanted: Any = None

        def pushFilters(self, filters: list[Filter]) -> list[Filter]:
            self.wanted = next((f.value for f in filters if isinstance(f, EqualTo)), None)
            return filters

        def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
            yield from ((n,) for n in range(10) if self.wanted in (None, n))

        def partitions(self) -> list[InputPartition]:
            return [InputPartition(0)]

    class TenRows(DataSource):
        def schema(self) -> str:
            return "a int"

        def reader(self, schema: StructType) -> DataSourceReader:
            return Reader()

    return TenRows


def test_a_session_that_pushes_filters_changes_no_row(spark: "SparkSession", tmp_path) -> None:
    """Spark 4.2.0 keeps a query's filters for the next one of the same DataFrame: the probe of ten
    rows shows it. Once a release has it no more, decision 0030 is to be looked at again.
    """
    log = damaged(messages(60))
    store = write(log.log, tmp_path)
    spark.conf.set(_PUSHDOWN, "true")
    try:
        reput.register(spark)
        spark.dataSource.register(_ten_rows())
        probe = spark.read.format("TenRows").load()
        counted = [probe.where("a = 3").count(), probe.count()]
        columns = spark.read.format("commitlog").option("columns", "physicalOffset")
        frame = columns.load(str(store))
        few, rest = (f"physicalOffset {less} {log.places[3]}" for less in ("<", ">="))
        both = frame.where(few).unionAll(frame.where(rest))
        assert [both.count(), frame.where(few).count(), frame.count()] == [60, 3, 60]
        assert counted == [1, 1 if pyspark.__version__ in KEEPS_FILTERS else 10]
    finally:
        spark.conf.unset(_PUSHDOWN)


def test_a_session_without_delta_is_reported(spark: "SparkSession", capfd) -> None:
    with pytest.raises(SettingError, match="has no Delta; start it by spark-submit with"):
        writer_of("spark", SparkEngine(spark))
    assert "QueryContextLogger" not in capfd.readouterr().err  # PySpark's own line of the query


@pytest.mark.long
def test_a_stream_goes_on_from_its_checkpoint(spark: "SparkSession", tmp_path: Path) -> None:
    log = damaged(messages(60))
    store, out, checkpoint = tmp_path / "store", tmp_path / "out", tmp_path / "checkpoint"
    said: list[list[Any]] = []  # of each query, what its progress says of the source
    reput.register(spark)

    def run(checkpoint: Path) -> list[int]:
        frame = spark.readStream.format("commitlog").option("columns", "physicalOffset")
        frame = frame.option("maxOffsetsPerTrigger", "15")
        query = (
            frame.load(str(store)).writeStream.format("parquet").option("path", str(out))
            .option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        )  # fmt: skip
        query.awaitTermination()
        said.append([each["sources"][0] for each in query.recentProgress])
        return sorted(row[0] for row in spark.read.parquet(str(out)).collect())

    write(up_to(log, 20), store)
    assert run(checkpoint) == log.places[:20]
    end = log.places[20]
    assert [each["numInputRows"] for each in said[0]] == [15, 5]
    ends = [[json.loads(each[name])["physicalOffset"] for name in ("endOffset", "latestOffset")]
            for each in said[0]]  # fmt: skip
    assert ends == [[log.places[15], end], [end, end]]
    shutil.copytree(checkpoint, tmp_path / "early")
    write(log.log, store)
    assert run(checkpoint) == log.places
    (store / "commitlog" / f"{0:020d}").unlink()
    with pytest.raises(Exception, match="were deleted before they were read"):
        run(tmp_path / "early")


@pytest.mark.long
def test_queues_and_index_are_streams(spark: "SparkSession", tmp_path: Path) -> None:
    reput.register(spark)
    for first, count in ((0, 60), (60, 40)):
        store = made(tmp_path / "store", count, first)
        for kind, columns in (("consumequeue", ["topic", "queueId", "queueOffset"]),
                              ("indexfile", ["file", "entry"])):  # fmt: skip
            frame = spark.readStream.format(kind).option("maxOffsetsPerTrigger", "70")
            query = (frame.load(str(store)).writeStream.format("parquet")
                     .option("path", f"{tmp_path}/{kind}")
                     .option("checkpointLocation", f"{tmp_path}/checkpoint-{kind}")
                     .trigger(availableNow=True).start())  # fmt: skip
            query.awaitTermination()
            wanted = spark.read.format(kind).load(str(store)).orderBy(columns).collect()
            found = spark.read.parquet(f"{tmp_path}/{kind}").orderBy(columns).collect()
            assert found == wanted


def test_the_examples_of_the_page_run(spark: "SparkSession", tmp_path: Path) -> None:
    store = golden_stores.unpack("tiny_5.3.3").input
    names: dict[str, Any] = {
        "spark": spark, "store": str(store), "out": str(tmp_path / "out"),
        "checkpoint": str(tmp_path / "checkpoint"), "work": str(tmp_path / "work")}  # fmt: skip
    for code in blocks(ROOT / "docs" / "source.md", "python"):
        exec(code, names)
    assert spark.read.parquet(names["out"]).count() == table(store).num_rows
    names["out"] = str(tmp_path / "export")
    for code in blocks(ROOT / "docs" / "export.md", "python"):
        exec(code, names)
    exported = spark.read.parquet(f"{names['out']}/data")
    assert exported.where("topic != 'Topic1'").isEmpty()
    assert exported.count() == names["done"].messages > 0
