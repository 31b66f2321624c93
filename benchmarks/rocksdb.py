"""A rebuild of queues in RocksDB beside RocketMQ's own, and what it costs to read by position."""

import random
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.further_rows import against
from benchmarks.state import same_state
from benchmarks.stores import (
    RELEASE,
    USUAL,
    Shape,
    log_bytes,
    make_store,
    median,
    ours,
    output_folder,
)
from reput.store_format.derived.queues import FileQueues, Queues
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.rocksdb.queues import RocksDBQueues
from tests.rocketmq.live import Broker

Row = dict[str, Any]

_BROKER = {
    "storeType": "defaultRocksDB", "messageIndexEnable": False,
    "mappedFileSizeCommitLog": 1 << 30, "mappedFileSizeConsumeQueue": 6_000_000,
}  # fmt: skip
_READS, _MESSAGES = 2000, 32


def in_rocksdb(runs: int, shape: Shape = USUAL) -> Row:
    """Queues alone, of both: RocketMQ's broker until it has dispatched all, without its start."""
    store, output = make_store(shape), output_folder()
    words = ("--set", "messageIndexEnable=false", "--queues")
    ours(store, output, *words, "rocksdb")  # compiles the kernels
    their_seconds, our_seconds = [], []
    for _ in range(runs):
        their_seconds.append(_theirs(store) - _theirs(None))
        same_state(store)
        our_seconds.append(ours(store, output, *words, "rocksdb").run.seconds)
    in_rocksdb = _read_seconds(RocksDBQueues("", Folder(LocalStorage(), f"{output}/consumequeue")))
    ours(store, output, *words, "files")
    in_files = _read_seconds(
        FileQueues(Folder(LocalStorage(), str(output)), lambda batch: 6_000_000)
    )
    shutil.rmtree(output)
    return {
        **shape._asdict(),
        "log_bytes": log_bytes(store),
        **against(median(their_seconds), median(our_seconds)),
        "read_rocksdb_us": round(1e6 * in_rocksdb, 1),
        "read_files_us": round(1e6 * in_files, 1),
    }


def _theirs(store: Path | None) -> float:
    """Seconds until a broker has dispatched the log of a store, or has started on none."""
    with tempfile.TemporaryDirectory(prefix="reput-bench-", dir=output_folder().parent) as folder:
        if store is not None:
            shutil.copytree(store / "commitlog", f"{folder}/commitlog")
            same_state(Path(folder))
        begin = time.monotonic()
        with Broker(RELEASE, Path(folder), **_BROKER) as broker:
            while broker.status()["behind"]:
                time.sleep(0.05)
            return time.monotonic() - begin


def _read_seconds(queues: Queues) -> float:
    """Seconds of a read of some messages' entries at any position, as a pull reads them."""
    rng = random.Random(1)
    places = [(topic, *queue) for topic in queues.topics() for queue in queues.of(topic)]
    opened = [queues.open(*place) for place in places]
    reads = [(queue, rng.randrange(queue.maximum())) for queue in rng.choices(opened, k=_READS)]
    begin = time.monotonic()
    for queue, position in reads:
        queue.some(position, _MESSAGES)
    return (time.monotonic() - begin) / len(reads)
