"""Hadoop's own mini-cluster: a real namenode and datanode, from Maven Central, in one JVM.

Built once into the cache folder; after that neither Maven nor a network is needed.
"""

import hashlib
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from reput.jobs.engines.java import NoJavaError, find_java_home
from tests.rocketmq.build import _locked, cache_folder, java

SOURCES = Path(__file__).parent / "minidfs"
_NEWEST_JAVA = 23  # Hadoop 3.4 asks a security manager who calls; from 24 on there can be none
JAVA_OPTIONS = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true",
                "--add-opens=java.base/java.lang=ALL-UNNAMED")  # fmt: skip


def _built() -> Path:
    digest = hashlib.sha256()
    for path in sorted(SOURCES.rglob("*")):
        if path.suffix in {".java", ".xml"}:
            digest.update(path.read_bytes())
    return cache_folder() / "hadoop" / digest.hexdigest()[:12]


def missing() -> str | None:
    """Why there can be no mini-cluster here, or None if there can."""
    if shutil.which(java()) is None:
        return "no Java: Hadoop cannot run"
    with suppress(NoJavaError):
        if (version := find_java_home().version) > _NEWEST_JAVA:
            return f"Hadoop 3.4 does not run on Java {version}"
    if _built().is_dir() or shutil.which("mvn"):
        return None
    return "no Maven (mvn), and no mini-cluster of Hadoop built before in the cache"


def build() -> Path:
    """The folder with `classes/` and `lib/`, built if it is not there yet."""
    folder = _built()
    with _locked(folder.parent / "build.lock"):
        if folder.is_dir():
            return folder
        under_way = folder.with_suffix(".tmp")
        shutil.rmtree(under_way, ignore_errors=True)
        command = ["mvn", "-q", "-B", "-f", str(SOURCES / "pom.xml"),
                   f"-Dmaven.repo.local={cache_folder() / 'maven'}",
                   f"-Dbuild.folder={under_way}", "compile"]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
        under_way.rename(folder)
    return folder


class Cluster(NamedTuple):
    """A running cluster; host and port of its WebHDFS and of its namenode's RPC."""

    http: str
    rpc: str


@contextmanager
def running(folder: Path) -> Iterator[Cluster]:
    """A cluster that keeps its data in `folder`."""
    built = build()
    command = [java(), *JAVA_OPTIONS, "-cp", f"{built / 'classes'}:{built / 'lib'}/*",
               "reput.hdfs.Main", str(folder / "data")]  # fmt: skip
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=log, text=True, cwd=folder)  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            said = next((line for line in process.stdout if line.startswith("http ")), None)
            assert said, (folder / "log").read_text()[-2000:]
            _, http, _, rpc = said.split()
            yield Cluster(f"127.0.0.1:{http}", f"127.0.0.1:{rpc}")
        finally:
            process.stdin.close()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
