"""A writer is opened as a broker's configuration says, and only where it can write."""

import json
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.opening.open_writer import (
    discover_to_write,
    local_store,
    local_store_at,
    open_writer,
)
from reput.store_format.faults import StoreError
from reput.store_format.message.message import Message
from reput.store_format.message.refusals import BatchQueueTopic
from reput.store_format.release.profiles import UnknownRelease
from reput.store_format.release.settings import SettingError
from tests.broker.writer.stores import TINY
from tests.built import write_log
from tests.in_process import as_text
from tests.logs import build_log, small

SIZES = as_text(TINY)


def written(root: Path, **more: Any) -> Path:
    with open_writer(str(root), rocketmq="5.3.3", settings={**SIZES, **more}) as writer:
        writer.append(Message("T", b"one", keys="k"))
    return root


def test_only_a_local_store_is_written_to(tmp_path: Path) -> None:
    assert local_store(f"file://{tmp_path}/store") == f"{tmp_path}/store"
    for path in ("s3://bucket/store", "compacted:/store"):
        with pytest.raises(StoreError, match="only a local store can be written to"):
            local_store(path)
    at = local_store_at(str(tmp_path), "4.9.7", {"maxIndexNum": "20"})
    assert (at.path, at.rocketmq, at.settings) == (str(tmp_path), "4.9.7", {"maxIndexNum": "20"})


def test_a_release_that_the_log_does_not_show_must_be_named(tmp_path: Path) -> None:
    store = write_log(tmp_path / "store", build_log(small.messages(3), small.SEGMENT))
    with pytest.raises(UnknownRelease):
        open_writer(str(store), settings=small.SETTINGS)
    assert [path.name for path in store.iterdir()] == ["commitlog"]
    with open_writer(str(store), rocketmq="5.3.3", settings=small.SETTINGS) as writer:
        assert writer.profile.release == "5.3.3"


def test_a_release_that_the_files_contradict_is_refused(tmp_path: Path) -> None:
    store = written(tmp_path / "store")
    (store / "abort").write_bytes(b"123")  # the process id: from 5.0.0 on
    before = {path: path.stat().st_mtime_ns for path in store.rglob("*")}
    with pytest.raises(SettingError, match="leave --rocketmq out"):
        discover_to_write(local_store_at(str(store), "4.9.7"))
    with pytest.raises(SettingError, match="leave --rocketmq out"):
        open_writer(str(store), rocketmq="4.9.7")
    assert {path: path.stat().st_mtime_ns for path in store.rglob("*")} == before


def test_a_found_configuration_counts_but_sizes_are_those_of_the_files(tmp_path: Path) -> None:
    store = written(tmp_path / "store")
    said = "maxIndexNum=20\nflushDiskType=SYNC_FLUSH\nmessageIndexEnable=false\nmaxMessageSize=x\n"
    (store / "broker.conf").write_text(said)
    warnings: list[str] = []
    given = {"messageIndexEnable": "true"}
    with open_writer(str(store), rocketmq="5.3.3", settings=given, warnings=warnings) as writer:
        assert (writer.settings.mapped_file_size_commit_log, writer.settings.max_index_num) == (
            4096, 20,
        )  # fmt: skip
        assert str(writer.settings.flush_disk_type).endswith("SYNC_FLUSH")
        assert writer.settings.message_index_enable
    assert any("maxMessageSize" in line for line in warnings)


def test_without_dispatch_only_the_log_grows(tmp_path: Path) -> None:
    store = written(tmp_path / "store")
    before = {path: path.read_bytes() for path in (store / "consumequeue").glob("*/*/*")}
    log = (store / "commitlog" / f"{0:020d}").read_bytes()
    with open_writer(str(store), rocketmq="5.3.3", settings=SIZES, dispatches=False) as writer:
        writer.append(Message("T", b"two"))
    assert {path: path.read_bytes() for path in (store / "consumequeue").glob("*/*/*")} == before
    assert (store / "commitlog" / f"{0:020d}").read_bytes() != log


def test_a_batch_queue_of_the_topics_is_not_appended_to(tmp_path: Path) -> None:
    store = tmp_path / "store"
    (store / "config").mkdir(parents=True)
    topics = {"B": {"attributes": {"queue.type": "BatchCQ"}}, "T": {"attributes": {}}}
    (store / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": topics}))
    with open_writer(str(store), rocketmq="5.3.3", settings=SIZES) as writer:
        writer.append(Message("T", b"one"))
        with pytest.raises(BatchQueueTopic, match=r"'B': has queue.type BatchCQ"):
            writer.append(Message("B", b"one"))


def test_topics_that_cannot_be_read_are_told_of(tmp_path: Path) -> None:
    store = written(tmp_path / "store")
    (store / "config").mkdir()
    (store / "config" / "topics.json").write_text("{")
    warnings: list[str] = []
    with open_writer(str(store), rocketmq="5.3.3", settings=SIZES, warnings=warnings):
        pass
    assert any("topics.json" in line for line in warnings)


def test_what_shows_the_release_is_told(tmp_path: Path) -> None:
    store, told = written(tmp_path / "store"), dict[str, dict[str, Any]]()
    with open_writer(str(store), rocketmq="5.3.3", settings=SIZES, discovered=told):
        pass
    assert told.keys() <= {"rocketmq", "eras", "index names"}
