"""How a rebuild grows with queues and splits: requests by kind, bytes by stage, rows to the driver.

`python -m benchmarks.scale [--queues N ...] [--splits N] [--messages N] [--master M]` writes what
the scan of a log would have left in staging (`--messages` a split, round the queues) on moto's S3,
and numbers, builds and publishes it on Spark. moto is in this process and counts what it is asked
for, by whichever process. One line of JSON for each number of queues.
"""

import argparse
import json
import time
from dataclasses import replace
from typing import Any

import numpy as np

from reput.jobs.engines.session import local_session
from reput.jobs.engines.spark import SparkEngine
from reput.jobs.outputs.output import REBUILT
from reput.jobs.outputs.publish import begin_set, move_in, name_files, staging_folder
from reput.jobs.pipeline.job import find_store
from reput.jobs.pipeline.link import Linked
from reput.jobs.pipeline.pipeline import Cut, Pipeline
from reput.store_format.derived.index_names import BY_PROCESS, NameZone
from reput.store_format.discover.purpose import REBUILD
from reput.store_format.discover.store import store_at
from reput.store_format.dispatch.runs import QueueRuns
from reput.store_format.dispatch.scan import NamedQueue, Runs
from reput.store_format.faults import REFUSE
from reput.store_format.files.s3 import S3Storage
from reput.store_format.layouts import QUEUE_ENTRY
from reput.udfs.rebuild.scan import RunFiles
from reput.udfs.staging import scan_name
from tests.logs.encoder import Message, build_log
from tests.store_format.files import battery, s3_server

_URL = f"s3://{s3_server.BUCKET}"
_LOG = 100_000  # bytes of the only segment, which is only looked at
_QUEUES_A_TOPIC = 8


def scanned(job: Pipeline, split: int, queues: int, messages: int) -> dict[str, Any]:
    """Write the run files of a split whose messages go round the queues; returns its row."""
    numbers = np.arange(split * messages, (split + 1) * messages)
    numbers = numbers[np.lexsort((numbers, numbers % queues))]
    queue, starts, count = np.unique(numbers % queues, return_index=True, return_counts=True)
    entries = np.zeros(messages, QUEUE_ENTRY)
    entries["physicalOffset"], entries["size"] = numbers * 500, 500
    first = numbers[starts] // queues
    none = np.empty(0, np.int64)
    runs = QueueRuns(
        entries.view(np.uint8).reshape(-1), none, count, starts * QUEUE_ENTRY.itemsize,
        np.full(len(queue), -1), first, first + count - 1, none,
    )  # fmt: skip
    names = [NamedQueue(f"T{n // _QUEUES_A_TOPIC}", n % _QUEUES_A_TOPIC, False)
             for n in queue.tolist()]  # fmt: skip
    run = scan_name(split)
    files = RunFiles(job.staging, run, split)
    files.add_runs(Runs(names, runs))
    files.finish()
    return {"split": split, "run": run, "records": messages, "runs": files.runs,
            "queues": files.queues, "index_puts": 0, "last_record": -1, "last_put": -1}  # fmt: skip


class Counting(SparkEngine):
    """Spark as several machines, which a local session is not."""

    def __init__(self, spark: Any) -> None:
        super().__init__(spark)
        self.one_machine = False


def stages(spark: Any, before: int) -> list[dict[str, Any]]:
    """What each Spark stage from number `before` on shuffled, and its largest task."""
    store = spark.sparkContext._jsc.sc().statusStore()
    gateway = spark.sparkContext._gateway
    none = gateway.new_array(gateway.jvm.double, 0)
    most = gateway.new_array(gateway.jvm.double, 1)
    most[0] = 1.0
    empty = gateway.jvm.java.util.ArrayList()
    listed = store.stageList(empty, False, False, none, empty)
    found = []
    for at in range(listed.size()):
        stage = listed.apply(at)
        if stage.stageId() >= before and stage.numCompleteTasks():
            tasks = store.taskSummary(stage.stageId(), stage.attemptId(), most)
            found.append({
                "stage": stage.stageId(), "tasks": stage.numTasks(),
                "read": stage.shuffleReadBytes(), "written": stage.shuffleWriteBytes(),
                "largest task read": int(tasks.get().shuffleReadMetrics().readBytes().apply(0))
                if tasks.isDefined() else 0,
            })  # fmt: skip
    return sorted(found, key=lambda row: row["stage"])


def requests(asked: Any) -> dict[str, int]:
    return {f"{method} {kind}": count for (method, kind), count in sorted(asked.items())
            if count and "bytes" not in method}  # fmt: skip


def measured(spark: Any, queues: int, splits: int, messages: int) -> dict[str, Any]:
    """One simulated store, numbered, built and published."""
    engine, storage = Counting(spark), S3Storage()
    settings = {"mappedFileSizeCommitLog": str(_LOG), "mappedFileSizeConsumeQueue": "20000"}
    found = find_store(
        engine, store_at(f"{_URL}/store", "5.3.3", settings), REBUILD.asked(REFUSE),
        cut=Cut(_LOG // splits), progress=None,
    )  # fmt: skip
    plan = found.plan
    plan = replace(plan, splits=plan.splits._replace(split_bytes=_LOG // splits, limit=None))
    with staging_folder(storage, _URL, ".out.reput") as staging:
        job = replace(found, plan=plan).job(staging)
        linked = Linked([scanned(job, n, queues, messages) for n in range(splits)])
        began, first = time.monotonic(), len(stages(spark, 0))
        with s3_server.counted() as built:
            rows = job.build(linked, indexes=False)
        built_in = time.monotonic() - began
        named = name_files(rows, job.queue_bytes, None, NameZone("UTC+00:00", BY_PROCESS, 0))
        with s3_server.counted() as published:
            target = begin_set(staging, found.output(f"{_URL}/out", REBUILT, True, storage))
            move_in(staging, [(row["name"], row["path"]) for row in named], target, engine)
    return {
        "queues": queues, "splits": splits, "runs": sum(r["runs"] for r in linked.accepted),
        "files": len(rows), "entries": sum(row["entries"] for row in rows),
        "build": requests(built), "bytes of entries": built["GET bytes", "entries"],
        "publish": requests(published), "stages": stages(spark, 0)[first:],
        "seconds": round(built_in, 1),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queues", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--splits", type=int, default=1_000, help="a divisor of 100,000")
    parser.add_argument("--messages", type=int, default=2_000, help="of a split")
    parser.add_argument("--master", default="local[2]", help="or local-cluster[2,1,1024]")
    arguments = parser.parse_args()
    with s3_server.served(), local_session(arguments.master) as spark:
        (segment,) = build_log([Message()], _LOG).values()
        battery.write(S3Storage(), f"{_URL}/store/commitlog/{0:020d}", bytes(segment))
        for queues in arguments.queues:
            row = measured(spark, queues, arguments.splits, arguments.messages)
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
