"""Queues and index in RocksDB on either engine: the rows that one process makes."""

from pathlib import Path
from typing import Any

import pytest

from reput.jobs.pipeline.pipeline import Cut
from reput.jobs.rebuild import rebuild
from reput.jobs.verify import verify
from reput.store_format.faults import REFUSE, SALVAGE
from tests import golden_stores
from tests.golden_stores import GoldenStore
from tests.in_process import Session, as_text
from tests.jobs.deriving.rocksdb_rows import rows
from tests.jobs.judging.rocksdb_index_rows import rows as index_rows

CUT = Cut(split_bytes=70_000, index_ranges=5, partitions=7)


def built(
    engine: Any, store: GoldenStore, output: Path, cut: Cut | None, on_damage: str
) -> tuple[Any, Any]:  # fmt: skip
    """The rows of queues and index; an index is built of sound logs alone."""
    index = "files" if on_damage == SALVAGE else "rocksdb"
    summary = rebuild(
        engine, str(store.input), str(output), rocketmq=store.version, cut=cut,
        settings=as_text(store.settings), queues="rocksdb", index=index, on_damage=on_damage,
    )  # fmt: skip
    assert (summary.queues_in, summary.index_in) == ("rocksdb", index)
    of_index = None if index == "files" else index_rows(output / "rocksdbstore")
    return rows(output / "consumequeue"), of_index


@pytest.mark.parametrize(("name", "on_damage"), [
    ("small_all_5.5.0", REFUSE), ("many_queues_5.3.3", REFUSE), ("one_queue_5.3.3", REFUSE),
    ("middle_magic_5.3.3", SALVAGE),
])  # fmt: skip
def test_each_engine_makes_the_same_rows(engine, tmp_path, name: str, on_damage: str) -> None:
    store = golden_stores.unpack(name)
    found = built(engine, store, tmp_path / "found", CUT, on_damage)
    assert len(found[0]["default"]) > 10
    assert found == built(Session(), store, tmp_path / "wanted", None, on_damage)
    report = verify(
        engine, str(store.input), against=str(tmp_path / "found"), rocketmq=store.version,
        settings=as_text(store.settings), on_damage=on_damage,
    )  # fmt: skip
    assert report.same, report.differences
    assert len(report.in_rocksdb) == 1 + (found[1] is not None)
