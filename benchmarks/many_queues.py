"""200,000 queues with small files: time, and memory of the driver.

`python -m benchmarks.many_queues [--queues N] [--messages N]` writes the log with our own writer
(RocketMQ maps each file, more than Linux allows a process), rebuilds it, and prints one JSON line.
"""

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

from benchmarks.our_log import write_log
from benchmarks.stores import cache_folder, ours, output_folder

QUEUES_A_TOPIC = 8
QUEUE_FILE_BYTES = 6_000  # 300 entries


def make_store(queues: int, messages: int) -> Path:
    """A log whose messages go round the queues, one after the other."""
    store = cache_folder() / f"queues{queues}-messages{messages}"
    if store.exists():
        return store
    new = store.with_suffix(".new")
    shutil.rmtree(new, ignore_errors=True)

    def columns(numbers: range) -> dict[str, list[Any]]:
        turns = [number % queues for number in numbers]
        return {
            "topic": [f"Topic{turn // QUEUES_A_TOPIC}" for turn in turns],
            "queue_id": [turn % QUEUES_A_TOPIC for turn in turns],
            "body": [b"%0100d" % number for number in numbers],
            "keys": [f"order-{number}" for number in numbers],
        }

    write_log(new, messages, columns)
    new.rename(store)
    return store


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queues", type=int, default=200_000)
    parser.add_argument("--messages", type=int, default=2_000_000)
    arguments = parser.parse_args()
    store = make_store(arguments.queues, arguments.messages)
    output = output_folder()
    done = ours(store, output, "--set", f"mappedFileSizeConsumeQueue={QUEUE_FILE_BYTES}")
    shutil.rmtree(output)
    row = {
        **vars(arguments),
        "seconds": round(done.run.seconds, 1),
        "cpu_seconds": round(done.run.cpu, 1),
        "stages": {name: round(seconds, 1) for name, seconds in done.said["stages"].items()},
        "queue_files": done.said["queue_files"],
        "queues_found": done.said["queues"],
        "python_mib": done.run.python_mib,
        "java_mib": done.run.java_mib,
    }
    print(json.dumps(row))


if __name__ == "__main__":
    main()
