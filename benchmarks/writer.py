"""How fast the writer appends, beside RocketMQ's own putMessage on the same disk.

`python -m benchmarks.writer [FOLDER] [--messages N] [--rocketmq VERSION]` prints one line a
figure; `measure` gives them as a dict.
"""

import argparse
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.one_core import one_core
from benchmarks.put_messages import by_many_threads, clock, numbered, table
from benchmarks.stores import bench, said
from reput.broker.writer.writer import CommitLogWriter
from reput.store_format.release.settings import writer_settings_from
from reput.udfs.table.message_rows import append_arrow

_SECONDS = 3


def _timed(folder: Path, settings: dict[str, str], work: Callable[[CommitLogWriter], int]) -> dict:
    """Messages a second of the appends; the store is new and is removed."""
    root = folder / "store"
    writer = CommitLogWriter.open(str(root), writer_settings_from(settings), clock=clock)
    try:
        begin = time.perf_counter()
        messages = work(writer)
        seconds = time.perf_counter() - begin
        closing = time.perf_counter()
        syncs = writer.log.syncs
        writer.close()
        return {
            "messages": messages,
            "per_second": round(messages / seconds),
            "fsyncs": syncs,
            "close_seconds": round(time.perf_counter() - closing, 2),
        }
    finally:
        shutil.rmtree(root, ignore_errors=True)


def bulk(folder: Path, messages: int) -> dict:
    rows = table(messages)
    _timed(folder, {}, lambda writer: append_arrow(writer, rows.slice(0, 1000)).messages)  # compile
    return _timed(folder, {}, lambda writer: append_arrow(writer, rows).messages)


def single(folder: Path, messages: int) -> dict:
    def work(writer: CommitLogWriter) -> int:
        for n in range(messages):
            writer.append(numbered(n))
        return messages

    return _timed(folder, {}, work)


def disk_flushes(folder: Path) -> int | None:
    """How often the folder's disk was asked to flush; None where the kernel does not count it."""
    device = folder.stat().st_dev
    for line in Path("/proc/diskstats").read_text().splitlines():
        words = line.split()
        if words[:2] == [str(os.major(device)), str(os.minor(device))] and len(words) > 18:
            return int(words[18])
    return None


def _with_flushes(folder: Path, work: Callable[[], dict]) -> dict:
    before = disk_flushes(folder)
    figures = work()
    after = disk_flushes(folder)
    if before is not None and after is not None:
        figures["disk_flushes"] = after - before
    return figures


def synchronous(folder: Path, threads: int, seconds: float) -> dict:
    """SYNC_FLUSH: every append waits until it is durable. The messages are SyncPut.java's."""

    def work(writer: CommitLogWriter) -> int:
        return by_many_threads(writer.append, threads, seconds)

    settings = {"flushDiskType": "SYNC_FLUSH"}
    return _with_flushes(folder, lambda: _timed(folder, settings, work))


def rocketmq(folder: Path, version: str, messages: int) -> dict:
    """RocketMQ's putMessage, one thread, ASYNC_FLUSH (tests/rocketmq's bulk job)."""
    from tests.rocketmq.driver import Driver

    store = folder / "rocketmq"
    try:
        with Driver(version) as driver:
            driver.bulk(folder / "warm", {}, messages=50_000)
            answer = driver.bulk(store, {}, messages=messages, index=True)
        return {
            "messages": messages,
            "per_second": round(messages / answer["put_seconds"]),
        }
    finally:
        shutil.rmtree(store, ignore_errors=True)
        shutil.rmtree(folder / "warm", ignore_errors=True)


def rocketmq_synchronous(folder: Path, version: str, threads: int, seconds: float) -> dict:
    """RocketMQ's putMessage in SYNC_FLUSH from many threads (benchmarks/java/SyncPut.java)."""
    from tests.rocketmq.build import java_command

    classes, store = folder / "classes", folder / "rocketmq-sync"
    command = java_command(version, folder)
    path = command[command.index("-cp") + 1]
    source = Path(__file__).parent / "java" / "SyncPut.java"
    subprocess.run(["javac", "-cp", path, "-d", str(classes), str(source)], check=True)
    job = {
        "store": str(store),
        "settings": {"flushDiskType": "SYNC_FLUSH"},
        "threads": threads,
        "milliseconds": int(seconds * 1000),
    }
    command[command.index("-cp") + 1] = f"{classes}:{path}"
    command[-1] = "reput.judge.SyncPut"
    try:

        def run() -> dict:
            done = subprocess.run(
                [*command, json.dumps(job)], capture_output=True, text=True, check=True
            )
            messages, rate = map(int, done.stdout.split()[-2:])
            return {"messages": messages, "per_second": rate}

        return _with_flushes(folder, run)
    finally:
        shutil.rmtree(store, ignore_errors=True)


def bare(folder: Path, *words: str) -> dict:
    """The same by a bare program, in a process of its own (benchmarks.bare_append)."""
    with tempfile.TemporaryDirectory(dir=folder) as new:
        return dict(said(bench("bare_append", new, *words)))


def measure(folder: Path, messages: int, version: str | None, runs: int) -> dict[str, dict]:
    """By name the run with the median rate, ours and RocketMQ's by turns; and all runs' rates."""
    made: dict[str, list[dict]] = {}
    for _ in range(runs):
        for name, figures in _each(folder, messages, version):
            made.setdefault(name, []).append(figures)
    medians = {}
    for name, all_runs in made.items():
        ordered = sorted(all_runs, key=lambda figures: figures["per_second"])
        rates = [figures["per_second"] for figures in all_runs]
        medians[name] = {**ordered[len(ordered) // 2], "runs": rates}
    return medians


def _each(folder: Path, messages: int, version: str | None) -> Iterator[tuple[str, dict]]:
    yield "append_arrow", bulk(folder, messages)
    yield "append", single(folder, messages // 4)
    yield "bare append", bare(folder, "--messages", str(messages // 4))
    if version:
        yield f"RocketMQ {version} putMessage", rocketmq(folder, version, messages)
    for threads in (8, 64):
        name = f"sync, {threads} threads"
        yield name, synchronous(folder, threads, _SECONDS)
        with one_core():
            yield f"{name}, one core", synchronous(folder, threads, _SECONDS)
        yield f"bare {name}", bare(folder, "--threads", str(threads), "--seconds", str(_SECONDS))
        if version:
            theirs = rocketmq_synchronous(folder, version, threads, _SECONDS)
            yield f"RocketMQ {name}", theirs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", help="on the disk to measure (default: a temporary)")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--rocketmq", metavar="VERSION", help="measure it too, e.g. 5.3.3")
    parser.add_argument("--runs", type=int, default=3, help="of each, by turns (medians are shown)")
    words = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=words.folder) as folder:
        figures = measure(Path(folder), words.messages, words.rocketmq, words.runs)
    for name, figure in figures.items():
        rates = ", ".join(f"{rate:,}" for rate in figure.pop("runs"))
        others = ", ".join(f"{key} {value:,}" for key, value in figure.items())
        print(f"{name:30}", f"{others} (runs: {rates})")


if __name__ == "__main__":
    main()
