"""Stores of real brokers, in whose lives every fate of a message occurs (`make lived-stores`)."""

import json
from pathlib import Path
from typing import Any

from tests.unpacking import unpack as unpack_archive

ARCHIVES = Path(__file__).parent / "stores"
SUFFIX = ".tar.xz"
LIVED = ("live_4.9.7", "live_5.3.3")
SKIPPED = "skipped_5.2.0"
IN_ROCKSDB = "rocksdb_5.5.0"  # timers and half messages of timerRocksDBEnable, transRocksDBEnable

# What is kept of a store: the log, what finds messages in it, and how far the broker had come.
KEPT = ("commitlog", "consumequeue", "index", "rocksdbstore")
LEFT_OUT = ("LOCK", "IDENTITY")  # of a RocksDB, with OPTIONS-*
KEPT_OF_CONFIG = ("delayOffset.json", "consumerOffset.json", "topics.json", "timercheck")


def unpack(name: str, folder: Path) -> tuple[Path, dict[str, Any]]:
    """The store, and what was done in it: what tests.rocketmq.fates.live gives, as JSON."""
    unpack_archive(ARCHIVES / f"{name}{SUFFIX}", folder)
    done: dict[str, Any] = json.loads((folder / "done.json").read_text())
    return folder / "store", done
