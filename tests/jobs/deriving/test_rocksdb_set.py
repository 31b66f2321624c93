"""rebuild --queues rocksdb: the rows are those that real brokers derived from the same log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import reput
from reput.jobs.pipeline.pipeline import Cut
from reput.jobs.rebuild import rebuild
from reput.store_format.release.settings import SettingError
from tests.in_process import Session
from tests.jobs.deriving.rocksdb_rows import rows
from tests.memory_storage import MemoryStorage
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


def test_files_are_built_of_it_where_they_are_asked_for(tmp_path: Path) -> None:
    store, _ = unpack("double_5.3.3", tmp_path)
    settings = {"mappedFileSizeConsumeQueue": "2000"}
    rebuilt(store, tmp_path / "out", "5.3.3", queues="files", settings=settings)
    files = [path for path in (store / "consumequeue").rglob("*") if path.parent.name.isdigit()]
    assert files
    for path in files:
        built = tmp_path / "out" / path.relative_to(store)
        assert built.read_bytes() == path.read_bytes()


def test_a_store_with_both_says_what_to_ask_for(tmp_path: Path) -> None:
    store, _ = unpack("double_5.3.3", tmp_path)
    with pytest.raises(SettingError, match="--queues files, or --queues rocksdb"):
        rebuilt(store, tmp_path / "out", "5.3.3")
    assert not (tmp_path / "out").exists()


def test_it_is_built_on_another_file_system(tmp_path: Path) -> None:
    store, _ = unpack("alone_5.5.0", tmp_path)
    segments = {
        f"store/commitlog/{path.name}": path.read_bytes()
        for path in (store / "commitlog").iterdir()
    }
    storage = MemoryStorage(segments)
    rebuild(
        Session(), "store", "out", rocketmq="5.5.0", queues="rocksdb", storage=storage,
        cut=Cut(partitions=5),
    )  # fmt: skip
    folder = tmp_path / "out"
    folder.mkdir()
    for path, content in storage.files.items():
        if path.startswith("out/consumequeue/"):
            (folder / path.rpartition("/")[2]).write_bytes(content)
    assert rows(folder) == rows(store / "consumequeue")
