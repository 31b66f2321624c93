"""What a check and a salvage take where every second record is damaged, by the number of ranges.

`python -m benchmarks.many_ranges [--ranges N ...]` writes logs of 100-byte records in segments of
64 MiB and runs the real jobs on each, in a process of its own that stands for driver and worker (no
JVM, no Spark: tests.in_process); prints one JSON line each: CPU seconds and greatest memory, less
those of the same with 10 ranges.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tests.jobs.checking import run_check
from tests.logs.encoder import Message, encode

SEGMENT_BYTES = 64 << 20
QUEUES = 3  # an odd number, so that each queue loses every second message
RELEASE = "5.3.3"
# where the log's bytes are: which fields are numbered, by their places in a record
QUEUE_ID, MAGIC, QUEUE_OFFSET, PHYSICAL_OFFSET = 12, 4, 20, 28


def write_log(folder: Path, ranges: int) -> None:
    """Twice as many records; every second one has a wrong magic number."""
    folder.mkdir(parents=True)
    whole = np.frombuffer(encode(Message(body=b"x" * 8), 0), np.uint8)
    a_segment = (SEGMENT_BYTES - 8) // len(whole)
    for base in range(0, 2 * ranges, a_segment):
        numbers = np.arange(base, min(base + a_segment, 2 * ranges))
        start = base // a_segment * SEGMENT_BYTES
        rows = np.tile(whole, (len(numbers), 1))
        places = start + (numbers - base) * len(whole)
        for at, values, kind in (
            (QUEUE_ID, numbers % QUEUES, ">i4"),
            (QUEUE_OFFSET, numbers // QUEUES, ">i8"),
            (PHYSICAL_OFFSET, places, ">i8"),
        ):
            raw = values.astype(kind).view(np.uint8).reshape(len(numbers), -1)
            rows[:, at : at + raw.shape[1]] = raw
        rows[1::2, MAGIC] ^= 1
        content = np.zeros(SEGMENT_BYTES, np.uint8)
        content[: rows.size] = rows.reshape(-1)
        left = SEGMENT_BYTES - rows.size
        if len(numbers) == a_segment:
            content[rows.size : rows.size + 8] = np.array([left, 0xCBD43194], ">u4").view(np.uint8)
        content.tofile(folder / f"{start:020d}")


def child(ranges: int, lines: str) -> None:
    """One check in this process; prints what it took as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        write_log(Path(folder) / "commitlog", ranges)
        with open(lines, "wb") as output:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
            report = run_check(
                folder, RELEASE, {"mappedFileSizeCommitLog": SEGMENT_BYTES}, ranges=output
            )
        used = resource.getrusage(resource.RUSAGE_SELF)
    assert report.damage["range_count"] == ranges, report.damage["range_count"]
    print(json.dumps({
        "ranges": ranges, "cpu_seconds": round(used.ru_utime - before, 2),
        "most_mib": used.ru_maxrss >> 10, "missing": report.damage["messages_missing"],
    }))  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranges", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child, "/dev/null")
        return
    none: dict[str, Any] = {}
    for ranges in [10, *arguments.ranges]:
        command = [sys.executable, "-m", "benchmarks.many_ranges", "--child", str(ranges)]
        said = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        none = none or said
        said["ms_a_range"] = round(1e3 * (said["cpu_seconds"] - none["cpu_seconds"]) / ranges, 3)
        said["more_mib"] = said["most_mib"] - none["most_mib"]
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
