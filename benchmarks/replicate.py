"""Replication beside what else copies a log: `cp` on one disk, RocketMQ's own slave over loopback.

`python -m benchmarks.replicate [--runs N]` takes the store of the other benchmarks (made once by
the real RocketMQ) and prints one JSON line of medians, in MB a second:

- `cp` of the segments, and `reput replicate --no-derived` as a whole process, by turns, each with
  what makes it durable;
- the same with `--no-check-crc`, so that the difference is what the CRCs cost;
- the last segment from a real master over loopback: to a real slave (from when its first bytes are
  there), and to `reput replicate --master`; and from `reput`'s master to a real slave.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.process_tree import run
from benchmarks.stores import RELEASE, Shape, cache_folder, checked, make_store, said, warm
from reput.jobs.replicating.master import HaMaster, StoreLog
from reput.store_format.discover.store import StoreAt
from reput.store_format.files.local import LocalStorage
from tests.rocketmq.live import Broker

_SIZES = {
    "mappedFileSizeCommitLog": 1 << 30,
    "mappedFileSizeConsumeQueue": 6_000_000,
    "maxHashSlotNum": 5_000_000,
    "maxIndexNum": 20_000_000,
}
_SLAVE = {"brokerRole": "SLAVE", "brokerId": 1}


def copied(command: list[str], target: Path) -> tuple[float, str]:
    """Seconds of a whole process that copies to `target`, and what it said."""
    shutil.rmtree(target, ignore_errors=True)
    subprocess.run(["sync"], check=True)
    done = checked(run(command))
    return done.seconds, done.output


def by_cp(store: Path, target: Path) -> float:
    """Of `cp` and one sync of the file system."""
    target.mkdir(parents=True, exist_ok=True)
    words = f"cp -r --sparse=never {store}/commitlog {target}/ && sync -f {target}"
    return copied(["sh", "-c", f"mkdir -p {target} && {words}"], target)[0]


def by_reput(store: Path, target: Path, *words: str) -> float:
    command = [sys.executable, "-m", "reput", "replicate", str(store), str(target)]
    sizes = [word for name, size in _SIZES.items() for word in ("--set", f"{name}={size}")]
    return copied([*command, "--rocketmq", RELEASE, "--no-derived", *sizes, *words], target)[0]


def slave_seconds(address: str, store: Path) -> tuple[float, int]:
    """How long a real slave takes from its first bytes on, and how many it gets."""
    shutil.rmtree(store, ignore_errors=True)
    with Broker(RELEASE, store, haMasterAddress=address, **_SLAVE, **_SIZES) as broker:
        began, first, last, still = 0.0, 0, 0, 0
        while still < 40:
            about = broker.status()
            now, end = time.monotonic(), about["max_offset"]
            if end and not began:
                began, first = now, end
            if end > last:
                last, ended, still = end, now, 0
            elif began:
                still += 1
            time.sleep(0.05)
        return max(ended - began, 1e-3), last - first


def over_loopback(store: Path, folder: Path) -> dict[str, Any]:
    """The last segment, from a real master and from ours."""
    found: dict[str, Any] = {}
    with Broker(RELEASE, store, **_SIZES) as master:
        address = f"127.0.0.1:{master.port + 1}"
        seconds, size = slave_seconds(address, folder / "slave")
        found["real_slave_mb_s"] = round(size / seconds / 1e6)
        start = max(int(path.name) for path in (store / "commitlog").iterdir())
        command = [
            *(sys.executable, "-m", "reput", "replicate", "--master", address),
            *(str(folder / "replica"), "--from-offset", str(start), "--no-derived", "--json"),
        ]
        done = checked(run(command))
        about = said(done)
        found["reput_slave_mb_s"] = round((about["end"] - start) / about["seconds"] / 1e6)
        master.stop()
    log = StoreLog(
        StoreAt(LocalStorage(), str(store), RELEASE, {n: str(s) for n, s in _SIZES.items()})
    )
    with HaMaster(log, ("127.0.0.1", 0)) as ours:
        seconds, size = slave_seconds(f"{ours.address[0]}:{ours.address[1]}", folder / "slave")
        found["real_slave_of_reput_mb_s"] = round(size / seconds / 1e6)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--no-wire", action="store_true", help="only the copies on one disk")
    arguments = parser.parse_args()
    source = make_store(Shape())
    folder = cache_folder() / "replicate"
    target = folder / "copy"
    size = sum(path.stat().st_blocks * 512 for path in (source / "commitlog").iterdir())
    ways: dict[str, Callable[[], float]] = {
        "cp": lambda: by_cp(source, target),
        "reput": lambda: by_reput(source, target),
        "no_crc": lambda: by_reput(source, target, "--no-check-crc"),
    }
    took: dict[str, list[float]] = {name: [] for name in ways}
    try:
        warm(source)
        for _ in range(arguments.runs):
            for name, way in ways.items():
                took[name].append(way())
        medians = {name: statistics.median(each) for name, each in took.items()}
        whole: dict[str, Any] = {
            f"{name}_mb_s": round(size / seconds / 1e6) for name, seconds in medians.items()
        }
        whole["of_cp"] = round(medians["cp"] / medians["reput"], 2)
        shutil.rmtree(target, ignore_errors=True)
        if not arguments.no_wire:
            store = folder / "master"
            shutil.copytree(source, store)
            whole |= over_loopback(store, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    sys.stdout.write(json.dumps(whole) + "\n")


if __name__ == "__main__":
    main()
