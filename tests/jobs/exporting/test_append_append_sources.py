"""What `append` takes messages from: JSON lines, Parquet, Arrow; each row by its number."""

import io
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reput.jobs.exporting.append import (
    Lines,
    NumberedRows,
    closing_source,
    messages_of,
    segments_of,
    source_of,
)
from reput.store_format.faults import StoreError
from reput.store_format.release.settings import SettingError
from tests.damaged import SEGMENT, damaged, messages
from tests.jobs.sources.reading import write
from tests.leftovers import open_now

ROWS = pa.table({"topic": [f"T{n}" for n in range(7)]})


def lines(path: Path, skip: int = 0) -> list[tuple[int, bytes]]:
    found = list(messages_of(str(path), skip))
    assert all(isinstance(each, Lines) for each in found)
    return [tuple(line) for block in found for line in block.each()]


@pytest.mark.parametrize("size", [1, 2, 5, 1 << 20])
@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".ndjson", ".JSONL"])
def test_a_line_keeps_its_number_over_blank_ones_and_over_skipped_ones(
    suffix: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reput.jobs.exporting.append._BLOCK_BYTES", size)
    path = tmp_path / f"a{suffix}"
    path.write_bytes(b"\n{1}\n \t\r\n{2}\r\n{3}")
    assert lines(path) == [(2, b"{1}\n"), (4, b"{2}\r\n"), (5, b"{3}")]
    assert lines(path, 2) == [(5, b"{3}")]
    assert lines(path, 3) == []


def test_standard_input_has_json_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"{1}\n\n{2}\n")))
    assert list(source_of("-", 1)) == [Lines(2, b"\n{2}\n")]


def test_a_source_closes_its_file_and_leaves_standard_input_open(tmp_path, monkeypatch) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"{1}\n")
    before = open_now()
    with pytest.raises(ZeroDivisionError), closing_source(source_of(str(path), 0)) as kept:
        raise ZeroDivisionError  # the traceback holds what the block held
    assert open_now() == before
    assert kept
    buffer = io.BytesIO(b"{1}\n")
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=buffer))
    with closing_source(source_of("-", 0)):
        pass
    assert not buffer.closed


def parquet(path: Path) -> None:
    pq.write_table(ROWS, path)


def arrow_file(path: Path) -> None:
    with pa.ipc.new_file(path, ROWS.schema) as file:
        file.write_table(ROWS, max_chunksize=3)


def arrow_stream(path: Path) -> None:
    with pa.ipc.new_stream(path, ROWS.schema) as file:
        file.write_table(ROWS, max_chunksize=3)


@pytest.mark.parametrize("skip", [0, 1, 2, 3, 4, 6, 7, 8])
@pytest.mark.parametrize(
    ("make", "name"),
    [(parquet, "a.parquet"), (arrow_file, "a.arrow"), (arrow_stream, "a.feather"),
     (arrow_stream, "A.IPC")],
)  # fmt: skip
def test_rows_are_numbered_from_1_also_behind_what_is_skipped(
    make: Callable[[Path], None], name: str, skip: int, tmp_path: Path
) -> None:
    make(tmp_path / name)
    found = []
    for part in messages_of(str(tmp_path / name), skip):
        assert isinstance(part, NumberedRows)
        assert len(part.batch)
        topics = part.batch["topic"].to_pylist()
        found += [(part.first + n, topic) for n, topic in enumerate(topics)]
    assert found == [(n + 1, f"T{n}") for n in range(skip, 7)]


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_a_file_of_another_format_than_its_suffix_is_refused_at_once(name: str, tmp_path) -> None:
    (tmp_path / name).write_bytes(b"{}\n" * 9)
    with pytest.raises(SettingError, match=f"^--from {tmp_path / name}: "):
        messages_of(str(tmp_path / name), 0)


def test_a_file_that_is_not_there_or_has_no_known_suffix_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("")
    with pytest.raises(SettingError, match=r"expected \.jsonl, \.parquet or \.arrow"):
        source_of(str(tmp_path / "a.csv"), 0)
    with pytest.raises(SettingError, match="No such file or directory"):
        source_of(str(tmp_path / "b.csv"), 0)
    with pytest.raises(FileNotFoundError):
        source_of(str(tmp_path / "b.jsonl"), 0)


def test_a_folder_is_an_export(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not an export: it has no manifest"):
        source_of(str(tmp_path), 0)


def test_a_store_s_segments_are_read_by_physical_offsets(tmp_path: Path) -> None:
    log = damaged(messages(60))
    found = segments_of(str(write(log.log, tmp_path)))
    assert [(each.start, each.end) for each in found] == [
        (start, start + SEGMENT) for start in sorted(log.segments)
    ]
    buffer = np.zeros(100, np.uint8)
    found[1].read(SEGMENT + 50, buffer)
    assert buffer.tobytes() == bytes(log.segments[SEGMENT][50:150])
    found.close()
