"""A topic that was deleted and made again, and a queue whose messages have expired: what the real
store keeps is what reput derives.
"""

import shutil
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.check import check
from reput.jobs.rebuild import rebuild
from reput.jobs.repair import repair
from reput.store_format.derived.queues import FileQueues
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from tests.in_process import Session
from tests.rocketmq.driver import Driver, remove_derived
from tests.rocketmq.puts import SIZES, assert_same, derived

pytestmark = [pytest.mark.rocketmq, pytest.mark.long]

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
