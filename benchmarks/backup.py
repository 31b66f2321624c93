"""A first backup beside what else keeps a copy of a store: `cp -a` with a sync, and `tar --zstd`.

`python -m benchmarks.backup [--runs N]` takes the store of the other benchmarks (made once by the
real RocketMQ), whose log is in the page cache, and prints one JSON line of medians over whole
processes, by turns: seconds, MB of the log a second, and bytes kept of

- `cp -a` and one sync of the file system;
- `tar --zstd` (level 1, all cores) and a sync;
- `reput backup` into a new repository, and again with nothing new.

restic's published figures (restic/restic#4477, a RAM disk, 32 cores): 100 files of 1 GB at 530 MB a
second, one of 100 GB at 290; its cutting into chunks ends at about 450 MB a second a file. It
encrypts too, which `reput` leaves to the storage.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.process_tree import run
from benchmarks.stores import RELEASE, USUAL, cache_folder, checked, make_store, warm


def seconds(command: list[str]) -> float:
    """Of a whole process, after a sync; its modules are compiled once, as those installed are."""
    subprocess.run(["sync"], check=True)
    env = {**os.environ, "PYTHONPYCACHEPREFIX": str(cache_folder().parent / "pyc")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    return checked(run(command, env)).seconds


def shell(words: str, target: Path) -> float:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    return seconds(["sh", "-c", f"{words} && sync -f {target}"])


def kept(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    store = make_store(USUAL)
    log = sum(each.stat().st_size for each in (store / "commitlog").iterdir())
    target = cache_folder() / "backup"
    backup = [sys.executable, "-m", "reput", "backup", str(store), str(target / "repository"),
              "--store", "broker-a", "--rocketmq", RELEASE, "--quiet"]  # fmt: skip
    ways: dict[str, list[float]] = {}
    sizes: dict[str, int] = {}

    def note(way: str, took: float) -> None:
        ways.setdefault(way, []).append(took)
        sizes[way] = kept(target)

    for _ in range(arguments.runs):
        warm(store)
        note("cp", shell(f"cp -a {store} {target}/store", target))
        note("tar", shell(f"tar -I 'zstd -1 -T0' -cf {target}/store.tar.zst {store}", target))
        shutil.rmtree(target, ignore_errors=True)
        note("first", seconds(backup))
        note("again", seconds(backup))
    shutil.rmtree(target, ignore_errors=True)
    medians = {way: statistics.median(took) for way, took in ways.items()}
    result: dict[str, Any] = {
        "log_bytes": log, "cores": os.cpu_count(), "runs": arguments.runs,
        "seconds": {way: round(took, 2) for way, took in medians.items()},
        "mb_a_second": {way: round(log / took / 1e6) for way, took in medians.items()},
        "kept_bytes": sizes, "first_to_cp": round(medians["cp"] / medians["first"], 2),
    }  # fmt: skip
    print(json.dumps(result))


if __name__ == "__main__":
    main()
