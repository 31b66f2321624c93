"""Rows of queues and index in RocksDB beside those of a slow reader of the log, on drawn logs."""

import struct
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from reput.jobs.pipeline.pipeline import Cut
from reput.jobs.rebuild import TRUNCATE, rebuild
from reput.store_format.faults import StoreError
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.rocksdb.database import open_database
from tests.in_process import OUTPUT, STORE, Session, as_text, storage_of
from tests.logs import Log, logs
from tests.logs.encoder import Message as Written
from tests.logs.encoder import build_log, properties
from tests.memory_storage import MemoryStorage
from tests.reference.javatext import is_blank
from tests.reference.log import Message, Walk
from tests.reference.rules import Rules, parse_version

VERSION = "5.3.3"
QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much]
Rows = dict[bytes, bytes]
FURTHER = ("INNER_MULTI_DISPATCH", "INNER_MULTI_QUEUE_OFFSET")


def _key(topic: str, tail: bytes) -> bytes:
    raw = topic.encode()
    return struct.pack(">i", len(raw)) + b"\1" + raw + b"\1" + tail


def wanted(log: Log) -> tuple[Rows, Rows]:
    """The families `default` and `offset`, put by put: the later one of a key counts
    (RocksDBConsumeQueueStore).
    """
    rules = Rules(parse_version(log.version), log.settings, log.topic_attributes)
    more = rules.flag("enableLmq") or rules.flag("enableMultiDispatch")
    entries: Rows = {}
    offsets: Rows = {}
    end = min(log.segments)
    for message in Walk(log.segments, rules):
        if message.transaction not in (0, 8):
            continue
        end = message.physical_offset + message.size
        if log.topic_attributes.get(message.topic, {}).get("queue.type") == "BatchCQ":
            assume(False)  # refused, but for one whose INNER_BASE is below 0: it has no place
        if more and not any(map(is_blank, map(message.property, FURTHER))):
            assume(False)  # names of further queues are tests/store_format/dispatch's
        if "\\" in message.topic:
            assume(False)  # it can be no folder, and is left out
        place = message.physical_offset
        key = _key(message.topic, struct.pack(">iBq", message.queue_id, 1, message.queue_offset))
        entries[key] = struct.pack(
            ">qiqq", place, message.size, message.tags_code, message.store_timestamp
        )
        key = _key(message.topic, b"max\1" + struct.pack(">i", message.queue_id))
        offsets[key] = struct.pack(">qq", place, message.queue_offset)
    offsets[_key("CHECKPOINT_TOPIC", b"max\1" + bytes(4))] = struct.pack(">q", end)
    return entries, offsets


def _index_key(message: Message, kind: str, word: str) -> bytes:
    hour = message.store_timestamp // 3_600_000 * 3_600_000
    unique = message.property("UNIQ_KEY")
    words = [message.topic, kind, *([word] if kind != "U" else []), unique]
    middle = "".join(f"@{each}" for each in words) + "@"
    return struct.pack(">q", hour) + middle.encode() + struct.pack(">q", message.physical_offset)


def wanted_index(log: Log) -> Rows:
    """What IndexRocksDBStore.buildIndex puts of each message."""
    rules = Rules(parse_version(log.version), log.settings, log.topic_attributes)
    found: Rows = {}
    for message in Walk(log.segments, rules):
        hour = message.store_timestamp // 3_600_000
        if message.transaction == 12 or not message.property("UNIQ_KEY") or hour <= 0:
            continue
        rows = [("K", word) for word in (message.property("KEYS") or "").split(" ") if word]
        rows += [("T", tags)] if (tags := message.property("TAGS")) else []
        for kind, word in [*rows, ("U", "")]:
            found[_index_key(message, kind, word)] = struct.pack(">q", message.store_timestamp)
    return found


def there(storage: MemoryStorage, folder: str, family: str, apart: bool = False) -> Rows:
    """The rows of a family. apart: no two of its tables overlap, so none is to be compacted."""
    with tempfile.TemporaryDirectory() as made:
        for path, content in storage.files.items():
            if path.startswith(f"{OUTPUT}/{folder}/"):
                (Path(made) / path.rpartition("/")[2]).write_bytes(content)
        with closing(open_database(Folder(LocalStorage(), made))) as database:
            found = dict(database.rows(family))
            if apart:
                opened: Any = database._opened
                assert opened.property_int_value("rocksdb.num-files-at-level0") == 0
                assert opened.property_int_value("rocksdb.estimate-num-keys") == len(found)
            return found


def built(log: Log, cut: Cut, seed: int) -> Any:
    storage = storage_of(log)
    try:
        rebuild(
            Session(seed), STORE, OUTPUT, rocketmq=log.version, settings=as_text(log.settings),
            on_damage=TRUNCATE, cut=cut, storage=storage, queues="rocksdb", index="rocksdb",
        )  # fmt: skip
    except StoreError as error:
        assert "is a batch queue" in str(error)  # noqa: PT017
        return None
    return storage


def check(log: Log, partitions: int, split_bytes: int, seed: int) -> None:
    cut = Cut(partitions=partitions, index_ranges=partitions, split_bytes=split_bytes)
    storage = built(log, cut, seed)
    if storage is None:
        return  # it has a batch queue
    entries, offsets = wanted(log)
    assert there(storage, "consumequeue", "default", True) == entries
    assert there(storage, "consumequeue", "offset") == offsets
    index = there(storage, "rocksdbstore", "default", True)
    assert {key: value for key, value in index.items() if key[:4] != b"last"} == wanted_index(log)


OFFSETS = (
    [0, 1, 1, 2],
    [-2, -1, 0, 1],
    [0, 5, 3, 9, 3, 4],
    [7, 7, 7],
    [2, 1, 0],
    [-1, 3, -2, 3],
    [1 << 62, 1],
    [0, 1000, 1, 999, 2, 998, 3, 997, 4, 996],  # nothing in the middle one of three ranges
)


@pytest.mark.parametrize("offsets", OFFSETS)
@pytest.mark.parametrize("split_bytes", [150, 5000])
def test_a_queue_offset_is_a_rows_place(offsets: list[int], split_bytes: int) -> None:
    records = [
        record
        for offset in offsets
        for record in (
            Written("A", 1, offset, body=bytes(20), properties=properties(("KEYS", "k k l"))),
            Written("BB", 0, offset + 1, properties=properties(("UNIQ_KEY", "u"), ("KEYS", "k k"))),
        )
    ]
    check(Log(build_log(records, 8192), {}, VERSION, {}), 5, split_bytes, len(offsets))


@settings(suppress_health_check=QUIET, deadline=None, max_examples=8)
@given(logs(only_version=VERSION), st.integers(1, 9), st.integers(200, 5000), st.integers(0, 9))
def test_any_log(log: Log, partitions: int, split_bytes: int, seed: int) -> None:
    check(log, partitions, split_bytes, seed)
