"""Integer keys without quotes, as fastjson writes them, become texts, and nothing else changes."""

import importlib
import json

import pytest

from reput.store_format import state_table
from reput.store_format.java import hash_map_order, quoted_keys
from reput.store_format.release.profiles import RELEASES
from tests.logs import key_with_hash


@pytest.mark.parametrize(("raw", "quoted"), [
    (b"{}", b"{}"), (b"{1:2}", b'{"1":2}'), (b"{1:{2:3,4:5}}", b'{"1":{"2":3,"4":5}}'),
    (b"{-1:2,\n\t0 : 3}", b'{"-1":2,\n\t"0" : 3}'), (b'{"1":2}', b'{"1":2}'),
    (b'{"a":"{1:2}",3:4}', b'{"a":"{1:2}","3":4}'),  # what is in a text stays
    (b'{"a\\"{1:":2,3:4}', b'{"a\\"{1:":2,"3":4}'), (b'{"a\\\\":1,3:4}', b'{"a\\\\":1,"3":4}'),
    (b"[1,2,{3:4}]", b'[1,2,{"3":4}]'), (b'{"a":-5,6:7}', b'{"a":-5,"6":7}'),
    (b"{1.5:2}", b"{1.5:2}"), ('{"\u00e9":1,2:3}'.encode(), '{"\u00e9":1,"2":3}'.encode()),
    (b"", b""), (b'{"never ended', b'{"never ended'),
])  # fmt: skip
def test_integer_keys_get_quotes(raw: bytes, quoted: bytes) -> None:
    assert quoted_keys(raw) == quoted


def test_a_mark_shows_keys_without_quotes_and_a_hash_s_upper_half_counts_too() -> None:
    assert quoted_keys(b'{"1":2,1:3}', b"#") == b'{"1":2,"#1":3}'
    raw = b'{"dataVersion":{"counter":1},"offsetTable":{12:2,6:3,\n13:1}}'
    assert json.loads(quoted_keys(raw))["offsetTable"] == {"12": 2, "6": 3, "13": 1}
    high, low = key_with_hash("", 0x0005_0000), key_with_hash("", 3)
    assert hash_map_order((high, low), 16) == (1, 0)  # buckets 5 and 3
    negative = key_with_hash("", -1)  # FFFFFFFF ^ FFFF: its lowest bits are 0
    assert hash_map_order((low, negative), 16) == (1, 0)
    names = tuple(key_with_hash("", 64 * n) for n in reversed(range(9)))
    assert hash_map_order(names, 64) == tuple(range(9))


# --- The order in which a `java.util.HashMap` yields its keys, worked out by hand from its tables.
# A name of one character has that character's number as its hash, and as its spread.
@pytest.mark.parametrize(("names", "capacity", "order"), [
    ("", 16, ()), ("a", 16, (0,)),
    ("ba", 16, (1, 0)),  # 98 and 97
    ("pa", 16, (0, 1)),  # 112 is in bucket 0, 97 in bucket 1
    ("aq", 16, (0, 1)),  # 97 and 113 are both in bucket 1: as they were put
    ("qa", 16, (0, 1)), ("qa", 128, (1, 0)),
    ("abcdefghijkq", 16, (0, 11, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)),  # 12 names, 16 buckets
    ("abcdefghijklq", 16, (*range(12), 12)),  # one more, and there are 32
])  # fmt: skip
def test_names_of_one_character(names: str, capacity: int, order: tuple[int, ...]) -> None:
    assert hash_map_order(tuple(names), capacity) == order


@pytest.mark.parametrize(("many", "bits"), [(8, 0xF), (9, 0x1F)])
def test_a_bucket_of_eight_that_gets_one_more_doubles_a_small_table(many: int, bits: int) -> None:
    one_bucket = [key_with_hash("", 16 * n) for n in reversed(range(many))]
    order = hash_map_order(tuple(one_bucket), 16)
    buckets = [16 * (many - 1 - i) & bits for i in order]
    assert buckets == sorted(buckets)
    assert [i for i in order if 16 * (many - 1 - i) & bits == 0] == [
        i for i in range(many) if 16 * (many - 1 - i) & bits == 0
    ]
    assert (order == tuple(range(many))) == (many == 8)


