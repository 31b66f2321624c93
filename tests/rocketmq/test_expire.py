"""A broker on one copy of a store deletes what has expired, `reput expire` on another: the same."""

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.expire import expire
from reput.jobs.in_place.expire import Expired
from reput.store_format.message.message import parse_properties
from reput.store_format.names import COMMIT_LOG
from tests.broker.writer.stores import stored_records
from tests.in_process import as_text
from tests.rocketmq.driver import Driver
from tests.rocketmq.live import SETTINGS, TOPICS, Broker, living, messages

pytestmark = [pytest.mark.rocketmq, pytest.mark.long]
FOLDERS = (COMMIT_LOG, "consumequeue", "index")
SMALL = {"mappedFileSizeCommitLog": 1 << 16, "mappedFileSizeConsumeQueue": 400, "maxIndexNum": 300}


def names(store: Path) -> set[str]:
    """The files that hold anything: a broker prepares segments ahead."""
    return {str(path.relative_to(store)) for folder in FOLDERS
            for path in (store / folder).rglob("*") if path.is_file()
            and (folder != COMMIT_LOG or any(path.read_bytes()))}  # fmt: skip


@pytest.mark.parametrize("version", ["4.9.7", "5.5.0"])
def test_what_a_broker_deletes(version: str, tmp_path: Path) -> None:
    """Ten segments of any age (fileReservedTime=0), then queue and index files; a broker starts on
    what reput leaves, and changes nothing."""
    store = tmp_path / "store"
    with living(version, store, **SMALL) as (_, client):
        client.send(messages(3000))
    ours = tmp_path / "ours"
    shutil.copytree(store, ours)
    whole = names(store)
    with Broker(version, store, **SMALL) as broker:
        broker.driver.ask("broker.clean", queues=True)
        broker.stop()
    settings = as_text({**SETTINGS, **SMALL, "fileReservedTime": 0})
    done = expire(str(ours), rocketmq=version, settings=settings, any_hour=True, even_unread=True,
                  even_delayed=True, even_pending=True)  # fmt: skip
    assert len(done.segments) == 10
    assert names(ours) == names(store)
    assert {each.path for each in (*done.segments, *done.files)} == whole - names(ours)
    left = names(ours)
    with Broker(version, ours, **SMALL) as broker:
        broker.stop()
    assert names(ours) >= left


def keys_in_log(store: Path) -> Counter[str]:
    """The UNIQ_KEYs of the clients' messages, by the log."""
    return Counter(
        parse_properties(record.properties)["UNIQ_KEY"]
        for record in stored_records(store / COMMIT_LOG) if record.topic in TOPICS
    )  # fmt: skip


def test_three_rounds_of_broker_expire_broker(tmp_path: Path) -> None:
    """What stays in the log is what clients read, each once; new messages come behind it."""
    version, store, wanted = "5.3.3", tmp_path / "store", Counter[str]()
    settings = as_text({**SETTINGS, **SMALL, "fileReservedTime": 0})

    def run(**options: Any) -> Expired:
        return expire(str(store), rocketmq=version, settings=settings, any_hour=True, **options)

    with Driver(version) as driver:
        for round_ in range(4):
            with living(version, store, **SMALL, driver=driver) as (_, client):
                if round_:  # else there is no topic to read
                    assert Counter(each[3] for each in client.read(group="one")) == wanted
                if round_ == 3:
                    break
                sent = client.send(messages(1500, 1500 * round_))
                wanted += Counter(each[3] for each in sent)
                assert Counter(each[3] for each in client.read(group="two")) == wanted
            before = keys_in_log(store)
            assert before == wanted
            # a group that has read nothing of one topic needs all of it
            late = '{"offsetTable":{"Live0@late":{0:0}}}'
            (store / "config" / "consumerOffset.json").write_text(late)
            kept = run(dry_run=True)
            assert kept.segments == []
            assert "'late'" in kept.kept[0].who
            done = run(even_unread=True)
            assert done.segments
            wanted = keys_in_log(store)
            assert wanted < before
