"""The files of an export, batch by batch: Parquet in row groups, or a JSON line a message."""

import hashlib
import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reput.udfs.table import export
from reput.udfs.table.columns import EVERYTHING, SCHEMA, batches_of
from reput.udfs.table.export import JSONL, PARQUET, new_file
from tests.logs.encoder import Message, properties
from tests.memory_storage import MemoryStorage
from tests.udfs.table.parts import log_of, part

MESSAGES = [
    Message(topic="é", queue_offset=n, body=bytes([n, 255]), store_timestamp=1_700_000_000_123 + n,
            born_timestamp=-1, properties=properties(("TAGS", "\"\n"), ("x", "é")) if n else b"")
    for n in range(3)
]  # fmt: skip


def batch(columns: pa.Schema = SCHEMA) -> pa.RecordBatch:
    log = log_of(MESSAGES)
    (made,) = batches_of(log, part(log), EVERYTHING, columns)
    return made


def written(kind: str, *batches: pa.RecordBatch, columns: pa.Schema = SCHEMA) -> bytes:
    storage = MemoryStorage()
    file = new_file(kind, storage, "out", columns)
    for each in batches:
        file.add(each)
    done = file.finish()
    raw = storage.files["out"]
    assert (done.length, done.sha256) == (len(raw), hashlib.sha256(raw).hexdigest())
    return raw


def test_parquet_has_the_rows_and_only_columns_that_readers_search_by_have_statistics() -> None:
    raw = written(PARQUET, batch(), batch())
    assert pq.read_table(io.BytesIO(raw)).to_pylist() == batch().to_pylist() * 2
    group = pq.ParquetFile(io.BytesIO(raw)).metadata.row_group(0)
    told = {group.column(n).path_in_schema for n in range(group.num_columns)
            if group.column(n).statistics is not None}  # fmt: skip
    assert told == {
        "topic", "queueId", "queueOffset", "physicalOffset", "size", "storeTimestamp",
        "storeTimestampMillis", "bornTimestamp", "bornTimestampMillis",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("limit", "most", "groups"),
    [("_ROWS_A_GROUP", 6, [6, 3]), ("_ROWS_A_GROUP", 7, [9]), ("_BYTES_A_GROUP", 1, [3, 3, 3])],
)
def test_a_row_group_is_written_once_it_is_full(
    monkeypatch: pytest.MonkeyPatch, limit: str, most: int, groups: list[int]
) -> None:
    monkeypatch.setattr(export, limit, most)
    meta = pq.ParquetFile(io.BytesIO(written(PARQUET, batch(), batch(), batch()))).metadata
    assert [meta.row_group(n).num_rows for n in range(meta.num_row_groups)] == groups


def test_a_line_of_json_has_times_in_milliseconds_and_the_body_as_base64() -> None:
    lines = written(JSONL, batch()).decode().split("\n")
    assert lines.pop() == ""
    first, second, _ = (json.loads(line) for line in lines)
    timestamps = {name: first[name] for name in first if "imestamp" in name}
    assert timestamps == {"storeTimestamp": 1_700_000_000_123, "bornTimestamp": -1}
    assert [row["bodyBase64"] for row in (first, second)] == ["AP8=", "Af8="]
    assert (first["tags"], first["properties"], first["keys"]) == (None, {}, [])
    assert second["properties"] == {"TAGS": '"\n', "x": "é"}
    assert '"topic":"é"' in lines[0]
    wanted = [name for name in SCHEMA.names if not name.endswith("Millis")]
    assert sorted(first) == sorted([*wanted[:-1], "bodyBase64"])


def test_without_the_column_there_is_no_body() -> None:
    columns = pa.schema([each for each in SCHEMA if each.name != "body"])
    few = batch(columns)
    (row, *_) = written(JSONL, few, columns=columns).decode().splitlines()
    assert [name for name in json.loads(row) if name.startswith("body")] == ["bodyCRC"]
    assert pq.read_table(io.BytesIO(written(PARQUET, few, columns=columns))).schema.names == (
        columns.names
    )


@pytest.mark.parametrize("kind", [PARQUET, JSONL])
def test_an_export_without_messages_is_a_file_and_an_abandoned_one_is_none(kind: str) -> None:
    raw = written(kind)
    assert (raw == b"") == (kind == JSONL)
    storage: Any = MemoryStorage()
    file = new_file(kind, storage, "out", SCHEMA)
    file.add(batch())
    file.abandon()
    assert storage.files == {}
