"""Real jobs whose processes are killed, or run out of disk: the same bytes (Spark runs a task
again), or an error and nothing left (on this machine, where whoever killed one had a reason)."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
from pyspark import cloudpickle

from reput.jobs.engines.engine import Engine, EngineFailed
from reput.jobs.pipeline.pipeline import Cut
from reput.jobs.rebuild import rebuild
from reput.jobs.spark.java import find_java_home
from reput.store_format.storage.local import LocalStorage
from reput.store_format.storage.protocol import Writer
from reput.udfs.staging import ENTRIES, PLACED_TREE
from tests import golden_stores
from tests.in_process import as_text
from tests.rocketmq.judge import difference

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
# The workers have no tests: what is defined here goes to them whole.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

GOLDEN = "mixed_5.3.3"
# What a stage is the first to do with a file in staging.
STAGES = {
    "scan": ("create", "/scan-"),
    "number": ("read", ".runs"),
    "chain": ("create", "/chain-"),
    "small queues": ("place", PLACED_TREE),
    "queues": ("create", "/queue-"),
    "index": ("create", "/index-"),
}


class Killing(LocalStorage):
    """The first process that comes to a stage is killed; with `of`, its executor instead."""

    def __init__(self, stage: str, marker: str, of: str = "worker") -> None:
        super().__init__()
        self.what, self.name = STAGES[stage]
        self.marker, self.of, self.driver = marker, of, os.getpid()

    def create(self, path: str, digest: bool = False) -> Writer:
        if self.what == "create":
            self._maybe(path)
        return super().create(path, digest)

    def place(self, folder: str, path: str, content: bytes, length: int) -> bool:
        if self.what == "place":
            placed = super().place(folder, path, content, length)
            self._maybe(path)  # this file is there now, and no row will name it
            return placed
        return False  # each queue file is created, as where tasks run on other machines

    def read_bytes(self, path: str) -> bytes:
        if self.what == "read":
            self._maybe(path)
        return super().read_bytes(path)

    def _maybe(self, path: str) -> None:
        if self.name not in path or os.getpid() == self.driver:
            return
        try:
            os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        process = os.getpid()
        if self.of == "executor":
            process = executor_of(process)
        os.kill(process, signal.SIGKILL)
        time.sleep(60)


class Doubling(LocalStorage):
    """The first task that scans waits until another attempt at its split has begun.

    Spark then has a speculative duplicate of it: both run to their ends, or to Spark's kill.
    """

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder, self.driver = Path(folder), os.getpid()

    def create(self, path: str, digest: bool = False) -> Writer:
        if "/scan-" in path and path.endswith(ENTRIES) and os.getpid() != self.driver:
            self._attempt("-".join(Path(path).name.split("-")[:2]))
        return super().create(path, digest)

    def _attempt(self, split: str) -> None:
        first, doubled = self.folder / "first", self.folder / "doubled"
        try:
            with first.open("x") as file:
                file.write(split)
        except FileExistsError:
            if first.read_text() == split:
                doubled.touch()
            return
        for _ in range(1200):
            if doubled.exists():
                break
            time.sleep(0.1)


def executor_of(process: int) -> int:
    """The JVM that a Python worker belongs to: the first of its forebears that is one."""
    while "java" not in os.readlink(f"/proc/{process}/exe"):
        with open(f"/proc/{process}/stat") as about:
            process = int(about.read().rpartition(")")[2].split()[1])
    return process


def job(engine: Any, storage: LocalStorage, output: Path) -> None:
    store = golden_stores.unpack(GOLDEN)
    rebuild(
        engine, str(store.input), str(output), rocketmq=store.version,
        settings=as_text(store.settings), storage=storage, cut=Cut(1 << 16, 2, 3),
    )  # fmt: skip


def check(engine: Any, storage: LocalStorage, output: Path) -> None:
    job(engine, storage, output)
    assert difference(output, golden_stores.unpack(GOLDEN).expect) is None
    assert sorted(path.name for path in output.parent.iterdir()) == [output.name]


@pytest.mark.spark
@pytest.mark.parametrize(
    "stage",
    [s if "queues" in s else pytest.param(s, marks=pytest.mark.long) for s in STAGES],
)
def test_a_python_worker_is_killed(spark: "SparkSession", stage: str, tmp_path: Path) -> None:
    marker = tmp_path / "killed"
    (tmp_path / "sets").mkdir()
    check(spark, Killing(stage, str(marker)), tmp_path / "sets" / "output")
    assert marker.exists()


@pytest.mark.parametrize("stage", STAGES)
def test_a_worker_of_this_machine_is_killed(local: Engine, stage: str, tmp_path: Path) -> None:
    """The job fails by name, and leaves nothing; the next one on the same engine is done."""
    marker = tmp_path / "killed"
    (tmp_path / "sets").mkdir()
    with pytest.raises(EngineFailed, match="a worker process was killed"):
        job(local, Killing(stage, str(marker)), tmp_path / "sets" / "output")
    assert marker.exists()
    assert list((tmp_path / "sets").iterdir()) == []
    check(local, Killing(stage, str(marker)), tmp_path / "sets" / "output")


SCRIPT = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from tests.attack.test_kills import Doubling, Killing, check
what, folder = sys.argv[1], Path(sys.argv[2])
builder = SparkSession.builder.master(sys.argv[5])
for name, value in {
    "spark.speculation": str(what == "doubled").lower(), "spark.speculation.quantile": "0.1",
    "spark.speculation.multiplier": "1.1", "spark.speculation.minTaskRuntime": "100ms",
    "spark.ui.enabled": "false", "spark.executor.memory": "512m", "spark.driver.memory": "512m",
    "spark.testing.memory": "2000000000", "spark.driver.host": "127.0.0.1",
    "spark.executorEnv.PYTHONPATH": sys.argv[3], "spark.executorEnv.NUMBA_CACHE_DIR": sys.argv[4],
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
doubled = what == "doubled"
storage = (
    Doubling(str(folder)) if doubled else Killing(what, str(folder / "killed"), "executor")
)
check(spark, storage, folder / "sets" / "output")
spark.stop()
"""


