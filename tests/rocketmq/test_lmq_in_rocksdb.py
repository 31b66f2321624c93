"""LMQ queues in RocksDB alone (combineCQUseRocksdbForLmq, 5.5.0 on): the files are without them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from reput.jobs.verify import verify
from reput.store_format.faults import StoreError
from tests import golden_stores
from tests.in_process import Session, as_text
from tests.rocketmq.engines import Reput
from tests.rocketmq.judge import Drivers, copy, difference

pytestmark = [pytest.mark.rocketmq, pytest.mark.spark, pytest.mark.long]

IN_ROCKSDB = {"rocksdbCQDoubleWriteEnable": True, "combineCQUseRocksdbForLmq": True}
APART = {"useSeparateStorePathForRocksdbCQ": True}


@pytest.mark.parametrize("version", ["5.5.0", "5.5.1"])
def test_files_have_no_entries_of_lmq(
    version: str, folder: Path, drivers: Drivers, reput: Reput,
    needs_rocketmq: Callable[[str], None],
) -> None:  # fmt: skip
    needs_rocketmq(version)
    golden = golden_stores.unpack("small_lmq_batch_5.5.0")
    assert any(path.name.startswith("%LMQ%") for path in (golden.expect / "consumequeue").iterdir())
    given = {**golden.settings, **IN_ROCKSDB}
    store, theirs, ours = folder / "store", folder / "theirs", folder / "ours"
    copy(golden.input, store)
    shutil.rmtree(store / "config")  # RocketMQ fails with batch queues and RocksDB at once
    copy(store, theirs)
    drivers.get(version).derive(theirs, {**given, **APART}, pace=20)
    assert (theirs / "consumequeue_rocksdb" / "CURRENT").exists()
    reput.rebuild(version, given, store, ours)
    assert not any(path.name.startswith("%LMQ%") for path in (ours / "consumequeue").iterdir())
    assert difference(ours, theirs) is None
    report = verify(Session(), str(theirs), rocketmq=version, settings=as_text(given))
    # inner batches have no place in RocksDB: RocketMQ leaves rows there that it does not read
    assert all("/BatchTopic/" in each.path for each in report.differences), report.text()
    assert any("queues compared with RocksDB" in note for note in report.notes)
    with pytest.raises(StoreError, match=r"consumequeue_rocksdb/CURRENT: .* in RocksDB"):
        reput.rebuild(version, given, theirs, folder / "again")
