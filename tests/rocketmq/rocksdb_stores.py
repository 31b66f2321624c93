"""`python -m tests.rocketmq.rocksdb_stores`: stores whose brokers keep queues in RocksDB."""

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.rocketmq.fates import SETTINGS, pack
from tests.rocketmq.live import living, messages
from tests.store_format.rocksdb.stores import ARCHIVES, NAMES, SUFFIX

ALONE: dict[str, object] = {"storeType": "defaultRocksDB"}
KINDS: dict[str, dict[str, object]] = {
    "alone": ALONE, "index": {**ALONE, "indexRocksDBEnable": True, "indexFileWriteEnable": False},
    "double": {"rocksdbCQDoubleWriteEnable": True}, "v2": {**ALONE, "configManagerVersion": "v2"},
    "single": {**ALONE, "useSingleRocksDBForAllConfigs": True},
}  # fmt: skip
KEPT = ("sent.json", "store/commitlog", "store/consumequeue", "store/index", "store/rocksdbstore",
        "store/config", "store/checkpoint")  # fmt: skip


def live(name: str, store: Path, count: int = 150) -> list[list[Any]]:
    """Have a broker write the store `name` (see tests.store_format.rocksdb.stores), and stop it;
    returns what a client sent to it. Group `reading` consumes some of topic Live0."""
    kind, _, version = name.partition("_")
    with living(version, store, **{**SETTINGS, **KINDS[kind]}) as (broker, asked):
        sent = asked.send(messages(count), send_timeout_ms=60_000)
        asked.ask("sql", group="reading", topic="Live0", sql="n > 100", quiet_ms=3000)
        broker.catch_up()
        time.sleep(1.5)  # offsets are persisted once a second
    return sent


def main(names: list[str]) -> None:
    """Have brokers write the stores anew; times in them differ each time."""
    for name in names or NAMES:
        with tempfile.TemporaryDirectory(prefix="reput-rocksdb-stores-") as made:
            folder = Path(made)
            (folder / "sent.json").write_text(json.dumps(live(name, folder / "store")))
            archive = ARCHIVES / f"{name}{SUFFIX}"
            pack(folder, archive, KEPT)
        print(f"{archive.name}: {archive.stat().st_size:,} bytes", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
