"""The tasks of a rebuild alone, by a bare program: what they take without Spark.

`python -m benchmarks.bare_tasks STORE [--processes N]`: N processes scan the splits and build the
files in a staging folder, by the same functions that Spark's tasks call, two calls of a pool in
place of two queries. Prints a JSON line: seconds without the program's start.
"""

import argparse
import json
import shutil
import time
from collections.abc import Mapping
from functools import partial
from multiprocessing import get_context
from typing import Any

import pyarrow as pa

from benchmarks.stores import RELEASE, cache_folder
from reput.jobs.engine.link import Linked, link
from reput.jobs.engine.pipeline import Cut, Pipeline
from reput.jobs.engine.plan import make_plan
from reput.jobs.engine.progress import Progress
from reput.jobs.engine.task_sizes import guided
from reput.jobs.engine.told import tell
from reput.jobs.engines.local import LocalEngine
from reput.store_format.storage import storage_for
from reput.store_format.storage.protocol import Storage
from reput.udfs.scan import ScanSplits
from reput.udfs.schemas import Task
from reput.udfs.staging import Staging
from reput.udfs.warm import load_kernels


def rows_of(task: Task, number: int) -> list[dict[str, Any]]:
    """What a task yields for one number."""
    batches = task(iter([pa.RecordBatch.from_pydict({"id": [number]})]))
    return [row for batch in batches for row in batch.to_pylist()]


def job_by_hand(
    storage: Storage, store: str, settings: Mapping[str, str], folder: str, processes: int,
    split_bytes: int | None = None,
) -> Pipeline:  # fmt: skip
    """A rebuild whose tasks the caller runs; folder: its staging, made here."""
    storage.make_folders(folder)
    told = tell(storage, store, RELEASE, settings)
    plan = make_plan(storage, store, told, processes, split_bytes, False, False)
    return Pipeline(LocalEngine(processes), plan, Staging(storage, folder), Cut(), Progress())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store")
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    processes = arguments.processes
    folder = cache_folder() / "bare-tasks"
    shutil.rmtree(folder, ignore_errors=True)
    storage = storage_for(str(folder))
    job = job_by_hand(storage, arguments.store, {}, str(folder), processes)
    plan = job.plan
    numbers = range(plan.splits.total)
    groups = guided(len(numbers), processes)
    load_kernels()  # before the processes are forked, as a session's are
    scan = ScanSplits(storage, job.staging, plan.splits, job.rules, numbers, groups, {})
    with get_context("fork").Pool(processes) as pool:
        began = time.monotonic()
        scanned = {row["split"]: row for row in rows_in(pool, scan, len(groups))}
        linked = link(plan.splits, scanned)
        assert isinstance(linked, Linked)
        scan_ended = time.monotonic()
        build = job.alone(linked, True, *job.index(linked))
        files = rows_in(pool, build, build.total)
        ended = time.monotonic()
    shutil.rmtree(folder)
    print(json.dumps({
        "messages": sum(row["records"] for row in linked.accepted),
        "files": len(files),
        "scan": round(scan_ended - began, 2),
        "build": round(ended - scan_ended, 2),
        "seconds": round(ended - began, 2),
    }))  # fmt: skip


def rows_in(pool: Any, task: Task, count: int) -> list[dict[str, Any]]:
    """What a task yields for the numbers below `count`, shared out as they come."""
    made = pool.imap(partial(rows_of, task), range(count))
    return [row for rows in made for row in rows]


if __name__ == "__main__":
    main()
