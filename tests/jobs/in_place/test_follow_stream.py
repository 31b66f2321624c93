"""The growth of a log as a stream: its size and its last change, whatever the files are."""

import os
import sys
from pathlib import Path

import pytest

from reput.jobs.in_place.follow_stream import GrowthReader, LogGrowth


@pytest.fixture(autouse=True)
def hook(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader sets the hook of its process, which is a worker of Spark otherwise."""
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)


def segment(folder: Path, name: str, size: int, changed: int) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(bytes(size))
    os.utime(folder / name, ns=(changed, changed))


def test_an_offset_is_the_bytes_of_all_files_and_the_last_change(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    segment(one, "0", 100, 7_000)
    segment(one, "1", 20, 9_000)
    segment(other, "2", 3, 8_000)
    (one / "folder").mkdir()
    reader = GrowthReader([str(one), str(other), f"{tmp_path}/none"])
    assert reader.initialOffset() == {"bytes": 0, "changed": 0}
    assert reader.latestOffset() == {"bytes": 123, "changed": 9_000}
    segment(other, "3", 0, 10_000)
    assert reader.latestOffset({}, None) == {"bytes": 123, "changed": 10_000}
    assert GrowthReader([f"file:{one}"]).latestOffset() == {"bytes": 120, "changed": 9_000}
    assert GrowthReader([]).latestOffset() == reader.initialOffset()


def test_a_batch_is_one_row_and_folders_are_given_one_a_line(tmp_path: Path, capsys) -> None:
    source = LogGrowth({"folders": f"{tmp_path}/a b,c\ns3://bucket/log"})
    assert source.streamReader(None).folders == [f"{tmp_path}/a b,c", "s3://bucket/log"]
    names = [column.split()[0] for column in source.schema().split(",")]
    assert names == ["bytes", "changed", "seen"]
    reader = GrowthReader([])
    (part,) = reader.partitions({"bytes": 1, "changed": 2}, {"bytes": 5, "changed": 6})
    ((size, changed, seen),) = reader.read(part)
    assert (size, changed) == (5, 6)
    assert seen > 1_600_000_000 * 10**9
    GrowthReader([])
    for error in (BrokenPipeError(), EOFError()):
        sys.excepthook(type(error), error, None)
    assert capsys.readouterr().err == ""
    sys.excepthook(KeyError, KeyError("key"), None)
    assert "KeyError" in capsys.readouterr().err
