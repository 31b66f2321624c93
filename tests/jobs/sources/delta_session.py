"""A local session that has Delta: its jars come from Maven Central, once, into the cache folder."""

import hashlib
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reput.jobs.engines.session import local_session
from reput.jobs.exporting.delta_writers import SETTINGS
from tests.rocketmq.build import _locked, cache_folder

_POM = Path(__file__).parent / "delta_jars.pom.xml"


def _folder() -> Path:
    return cache_folder() / "delta" / hashlib.sha256(_POM.read_bytes()).hexdigest()[:12]


def missing() -> str | None:
    """Why there can be no such session here, or None if there can."""
    if _folder().is_dir() or shutil.which("mvn"):
        return None
    return "no Maven (mvn), and no jars of Delta copied before into the cache"


def jars() -> list[Path]:
    """The jars, copied if they are not there yet."""
    folder = _folder()
    with _locked(folder.parent / "build.lock"):
        if not folder.is_dir():
            under_way = folder.with_suffix(".tmp")
            shutil.rmtree(under_way, ignore_errors=True)
            command = ["mvn", "-q", "-B", "-f", str(_POM),
                       f"-Dmaven.repo.local={cache_folder() / 'maven'}",
                       "dependency:copy-dependencies",
                       f"-DoutputDirectory={under_way}"]  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
            under_way.rename(folder)
    return sorted(folder.glob("*.jar"))


def settings() -> dict[str, str]:
    few = {"spark.databricks.delta.snapshotPartitions": "2"}  # 50 tasks for each look at a table
    return {**SETTINGS, **few, "spark.jars": ",".join(map(str, jars()))}


@contextmanager
def delta_session(**more: str) -> Iterator[Any]:
    """A session on two cores; more: settings, with _ for their dots."""
    given = {name.replace("_", "."): value for name, value in more.items()}
    with local_session("local[2]", settings={**settings(), **given}) as spark:
        yield spark
