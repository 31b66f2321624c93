"""Commands that read a store's log alone take one whose queues are in RocksDB."""

from __future__ import annotations

from pathlib import Path

from reput.jobs.cli import main
from reput.jobs.replicating.master import StoreLog
from reput.jobs.sources.opened_log import plan_of
from reput.jobs.sources.options import SourceOptions
from reput.store_format.discover.store import store_at
from tests.store_format.rocksdb.stores import unpack


def test_such_a_store_is_exported_and_reported(tmp_path, capsys) -> None:
    store, sent = unpack("index_5.4.0", tmp_path / "unpacked")
    asked = ["--rocketmq", "5.4.0", "--set", "maxHashSlotNum=50", "--set", "maxIndexNum=600"]
    exported = ["export", str(store), "--output", str(tmp_path / "out"), "--as", "jsonl"]
    assert main([*exported, *asked]) == 0
    rows = [line for path in (tmp_path / "out").rglob("*.jsonl") for line in path.open()]
    assert len(rows) == len(sent)
    assert main(["report", str(store), "--output", str(tmp_path / "page.html"), *asked]) == 0
    assert "Sound: 150 messages" in capsys.readouterr().out


def test_such_a_log_is_a_table_of_spark_and_served_to_slaves(tmp_path: Path) -> None:
    """Both read the log alone; `spark.read.format("commitlog")`, `serve --ha-listen`."""
    store, _ = unpack("alone_5.2.0", tmp_path)
    plan = plan_of(SourceOptions(str(store), rocketmq="5.2.0"))
    served = StoreLog(store_at(str(store), "5.2.0")).now()
    assert (served.start, plan.segments[0].start) == (0, 0)
    assert served.end > 0
