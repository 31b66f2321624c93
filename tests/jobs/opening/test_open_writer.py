"""A writer is opened as a broker's configuration says, and only where it can write."""

from pathlib import Path
from typing import Any

import pytest

from reput.jobs.opening.open_writer import (
    local_store,
    local_store_at,
    open_writer,
    stored_at,
    try_writer,
)
from reput.store_format.derived.checkpoint import Checkpoint
from reput.store_format.derived.checkpoint import encode as encode_checkpoint
from reput.store_format.faults import StoreError
from reput.store_format.files.local import LocalStorage
from reput.store_format.layouts import QUEUE_ENTRY_BYTES
from reput.store_format.log.rules import record_rules
from reput.store_format.log.segments import Segment
from reput.store_format.message.message import Message
from reput.store_format.release.profiles import UnknownRelease, profile
from reput.store_format.release.settings import SettingError
from tests.broker.writer.stores import TINY
from tests.built import write_log
from tests.in_process import as_text
from tests.jobs.opening.writing import SETTINGS
from tests.jobs.recovering import crash
from tests.logs import build_log, small
from tests.logs.encoder import HOST, encode
from tests.logs.encoder import Message as BrokerMessage
from tests.quiet.said import run_verify
from tests.quiet.small_stores import made

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
        try_writer(local_store_at(str(store), "4.9.7"))
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


# --- From where a broker dispatches again after a crash: the times and places that decide it.
HOST_V6 = bytes(range(16)) + HOST[4:]


@pytest.mark.parametrize(
    ("release", "sys_flag", "host"),
    [("5.3.3", 0x10, HOST_V6), ("4.5.2", 0x10, HOST), ("5.3.3", 0, HOST)],
    ids=["an IPv6 host", "the bit before it had a meaning", "an IPv4 host"],
)
def test_a_store_time_stands_behind_the_born_host_of_its_release(
    release: str, sys_flag: int, host: bytes, tmp_path: Path
) -> None:
    path = tmp_path / f"{0:020d}"
    path.write_bytes(
        encode(BrokerMessage(sys_flag=sys_flag, born_host=host, store_timestamp=77), 0)
    )
    storage = LocalStorage()
    ((_, state),) = storage.list(str(tmp_path))
    segment = Segment(str(path), 0, state)
    rules = record_rules(profile(release))
    assert stored_at(storage, segment, 0, rules) == 77


@pytest.mark.parametrize(
    ("release", "flushed", "faults"), [("5.5.0", True, 1), ("5.5.0", False, 0), ("5.4.0", True, 0)]
)
def test_5_5_0_goes_by_the_place_up_to_which_queues_were_flushed(
    release: str, flushed: bool, faults: int, tmp_path: Path
) -> None:
    store = made(tmp_path / "store")
    path = store / "consumequeue" / "T0" / "0" / f"{0:020d}"
    whole = path.read_bytes()
    path.write_bytes(whole[:-QUEUE_ENTRY_BYTES] + bytes(QUEUE_ENTRY_BYTES))
    last = max(int(path.name) for path in (store / "commitlog").iterdir())
    known = Checkpoint(1, 1, 1, logics_physical_offset=last if flushed else 0)
    (store / "checkpoint").write_bytes(encode_checkpoint(known))
    crash(store)
    report = run_verify(store, release, SETTINGS)
    # one fault, or one file that the broker goes on with
    assert (len(report.differences), len(report.behind)) == (faults, 1 - faults)
