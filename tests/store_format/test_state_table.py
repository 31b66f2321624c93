"""The table of a store's state: its own order, and the lists that are read from it."""

import importlib

import pytest

from reput.store_format import state_table
from reput.store_format.release.profiles import RELEASES

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


def test_each_path_has_one_row_of_known_releases_and_a_judge() -> None:
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


def test_what_a_copy_takes_over_of_config() -> None:
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
