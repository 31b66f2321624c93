"""A cluster of 8 workers that have a tenth of a core each, beside local[2]: efficiency by work.

By the clock it says nothing, as 0.8 cores do the work of two. What more workers cost is the
processor time of a rebuild, the second of its application: the driver's, and that of all executors
with their Python workers. Executors are still warming up then, eight JVMs for two, which a small
store shows. `python -m benchmarks.slow_workers [--large]` prints one JSON line.
"""

import argparse
import json
import shutil
import threading
import time
from contextlib import ExitStack
from typing import Any

from benchmarks.cluster import standalone, submit, worker_processes
from benchmarks.cpu_share import Group, groups, may_share
from benchmarks.stores import LARGE, USUAL, Rebuilt, Shape, make_store, output_folder

WORKERS, SHARE = 8, 0.1
_EVERY_SECONDS = 0.2
_PATIENT = ("spark.network.timeout=600s", "spark.executor.heartbeatInterval=60s")


class _Watch(threading.Thread):
    """Notes the processor time of groups, again and again."""

    def __init__(self, watched: list[Group]) -> None:
        super().__init__(daemon=True)
        self._watched, self._over = watched, threading.Event()
        self.samples: list[tuple[float, float]] = []  # seconds since 1970, CPU seconds

    def run(self) -> None:
        while not self._over.wait(_EVERY_SECONDS):
            self.samples.append((time.time(), sum(group.cpu_seconds for group in self._watched)))

    def stop(self) -> None:
        self._over.set()
        self.join()


def _between(samples: list[tuple[float, float]], began: float, ended: float) -> float:
    inside = [cpu for at, cpu in samples if began <= at <= ended]
    return inside[-1] - inside[0]


def _driver(done: Rebuilt) -> float:
    """CPU seconds of the second rebuild in the process tree of spark-submit."""
    since_1970 = time.time() - time.monotonic()
    samples = [(sample.at + since_1970, sample.cpu) for sample in done.run.samples]
    return _between(samples, done.said["began"], done.said["ended"])


def row(shape: Shape) -> dict[str, Any]:
    if not may_share():
        return {"skipped": "shares of a core need root and cgroups of version 1"}
    store, output = make_store(shape), output_folder()
    words = ["--conf", f"spark.cores.max={WORKERS}", "--conf", "spark.executor.cores=1"]
    for setting in _PATIENT:
        words += ["--conf", setting]
    with ExitStack() as stack:
        shares = stack.enter_context(groups(WORKERS, SHARE))
        url = stack.enter_context(standalone(WORKERS))
        for group, process in zip(shares, worker_processes(url), strict=True):
            group.add(process)
        watch = _Watch(shares)
        watch.start()
        slow = submit(url, store, output, *words)
        watch.stop()
        executors = _between(watch.samples, slow.said["began"], slow.said["ended"])
    local = submit("local[2]", store, output)
    shutil.rmtree(output)
    theirs = round(_driver(slow) + executors, 2)
    usually = round(_driver(local), 2)
    return {
        **shape._asdict(),
        "workers": WORKERS,
        "share": SHARE,
        "seconds": round(slow.said["ended"] - slow.said["began"], 1),
        "cpu_seconds": theirs,
        "of_executors": round(executors, 2),
        "local_cpu_seconds": usually,
        "share_of_work": round(usually / theirs, 2),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="15 GB")
    print(json.dumps(row(LARGE if parser.parse_args().large else USUAL)))
