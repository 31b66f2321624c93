"""A Delta table by delta-rs and by Spark: `python -m benchmarks.delta [--runs N] [--messages N]`.

Whole processes of `reput export --as delta --no-bodies` by turns, on the store of the other
benchmarks (made once by the real RocketMQ): the local engine, which writes by delta-rs, and a local
Spark session with delta-spark. Prints one JSON line of medians: seconds, CPU seconds and MiB of all
processes, and the rows, which must be as many by either. The first session ever asks Maven for
Delta's jars.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path

from benchmarks.process_tree import Run, run
from benchmarks.stores import (
    RELEASE,
    Shape,
    cache_folder,
    checked,
    log_bytes,
    make_store,
    median,
    said,
    warm,
)

_ENGINES = ("local", "spark")


def export(store: Path, target: Path, engine: str) -> Run:
    """One whole export into a new table."""
    shutil.rmtree(target, ignore_errors=True)
    command = [sys.executable, "-m", "reput", "export", str(store), "--output", str(target)]
    words = ["--as", "delta", "--no-bodies", "--engine", engine, "--rocketmq", RELEASE, "--json"]
    return checked(run(command + words))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--messages", type=int, default=Shape().messages)
    arguments = parser.parse_args()
    store = make_store(Shape(messages=arguments.messages))
    target = cache_folder() / "delta-table"
    took: dict[str, list[Run]] = {engine: [] for engine in _ENGINES}
    try:
        warm(store)
        for _ in range(arguments.runs):
            for engine, runs in took.items():
                runs.append(export(store, target, engine))
    finally:
        shutil.rmtree(target, ignore_errors=True)
    rows = {said(each)["messages"] for runs in took.values() for each in runs}
    if len(rows) != 1:
        raise SystemExit(f"the engines wrote {sorted(rows)} rows")
    whole: dict[str, object] = {"messages": rows.pop(), "log_bytes": log_bytes(store)}
    for engine, runs in took.items():
        whole[engine] = {
            "seconds": round(median([each.seconds for each in runs]), 2),
            "cpu_seconds": round(median([each.cpu for each in runs]), 1),
            "all_mib": max(each.all_mib for each in runs),
        }
    sys.stdout.write(json.dumps(whole) + "\n")


if __name__ == "__main__":
    main()
