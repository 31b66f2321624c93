"""An export into Delta tables: how far it goes on, what it refuses, what differs afterwards."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from reput.jobs.exporting.delta import compare_delta, export_delta, writer_of
from reput.jobs.exporting.delta_writers import DeltaRs
from reput.jobs.exporting.files import Chosen, ComparedExport, Exported
from reput.jobs.outputs.output import OutputInUse
from reput.store_format.faults import StoreError
from reput.store_format.release.settings import SettingError
from tests.damaged import Damaged, damaged, messages
from tests.in_process import Session
from tests.jobs.sources.reading import up_to, write


def grown(log: Damaged, tmp_path: Path, count: int = 1 << 30) -> Exported:
    """The export when the log had so many messages."""
    write(up_to(log, count), tmp_path / "store")
    return exported(tmp_path)


def exported(tmp_path: Path) -> Exported:
    store, out = str(tmp_path / "store"), str(tmp_path / "out")
    return export_delta(DeltaRs(), store, out, Chosen(), "5.3.3", {})


def compared(tmp_path: Path) -> ComparedExport:
    store, out = str(tmp_path / "store"), str(tmp_path / "out")
    return compare_delta(DeltaRs(), store, out, "5.3.3", {})


def test_a_log_that_ends_before_the_table_does_is_another_one(tmp_path: Path) -> None:
    log = damaged(messages(9, properties=b""))
    grown(log, tmp_path)
    with pytest.raises(StoreError, match=r"another (log|message)"):
        grown(log, tmp_path, 4)
    with pytest.raises(StoreError, match=f"has another message at {log.places[8]} than the log"):
        grown(damaged(messages(9, properties=b"", body=b"BODY 000")), tmp_path)


def test_a_row_that_no_run_knows_is_a_difference(tmp_path: Path) -> None:
    grown(damaged(messages(9)), tmp_path)
    table = DeltaTable(tmp_path / "out" / "messages")
    first = table.to_pyarrow_table().slice(0, 1)
    again = first.set_column(
        first.schema.get_field_index("physicalOffset"),
        first.schema.field("physicalOffset"), pa.array([1 << 50], pa.int64()),
    )  # fmt: skip
    write_deltalake(table, again, mode="append")
    found = compared(tmp_path)
    assert found.differences == ["messages: 10, of which runs knows 9"]


def test_a_folder_has_the_two_tables_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(
        StoreError, match=r"is not a table that reput has exported|is not an export"
    ):
        compared(tmp_path)
    (tmp_path / "out" / "mine").mkdir()
    with pytest.raises(OutputInUse, match="holds 'mine'; give another folder"):
        grown(damaged(messages(3)), tmp_path)


def test_without_a_session_or_without_deltalake_there_is_no_writer(monkeypatch) -> None:
    assert isinstance(writer_of("local", Session()), DeltaRs)
    with pytest.raises(SettingError, match="expected a session"):
        writer_of("spark", Session())
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(SettingError, match=r"pip install .reput\[delta\]"):
        writer_of("local", Session())


# --- `reput export --engine spark --as delta`: a Delta table by a local session.
@pytest.mark.spark
@pytest.mark.long
def test_a_local_session_has_delta_and_reads_back_what_it_wrote(tmp_path: Path) -> None:
    log = damaged(messages(60))
    store, to = write(log.log, tmp_path / "store"), tmp_path / "out"
    words = [sys.executable, "-m", "reput", "export", store, "--output", to, "--engine", "spark"]
    words += ["--rocketmq", "5.3.3", "--set", "mappedFileSizeCommitLog=4096", "--json"]
    for more in (["--as", "delta"], ["--verify"]):
        done = subprocess.run(
            [*map(str, words), *more], capture_output=True, text=True, timeout=600
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout)["messages"] == 60
    read = DeltaTable(to / "messages").to_pyarrow_table().sort_by("physicalOffset").to_pylist()
    assert [row["physicalOffset"] for row in read] == log.places
