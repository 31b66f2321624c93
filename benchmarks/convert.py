"""`reput convert` beside `cp` of the log, on one disk.

`python -m benchmarks.convert [--runs N]` takes the store of the other benchmarks (made once by the
real RocketMQ) and prints one JSON line of medians, in MB of log a second: whole processes by turns,
each with what makes its output durable. `reput` makes all derived files too, which `cp` does not.
"""

import argparse
import json
import shutil
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.replicate import by_cp, copied
from benchmarks.stores import RELEASE, Shape, cache_folder, make_store, warm

# What is other in the new store: nothing, its segments' size, each record's host.
_WAYS: dict[str, tuple[str, ...]] = {
    "same": (),
    "segments": ("--to-set", "mappedFileSizeCommitLog=536870912"),
    "host": ("--store-host", "10.0.0.1:10911"),
    "renamed": ("--rename", "Bench0=BenchNew"),
}


def by_reput(store: Path, target: Path, *words: str) -> float:
    """Seconds of a whole `reput convert`."""
    command = [sys.executable, "-m", "reput", "convert", str(store), "--output", str(target)]
    return copied([*command, "--rocketmq", RELEASE, *words], target)[0]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument(
        "--ways", default="same,segments,host", help="of same,segments,host,renamed"
    )
    parser.add_argument("--messages", type=int, default=Shape().messages)
    arguments = parser.parse_args()
    source = make_store(Shape(messages=arguments.messages))
    folder = cache_folder() / "convert"
    target = folder / "new"
    size = sum(path.stat().st_blocks * 512 for path in (source / "commitlog").iterdir())
    ways: dict[str, Callable[[], float]] = {"cp": lambda: by_cp(source, target)}
    for name in arguments.ways.split(","):
        ways[name] = lambda words=_WAYS[name]: by_reput(source, target, *words)  # type: ignore[misc]
    took: dict[str, list[float]] = {name: [] for name in ways}
    try:
        warm(source)
        for _ in range(arguments.runs):
            for name, way in ways.items():
                took[name].append(way())
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    medians = {name: statistics.median(each) for name, each in took.items()}
    whole: dict[str, Any] = {
        f"{name}_mb_s": round(size / seconds / 1e6) for name, seconds in medians.items()
    }
    for name in arguments.ways.split(","):
        whole[f"{name}_of_cp"] = round(medians["cp"] / medians[name], 2)
    sys.stdout.write(json.dumps(whole) + "\n")


if __name__ == "__main__":
    main()
