"""A broker on one copy of a store deletes what has expired, `reput expire` on another: the same."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from reput import check, expire, rebuild, repair
from reput.store_format.derived.queues import FileQueues
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.names import COMMIT_LOG
from tests.in_process import Session, as_text
from tests.rocketmq.driver import Driver, remove_derived
from tests.rocketmq.live import SETTINGS, Broker, living, messages
from tests.rocketmq.puts import SIZES, assert_same, derived

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


# --- A topic that was deleted and made again, and a queue whose messages have expired: what the
# real store keeps is what reput derives.

VERSION = "5.3.3"
GIVEN: dict[str, Any] = {
    "rocketmq": VERSION, "settings": {name: str(value) for name, value in SIZES.items()},
}  # fmt: skip


def put(store: Path, topic: str, many: int, size: int = 30) -> None:
    messages = [{"t": topic, "q": 0, "b": size, "bs": n, "born": 1, "p": {"KEYS": f"{topic}{n}"}}
                for n in range(many)]  # fmt: skip
    with Driver(VERSION) as driver:
        answer = driver.ask("put", store=str(store), settings=SIZES, messages=messages)
    assert answer["statuses"] == {"PUT_OK": many}


def derive(store: Path) -> None:
    with Driver(VERSION) as driver:
        driver.derive(store, SIZES, mode="crash")


def queue_of(store: Path, topic: str) -> dict[str, bytes]:
    folder = store / "consumequeue" / topic
    return {str(path.relative_to(store)): path.read_bytes()
            for path in sorted(folder.rglob("*")) if path.is_file()}  # fmt: skip


def test_the_new_life_stays_and_the_log_alone_joins_both(tmp_path: Path) -> None:
    store = tmp_path / "store"
    put(store, "Remade", 30)
    put(store, "Other", 3)
    shutil.rmtree(store / "consumequeue" / "Remade")  # as AdminBrokerProcessor.deleteTopic does
    put(store, "Remade", 8)
    kept = queue_of(store, "Remade")
    assert check(Session(), str(store), **GIVEN).sound
    rebuild(Session(), str(store), str(tmp_path / "kept"), **GIVEN)
    assert queue_of(tmp_path / "kept", "Remade") == kept
    derive(store)
    assert queue_of(store, "Remade") == kept
    remove_derived(store)
    summary = rebuild(Session(), str(store), str(tmp_path / "alone"), **GIVEN)
    assert len(summary.in_no_queue) == 8
    derive(store)
    assert_same(derived(tmp_path / "alone"), derived(store))


def test_a_queue_whose_messages_have_expired_goes_on_in_a_repaired_store(tmp_path: Path) -> None:
    store, repaired = tmp_path / "store", tmp_path / "repaired"
    put(store, "Old", 250)
    put(store, "New", 60, 2000)
    first, *_ = sorted((store / "commitlog").iterdir())
    first.unlink()
    repair(Session(), str(store), str(repaired), **GIVEN)
    put(repaired, "Old", 1)
    report = check(Session(), str(repaired), **GIVEN)
    assert report.sound, report.differences
    queue = FileQueues(Folder(LocalStorage(), str(repaired)), lambda _: 0).open("Old", 0, False)
    last = queue.last()
    assert last is not None
    assert (last.position, queue.maximum()) == (250, 251)
