"""Stores with logs of single queues, by RocketMQ itself: a compacted topic's, and a tiered store's.

`python -m tests.rocketmq.queue_log_stores FOLDER` makes both small; the archive beside
tests/store_format/files/test_queue_logs.py is of such."""

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.processes import run_words
from tests.rocketmq.build import JAVA_OPTIONS, java
from tests.rocketmq.driver import Driver
from tests.rocketmq.proxies import libraries

VERSION = "5.3.3"
COMPACTED, PLAIN = "Compacted", "Plain"
ATTRIBUTES = {COMPACTED: {"cleanup.policy": "COMPACTION"}, PLAIN: {}}
SETTINGS: dict[str, Any] = {
    "mappedFileSizeCommitLog": 1 << 20, "mappedFileSizeConsumeQueue": 2000, "maxHashSlotNum": 1000,
    "maxIndexNum": 4000, "enableCompaction": True, "compactionMappedFileSize": 4096,
    "compactionCqMappedFileSize": 46 * 20, "compactionScheduleInternal": 500,
}  # fmt: skip
_TIERED = Path(__file__).parent / "tiered" / "Tiered.java"


def messages(count: int) -> list[dict[str, Any]]:
    """Every fourth is of the plain topic; of the others many share a key."""
    return [
        {
            "t": COMPACTED if n % 4 else PLAIN, "q": n % 2, "b": 10 + n % 9, "bs": n,
            "born": 1_700_000_000_000 + n,
            "p": {"KEYS": f"key{n % 37}", "UNIQ_KEY": f"U{n:08d}", "TAGS": "AB"[n % 2]},
        }
        for n in range(count)
    ]  # fmt: skip


def make_compacted(store: Path, count: int, version: str = VERSION, **settings: int) -> None:
    """A store whose broker compacts while messages come, a millisecond after each."""
    with Driver(version) as driver:
        driver.ask("put", store=str(store), settings={**SETTINGS, **settings},
                   topic_attributes=ATTRIBUTES, messages=messages(count), pace=1)  # fmt: skip
    table = {
        name: {
            "topicName": name, "readQueueNums": 2, "writeQueueNums": 2, "perm": 6,
            "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": False,
            "attributes": attributes,
        }
        for name, attributes in ATTRIBUTES.items()
    }  # fmt: skip
    (store / "config").mkdir(exist_ok=True)
    (store / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))


def tier(store: Path, folder: Path, segment: int, queue: int) -> dict[str, list[list[str]]]:
    """Tier both topics' queue 0 and 1; what RocketMQ reads back of each folder of a queue: topic,
    queue, queueOffset, offset, size."""
    folder.mkdir()
    queues = [f"{topic}:{number}" for topic in ATTRIBUTES for number in (0, 1)]
    with tempfile.TemporaryDirectory() as home:
        copy = Path(home) / "store"
        shutil.copytree(store, copy, ignore=shutil.ignore_patterns("compaction"))
        command = [java(), *JAVA_OPTIONS, f"-Duser.home={home}", "-cp",
                   f"{libraries('rocketmq-tiered-store', VERSION)}/*", str(_TIERED), str(copy),
                   str(folder), str(segment), str(queue), *queues]  # fmt: skip
        done = run_words(*command)
    assert not done.returncode, done.stderr[-3000:]
    (cluster,) = folder.glob("*_judge")
    found: dict[str, list[list[str]]] = {}
    for line in done.stdout.splitlines():
        words = line.split(" ")
        found.setdefault(str(cluster / "judge" / words[0] / words[1]), []).append(words)
    return found


def main() -> None:
    root = Path(sys.argv[1])
    make_compacted(root / "store", 1600)
    tier(root / "store", root / "tiered", 2000, 200)


if __name__ == "__main__":
    main()
