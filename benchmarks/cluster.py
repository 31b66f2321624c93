"""A standalone cluster of two one-core workers on this machine, and rebuilds submitted to it."""

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.process_tree import run
from benchmarks.stores import RELEASE, Rebuilt, checked, said
from tests.test_cluster import ROOT, SMALL, daemon, environment

Submit = Callable[[Path, Path], Rebuilt]


@contextmanager
def on_a_cluster() -> Iterator[Submit]:
    """Yields a function that rebuilds a store into an output folder on the cluster."""
    folder = Path(tempfile.mkdtemp(prefix="reput-cluster-"))
    try:
        with ExitStack() as stack:
            places = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
            master = ("org.apache.spark.deploy.master.Master", *places)
            url = stack.enter_context(
                daemon(folder / "master", r"Starting Spark master at (spark://\S+)", *master)
            )
            for number in ("2", "3"):
                words = ("--host", f"127.0.0.{number}", "--port", "0", "--webui-port", "0",
                         "--cores", "1", "--memory", "1g", "--work-dir", ".", url)  # fmt: skip
                worker = ("org.apache.spark.deploy.worker.Worker", *words)
                says = r"Successfully registered with master (\S+)"
                stack.enter_context(daemon(folder / number, says, *worker))
            yield lambda store, output: _submit(url, store, output)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _submit(url: str, store: Path, output: Path) -> Rebuilt:
    shutil.rmtree(output, ignore_errors=True)
    words = ["rebuild", str(store), "--output", str(output), "--rocketmq", RELEASE, "--json"]
    python = environment(PYSPARK_PYTHON=sys.executable, PYSPARK_DRIVER_PYTHON=sys.executable)
    done = run([str(ROOT / "spark-submit.sh"), "--master", url, *SMALL, *words], python)
    return Rebuilt(checked(done), said(done))
