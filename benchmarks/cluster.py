"""A standalone cluster of one-core workers on this machine, and rebuilds submitted to it."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from benchmarks.process_tree import run
from benchmarks.stores import RELEASE, Rebuilt, cache_folder, checked, said
from tests.clusters import ROOT, SMALL, SPARK_HOME, daemon, environment

_WORKER = "org.apache.spark.deploy.worker.Worker"


@contextmanager
def standalone(workers: int = 2) -> Iterator[str]:
    """Yields the master's URL."""
    folder = Path(tempfile.mkdtemp(prefix="reput-cluster-"))
    try:
        with ExitStack() as stack:
            places = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
            master = ("org.apache.spark.deploy.master.Master", *places)
            url = stack.enter_context(
                daemon(folder / "master", r"Starting Spark master at (spark://\S+)", *master)
            )
            for number in range(2, 2 + workers):
                words = ("--host", f"127.0.0.{number}", "--port", "0", "--webui-port", "0",
                         "--cores", "1", "--memory", "1g", "--work-dir", ".", url)  # fmt: skip
                says = r"Successfully registered with master (\S+)"
                stack.enter_context(daemon(folder / str(number), says, _WORKER, *words))
            yield url
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def worker_processes(url: str) -> list[int]:
    """The JVMs of a master's workers; their executors are their children."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                words = (folder / "cmdline").read_bytes().split(b"\0")
                if _WORKER.encode() in words and url.encode() in words:
                    found.append(int(folder.name))
    return found


def submit(master: str, store: Path, output: Path, *more: str, rebuilds: int = 2) -> Rebuilt:
    """Rebuild in one application (benchmarks.submitted); says the stages of all but the first.

    more: further words for spark-submit.
    """
    zipped = cache_folder() / "reput.zip"
    subprocess.run([sys.executable, ROOT / "scripts" / "make_zip.py", zipped], check=True)
    python = environment(PYSPARK_PYTHON=sys.executable, PYSPARK_DRIVER_PYTHON=sys.executable)
    done = run(
        [str(SPARK_HOME / "bin" / "spark-submit"), "--master", master, *SMALL, *more,
         "--py-files", str(zipped), str(Path(__file__).with_name("submitted.py")),
         str(store), str(output), RELEASE, str(rebuilds)],
        python,
    )  # fmt: skip
    return Rebuilt(checked(done), said(done))
