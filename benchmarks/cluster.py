"""A standalone cluster of two one-core workers on this machine, and rebuilds submitted to it."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.process_tree import run
from benchmarks.stores import RELEASE, Rebuilt, cache_folder, checked, said
from tests.test_cluster import ROOT, SMALL, SPARK_HOME, daemon, environment


@contextmanager
def standalone() -> Iterator[str]:
    """Yields the master's URL."""
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
            yield url
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def submit(master: str, store: Path, output: Path) -> Rebuilt:
    """Rebuild twice in one application (benchmarks.twice); says the second's stages."""
    zipped = cache_folder() / "reput.zip"
    subprocess.run([sys.executable, ROOT / "scripts" / "make_zip.py", zipped], check=True)
    python = environment(PYSPARK_PYTHON=sys.executable, PYSPARK_DRIVER_PYTHON=sys.executable)
    done = run(
        [str(SPARK_HOME / "bin" / "spark-submit"), "--master", master, *SMALL,
         "--py-files", str(zipped), str(Path(__file__).with_name("twice.py")),
         str(store), str(output), RELEASE],
        python,
    )  # fmt: skip
    return Rebuilt(checked(done), said(done))
