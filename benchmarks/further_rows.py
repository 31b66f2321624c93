"""Rows beside a bare program, in a session that runs already, and with a cold page cache."""

import shutil
from pathlib import Path
from typing import Any

from benchmarks.state import cold, same_state
from benchmarks.stores import (
    LARGE,
    USUAL,
    Shape,
    bench,
    digests,
    log_bytes,
    make_store,
    median,
    ours,
    output_folder,
    said,
    theirs,
)
from tests.rocketmq.driver import remove_derived

Row = dict[str, Any]

HUGE_BODIES = Shape(messages=240_000, body=64 << 10)


def against(rocketmq: float, seconds: float) -> Row:
    """Seconds of both, and their ratio."""
    ratio = round(rocketmq / seconds, 2)
    return {"rocketmq_seconds": rocketmq, "reput_seconds": seconds, "ratio": ratio}


def bare_rebuild(store: Path, messages: int, written: int, runs: int, processes: int = 2) -> float:
    """Seconds that a bare program takes that only moves the bytes of a rebuild of this store.

    written: bytes of the derived files. Without the program's start: the limit below what a
    rebuild's stages take.
    """
    words = ("--messages", str(messages), "--written", str(written), "--processes", str(processes))
    return _bare_work(store, runs, "bare_rebuild", *words)


def _bare_work(store: Path, runs: int, name: str, *words: str) -> float:
    """The median of the seconds that a bare program says, each time from the same state."""
    seconds = []
    for _ in range(runs):
        same_state(store)
        seconds.append(float(said(bench(name, str(store), *words))["seconds"]))
    return median(seconds)


def in_session(runs: int, shape: Shape = USUAL) -> Row:
    """The second and later rebuilds of one session, beside RocketMQ's own work without its start.

    What a notebook does, or a job of many stores. The first of the session is not counted.
    """
    store, output = make_store(shape), output_folder()
    same_state(store)
    their_seconds = []
    for _ in range(runs):
        done = theirs(store)
        their_seconds.append(float(said(done)["work_seconds"]))
        wanted = digests(store)
        remove_derived(store)
        same_state(store)
    done = bench("session", str(store), str(output), str(runs))
    same = digests(output) == wanted
    shutil.rmtree(output)
    return {
        **shape._asdict(),
        "log_bytes": log_bytes(store),
        **against(median(their_seconds), median(said(done)["seconds"])),
        "first_seconds": said(done)["first"],
        "java_mib": done.java_mib,  # Python's own memory has that of same_state in it
        "same_bytes": same,
    }


def huge_bodies(runs: int) -> Row:
    """64 KiB a body, 15 GB of them, beside RocketMQ and a program that only reads and checks CRCs.

    share: of its speed, of the whole process and of its work without any start. The store goes
    afterwards.
    """
    store, output = make_store(HUGE_BODIES), output_folder()
    their_seconds, bare, bare_work, rebuilds = [], [], [], []
    for _ in range(runs):
        same_state(store)
        their_seconds.append(theirs(store).seconds)
        remove_derived(store)
        same_state(store)
        done = bench("bare", str(store))
        assert said(done)["records"] == HUGE_BODIES.messages
        bare.append(done.seconds)
        bare_work.append(said(done)["seconds"])
        same_state(store)
        rebuilds.append(ours(store, output))
        shutil.rmtree(output)
    size = log_bytes(store)
    shutil.rmtree(store)
    seconds = median([one.run.seconds for one in rebuilds])
    work = median([sum(one.said["stages"].values()) for one in rebuilds])
    return {
        **HUGE_BODIES._asdict(),
        "log_bytes": size,
        **against(median(their_seconds), seconds),
        "bare_seconds": median(bare),
        "share": round(median(bare) / seconds, 2),
        "bare_work": median(bare_work),
        "reput_work": work,
        "share_of_work": round(median(bare_work) / work, 2),
        "bytes_per_second": round(size / seconds),
    }


def cold_cache(runs: int) -> Row:
    """15 GB, nothing of it in memory, beside RocketMQ and two processes that only read: as programs
    do (bare_seconds), and past the page cache (disk_seconds), which is what the disk itself gives.
    """
    store, output = make_store(LARGE), output_folder()
    their_seconds, bare, disk, rebuilds = [], [], [], []
    for _ in range(runs):
        cold(store)
        their_seconds.append(theirs(store).seconds)
        remove_derived(store)
        cold(store)
        bare.append(bench("bare", str(store), "--no-crc").seconds)
        cold(store)
        disk.append(bench("bare", str(store), "--no-crc", "--past-cache").seconds)
        cold(store)
        rebuilds.append(ours(store, output))
        shutil.rmtree(output)
    seconds, size = median([one.run.seconds for one in rebuilds]), log_bytes(store)
    return {
        **LARGE._asdict(),
        "log_bytes": size,
        **against(median(their_seconds), seconds),
        "bare_seconds": median(bare),
        "share": round(median(bare) / seconds, 2),
        "disk_seconds": median(disk),
        "scan_seconds": median([one.said["stages"]["scan"] for one in rebuilds]),
        "bytes_per_second": round(size / seconds),
    }
