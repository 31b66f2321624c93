"""JSON lines by Arrow are those that Python's json writes, whatever a message holds."""

import base64
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as some

from reput.udfs.table.json_lines import json_lines

TEXT = some.text(some.characters(codec="utf-8"), max_size=6) | some.sampled_from(
    ['"', "\\", "\0", "a\nb", "\x1f", "\x7f", "\u2028", "", "x" * 300]
)
ROW = some.fixed_dictionaries({
    "topic": TEXT,
    "tags": some.none() | TEXT,
    "size": some.integers(-(1 << 63), (1 << 63) - 1),
    "late": some.none() | some.integers(0, 9),
    "keys": some.lists(TEXT, max_size=3),
    "properties": some.dictionaries(TEXT, TEXT, max_size=3),
    "body": some.binary(max_size=9),
})  # fmt: skip
SCHEMA = pa.schema({
    "topic": pa.string(), "tags": pa.string(), "size": pa.int64(), "late": pa.int32(),
    "keys": pa.list_(pa.string()), "properties": pa.map_(pa.string(), pa.string()),
    "body": pa.binary(),
})  # fmt: skip


def by_python(row: dict[str, Any], names: list[str]) -> str:
    row = {name: row[name] for name in names}
    if "body" in row:
        row["bodyBase64"] = base64.b64encode(row.pop("body")).decode()
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n"


@pytest.mark.parametrize("names", [SCHEMA.names, SCHEMA.names[:-1], ["size"], ["keys", "topic"]])
@given(rows=some.lists(ROW, min_size=1, max_size=5), cut=some.integers(0, 4))
def test_lines_are_those_of_python(names: list[str], rows: list[dict[str, Any]], cut: int) -> None:
    listed = [{**row, "properties": list(row["properties"].items())} for row in rows]
    batch = pa.RecordBatch.from_pylist(listed, SCHEMA).slice(cut)
    made = bytes(json_lines(batch.select(names), names)).decode()
    assert made == "".join(by_python(row, names) for row in rows[cut:])
