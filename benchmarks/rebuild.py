"""A whole rebuild, timed beside RocketMQ's own on the same store in the same run.

`python -m benchmarks.rebuild [--messages N] [--runs N]` makes the store with the real RocketMQ
(once; it is kept in the cache folder), then times RocketMQ's rebuild and ours alternately as
whole processes with a warm page cache, compares the bytes, and prints a table and one JSON line.
"""

import argparse
import filecmp
import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.process_tree import Run, run
from tests.rocketmq.driver import remove_derived

RELEASE = "5.3.3"
_KINDS = ("consumequeue", "index")


def cache_folder() -> Path:
    """Where stores are kept between runs."""
    root = Path(os.environ.get("REPUT_CACHE") or Path.home() / ".cache" / "reput")
    folder = root / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def make_store(shape: dict[str, int]) -> Path:
    """A store of that shape, written by RocketMQ; made anew only if it is not there."""
    name = "-".join(f"{key}{value}" for key, value in sorted(shape.items()))
    store = cache_folder() / name
    if not store.exists():
        new = store.with_suffix(".new")
        shutil.rmtree(new, ignore_errors=True)
        words = [word for key, value in shape.items() for word in (f"--{key}", str(value))]
        subprocess.run(
            [
                *(sys.executable, "-m", "tests.rocketmq", "bulk", str(new)),
                *("--rocketmq", RELEASE, *words),
            ],
            check=True,
        )
        new.rename(store)
    return store


def theirs(store: Path) -> Run:
    """RocketMQ's rebuild, in place: a crash recovery of a store without derived files."""
    remove_derived(store)
    words = ["derive", str(store), "--rocketmq", RELEASE, "--mode", "crash", "--full-stop"]
    return _checked(run([sys.executable, "-m", "tests.rocketmq", *words]))


def ours(store: Path, output: Path, extra: list[str]) -> Run:
    shutil.rmtree(output, ignore_errors=True)
    words = ["rebuild", str(store), "--output", str(output), "--rocketmq", RELEASE, "--json"]
    return _checked(run([sys.executable, "-m", "jobs", *words, "--master", "local[2]", *extra]))


def _checked(done: Run) -> Run:
    if done.code:
        raise SystemExit(done.output)
    return done


def same_bytes(store: Path, output: Path) -> bool:
    """Are all queue and index files the same? Index names are times, so by order."""
    for kind in _KINDS:
        there, here = (
            sorted(path for path in (root / kind).rglob("*") if path.is_file())
            for root in (store, output)
        )
        if len(there) != len(here):
            return False
        if not all(filecmp.cmp(a, b, shallow=False) for a, b in zip(there, here, strict=True)):
            return False
    return True


def measure(shape: dict[str, int], runs: int, extra: list[str]) -> dict[str, Any]:
    """Both, alternately; medians, their ratio, and whether the bytes are the same."""
    store = make_store(shape)
    output = cache_folder() / "output"
    log_bytes = sum(path.stat().st_size for path in (store / "commitlog").iterdir())
    ours(store, output, extra)  # compiles the kernels and warms the page cache
    pairs = []
    for _ in range(runs):
        rocketmq = theirs(store)
        reput = ours(store, output, extra)
        pairs.append((rocketmq, reput))
    same = same_bytes(store, output)
    remove_derived(store)
    shutil.rmtree(output, ignore_errors=True)
    return {
        **shape,
        "log_bytes": log_bytes,
        "same_bytes": same,
        "rocketmq_seconds": statistics.median(pair[0].seconds for pair in pairs),
        "reput_seconds": statistics.median(pair[1].seconds for pair in pairs),
        "ratio": statistics.median(pair[0].seconds / pair[1].seconds for pair in pairs),
        "messages_per_second": shape["messages"]
        / statistics.median(pair[1].seconds for pair in pairs),
        "python_mib": max(pair[1].python_mib for pair in pairs),
        "java_mib": max(pair[1].java_mib for pair in pairs),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=4_000_000)
    parser.add_argument("--body", type=int, default=300)
    parser.add_argument("--keys", type=int, default=1)
    parser.add_argument("--hot-percent", type=int, default=0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--no-check-crc", action="store_true")
    arguments = parser.parse_args()
    shape = {
        "messages": arguments.messages,
        "body": arguments.body,
        "keys": arguments.keys,
        "hot-percent": arguments.hot_percent,
    }
    extra = ["--no-check-crc"] if arguments.no_check_crc else []
    figures = measure(shape, arguments.runs, extra)
    print(f"{'messages':>12} {'RocketMQ s':>11} {'reput s':>9} {'ratio':>6} {'msg/s':>10} "
          f"{'worker MiB':>11} {'JVM MiB':>8}  bytes")  # fmt: skip
    print(
        f"{figures['messages']:>12,} {figures['rocketmq_seconds']:>11.1f} "
        f"{figures['reput_seconds']:>9.1f} {figures['ratio']:>6.2f} "
        f"{figures['messages_per_second']:>10,.0f} {figures['python_mib']:>11,} "
        f"{figures['java_mib']:>8,}  {'the same' if figures['same_bytes'] else 'DIFFER'}"
    )
    print(json.dumps(figures))
    sys.exit(0 if figures["same_bytes"] else 1)


if __name__ == "__main__":
    main()
