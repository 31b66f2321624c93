"""Builds the Java driver for one RocketMQ version with Maven, once, into the cache folder.

After that neither Maven nor a network is needed for this version, until the driver's sources
change: their hash is part of the folder's name."""

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.processes import run_words

DRIVER = Path(__file__).parent / "driver"
VERSIONS = ("4.1.0", "4.9.7", "5.3.3", "5.4.0", "5.5.0", "5.5.1")
# Those that only the writer's records are compared with (tests/broker/writer).
RECORD_VERSIONS = ("4.3.2", "4.5.2", "4.7.1", "4.9.0", "4.9.1", "4.9.3", "5.0.0", "5.1.1", "5.1.4",
                   "5.2.0")  # fmt: skip
# Those that only stores of several releases are made with (test_chains.py).
CHAIN_VERSIONS = ("4.5.0", "4.6.1", "4.7.0")
# The one release whose artifacts are named otherwise than its version.
ARTIFACT_VERSIONS = {"4.1.0": "4.1.0-incubating"}
# Releases of which Maven Central has the store, common, remoting and broker, but not all: the one
# whose other parts serve.
OTHERS_OF = {"5.5.1": "5.5.0"}
# What 4.x and netty reach into on Java 17 to unmap files.
JAVA_OPTIONS = (
    "--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    # A full disk is this machine's affair: the store must not start to delete files for it.
    "-Drocketmq.broker.diskSpaceWarningLevelRatio=0.99",
    "-Drocketmq.broker.diskSpaceCleanForciblyRatio=0.99",
)  # fmt: skip


class NoMavenError(RuntimeError):
    """The driver is neither built nor can it be built here."""


def cache_folder() -> Path:
    return Path(os.environ.get("REPUT_CACHE") or Path.home() / ".cache" / "reput")


def _sources_hash() -> str:
    digest = hashlib.sha256()
    for path in sorted(DRIVER.rglob("*")):
        if path.is_file() and path.suffix in {".java", ".xml"}:
            digest.update(str(path.relative_to(DRIVER)).encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def built_folder(version: str) -> Path:
    return cache_folder() / "rocketmq" / f"{version}-{_sources_hash()}"


def missing(version: str) -> str | None:
    """Why the driver of `version` cannot be had here, or None if it can."""
    if shutil.which(java()) is None:
        return "no Java: RocketMQ's own store cannot run"
    if (built_folder(version) / "classes").is_dir() or shutil.which("mvn"):
        return None
    return f"no Maven (mvn), and no driver for RocketMQ {version} built before in the cache"


def java() -> str:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else "java"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def made_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """The folder, made at its first use: elsewhere, and then renamed, so that it is a whole one."""
    if folder.is_dir():
        return folder
    with _locked(folder.parent / "build.lock"):
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".tmp-") as scratch:
                under_way = Path(scratch) / "made"
                under_way.mkdir()
                make(under_way)
                under_way.rename(folder)
    return folder


def run_or_raise(*words: object, **more: Any) -> None:
    """A command that builds something; raises RuntimeError with what it said."""
    done = run_words(*words, **more)
    if done.returncode:
        command = " ".join(map(str, words))
        raise RuntimeError(f"{command} failed:\n{done.stdout[-9000:]}{done.stderr[-9000:]}")


def build(version: str) -> Path:
    """The folder with `classes/` and `lib/`, built if it is not there yet."""
    if version not in VERSIONS + RECORD_VERSIONS + CHAIN_VERSIONS:
        known = ", ".join(VERSIONS + RECORD_VERSIONS + CHAIN_VERSIONS)
        raise ValueError(f"RocketMQ {version} is none of {known}")
    if reason := missing(version):
        raise NoMavenError(reason)

    def compiled(to: Path) -> None:
        artifact = ARTIFACT_VERSIONS.get(version, version)
        run_or_raise(
            "mvn", "-q", "-B", "-f", DRIVER / "pom.xml",
            f"-Dmaven.repo.local={cache_folder() / 'maven'}", f"-Drocketmq.version={artifact}",
            f"-Drocketmq.others={OTHERS_OF.get(version, artifact)}", f"-Dbuild.folder={to}",
            "compile",
        )  # fmt: skip
        _drop_older(cache_folder() / "rocketmq", version)

    return made_once(built_folder(version), compiled)


def _drop_older(cache: Path, version: str) -> None:
    """Each change of the driver's sources makes a new folder of up to 90 MB; as many worktrees as
    are at work on one machine may each have their own."""
    older = sorted(cache.glob(f"{version}-*[0-9a-f]"), key=lambda p: p.stat().st_mtime)
    for path in older[:-6]:
        shutil.rmtree(path, ignore_errors=True)


def java_command(version: str, home: Path, log_level: str = "ERROR") -> list[str]:
    """The command line that answers jobs; `home` keeps RocketMQ's logs out of the user's home."""
    folder = build(version)
    conf = DRIVER / "conf"
    return [java(), *JAVA_OPTIONS, f"-Duser.home={home}", f"-Dreput.log.level={log_level}",
            f"-Dlogback.configurationFile={conf / 'logback.xml'}",
            f"-Drmq.logback.configurationFile={conf / 'rmq.logback.xml'}",
            *("-cp", f"{folder / 'classes'}:{folder / 'lib'}/*"), "reput.judge.Main"]  # fmt: skip
