"""Entries of queue and index files as batches, as docs/formats lays them out."""

import base64
import json
import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as some

from reput.store_format.files.protocol import FileState
from reput.udfs.table import derived
from reput.udfs.table.json_lines import JsonRows, json_lines
from tests.logs.index_bytes import pack_index
from tests.memory_storage import MemoryStorage

QUEUE_SCHEMA = pa.schema([each.field for each in derived.QUEUES.values()])
INDEX_SCHEMA = pa.schema([each.field for each in derived.INDEX.values()])
BLANK = (0, 0x7FFFFFFF, 0)
FIRST = [BLANK, BLANK, (1000, 100, -5), (1100, 100, 65), (1200, 100, 0)]  # positions 5 to 9
SECOND = [(1300, 100, 1 << 40), (1400, 1 << 30, 0)]  # positions 10 and 11


def queue_file(entries: list[tuple[int, int, int]]) -> bytes:
    return b"".join(struct.pack(">qiq", *each) for each in entries).ljust(100, b"\0")


STORAGE = MemoryStorage({
    f"q/T/3/{100:020d}": queue_file(FIRST), f"q/T/3/{200:020d}": queue_file(SECOND),
    f"b/T/0/{0:020d}": struct.pack(">qiqqqhii", 500, 90, 7, 1_700_000_000_000, 3, 40, -1, 0)
    + struct.pack(">qiqqqhii", 590, 90, 7, -1, 43, 1, -1, 0) + bytes(46),
})  # fmt: skip


def queues(*ranges: derived.QueueRange, schema: pa.Schema = QUEUE_SCHEMA) -> list[dict[str, Any]]:
    batches = list(derived.queue_batches(STORAGE, ranges, schema))
    assert all(batch.schema == schema and batch.num_rows for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


def queue(first: int = 0, stop: int = 1 << 63) -> derived.QueueRange:
    return derived.QueueRange("q/T/3", "T", 3, False, first, stop)


def test_an_entry_is_a_row_a_pre_blank_is_none_and_a_batch_queue_has_its_own_positions() -> None:
    rows = queues(queue())
    assert rows[0] == {
        "topic": "T", "queueId": 3, "queueOffset": 7, "physicalOffset": 1000, "size": 100,
        "tagsCode": -5, "messages": 1, "storeTimestampMillis": None, "batch": False,
    }  # fmt: skip
    assert [row["queueOffset"] for row in rows] == [7, 8, 9, 10, 11]
    assert [row["tagsCode"] for row in rows] == [-5, 65, 0, 1 << 40, 0]
    rows = queues(derived.QueueRange("b/T/0", "T", 0, True), queue(11))
    names = ("queueOffset", "messages", "storeTimestampMillis", "batch")
    assert [tuple(row[name] for name in names) for row in rows] == [
        (3, 40, 1_700_000_000_000, True), (43, 1, -1, True), (11, 1, None, False),
    ]  # fmt: skip
    few = pa.schema([derived.QUEUES[name].field for name in ("size", "topic")])
    assert queues(queue(11), schema=few) == [{"size": 1 << 30, "topic": "T"}]


@pytest.mark.parametrize(("first", "stop", "offsets"), [
    (8, 9, [8]), (9, 11, [9, 10]), (10, 11, [10]), (0, 10, [7, 8, 9]), (11, 12, [11]),
    (12, 13, []), (5, 7, []), (0, 5, []), (9, 9, []), (15, 99, []),
])  # fmt: skip
def test_a_range_of_positions_goes_over_the_files_borders(first, stop, offsets) -> None:
    assert [row["queueOffset"] for row in queues(queue(first, stop))] == offsets


INDEX_FILE = pack_index(
    (1_700_000_000_123, 1_700_000_002_000, 0, 900, 2, 5), [4, 0, 3],
    [(6, 0, 0, 0), (5, 0, 0, 0), (5, 300, 1, 2), (0x7FFFFFFE, 1 << 50, 0x7FFFFFFF, 1)], 6,
)  # fmt: skip


@pytest.mark.parametrize(("first", "stop"), [(1, 5), (1, 2), (3, 5), (4, 4), (5, 6)])
def test_entries_of_an_index_file_have_its_time_and_their_slot(first: int, stop: int) -> None:
    path = "index/20231114221320123"
    part = derived.IndexPart(path, FileState(len(INDEX_FILE), 0, 0), 3, 6, first, stop)
    batches = list(derived.index_batches(MemoryStorage({path: INDEX_FILE}), part, INDEX_SCHEMA))
    whole = [
        (1, 0, 6, 0, 0, 1_700_000_000_123, 0), (2, 2, 5, 0, 0, 1_700_000_000_123, 0),
        (3, 2, 5, 300, 1, 1_700_000_001_123, 2),
        (4, 0, 0x7FFFFFFE, 1 << 50, 0x7FFFFFFF, 1_700_000_000_123 + 0x7FFFFFFF * 1000, 1),
        (5, 0, 0, 0, 0, 1_700_000_000_123, 0),
    ]  # fmt: skip
    rows = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    assert rows == [("20231114221320123", *each) for each in whole[first - 1 : stop - 1]]
    assert all(batch.schema == INDEX_SCHEMA for batch in batches)


# --- JSON lines by Arrow are those that Python's json writes, whatever a message holds.
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