def in_cluster(what: str, folder: Path, master: str = "local-cluster[2,1,1024]") -> None:
    """A job on two executors, each a JVM of its own."""
    (folder / "sets").mkdir()
    golden_stores.unpack(GOLDEN)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, what, str(folder), str(ROOT), str(folder / "numba"), master],
        cwd=ROOT, capture_output=True, text=True, timeout=600,
        env={
            **kept, "PYTHONPATH": str(ROOT), "JAVA_HOME": str(find_java_home().home),
            "SPARK_HOME": str(Path(pyspark.__file__).parent), "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable,
        },
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("stage", ["scan", "queues"])
def test_an_executor_is_killed(stage: str, tmp_path: Path) -> None:
    in_cluster(stage, tmp_path)
    assert (tmp_path / "killed").exists()


FULL = """
import json, sys
from pathlib import Path
from tests.jobs.outputs.test_leftovers import contents
from tests.attack.test_wrong_input import SETTINGS, messages, write
from tests.in_process import run
from tests.logs.encoder import build_log
store, disk = Path(sys.argv[1]), Path(sys.argv[2])
output = disk / "output"
def rebuild(count, **more):
    run(str(write(store / str(count), build_log(messages(count), 4096))), str(output),
        rocketmq="5.3.3", settings=SETTINGS, **more)
rebuild(30)
old, said = contents(output), []
import errno
for room in range(0, 400, 7):
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
    size = ballast.stat().st_size
    with ballast.open("r+b") as file:
        file.truncate(max(size - room * 4096, 0))
    try:
        rebuild(90 + room, replace=True)
        new = contents(output)
        assert new != old, "nothing was published"
        said.append("done")
        break
    except OSError as error:
        assert error.errno == errno.ENOSPC, error
        assert contents(output) == old
        assert sorted(p.name for p in disk.iterdir()) == ["ballast", "output"]
        said.append("full")
assert sorted(p.name for p in disk.iterdir()) == ["ballast", "output"]
print(json.dumps(said))
"""


def test_a_full_disk(tmp_path: Path) -> None:
    """A tmpfs of 4 MB with less and less ballast in it, in a mount namespace of our own."""
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "-rm", "true"], capture_output=True).returncode:
        pytest.skip("no unshare, or no user namespaces: nothing can be mounted here")
    disk = tmp_path / "disk"
    disk.mkdir()
    done = subprocess.run(
        [unshare, "-rm", "sh", "-c",
         'mount -t tmpfs -o size=4m none "$1" && exec "$2" -c "$3" "$4" "$1"',
         "sh", str(disk), sys.executable, FULL, str(tmp_path / "stores")],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    said: list[Any] = json.loads(done.stdout.splitlines()[-1])
    assert said.count("full") > 2
    assert said[-1] == "done"
