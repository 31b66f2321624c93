"""The messages of an export appended: what stays theirs, and what is said of one that is none."""

import hashlib
import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from reput.broker.writer.writer import CommitLogWriter
from reput.jobs.exporting import append
from reput.store_format.faults import StoreError
from reput.store_format.message.refusals import Refused
from reput.store_format.release.settings import SettingError
from reput.udfs.table.message_rows import BadRow
from tests.broker.writer.stores import open_writer, stored_records
from tests.damaged import SEGMENT, damaged, messages
from tests.jobs.sources.reading import write
from tests.leftovers import open_now

CLIENT, BROKER = "10.1.2.3:10911", "[::1]:7"
ROW: dict[str, Any] = {
    "topic": "T", "queueId": 3, "queueOffset": 40, "physicalOffset": 900, "size": 120,
    "storeTimestampMillis": 5, "bornTimestampMillis": 6, "storeHost": BROKER, "bornHost": CLIENT,
    "properties": [("KEYS", "k"), ("a", "")], "flag": 9, "sysFlag": 0, "reconsumeTimes": 2,
    "preparedTransactionOffset": 0, "bodyCRC": 0, "body": b"body",
}  # fmt: skip


def export(folder: Path, *files: list[bytes], bodies: bool = True) -> Path:
    names = [f"part-{number:08}.jsonl" for number in range(len(files))]
    listed = []
    for name, lines in zip(names, files, strict=True):
        raw = b"".join(line + b"\n" for line in lines)
        (folder / name).write_bytes(raw)
        digest = hashlib.sha256(raw).hexdigest()
        listed.append({"path": name, "length": len(raw), "sha256": digest})
    whole = {"format": "reput-export-1", "files": listed, "chosen": {"bodies": bodies}}
    (folder / "manifest.json").write_text(json.dumps(whole))
    return folder


def lines(first: int, stop: int) -> list[bytes]:
    return [json.dumps({"queueId": n}).encode() for n in range(first, stop)]


def test_skip_counts_over_files_and_a_row_is_named_by_its_number_in_its_file(tmp_path) -> None:
    made = str(export(tmp_path, lines(0, 3), [], lines(3, 7)))
    names = [f"{tmp_path}/part-00000000.jsonl: message {n}" for n in (1, 2, 3)]
    names += [f"{tmp_path}/part-00000002.jsonl: message {n}" for n in (1, 2, 3, 4)]
    for skip in (0, 1, 3, 4, 7, 8):
        found = list(append.exported_rows(made, skip))
        assert [row["queueId"] for _, row in found] == list(range(skip, 7))
        assert [where for where, _ in found] == names[skip:]


def test_a_folder_that_is_no_export_is_refused_and_of_a_file_nothing_quoted(tmp_path) -> None:
    with pytest.raises(StoreError, match="is not an export"):
        append.exported_rows(str(tmp_path), 0)
    with pytest.raises(SettingError, match="was exported with --no-bodies"):
        append.exported_rows(str(export(tmp_path, bodies=False)), 0)
    rows = append.exported_rows(str(export(tmp_path, [*lines(0, 2), b'{"body": secret}'])), 0)
    with pytest.raises(BadRow) as error:
        list(rows)
    said = f"{tmp_path}/part-00000000.jsonl: after message 0: cannot be read (JSONDecodeError)"
    assert str(error.value) == said


def refused(writer: CommitLogWriter, **changed: Any) -> str:
    with pytest.raises(Refused) as error:
        append.append_exported(writer, "there", {**ROW, **changed})
    return str(error.value)


def test_a_row_that_is_no_message_is_named(tmp_path: Path) -> None:
    with open_writer(tmp_path) as writer:
        assert refused(writer, topic="T" * 300).startswith("there: ")
        for changed in ({"topic": None}, {"properties": None}, {"body": None}):
            assert refused(writer, **changed).startswith("there: lacks a column or has one of a ")
        short = {name: value for name, value in ROW.items() if name != "bornHost"}
        with pytest.raises(BadRow, match=r"^there: lacks a column"):
            append.append_exported(writer, "there", short)
    assert not list(stored_records(tmp_path / "commitlog"))


# --- What `append` takes messages from: JSON lines, Parquet, Arrow; each row by its number.
def test_standard_input_has_json_lines_and_is_left_open(tmp_path, monkeypatch) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"{1}\n")
    before = open_now()
    with (
        pytest.raises(ZeroDivisionError),
        append.closing_source(append.source_of(str(path), 0)) as kept,
    ):
        raise ZeroDivisionError  # the traceback holds what the block held
    assert open_now() == before
    assert kept
    buffer = io.BytesIO(b"{1}\n")
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=buffer))
    with append.closing_source(append.source_of("-", 0)):
        pass
    assert not buffer.closed
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"{1}\n\n{2}\n")))
    assert list(append.source_of("-", 1)) == [append.Lines(2, b"\n{2}\n")]


def test_a_file_that_is_not_what_its_suffix_says_or_not_there_is_refused(tmp_path: Path) -> None:
    for name in ("a.parquet", "a.arrow"):
        (tmp_path / name).write_bytes(b"{}\n" * 9)
        with pytest.raises(SettingError, match=f"^--from {tmp_path / name}: "):
            append.messages_of(str(tmp_path / name), 0)
    (tmp_path / "a.csv").write_text("")
    with pytest.raises(SettingError, match=r"expected \.jsonl, \.parquet or \.arrow"):
        append.source_of(str(tmp_path / "a.csv"), 0)
    with pytest.raises(SettingError, match="No such file or directory"):
        append.source_of(str(tmp_path / "b.csv"), 0)
    with pytest.raises(FileNotFoundError):
        append.source_of(str(tmp_path / "b.jsonl"), 0)
    with pytest.raises(StoreError, match="is not an export: it has no manifest"):
        append.source_of(str(tmp_path), 0)


def test_a_store_s_segments_are_read_by_physical_offsets(tmp_path: Path) -> None:
    log = damaged(messages(60))
    found = append.segments_of(str(write(log.log, tmp_path)))
    wanted = [(start, start + SEGMENT) for start in sorted(log.segments)]
    assert [(each.start, each.end) for each in found] == wanted
    buffer = np.zeros(100, np.uint8)
    found[1].read(SEGMENT + 50, buffer)
    assert buffer.tobytes() == bytes(log.segments[SEGMENT][50:150])
    found.close()
