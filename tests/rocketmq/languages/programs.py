"""Consumers in other languages: the programs in the folders beside this file.

Each is built once, from its lock file, into the cache folder. All take the same words,

    ADDRESS MODE GROUP TOPIC tag|sql EXPRESSION WANTED MILLISECONDS KEPT

and print a line for each message that they are given: how often it was given, its id, its keys,
its body in hexadecimal digits. They end when they have printed WANTED lines, or when the
milliseconds are over. One that acknowledges leaves alone, until its third time, each message of
which a key ends with KEPT."""

import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.processes import run_words
from tests.rocketmq.build import JAVA_OPTIONS, cache_folder, java, made_once, run_or_raise
from tests.rocketmq.driver import QUICK_TO_START
from tests.rocketmq.proxies import libraries

FOLDER = Path(__file__).parent
NOTHING = "-"  # no key ends so


class Received(NamedTuple):
    """A message as a consumer was given it."""

    attempt: int
    id: str
    keys: str
    body: str


class Program(NamedTuple):
    """How a consumer is made and started, given the folder that it is made in."""

    release: str  # of RocketMQ's client
    pinned_in: str  # the file that says so
    tool: str  # without which it cannot be made
    build: Callable[[Path], None]
    command: Callable[[Path], list[str]]


def _run(*command: str | Path, folder: Path) -> None:
    run_or_raise(*command, cwd=folder)


def _java_jars() -> Path:
    return libraries("rocketmq-client-java", PROGRAMS["java"].release)


def _build_java(made: Path) -> None:
    _run("javac", "-nowarn", "-cp", f"{_java_jars()}/*", "-d", ".", "Grpc.java", folder=made)


def _java_command(made: Path) -> list[str]:
    path = f"{made}:{_java_jars()}/*"
    options = (*QUICK_TO_START, *JAVA_OPTIONS, "-Xmx256m", "-Duser.home=.")
    return [java(), *options, "-cp", path, "reput.judge.Grpc"]


def _build_python(made: Path) -> None:
    _run(sys.executable, "-m", "venv", "venv", folder=made)
    _run(made / "venv" / "bin" / "python", "-m", "pip", "install", "--quiet", "--require-hashes",
         "-r", "requirements.lock", folder=made)  # fmt: skip


def _build_rust(made: Path) -> None:
    """Cargo.lock names the registry, which is cargo's own affair: ours leaves that out."""
    _run("cargo", "generate-lockfile", "--quiet", folder=made)
    source = re.search(r'^source = "(.*)"$', (made / "Cargo.lock").read_text(), re.M)
    assert source
    (made / "Cargo.lock").write_text((made / "Cargo.lock.in").read_text().replace("*", source[1]))
    _run("cargo", "build", "--quiet", "--locked", folder=made)
    (made / "target" / "debug" / "reput-test-consumer").rename(made / "consume")
    shutil.rmtree(made / "target")


PROGRAMS = {
    "java": Program("5.0.7", "", "mvn", _build_java, _java_command),
    "python": Program(
        "5.1.2", "requirements.lock", sys.executable, _build_python,
        lambda made: [str(made / "venv" / "bin" / "python"), str(made / "consume.py")],
    ),
    "node": Program(
        "1.0.8", "package-lock.json", "npm",
        lambda made: _run("npm", "ci", "--silent", folder=made),
        lambda made: ["node", str(made / "consume.mjs")],
    ),
    "go": Program(
        "2.1.2", "go.mod", "go",
        lambda made: _run("go", "build", "-o", "consume", ".", folder=made),
        lambda made: [str(made / "consume")],
    ),
    "rust": Program(
        "1.0.0", "Cargo.lock.in", "cargo", _build_rust, lambda made: [str(made / "consume")]
    ),
}  # fmt: skip


def missing(language: str) -> str | None:
    """Why a consumer cannot be made here; None where it can, or is there."""
    tool = PROGRAMS[language].tool
    if _made(language).is_dir():
        return None
    if language == "rust" and not os.environ.get("REPUT_EVERY"):
        return "the consumer in rust, which cargo builds for minutes: with REPUT_EVERY=1"
    if shutil.which(tool):
        return None
    return f"no {tool}, which makes the consumer in {language}"


def _made(language: str) -> Path:
    digest = hashlib.sha256()
    for path in sorted((FOLDER / language).rglob("*")):
        if path.is_file():
            digest.update(path.name.encode() + path.read_bytes())
    return cache_folder() / "rocketmq-languages" / f"{language}-{digest.hexdigest()[:12]}"


def _built(language: str) -> Path:
    def build(made: Path) -> None:
        shutil.copytree(FOLDER / language, made, dirs_exist_ok=True)
        PROGRAMS[language].build(made)

    return made_once(_made(language), build)


def consume(
    language: str, address: str, group: str, topic: str, *, mode: str = "simple",
    kind: str = "tag", expression: str = "*", wanted: int, seconds: float = 60, kept: str = NOTHING,
) -> list[Received]:  # fmt: skip
    """What a consumer is given, in order."""
    words = (mode, group, topic, kind, expression, str(wanted), str(int(seconds * 1000)), kept)
    command = [*PROGRAMS[language].command(_built(language)), address, *words]
    with tempfile.TemporaryDirectory(prefix="reput-consumer-") as home:
        done = run_words(*command, timeout=seconds + 120, env={**os.environ, "HOME": home},
                         cwd=home)  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"the consumer in {language} died:\n{done.stderr[-3000:]}")
    lines = [line.split(" ") for line in done.stdout.splitlines() if line[:1].isdigit()]
    return [Received(int(attempt), *rest) for attempt, *rest in lines]