# --- The table of a store's state: its own order, and the lists that are read from it.
_KNOWN = {release.split("-")[0] for release in RELEASES}
_EXAMPLES = {
    "commitlog/00000000000000000000": "CommitLog",
    "consumequeue/Orders/0/00000000000006000000": "ConsumeQueue",
    "consumequeue/%LMQ%a/b/0/00000000000000000000": "ConsumeQueue",
    "consumequeue/MANIFEST-000005": "ConsumeQueueRocksDBStorage",
    "index/20231114221320123": "IndexFile", "timerwheel": "TimerWheel",
    "timerwheel.17": "TimerWheel", "timerlog/00000000000000000000": "TimerLog",
    "config/timercheck": "TimerCheckpoint", "config/topics.json": "TopicConfigManager",
    "config/topics.json.bak": "TopicConfigManager",
    "config/topics/000013.sst": "ConfigRocksDBStorage",
    "config/users/CURRENT": "LocalAuthenticationMetadataProvider",
    "kvStore/LOG.old.1764200000000000": "PopConsumerRocksdbStore",
    "compaction/compactionLog/T/0/00000000000000004600": "CompactionLog",
    "compaction/compactionCq/T/0/compacting/00000000000000000000": "SparseConsumeQueue",
    "epochFileCheckpoint.bak": "EpochFileCache", "brokerIdentity-temp": "TempBrokerMetadata",
    "dledger-n0/data/00000000000000000000": "DLedgerMmapFileStore",
}  # fmt: skip
_STRANGERS = (
    "notes.txt", "config/timercheck.bak", "config/topics.json.orig", "index/202311142213201234",
    "timerlog/0", "consumequeue/Orders/00000000000000000000", "kvStore/x", "timerwheel.",
    "commitlog/" + "\u0660" * 20,  # Arabic digits
)  # fmt: skip


@pytest.mark.parametrize("path", _EXAMPLES)
def test_a_file_is_found_by_its_path(path: str) -> None:
    row = state_table.row_of(path)
    assert row is not None
    assert row.by == _EXAMPLES[path]


@pytest.mark.parametrize("path", _STRANGERS)
def test_a_file_of_another_name_is_in_no_row(path: str) -> None:
    assert state_table.row_of(path) is None


def test_each_path_has_one_row_of_known_releases_and_a_judge_and_config_what_a_copy_takes() -> None:
    paths = [row.path for row in state_table.FILES]
    assert len(set(paths)) == len(paths)
    assert {row.first for row in (*state_table.FILES, *state_table.TOPICS_OF_STATE)} <= _KNOWN
    assert {row.last for row in state_table.FILES} <= _KNOWN
    derived = [row for row in state_table.FILES if row.copies == state_table.Copies.DERIVE]
    assert {row.decides for row in derived} <= {state_table.Decides.LOG, state_table.Decides.CLOCK}
    for row in state_table.FILES:
        module, _, name = row.judged.rpartition(".")
        if not module:
            assert (row.copies, row.table) == (state_table.Copies.LEAVE, ""), row.path
        else:
            assert callable(getattr(importlib.import_module(f"reput.{module}"), name)), row.path
    # SlaveSynchronize.syncAll, and what every release has beside that
    assert state_table.config_to_carry(positions=False) == (
        "topics.json", "subscriptionGroup.json", "topicQueueMapping.json",
        "messageRequestMode.json", "consumerFilter.json",
    )  # fmt: skip
    assert state_table.config_to_carry()[5:] == (
        "consumerOffset.json", "delayOffset.json", "consumerOrderInfo.json",
        "lmqConsumerOffset.json",
    )  # fmt: skip
    assert list(state_table.CONFIG_DBS) == ["topics.json", "subscriptionGroup.json",
                                            "consumerOffset.json"]  # fmt: skip
