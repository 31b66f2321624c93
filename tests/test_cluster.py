"""A standalone cluster on loopback addresses, and reput submitted to it with its zip.

The workers' Python has what reput depends on, and nothing of reput."""

import json
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import golden_stores
from tests.attack.killing import in_cluster
from tests.clusters import ROOT, SMALL, SPARK_HOME, daemon, environment
from tests.golden_stores import GoldenStore
from tests.in_process import as_text
from tests.jobs.sources.reading import places
from tests.processes import run_words
from tests.rocketmq.judge import difference

# Each starts executors whose kernels are compiled anew, from the zip: half a minute and more.
pytestmark = [pytest.mark.spark, pytest.mark.long]

SITE_PACKAGES = SPARK_HOME.parent
# A cluster brings its own pyspark; .pth files point to this checkout.
NOT_ON_WORKERS = ("reput", "pyspark", "__editable__")


class Cluster(NamedTuple):
    url: str
    folder: Path  # of the workers' own files

    def executors(self) -> dict[str, int]:
        """How many executors each worker has started."""
        return {worker.name: sum(1 for app in worker.glob("app-*") for _ in app.iterdir())
                for worker in self.folder.iterdir()}  # fmt: skip


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with ExitStack() as stack:
        master = "org.apache.spark.deploy.master.Master"
        places = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        url = stack.enter_context(
            daemon(folder / "master", r"Starting Spark master at (spark://\S+)", master, *places)
        )
        for number in (2, 3):
            stack.enter_context(
                daemon(
                    folder / "workers" / str(number), r"Successfully registered with master (\S+)",
                    "org.apache.spark.deploy.worker.Worker",
                    *("--host", f"127.0.0.{number}", "--port", "0", "--webui-port", "0"),
                    *("--cores", "1", "--memory", "1g", "--work-dir", "."), url,
                )
            )  # fmt: skip
        for log in (folder / "workers").glob("*.log"):
            log.rename(folder / f"worker-{log.name}")
        yield Cluster(url, folder / "workers")


def python_without(folder: Path, *names: str) -> Path:
    """A Python that has what this one has, but for these packages."""
    venv.create(folder, symlinks=True)
    packages = next((folder / "lib").glob("python3.*")) / "site-packages"
    for path in SITE_PACKAGES.iterdir():
        if not path.name.startswith((*NOT_ON_WORKERS, *names)):
            (packages / path.name).symlink_to(path)
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def workers_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    python = python_without(tmp_path_factory.mktemp("python") / "env")
    program = "import numba, pyarrow, pandas\ntry: import reput\nexcept ImportError: print('none')"
    done = run_words(python, "-c", program, cwd=python.parent, env=environment())
    assert done.stdout == "none\n", done.stderr
    return python


def submit(
    cluster: Cluster, python: Path, store: GoldenStore, output: Path, *more: str
) -> subprocess.CompletedProcess[str]:
    settings = [word for name, value in store.settings.items()
                for word in ("--set", f"{name}={value}")]  # fmt: skip
    return run_words(
        str(ROOT / "spark-submit.sh"), "--master", cluster.url, *SMALL, "rebuild", str(store.input),
        "--output", str(output), "--rocketmq", store.version, "--json", *settings, *more,
        cwd=output.parent,
        env=environment(PYSPARK_PYTHON=str(python), PYSPARK_DRIVER_PYTHON=sys.executable),
        timeout=200,
    )  # fmt: skip


def said(done: subprocess.CompletedProcess[str]) -> str:
    """The error message. spark-submit puts the driver's standard error on standard output."""
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("reput: error: ")]
    return line


def test_a_cluster_rebuilds_the_same_bytes(cluster, workers_python, tmp_path) -> None:
    store = golden_stores.unpack("mixed_5.4.0")
    before = cluster.executors()
    done = submit(cluster, workers_python, store, tmp_path / "output")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["messages"] > 1000  # one object, and nothing else there
    assert difference(tmp_path / "output", store.expect) is None
    assert list(tmp_path.iterdir()) == [tmp_path / "output"]
    # both workers had executors for it
    after = cluster.executors()
    assert all(after[worker] > before[worker] for worker in ("2", "3"))


