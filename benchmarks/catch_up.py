"""Catch-ups of a large store by a little: what they cost is what is new, not what is there.

`python -m benchmarks.catch_up [--large] [--runs N]` takes the log of the store of the other
benchmarks (made once by the real RocketMQ), ends a copy of it N times 100 MB earlier, derives
queues and index of that, and then gives it 100 MB after 100 MB back. It times, as whole processes:

- a catch-up that finds nothing new;
- one of 100 MB.

At last queues and index are compared with those of one rebuild. It prints one JSON line.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.process_tree import run
from benchmarks.stores import (
    LARGE,
    RELEASE,
    USUAL,
    cache_folder,
    checked,
    digests,
    make_store,
    ours,
    said,
    warm,
)
from reput.store_format.files.local import LocalStorage
from reput.store_format.log.reader import LogReader
from reput.store_format.log.rules import record_rules
from reput.store_format.log.segments import find_segments
from reput.store_format.release.profiles import profile

_STEP = 100_000_000
_CHUNK = 1 << 24
_SEGMENT = 1 << 30


def ends(store: Path, steps: int) -> list[int]:
    """Where the log ends, and where records end 100 MB before that, and so on; ascending."""
    storage = LocalStorage()
    segments = find_segments(storage, [f"{store}/commitlog"], _SEGMENT)
    log = LogReader(storage, segments, record_rules(profile(RELEASE)))
    end = segments[-1].start
    for step in log.steps(segments[-1].start):
        end = step.next
    found = [end]
    for number in range(1, steps + 1):
        wanted = end - number * _STEP
        segment = max(s.start for s in segments if s.start <= wanted)
        for step in log.steps(segment, wanted):
            at = step.next
        found.append(at)
    log.close()
    return sorted(found)


def write_log(source: Path, to: Path, start: int, end: int) -> None:
    """Give the copy the log's bytes [start, end)."""
    for path in sorted((source / "commitlog").iterdir()):
        first = int(path.name)
        low, high = max(start, first), min(end, first + _SEGMENT)
        if low >= high:
            continue
        target = to / "commitlog" / path.name
        with path.open("rb") as read, target.open("r+b" if target.exists() else "wb") as write:
            write.truncate(_SEGMENT)
            for at in range(low - first, high - first, _CHUNK):
                read.seek(at)
                write.seek(at)
                write.write(read.read(min(_CHUNK, high - first - at)))


def catch_up(store: Path) -> tuple[float, dict[str, Any]]:
    """Seconds of a whole process, and what it said."""
    words = ["catch-up", str(store), "--rocketmq", RELEASE, "--yes", "--json"]
    done = checked(run([sys.executable, "-m", "reput", *words]))
    return done.seconds, said(done)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    source = make_store(LARGE if arguments.large else USUAL)
    store = cache_folder() / "catch-up"
    shutil.rmtree(store, ignore_errors=True)
    (store / "commitlog").mkdir(parents=True)
    try:
        places = ends(source, arguments.runs)
        write_log(source, store, 0, places[0])
        subprocess.run(["sync"], check=True)
        catch_up(store)
        warm(store)
        nothing = [catch_up(store)[0] for _ in range(arguments.runs)]
        grown = []
        for before, after in pairwise(places):
            write_log(source, store, before, after)
            subprocess.run(["sync"], check=True)
            took, about = catch_up(store)
            assert about["done"]
            grown.append(took)
        output = cache_folder() / "catch-up.rebuilt"
        ours(store, output)
        same = digests(output) == digests(store)
        shutil.rmtree(output)
    finally:
        shutil.rmtree(store, ignore_errors=True)
    whole = {
        "log_bytes": places[-1],
        "new_bytes": int(np.diff(places).mean()),
        "nothing_new_s": round(statistics.median(nothing), 2),
        "grown_s": round(statistics.median(grown), 2),
        "more_s": round(statistics.median(grown) - statistics.median(nothing), 2),
        "as_one_rebuild": same,
    }
    sys.stdout.write(json.dumps(whole) + "\n")
    if not same:
        raise SystemExit("other bytes than those of one rebuild")


if __name__ == "__main__":
    main()
