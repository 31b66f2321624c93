"""Rebuilds of a store on S3 that is 30 ms and 100 MB a second away, some requests refused.

`python -m benchmarks.object_storage [--megabytes N] [--refused SHARE]` serves a log in segments of
64 MiB by moto's server (in memory), puts benchmarks/shaping_proxy.py before it, rebuilds from and
to S3 on local[2] with and without reading ahead, and without the proxy, and prints one JSON line
each: seconds of the stages, requests, and bytes of staging by URL, a message too.
"""

import argparse
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from benchmarks.our_log import write_log
from benchmarks.process_tree import run
from benchmarks.shaping_proxy import shaped
from benchmarks.stores import RELEASE, cache_folder, checked, said
from reput.jobs.engines.session import local_session
from reput.jobs.pipeline.pipeline import Cut
from reput.jobs.rebuild import rebuild
from reput.store_format.files.s3 import S3Storage
from tests.store_format.files import s3_server

SEGMENT_BYTES = 64 << 20
_RECORD_BYTES = 470
_SETTINGS = {
    "mappedFileSizeCommitLog": str(SEGMENT_BYTES),
    "mappedFileSizeConsumeQueue": "180000",
    "maxHashSlotNum": "500000",
    "maxIndexNum": "2000000",
}
_PIECE = 1 << 23


def columns(numbers: range) -> dict[str, list[Any]]:
    """As the usual store: 64 queues, bodies of 300 bytes, a key and a UNIQ_KEY each."""
    return {
        "topic": [f"Bench{n % 8}" for n in numbers],
        "queue_id": [n // 8 % 8 for n in numbers],
        "body": [b"%0300d" % n for n in numbers],
        "keys": [f"order-{n}" for n in numbers],
    }


def upload(folder: Path, url: str) -> None:
    for path in sorted((folder / "commitlog").iterdir()):
        with path.open("rb") as file:
            output = S3Storage().create(f"{url}/commitlog/{path.name}")
            while content := file.read(_PIECE):
                output.write(content)
            output.finish(path.stat().st_size)


def child(ahead: int) -> None:
    """A rebuild in this process, the second in its session; prints what it took as JSON."""
    storage, bucket = S3Storage(), f"s3://{s3_server.BUCKET}"
    storage.reads_ahead = ahead  # goes to the tasks with it
    with local_session("local[2]") as spark:
        for number in range(2):  # workers are forked, and kernels there, by the second
            summary = rebuild(
                spark, f"{bucket}/store", f"{bucket}/out-{ahead}-{number}-{os.getpid()}",
                rocketmq=RELEASE, settings=_SETTINGS, cut=Cut(split_bytes=SEGMENT_BYTES // 2),
                storage=storage,
            )  # fmt: skip
    stages = {name: round(seconds, 2) for name, seconds in summary.stages.items()}
    print(json.dumps({"ahead": ahead, "messages": summary.messages, "stages": stages}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=512, help="of log")
    parser.add_argument("--refused", type=float, default=0.05, help="share of requests")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child is not None:
        child(arguments.child)
        return
    folder = cache_folder() / "object-storage"
    shutil.rmtree(folder, ignore_errors=True)
    messages = arguments.megabytes * 1_000_000 // _RECORD_BYTES
    write_log(folder, messages, columns, _SETTINGS)
    with s3_server.served(apart=True) as endpoint:
        upload(folder, f"s3://{s3_server.BUCKET}/store")
        shutil.rmtree(folder)
        cases = (
            ("moto alone", None, 4),
            ("far, one read at a time", 0.0, 0),
            ("far, reads ahead", 0.0, 4),
            ("far, some refused", arguments.refused, 4),
        )
        for name, refused, ahead in cases:
            words = [sys.executable, "-m", "benchmarks.object_storage", "--child", str(ahead)]
            if refused is None:
                row, counts = said(checked(run(words))), {}
            else:
                with shaped(endpoint, refused=refused) as (url, counted):
                    row = said(checked(run(words, {**os.environ, "AWS_ENDPOINT_URL": url})))
                    counts = counted()
            by_message = {  # of two rebuilds
                f"{key}_a_message": round(counts.get(key, 0) / 2 / messages, 1)
                for key in ("log_down", "scan_up", "scan_down")
            }
            print(json.dumps({"case": name, **row, **counts, **by_message}), flush=True)


if __name__ == "__main__":
    main()
