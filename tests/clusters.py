"""Daemons of Spark on loopback, and the environment of what talks to them."""

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from reput.jobs.engines.java import find_java_home

ROOT = Path(__file__).parents[1]
SPARK_HOME = Path(pyspark.__file__).parent


def environment(**more: str) -> dict[str, str]:
    """No Spark, Java or Python settings of the machine's, but ours."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    kept.pop("PYTHONPATH", None)
    return {**kept, "JAVA_HOME": str(find_java_home().home), "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1", **more}  # fmt: skip


@contextmanager
def daemon(folder: Path, says: str, *words: str, **more: str) -> Iterator[str]:
    """A Spark daemon, with `more` in its environment.

    Yields what the pattern `says` found in its log, when it is there."""
    folder.mkdir(parents=True)
    log = folder.with_suffix(".log")
    options = {"SPARK_DAEMON_MEMORY": "256m",
               "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"}  # fmt: skip
    with log.open("wb") as output:
        process = subprocess.Popen([str(SPARK_HOME / "bin" / "spark-class"), *words], cwd=folder,
                                   env=environment(**{**options, **more}), stdin=subprocess.DEVNULL,
                                   stdout=output, stderr=subprocess.STDOUT)  # fmt: skip
    try:
        for _ in range(600):
            found = re.search(says, log.read_text(errors="replace"))
            if found:
                break
            assert process.poll() is None, log.read_text(errors="replace")
            time.sleep(0.1)
        else:
            pytest.fail(f"{words[0]} has not started: {log.read_text(errors='replace')}")
        yield found[1]
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
SMALL = [
    word
    for setting in (
        "spark.cores.max=2",  # one on each worker
        "spark.executor.memory=768m",
        "spark.driver.memory=512m",
        "spark.driver.host=127.0.0.1",
        "spark.ui.enabled=false",
        f"spark.driver.extraJavaOptions={_JVM}",
        f"spark.executor.extraJavaOptions={_JVM}",
    )
    for word in ("--conf", setting)
]
