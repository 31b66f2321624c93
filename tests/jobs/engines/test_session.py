"""The session that a command runs on: silent, and gone without a trace."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reput.jobs.engines import session
from reput.jobs.engines.java import find_java_home
from reput.jobs.engines.session import local_cores, local_settings, retrying
from tests.processes import run_python

ROOT = Path(__file__).parents[3]

COMMAND = """
import sys
from reput.jobs.engines.session import SparkFailed, local_session

def rows(spark, fails=False):
    def task(batches):
        import pyarrow
        for batch in batches:
            if fails:
                raise ValueError("a task's own words")
            yield pyarrow.RecordBatch.from_pydict({"python": [sys.executable]})

    return spark.range(0, 2, 1, 2).mapInArrow(task, "python string").toArrow().to_pylist()

try:
    with local_session("local[1]") as spark:
        rows(spark, fails=True)
except SparkFailed as error:
    print("failed:", "a task's own words" in str(error))
# PySpark keeps the JVM of a session: the next one has its own
with local_session("local[2]") as spark:
    print(spark.conf.get("spark.master"), spark.conf.get("spark.sql.session.timeZone"))
    print({row["python"] for row in rows(spark)})
    print(spark.conf.get("spark.local.dir"))
"""


def run(tmp_path: Path) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "command.py"
    script.write_text(COMMAND)
    (tmp_path / "temporary").mkdir(exist_ok=True)
    return run_python(
        script, env={"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path / "temporary")}, cwd=tmp_path,
        timeout=120,
    )  # fmt: skip


def test_a_local_master_has_its_cores_and_tries_a_task_again() -> None:
    for master, becomes in [
        ("local", "local[1,4]"), ("local[3]", "local[3,4]"), ("local[*]", "local[*,4]"),
        ("local[2,1]", "local[2,1]"), ("local-cluster[2,1,1024]", "local-cluster[2,1,1024]"),
    ]:  # fmt: skip
        assert retrying(master) == becomes
    cores = [local_cores(master) for master in ("local", "local[3,4]", "local[*]")]
    assert cores == [1, 3, len(os.sched_getaffinity(0))]
    settings = local_settings("local[2]", "/f", over={"spark.ui.enabled": "true", "spark.x": "y"})
    assert (settings["spark.ui.enabled"], settings["spark.x"]) == ("true", "y")
    assert settings["spark.authenticate"] == "true"
    assert settings["spark.python.unix.domain.socket.dir"] == "/f"
    assert settings["spark.driver.bindAddress"] == settings["spark.driver.host"] == "127.0.0.1"


@pytest.mark.spark
@pytest.mark.long
def test_a_session_is_silent_and_leaves_nothing_also_after_one_that_failed(tmp_path: Path) -> None:
    """A failed task is reported in its own words."""
    done = run(tmp_path)
    assert done.stderr == ""
    failed, about, pythons, folder = done.stdout.splitlines()
    assert failed == "failed: True"
    assert (about, pythons) == ("local[2,4] UTC", str({sys.executable}))
    assert not Path(folder).exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["command.py", "temporary"]
    assert not list((tmp_path / "temporary").iterdir())


def test_what_is_asked_before_spark_starts_ends_all(monkeypatch: pytest.MonkeyPatch) -> None:
    class Asked(Exception):
        pass

    def asks() -> None:
        raise Asked

    monkeypatch.setattr(session, "_started", lambda *_: pytest.fail("Spark was started"))
    with pytest.raises(Asked), session.local_session(meanwhile=asks):
        pass


def test_what_a_jvm_says_before_it_ends_is_reported(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "WARNING: Using incubator modules: jdk.incubator.vector\n"
        "26/11/24 12:25:10 WARN NativeCodeLoader: Unable to load native-hadoop library\n"
        'Exception in thread "main" java.lang.RuntimeException: [unresolved dependency: x]\n'
        "\tat org.apache.spark.util.MavenUtils\n"
    )
    assert session._said(log).endswith("RuntimeException: [unresolved dependency: x]")
    assert session._said(tmp_path / "none") == "it said nothing"


PLAIN = """
import sys
import pyarrow as pa
from pyspark.sql import SparkSession
from reput.jobs.engines.spark import collect, run_in_tasks
from reput.udfs.staging import attempt_name

def task(batches):
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"name": [attempt_name("x")[:1] + sys.executable]})

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
frame = run_in_tasks(spark.range(0, 2, 1, 2), task, pa.schema([("name", pa.string())]))
print({row["name"] for row in collect(frame)})
"""


@pytest.mark.long
@pytest.mark.spark
def test_a_session_that_somebody_made_runs_workers_that_know_us(tmp_path: Path) -> None:
    """PATH's python3 has no udfs, nor does it know where they are."""
    env = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{PLAIN}"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], cwd=tmp_path, capture_output=True, text=True,
        env={**env, "PATH": "/usr/bin:/bin", "JAVA_HOME": str(find_java_home().home)}, timeout=600,
    )  # fmt: skip
    assert done.stdout.strip() == str({"x" + sys.executable}), done.stderr
    assert "No module named" not in done.stderr
