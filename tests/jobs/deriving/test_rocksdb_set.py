"""rebuild --queues rocksdb: the rows are those that real brokers derived from the same log."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import reput
from reput.jobs.deriving.rocksdb_set import queue_tables
from reput.jobs.pipeline.pipeline import Cut
from reput.jobs.rebuild import rebuild
from reput.store_format.faults import DamageFound, StoreError
from reput.store_format.release.settings import SettingError
from tests.damaged import Damaged, damaged, messages
from tests.in_process import Session, storage_of
from tests.jobs.deriving.rocksdb_rows import rows
from tests.jobs.found import STAGING, found, job_of
from tests.logs import Log
from tests.logs.batches import BATCH_QUEUE, batches
from tests.logs.encoder import Message, build_log
from tests.memory_storage import WatchedStorage
from tests.store_format.rocksdb.stores import NAMES, quick, unpack


def rebuilt(store: Path, output: Path, release: str, **options: Any) -> Any:
    return rebuild(Session(), str(store), str(output), rocketmq=release, **options)


@pytest.mark.parametrize("name", quick("alone_5.2.0", "alone_5.5.0", "index_5.5.1", "double_5.4.0"))
def test_the_rows_are_a_brokers_own(name: str, tmp_path: Path) -> None:
    store, sent = unpack(name, tmp_path)
    seed = NAMES.index(name)
    summary = rebuild(
        Session(seed), str(store), str(tmp_path / "out"), rocketmq=name.partition("_")[2],
        queues="rocksdb", cut=Cut(partitions=1 + seed % 4 * 3, split_bytes=5000 + 3000 * seed),
    )  # fmt: skip
    assert (summary.queues_in, summary.queues, summary.messages) == ("rocksdb", 12, len(sent))
    assert summary.in_no_queue == []
    assert rows(tmp_path / "out" / "consumequeue") == rows(store / "consumequeue")
    there = {path.name for path in (tmp_path / "out" / "consumequeue").iterdir()}
    assert {"CURRENT"} < there
    assert not any(name.startswith(("rocksdict", "OPTIONS", "LOCK", "LOG")) for name in there)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["queues_in"] == "rocksdb"
    assert {f["path"] for f in manifest["files"]} >= {f"consumequeue/{name}" for name in there}


def test_a_store_with_queues_in_rocksdb_alone_gets_such_by_default(tmp_path: Path) -> None:
    store, _ = unpack("alone_5.3.3", tmp_path)
    assert rebuilt(store, tmp_path / "out", "5.3.3").queues_in == "rocksdb"
    report = reput.verify(Session(), str(store), against=str(tmp_path / "out"), rocketmq="5.3.3")
    assert report.same, report.differences
    assert (report.files, report.in_rocksdb) == (1, ["150 entries of 12 queues"])
    assert "  1 file derived, 150 entries of 12 queues in RocksDB: the same (" in report.text()


def test_files_are_built_where_they_are_asked_for_and_a_store_with_both_asks(tmp_path) -> None:
    store, _ = unpack("double_5.3.3", tmp_path)
    with pytest.raises(SettingError, match="--queues files, or --queues rocksdb"):
        rebuilt(store, tmp_path / "out", "5.3.3")
    assert not (tmp_path / "out").exists()
    settings = {"mappedFileSizeConsumeQueue": "2000"}
    rebuilt(store, tmp_path / "out", "5.3.3", queues="files", settings=settings)
    files = [path for path in (store / "consumequeue").rglob("*") if path.parent.name.isdigit()]
    assert files
    for path in files:
        built = tmp_path / "out" / path.relative_to(store)
        assert built.read_bytes() == path.read_bytes()


# --- The tables of queues in RocksDB: a row for each queueOffset, ranges of keys that do not meet.
def tables(log: Damaged, cut: Cut | None = None, topics: Any = None) -> list[dict[str, Any]]:
    of_log = log.log._replace(topic_attributes=topics or {})
    job = job_of(found(of_log, cut=cut))
    job.keep_times()
    rows = queue_tables(job, job.scan()).rows.to_pylist()
    storage: Any = job.plan.storage
    assert all(storage.files[f"{STAGING}/{row['name']}"] for row in rows)
    return rows


def entries(rows: list[dict[str, Any]]) -> dict[tuple[str, int], int]:
    found_rows: dict[tuple[str, int], int] = {}
    for row in rows:
        key = row["topic"], row["queue_id"]
        found_rows[key] = found_rows.get(key, 0) + row["entries"]
    return found_rows


def test_a_queue_that_cannot_begin_so_or_is_a_batch_queue_is_refused() -> None:
    made = messages(30, 1)
    made[0] = replace(made[0], queue_offset=-5)
    for split_bytes in (500, 4096):
        with pytest.raises(DamageFound):
            tables(damaged(made), Cut(split_bytes))
    log = damaged([*messages(3), *batches([2, 3], 1_700_000_000_100)])
    with pytest.raises(StoreError, match=r"queue 0: is a batch queue .*--queues files"):
        tables(log, topics=BATCH_QUEUE)
    log = damaged(messages(1))
    log.segments[0][:] = bytes(len(log.segments[0]))
    assert tables(log) == []


@pytest.mark.parametrize("irregular", [0, 3])
def test_what_is_read_does_not_grow_as_queues_times_splits(irregular: int) -> None:
    queues, splits, segment = 40, 99, 1 << 16
    made = [Message(f"T{n % queues}", 0, n // queues ^ irregular) for n in range(queues * 198)]
    log = Log(build_log(made, segment), {"mappedFileSizeCommitLog": segment}, "5.5.0", {})
    storage = WatchedStorage(storage_of(log).files)
    job = job_of(found(log, storage, Cut(len(log.segments) * segment // splits)))
    job.engine = session = Session(2)
    assert not session.one_machine
    job.keep_times()
    linked = job.scan()
    before, collected = len(storage.opened), session.rows_collected
    rows = queue_tables(job, linked).rows.to_pylist()
    assert entries(rows) == {(f"T{n}", 0): 198 for n in range(queues)}
    reads = sum(path.endswith(".entries") for path in storage.opened[before:])
    assert 99 <= reads <= 300  # 3,960 where each run was read by itself
    assert session.rows_collected - collected <= 2 * queues + len(rows)
