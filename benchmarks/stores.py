"""Stores that RocketMQ writes for the benchmarks, and whole rebuilds of them, theirs and ours."""

import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.process_tree import Run, run
from reput.jobs.engines.choice import LOCAL
from tests.rocketmq.driver import remove_derived

RELEASE = "5.3.3"
# of these stores' files, which are RocketMQ's defaults
SIZES = {
    "mappedFileSizeCommitLog": 1 << 30,
    "mappedFileSizeConsumeQueue": 6_000_000,
    "maxHashSlotNum": 5_000_000,
    "maxIndexNum": 20_000_000,
}
_KINDS = ("consumequeue", "index")


class Shape(NamedTuple):
    """Of a store: 8 topics of 8 queues, one tag and one UNIQ_KEY a message."""

    messages: int = 4_000_000
    body: int = 300
    keys: int = 1
    hot_percent: int = 0  # so many of 100 in one queue

    @property
    def name(self) -> str:
        return (
            f"body{self.body}-hot-percent{self.hot_percent}-keys{self.keys}-messages{self.messages}"
        )


USUAL, LARGE = Shape(), Shape(messages=32_000_000)


class Rebuilt(NamedTuple):
    """One of our rebuilds: the process, and what it said with --json."""

    run: Run
    said: dict[str, Any]

    @property
    def stages(self) -> float:
        """Seconds of the scan and build stages."""
        return float(self.said["stages"]["scan"] + self.said["stages"]["build"])

    def busy(self, stage: str) -> float:
        """How many cores were busy in a stage, from its start to its end."""
        after = {"scan": ("build", "publish"), "build": ("publish",)}[stage]
        end = sum(self.said["stages"][name] for name in after)
        return self.run.busy(end + self.said["stages"][stage], end)


def cache_folder() -> Path:
    """Where stores are kept between runs."""
    root = Path(os.environ.get("REPUT_CACHE") or Path.home() / ".cache" / "reput")
    folder = root / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def output_folder() -> Path:
    """Where a rebuild that is measured writes."""
    return cache_folder() / "output"


def median(values: list[float]) -> float:
    """To two digits behind the point, as rows have it."""
    return round(statistics.median(values), 2)


def median_stages(rebuilds: list[Rebuilt]) -> dict[str, float]:
    """Seconds of each stage."""
    stages = ("scan", "build", "publish")
    return {name: median([one.said["stages"][name] for one in rebuilds]) for name in stages}


def make_store(shape: Shape) -> Path:
    """A store of that shape, written by RocketMQ; made anew only if it is not there."""
    store = cache_folder() / shape.name
    if not store.exists():
        new = store.with_suffix(".new")
        shutil.rmtree(new, ignore_errors=True)
        words = [
            word
            for key, value in shape._asdict().items()
            for word in (f"--{key.replace('_', '-')}", str(value))
        ]
        subprocess.run(
            [
                *(sys.executable, "-m", "tests.rocketmq", "bulk", str(new)),
                *("--rocketmq", RELEASE, *words),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        new.rename(store)
    return store


def log_bytes(store: Path) -> int:
    """Bytes of the log's files that hold anything: the last one has a hole at its end."""
    return sum(path.stat().st_blocks * 512 for path in (store / "commitlog").iterdir())


def bench(name: str, *words: str) -> Run:
    """Run benchmarks.NAME as a program of its own."""
    return checked(run([sys.executable, "-m", f"benchmarks.{name}", *words]))


def theirs(store: Path, *more: str) -> Run:
    """RocketMQ's rebuild, in place: a crash recovery of a store without derived files."""
    remove_derived(store)
    words = ["derive", str(store), "--rocketmq", RELEASE, "--mode", "crash", "--full-stop"]
    return checked(run([sys.executable, "-m", "tests.rocketmq", *words, *more]))


def ours(
    store: Path, output: Path, *more: str, engine: str = LOCAL, before: tuple[str, ...] = (),
    command: tuple[str, ...] = (sys.executable, "-m", "reput"), env: dict[str, str] | None = None,
) -> Rebuilt:  # fmt: skip
    """Our rebuild; before: words before the command, such as taskset's; command: another reput
    than this checkout's.
    """
    shutil.rmtree(output, ignore_errors=True)
    words = ["rebuild", str(store), "--output", str(output), "--rocketmq", RELEASE, "--json"]
    done = run([*before, *command, *words, "--engine", engine, *more], env)
    return Rebuilt(checked(done), said(done))


def look(word: str, store: Path, engine: str) -> Run:
    """A command that only looks at a store: `check`, `verify`, `recover --dry-run`."""
    words = [*word.split(), str(store), "--rocketmq", RELEASE, "--json", "--engine", engine]
    return run([sys.executable, "-m", "reput", *words])


def costs(rebuilds: list[Rebuilt]) -> dict[str, Any]:
    """Of our runs: medians of processor seconds and of the stages' seconds; most memory, in MiB."""
    return {
        "cpu_seconds": median([one.run.cpu for one in rebuilds]),
        "stages": median_stages(rebuilds),
        "python_mib": max(one.run.python_mib for one in rebuilds),
        "java_mib": max(one.run.java_mib for one in rebuilds),
        "all_mib": max(one.run.all_mib for one in rebuilds),
    }


def said(done: Run) -> dict[str, Any]:
    """The one JSON object among what a command wrote."""
    (line,) = [line for line in done.output.splitlines() if line.startswith("{")]
    return dict(json.loads(line))


def checked(done: Run) -> Run:
    if done.code:
        raise SystemExit(done.output)
    return done


def digests(root: Path) -> list[str]:
    """SHA-256 of all queue and index files below a folder. Index names are times, so by order."""
    found = []
    for kind in _KINDS:
        for path in sorted(path for path in (root / kind).rglob("*") if path.is_file()):
            with path.open("rb") as file:
                found.append(hashlib.file_digest(file, "sha256").hexdigest())
    return found


def warm(store: Path) -> None:
    """Have the log in the page cache, as far as there is memory for it."""
    for path in sorted((store / "commitlog").iterdir()):
        with path.open("rb", buffering=0) as file:
            while file.read(1 << 24):
                pass