def test_a_worker_without_numba_says_so(cluster: Cluster, tmp_path, tmp_path_factory) -> None:
    python = python_without(tmp_path_factory.mktemp("bare") / "env", "numba", "llvmlite")
    done = submit(cluster, python, golden_stores.unpack("tiny_5.3.3"), tmp_path / "output")
    assert done.returncode == 3
    for word in ("no module 'numba'", str(python), "--archives"):
        assert word in said(done)
    assert not list(tmp_path.iterdir())


def test_a_speculative_duplicate_changes_nothing(cluster: Cluster, tmp_path: Path) -> None:
    """Spark starts a second copy of a slow task only on another host: 127.0.0.2, 127.0.0.3."""
    in_cluster("doubled", tmp_path, cluster.url)
    assert (tmp_path / "doubled").exists()


_SCRIPT = """
import json, sys
from pyspark.sql import SparkSession
import reput

def origins(batches):
    import os, sys
    import numba, pyarrow, reput.store_format.kernels.jit, reput.udfs.rebuild.scan
    from reput.store_format.files.private import cache_folder
    for batch in batches:
        modules = (reput.udfs.rebuild.scan, reput.store_format.kernels.jit, reput)
        yield pyarrow.RecordBatch.from_pydict({
            "python": [sys.executable], "cwd": [os.getcwd()],
            "files": [[module.__file__ for module in modules]],
            "cached": [cache_folder().path],
        })

store, damaged, made = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
schema = "python string, cwd string, files array<string>, cached string"
rows = spark.range(0, 4, 1, 4).mapInArrow(origins, schema).toArrow().to_pylist()
reput.register(spark)
log = spark.read.format("commitlog").option("columns", "topic,physicalOffset")
log = log.option("minPartitions", "4").load(store)
done = reput.export(
    spark, store, made + "/out", rocketmq="5.4.0", bodies=False, system_topics=True,
    redact=["property:UNIQ_KEY"],
)
found = sorted(row[1] for row in log.collect())
try:
    reput.rebuild(spark, damaged, made + "/set", rocketmq="5.3.3", settings=SETTINGS)
    said = ""
except reput.DamageFound as error:
    said = str(error)
open(made + "/said", "w").write(json.dumps([rows, found, done.messages, said]))
"""


def test_a_cluster_reads_the_log_as_a_table_and_names_damage_by_modules_of_the_zip(
    cluster: Cluster, workers_python: Path, tmp_path: Path
) -> None:
    store, damaged = golden_stores.unpack("mixed_5.4.0"), golden_stores.unpack("middle_crc_5.3.3")
    archive, script = tmp_path / "reput.zip", tmp_path / "script.py"
    subprocess.run([sys.executable, "scripts/make_zip.py", str(archive)], cwd=ROOT, check=True)
    script.write_text(f"SETTINGS = {as_text(damaged.settings)}\n{_SCRIPT}")
    done = run_words(
        str(SPARK_HOME / "bin" / "spark-submit"), "--master", cluster.url, *SMALL, "--py-files",
        str(archive), str(script), str(store.input), str(damaged.input), str(tmp_path),
        cwd=tmp_path,
        env=environment(PYSPARK_PYTHON=str(workers_python), PYSPARK_DRIVER_PYTHON=sys.executable),
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    rows, found, exported, damage = json.loads((tmp_path / "said").read_text())
    wanted = places(store.input, rocketmq="5.4.0")
    assert (found, exported) == (wanted, len(wanted))
    assert "offset 8248 (physical 270392)" in damage
    assert "bodyCRC does not match the body" in damage
    assert not (tmp_path / "set").exists()
    assert len(rows) == 4
    for row in rows:
        assert row["python"] == str(workers_python)
        assert Path(row["cwd"]).is_relative_to(cluster.folder)
        assert str(ROOT) not in "".join(row["files"])
        assert all("/reput.zip/" in file for file in row["files"]), row
        assert row["cached"]
