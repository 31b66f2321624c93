"""What the Spark engine asks of a session, and what it makes of its answers."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

import reput
from reput.jobs.engines.spark import SparkEngine, collect, described, doing_of
from reput.udfs.rebuild.carried import CARRIED_BYTES
from reput.udfs.staging import InTurn
from tests.jobs.engines.tasks import BATCHES, as_they_are, batch_sizes, with_bytes


class Conf(dict[str, str]):
    """A session's settings."""

    def set(self, name: str, value: str) -> None:
        self[name] = value

    def unset(self, name: str) -> None:
        self.pop(name, None)


def session(*stages: tuple[int, int], **conf: str) -> Any:
    """A session whose stages have so many tasks, and so many of them done."""
    infos = [SimpleNamespace(numTasks=tasks, numCompletedTasks=done) for tasks, done in stages]
    tracker = SimpleNamespace(
        getActiveStageIds=lambda: range(len(infos)), getStageInfo=infos.__getitem__
    )
    return SimpleNamespace(conf=Conf(conf), _sc=SimpleNamespace(statusTracker=lambda: tracker))


def test_the_share_of_tasks_that_are_done() -> None:
    assert SparkEngine(session((8, 6), (2, 0))).share_done() == 0.6
    assert SparkEngine(session()).share_done() is None  # between two stages
    connect: Any = SimpleNamespace(conf=Conf())
    assert SparkEngine(connect).share_done() is None


@pytest.mark.parametrize(
    ("conf", "cores", "most", "one_machine"),
    [
        ({"spark.master": "local[3]"}, 3, 3, True),
        ({"spark.master": "local"}, 1, 1, True),
        ({"spark.master": "spark://host:7077"}, 16, 128, False),
        ({"spark.master": "yarn", "spark.executor.instances": "100", "spark.executor.cores": "4"},
         400, 400, False),
        ({"spark.master": "local[2,4]"}, 2, 2, True),
        ({"spark.master": "local-cluster[2,4,1024]"}, 8, 8, True),
        ({"spark.master": "spark://host:7077", "spark.cores.max": "24"}, 24, 128, False),
        ({"spark.master": "yarn", "spark.executor.cores": "4", "spark.executor.instances": "2",
          "spark.dynamicAllocation.enabled": "true",
          "spark.dynamicAllocation.maxExecutors": "2000"}, 8000, 8000, False),
        ({"spark.master": "yarn", "spark.executor.instances": "many"}, 16, 128, False),
        ({"spark.default.parallelism": "5"}, 5, 128, False),  # Spark Connect
        ({}, 16, 128, False),
    ],
)  # fmt: skip
def test_how_many_tasks_run_at_once(conf, cores: int, most: int, one_machine: bool) -> None:
    engine = SparkEngine(session(**conf))
    assert (engine.cores, engine.most_cores, engine.one_machine) == (cores, most, one_machine)


@pytest.mark.parametrize("before", [None, "true"])
def test_another_attempt_may_give_other_rows(before: str | None) -> None:
    """Else Spark fails a job whose executor is lost with its shuffle files (the long test)."""
    name = "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch"
    spark, seen = session(**({name: before} if before else {})), []

    def rows() -> Any:
        seen.append(spark.conf.get(name))
        return SimpleNamespace(to_pylist=list)

    frame: Any = SimpleNamespace(sparkSession=spark, toArrow=rows)
    assert collect(frame) == []
    assert seen == ["false"]
    assert spark.conf.get(name) == before


def test_jobs_have_a_name_while_they_run() -> None:
    local, tags, seen = {"spark.job.description": "the user's"}, {"mine"}, []
    context = SimpleNamespace(getLocalProperty=local.get, setLocalProperty=local.__setitem__)
    spark: Any = SimpleNamespace(_sc=context, addTag=tags.add, removeTag=tags.discard)
    tasks = InTurn(((12, BuildShares()), (3, as_they_are)))  # type: ignore[arg-type]
    with described(spark, f"scan splits in 3 tasks, {doing_of(tasks)}"):
        seen = [dict(local), set(tags)]
    text = "reput: scan splits in 3 tasks, build shares (12), as they are (3)"
    tag = "reput-scan-splits-in-3-tasks-build-shares-12-as-they-are-3"
    assert seen == [{"spark.job.description": text}, {"mine", tag}]
    assert (local, tags) == ({"spark.job.description": "the user's"}, {"mine"})
    with described(SimpleNamespace(), "nothing that names can be given to"):
        pass


class BuildShares:
    """Named as a task is; its name says what it does."""


def test_spark_s_own_pages_show_them(spark: Any) -> None:
    engine = SparkEngine(spark)
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    rows = engine.numbers(range(5), 2).run(as_they_are, columns).by_key(3, ["id"], [])
    assert len(rows.run(as_they_are, columns).collect()) == 5
    queries = spark._jsparkSession.sharedState().statusStore().executionsList()
    last = queries.apply(queries.size() - 1).description()
    assert last == "reput: as they are in 2 tasks, as they are in 3 tasks"


def test_rows_with_bytes_arrive_in_batches_of_a_limited_size(spark: Any) -> None:
    """A task has 10,000 rows a batch at most, which would be 160 MB of the longest that travel."""
    most = "spark.sql.execution.arrow.maxBytesPerBatch"
    assert spark.conf.get(most) == f"{64 << 20}b"
    spark.conf.set(most, f"{64 * CARRIED_BYTES}b")
    try:
        engine = SparkEngine(spark)
        given = pa.schema([pa.field("id", pa.int64()), pa.field("carried", pa.binary())])
        rows = engine.numbers(range(1000), 1).run(with_bytes, given).by_key(1, ["id"], [])
        found = rows.run(batch_sizes, BATCHES).collect()
    finally:
        spark.conf.unset(most)
    assert sum(row["rows"] for row in found) == 1000
    assert max(row["rows"] for row in found) <= 65
    assert max(row["bytes"] for row in found) < 66 * CARRIED_BYTES


class ClosedConf:
    """A session's settings on serverless: no default helps (CONFIG_NOT_AVAILABLE)."""

    def _refuse(self, name: str, *_: str) -> str:
        raise AnalysisException(f"[CONFIG_NOT_AVAILABLE] Configuration {name} is not available.")

    get = set = unset = _refuse


def test_a_session_that_shows_no_settings() -> None:
    spark: Any = SimpleNamespace(conf=ClosedConf(), dataSource=Mock())
    engine = SparkEngine(spark)
    assert (engine.cores, engine.most_cores, engine.one_machine) == (16, 128, False)
    rows = SimpleNamespace(to_pylist=lambda: [{"n": 1}])
    frame: Any = SimpleNamespace(sparkSession=spark, toArrow=lambda: rows)
    assert collect(frame) == [{"n": 1}]
    reput.register(spark)
    names = [call.args[0].name() for call in spark.dataSource.register.call_args_list]
    assert names == ["commitlog", "consumequeue", "indexfile"]
