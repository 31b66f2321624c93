"""Logs of single queues that RocketMQ writes, read by us: what its own readers give of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from reput.jobs.comparing.compare import verify_queue_log
from reput.jobs.opening.questions import open_store
from reput.store_format.discover.store import store_at
from tests.rocketmq.driver import Driver
from tests.rocketmq.live import Broker, Client
from tests.rocketmq.queue_log_stores import COMPACTED, SETTINGS, VERSION, make_compacted, tier

pytestmark = [pytest.mark.rocketmq, pytest.mark.long, pytest.mark.timeout(900)]


def ours(url: str) -> list[list[str]]:
    """Topic, queue, queueOffset, offset and size of each message, in the log's order."""
    with open_store(url) as store:
        return [
            [each.topic, *map(str, (each.queue_id, each.queue_offset, each.physical_offset)),
             str(each.record.size)]
            for each in store.messages()
        ]  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, needs_rocketmq: Callable[[str], None]) -> Path:
    needs_rocketmq(VERSION)
    store = tmp_path_factory.mktemp("compacted") / "store"
    make_compacted(store, 1600)
    return store


def test_tiered_queues_are_what_rocketmq_reads_back(store: Path, tmp_path: Path) -> None:
    told = tier(store, tmp_path / "tiered", 4000, 400)
    assert len(told) > 1
    for folder, rows in told.items():
        assert ours(f"tiered:{folder}") == rows
        report = verify_queue_log(store_at(f"tiered:{folder}"))
        assert report.same, report.differences


def test_a_compacted_queue_has_what_a_consumer_is_given(store: Path, tmp_path: Path) -> None:
    """A consumer is not given what RocketMQ forgot as it compacted, which verify finds."""
    copy = Path(shutil.copytree(store, tmp_path / "copy"))
    settings = {**SETTINGS, "compactionScheduleInternal": 3_600_000}
    with Broker(VERSION, copy, **settings) as broker, Driver(VERSION) as driver:
        given = Client(driver, broker.namesrv).ask("pull", queues={COMPACTED: 2})["messages"]
        broker.stop()
    assert given
    for queue in (0, 1):
        url = f"compacted:{store}/compaction/compactionLog/{COMPACTED}/{queue}"
        found = {int(row[2]) for row in ours(url)}
        read = {each[2] for each in given if each[1] == queue}
        assert read <= found
        if verify_queue_log(store_at(url)).same:
            assert read == found
