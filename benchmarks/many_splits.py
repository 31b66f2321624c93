"""Do the driver and the scheduler carry many tasks? A small log in many, nearly all empty splits.

`python -m benchmarks.many_splits [--splits N ...]` cuts the log of 1 MB in its segment of 1 GiB
into so many splits, rebuilds it by the real pipeline on local[2], and prints one JSON line each:
what a split costs besides its bytes, and what the driver and the JVM hold.
"""

import argparse
import json
import resource
import shutil

from benchmarks.rows import TINY
from benchmarks.stores import RELEASE, bench, make_store, output_folder, said
from reput.jobs.engines.session import local_session
from reput.jobs.pipeline.pipeline import Cut
from reput.jobs.rebuild import rebuild

SEGMENT_BYTES = 1 << 30


def child(splits: int) -> None:
    """One rebuild in this process, which is the driver; prints what it took as JSON."""
    store, output = make_store(TINY), output_folder()
    shutil.rmtree(output, ignore_errors=True)
    with local_session("local[2]") as spark:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        cut = Cut(split_bytes=SEGMENT_BYTES // splits)
        summary = rebuild(spark, str(store), str(output), rocketmq=RELEASE, cut=cut)
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    shutil.rmtree(output)
    print(json.dumps({
        "splits": splits,
        "messages": summary.messages,
        "stages": {name: round(seconds, 2) for name, seconds in summary.stages.items()},
        "driver_mib": after >> 10,
        "driver_mib_more": (after - before) >> 10,
    }))  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, nargs="*", default=[1 << 8, 1 << 12, 1 << 14])
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child)
        return
    for splits in arguments.splits:
        done = bench("many_splits", "--child", str(splits))
        row = {**said(done), "jvm_mib": done.java_mib, "cpu_seconds": round(done.cpu, 1)}
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
