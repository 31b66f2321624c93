"""What is reported about stores that real brokers wrote is what was done there."""

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import reput
from reput.jobs.cli import main
from tests.pages import ROOT
from tests.store_format.fate.judge import compare_done, compare_in_rocksdb, compare_skipped
from tests.store_format.fate.stores import IN_ROCKSDB, LIVED, SKIPPED, unpack


@pytest.mark.parametrize("name", LIVED)
def test_what_was_done_is_reported(name: str, tmp_path: Path) -> None:
    store, done = unpack(name, tmp_path)
    compare_done(store, done)


def test_what_a_broker_skipped_is_reported(tmp_path: Path) -> None:
    store, done = unpack(SKIPPED, tmp_path)
    compare_skipped(store, done, {"before": "delivered", "meanwhile": "never delivered",
                                  "after": "delivered"})  # fmt: skip


@pytest.mark.parametrize("read", [True, False])
def test_what_rocksdb_tells_a_broker_of_is_known(read: bool, tmp_path: Path) -> None:
    store, done = unpack(IN_ROCKSDB, tmp_path)
    if not read:
        shutil.rmtree(store / "rocksdbstore")  # the log alone tells it
    compare_in_rocksdb(store, done)


def test_what_brokers_do_not_ask_about_and_a_missing_library_are_said(
    tmp_path, monkeypatch
) -> None:
    # As RocketMQ 5.5.1, once transRocksDBEnable was taken off.
    for given, said in [("true", False), ("false", True)]:
        store, _ = unpack(IN_ROCKSDB, tmp_path)
        with reput.open_store(str(store), settings={"transRocksDBEnable": given}) as asked:
            notes = asked.transactions().notes
        assert any("transRocksDBEnable=true alone" in note for note in notes) == said
    store, done = unpack(IN_ROCKSDB, tmp_path)
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    with reput.open_store(str(store)) as asked:
        (note,) = asked.transactions(everything=True).notes
        assert 'rocksdbstore: is a RocksDB: pip install "reput[rocksdb]" reads it' in note
        assert "transRocksDBEnable were checked or given up" in note
        rows = asked.delayed(everything=True)
        assert {row.unique_key for row in rows} == done["timers"].keys()
        assert "timerRocksDBEnable are delivered for good is not known" in " ".join(rows.notes)


# --- The examples of docs/fate.md run as they stand.
PAGE = (ROOT / "docs" / "fate.md").read_text()


@pytest.fixture
def stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in sorted(set(re.findall(r"(\w+_[0-9.]+)/store", PAGE))):
        unpack(name, Path(name))


def block(kind: str) -> str:
    [found] = re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


@pytest.mark.usefixtures("stores")
def test_commands(capsys: Any) -> None:
    shown = re.split(r"^\$ reput (.*)\n", block("console"), flags=re.MULTILINE)[1:]
    assert len(shown) == 6
    for words, wanted in zip(shown[::2], shown[1::2], strict=True):
        assert main(words.split()) == 0
        said = capsys.readouterr()
        notes = [each for each in said.err.splitlines(True) if "bytes read" not in each]
        assert "".join(notes) + said.out == wanted


@pytest.mark.usefixtures("stores")
def test_functions(capsys: Any) -> None:
    pytest.importorskip("pyarrow")
    exec(compile(block("python"), "docs/fate.md", "exec"), {})
    assert capsys.readouterr().out == "3 Live0 3\n['delayed'] 1\n"
