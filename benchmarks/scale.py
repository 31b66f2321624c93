"""How a rebuild grows with queues and splits: requests by kind, bytes by stage, rows to the driver.

`python -m benchmarks.scale [--queues N ...] [--splits N] [--messages N] [--master M] [--s3]
[--rocksdb]` writes what the scan of a log would have left in staging (`--messages` a split, round
the queues) in a folder that counts as S3 does (`counted_folder`) or, with `--s3`, on moto's S3, and
numbers, builds and publishes it on Spark. One line of JSON for each number of queues.
"""

import argparse
import json
import os
import resource
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.counted_folder import CountedFolder
from reput.jobs.deriving.rocksdb_set import queue_tables
from reput.jobs.engines.session import local_session
from reput.jobs.engines.spark import SparkEngine
from reput.jobs.outputs.output import REBUILT, manifest_text
from reput.jobs.outputs.publish import (
    begin_set,
    name_files,
    publish_kept,
    put_derived,
    staging_folder,
)
from reput.jobs.pipeline.job import find_store
from reput.jobs.pipeline.link import Linked
from reput.jobs.pipeline.pipeline import Cut, Pipeline
from reput.store_format.derived.index_names import BY_PROCESS, NameZone
from reput.store_format.discover.purpose import REBUILD
from reput.store_format.discover.store import StoreAt
from reput.store_format.dispatch.runs import QueueRuns
from reput.store_format.dispatch.scan import NamedQueue, Runs
from reput.store_format.faults import REFUSE
from reput.store_format.files.folder import Place
from reput.store_format.files.s3 import S3Storage
from reput.store_format.layouts import QUEUE_ENTRY
from reput.udfs.rebuild.scan import RunFiles
from reput.udfs.staging import scan_name
from tests.logs.encoder import Message, build_log
from tests.store_format.files import battery, s3_server

_LOG = 100_000  # bytes of the only segment, which is only looked at
_QUEUES_A_TOPIC = 8


def scanned(
    job: Pipeline, split: int, queues: int, messages: int, timed: bool
) -> dict[str, Any]:  # fmt: skip
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
        np.full(len(queue), -1), first, first + count - 1,
        np.zeros(messages, np.int64) if timed else none,
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


def measured(spark: Any, root: str, storage: Any, queues: int, asked: Any) -> dict[str, Any]:
    """One simulated store, numbered, built and published. root: a folder or a URL."""
    engine, splits = Counting(spark), asked.splits
    counted = getattr(storage, "counted", s3_server.counted)
    settings = {"mappedFileSizeCommitLog": str(_LOG), "mappedFileSizeConsumeQueue": "20000"}
    at = StoreAt(storage, f"{root}/store", "5.3.3", settings)
    found = find_store(engine, at, REBUILD.asked(REFUSE), cut=Cut(_LOG // splits), progress=None)
    plan = found.plan
    plan = replace(plan, splits=plan.splits._replace(split_bytes=_LOG // splits, limit=None))
    with staging_folder(Place(storage, root), ".out.reput") as staging:
        job = replace(found, plan=plan).job(staging)
        linked = Linked([
            scanned(job, n, queues, asked.messages, asked.rocksdb) for n in range(splits)
        ])  # fmt: skip
        row = {"queues": queues, "splits": splits, "runs": sum(r["runs"] for r in linked.accepted)}
        began, first = time.monotonic(), len(stages(spark, 0))
        if asked.rocksdb:
            with counted() as built:
                tables = queue_tables(job, linked)
            row |= {"tables": len(tables["name"].unique()), "rows": len(tables)}
        else:
            with counted() as built:
                rows, kept = job.build_and_keep(linked, indexes=False)
            row["build seconds"] = round(time.monotonic() - began, 1)
            named = name_files(rows, job.queue_bytes, None, NameZone("UTC+00:00", BY_PROCESS, 0))
            with counted() as published:
                target = begin_set(staging, found.output(f"{root}/out", REBUILT, True, storage))
                shards = publish_kept(kept, target, engine)
                files = put_derived(staging, named, b"", target, engine)
            whole = {"files": [vars(each) for each in files], "shards": shards}
            row |= {
                "files": len(rows) + kept.files, "rows of files": len(rows), "rows of tasks":
                len(kept.rows), "shards": len(shards), "manifest": len(manifest_text(whole)),
                "publish": requests(published),
            }  # fmt: skip
    return row | {
        "build": requests(built), "bytes of entries": built["GET bytes", "entries"],
        "stages": stages(spark, 0)[first:], "seconds": round(time.monotonic() - began, 1),
        "driver MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queues", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--splits", type=int, default=1_000, help="a divisor of 100,000")
    parser.add_argument("--messages", type=int, default=200, help="of a split")
    parser.add_argument("--master", default="local[2]", help="or local-cluster[2,1,1024]")
    parser.add_argument("--s3", action="store_true", help="moto's S3: minutes for 10,000 files")
    parser.add_argument("--rocksdb", action="store_true", help="queues in RocksDB, not in files")
    arguments = parser.parse_args()
    with ExitStack() as held:
        if arguments.s3:
            held.enter_context(s3_server.served())
            root, storage = f"s3://{s3_server.BUCKET}", S3Storage()
        else:
            root = held.enter_context(tempfile.TemporaryDirectory())
            counts = held.enter_context(tempfile.TemporaryDirectory())
            storage = CountedFolder(counts)
            os.makedirs(f"{root}/store/commitlog")
        spark = held.enter_context(local_session(arguments.master))
        (segment,) = build_log([Message()], _LOG).values()
        battery.write(storage, f"{root}/store/commitlog/{0:020d}", bytes(segment))
        for queues in arguments.queues:
            print(json.dumps(measured(spark, root, storage, queues, arguments)), flush=True)


if __name__ == "__main__":
    main()
