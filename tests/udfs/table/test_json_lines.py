"""JSON lines by Arrow are those that Python's json writes, whatever a message holds."""

import base64
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as some

from reput.udfs.table.json_lines import JsonRows, json_lines

TEXT = some.text(some.characters(codec="utf-8"), max_size=6) | some.sampled_from(
    ['"', "\\", "\0", "a\nb", "\x1f", "\x7f", "\u2028", "", "x" * 300]
)
ROW = some.fixed_dictionaries({
    "topic": TEXT, "tags": some.none() | TEXT, "size": some.integers(-(1 << 63), (1 << 63) - 1),
    "late": some.none() | some.integers(0, 9), "keys": some.lists(TEXT, max_size=3),
    "properties": some.dictionaries(TEXT, TEXT, max_size=3), "body": some.binary(max_size=9),
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


LINE = b'{"topic":"T","body":"b","tags":"2026-01-31","properties":{"a":"1"}}\n'


@pytest.mark.parametrize(("raw", "at_once"), [
    (LINE * 3, True),
    (LINE + b'{"topic":"T","body":"b","keys":["k"],"properties":{"b":null}}', True),
    (b'{"topic":"T","body_base64":"AP8=","queue_id":7}\n', True),
    (LINE + b"\n" + LINE[:-1] + b"\r\n", True),  # as one by one: what is empty is no line
    (LINE[:-1] + LINE, False),  # two objects
    (LINE[:-1] + LINE + LINE[:-2] + b"\n}\n", False),  # three lines, three objects
    (b'{"topic":"T","body":"b"}{"topic":"T","keys":\n{"a":"b"}}', False),
    (b'{"topic":"T","body":"\xff"}', False),
    (b'{"topic":"T","body":"b","properties":{"AaAa":"1","BBBB":"2"}}', False),  # one hash code
    (b'{"topic":"T","properties":{"%b"}}' % b'":"","'.join(b"%d" % n for n in range(14)), False),
    (b'{"topic":"T","keys":%b}' % (b"[" * 100_000 + b"]" * 100_000), False),
    (b'{"topic":"T","bodyCRC":0}', False),
])  # fmt: skip
def test_lines_are_read_at_once_where_none_can_be_read_in_two_ways(raw, at_once) -> None:
    read = JsonRows(128)
    assert read.table(LINE) is not None
    table = read.table(raw)
    assert (table is not None) == at_once
    if table is not None:
        rows = table.to_pylist()
        assert [row["topic"] for row in rows] == ["T"] * raw.count(b"topic")


def test_fields_of_later_lines_are_learned_and_kept() -> None:
    rows = JsonRows(128)
    first = rows.table(LINE + b'{"topic":"T","body":"b","queue_id":3}\n')
    assert first is not None
    assert first["queue_id"].to_pylist() == [None, 3]
    assert rows.table(b'{"topic":"T","body":"b","flag":1.0}') is None
    again = rows.table(LINE)
    assert again is not None
    assert {"queue_id", "properties"} <= set(again.column_names)
