"""Jobs whose processes are killed, and the same job again."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from pyspark import cloudpickle

from reput.jobs.pipeline.pipeline import Cut
from reput.jobs.rebuild import rebuild
from reput.store_format.files.by_url import storage_for
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.private import cache_folder
from reput.store_format.files.protocol import Writer
from reput.udfs.staging import ENTRIES, PLACED_TREE
from tests import golden_stores
from tests.clusters import environment
from tests.in_process import as_text
from tests.rocketmq.judge import difference
from tests.store_format.files import battery

ROOT = Path(__file__).parents[2]
# The workers have no tests: what is defined here goes to them whole.
cloudpickle.register_pickle_by_value(sys.modules[__name__])
GOLDEN = "mixed_5.3.3"


# What a stage is the first to do with a file in staging.
STAGES = {"scan": ("create", "/scan-"), "number": ("read", ".runs"), "chain": ("create", "/chain-"),
          "small queues": ("place", PLACED_TREE), "queues": ("create", "/queue-"),
          "index": ("create", "/index-")}  # fmt: skip


class Kills:
    """Mixed into a storage: the first process that comes to a stage is killed; with `of`, its
    executor instead.
    """

    def __init__(self, stage: str, marker: str, of: str = "worker") -> None:
        super().__init__()
        self.what, self.name = STAGES[stage]
        self.marker, self.of, self.driver = marker, of, os.getpid()

    def create(self, path: str, digest: bool = False, published: bool = False) -> Writer:
        if self.what == "create":
            self._maybe(path)
        return super().create(path, digest, published)  # type: ignore[misc,no-any-return]

    def place(self, folder: str, path: str, content: bytes, length: int) -> bool:
        if self.what == "place":
            placed: bool = super().place(folder, path, content, length)  # type: ignore[misc]
            self._maybe(path)  # this file is there now, and no row will name it
            return placed
        return False  # each queue file is created, as where tasks run on other machines

    def read_bytes(self, path: str) -> bytes:
        if self.what == "read":
            self._maybe(path)
        return super().read_bytes(path)  # type: ignore[misc,no-any-return]

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


class Killing(Kills, LocalStorage):
    """On a local disk."""


def killing(url: str, stage: str, marker: str) -> Any:
    """A storage for a URL, on which the executor that comes first to a stage is killed."""
    there = type(storage_for(url))
    return type("KillingThere", (Kills, there), {"__module__": __name__})(
        stage, marker, "executor")  # fmt: skip


class Doubling(LocalStorage):
    """The first task that scans waits until another attempt at its split has begun.

    Spark then has a speculative duplicate of it: both run to their ends, or to Spark's kill.
    """

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder, self.driver = Path(folder), os.getpid()

    def create(self, path: str, digest: bool = False, published: bool = False) -> Writer:
        if "/scan-" in path and path.endswith(ENTRIES) and os.getpid() != self.driver:
            self._attempt("-".join(Path(path).name.split("-")[:2]))
        return super().create(path, digest, published)

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


def job(engine: Any, storage: Any, output: Path | str, store_at: str = "") -> None:
    store = golden_stores.unpack(GOLDEN)
    cut = Cut(1 << 18 if store_at else 1 << 16, 2, 3)  # there each task is many requests
    rebuild(engine, store_at or str(store.input), str(output), rocketmq=store.version,
            settings=as_text(store.settings), storage=storage, cut=cut)  # fmt: skip


def check(engine: Any, storage: LocalStorage, output: Path) -> None:
    job(engine, storage, output)
    assert difference(output, golden_stores.unpack(GOLDEN).expect) is None
    assert sorted(path.name for path in output.parent.iterdir()) == [output.name]


def check_there(engine: Any, stage: str, url: str, marker: str, to: Path) -> None:
    """As `check`, on another file system that has the store; an executor is killed once."""
    storage, sets = killing(url, stage, marker), f"{url}/{stage}"
    job(engine, storage, f"{sets}/output", f"{url}/store")
    assert difference(battery.download(storage, f"{sets}/output", to),
                      golden_stores.unpack(GOLDEN).expect) is None  # fmt: skip
    assert [each.name for each in storage.list(sets)] == ["output"]
    assert Path(marker).exists(), f"no executor was killed in {stage}"


SCRIPT = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from tests.attack.killing import Doubling, Killing, check, check_there
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
url, marker = sys.argv[6], str(folder / "killed")
for stage in what.split(",") if url else ():  # to start a cluster for each takes most of the time
    check_there(spark, stage, url, f"{marker}-{stage}", folder / f"downloaded-{stage}")
    print(stage, flush=True)
if not url:
    storage = Doubling(str(folder)) if what == "doubled" else Killing(what, marker, "executor")
    check(spark, storage, folder / "sets" / "output")
spark.stop()
"""


def in_cluster(what: str, folder: Path, master: str = "local-cluster[2,1,1024]",
               url: str = "") -> None:  # fmt: skip
    """A job on two executors, each a JVM of its own. url: of the folder with the store, if it is
    on another file system; then `what` may be several stages, with commas, a job each.
    """
    (folder / "sets").mkdir()
    golden_stores.unpack(GOLDEN)
    kernels = cache_folder().root  # this process'; to compile them took most of a job's time
    assert kernels
    done = subprocess.run([sys.executable, "-c", SCRIPT, what, str(folder), str(ROOT), kernels,
                           master, url], cwd=ROOT, capture_output=True, text=True, timeout=600,
                          env=environment(PYTHONPATH=str(ROOT), PYSPARK_PYTHON=sys.executable,
                                          PYSPARK_DRIVER_PYTHON=sys.executable))  # fmt: skip
    assert done.returncode == 0, f"after {done.stdout.split()}: {done.stderr[-4000:]}"
