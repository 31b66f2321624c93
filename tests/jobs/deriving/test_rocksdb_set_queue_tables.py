"""The tables of queues in RocksDB: a row for each queueOffset, ranges of keys that do not meet."""

from dataclasses import replace
from typing import Any

import pytest

from reput.jobs.deriving.rocksdb_set import queue_tables
from reput.jobs.pipeline.pipeline import Cut
from reput.store_format.faults import DamageFound, StoreError
from tests.damaged import Damaged, damaged, messages
from tests.in_process import Session, storage_of
from tests.jobs.found import STAGING, found, job_of
from tests.logs import Log
from tests.logs.batches import BATCH_QUEUE, batches
from tests.logs.encoder import Message, build_log
from tests.memory_storage import WatchedStorage


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


@pytest.mark.parametrize("ranges", [1, 2, 7])
@pytest.mark.parametrize("split_bytes", [500, 4096])
def test_each_entry_is_in_one_table_however_the_work_is_cut(ranges: int, split_bytes: int) -> None:
    rows = tables(damaged(), Cut(split_bytes, partitions=ranges))
    assert entries(rows) == {("T", 0): 20, ("T", 1): 20, ("T", 2): 20}


def test_the_last_entry_of_a_queue_is_that_of_the_log() -> None:
    log = damaged()
    rows = tables(log)
    last = {row["queue_id"]: (row["place"], row["position"]) for row in rows}
    assert last == {n: (log.places[57 + n], 19) for n in range(3)}


def test_of_two_records_with_one_queue_offset_one_row_stays() -> None:
    made = messages(6, 1)
    made[4] = replace(made[4], queue_offset=3)
    made[5] = replace(made[5], queue_offset=9)
    assert entries(tables(damaged(made))) == {("T", 0): 5}


@pytest.mark.parametrize("split_bytes", [500, 4096])
def test_a_queue_that_cannot_begin_so_is_refused(split_bytes: int) -> None:
    made = messages(30, 1)
    made[0] = replace(made[0], queue_offset=-5)
    with pytest.raises(DamageFound):
        tables(damaged(made), Cut(split_bytes))


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


def test_a_log_without_a_message_has_no_table() -> None:
    log = damaged(messages(1))
    log.segments[0][:] = bytes(len(log.segments[0]))
    assert tables(log) == []


def test_a_batch_queue_has_no_place_in_rocksdb() -> None:
    log = damaged([*messages(3), *batches([2, 3], 1_700_000_000_100)])
    with pytest.raises(StoreError, match=r"queue 0: is a batch queue .*--queues files"):
        tables(log, topics=BATCH_QUEUE)
