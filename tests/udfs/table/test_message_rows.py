"""Rows and JSON objects as messages: which fields, of which types, and which row is at fault."""

import datetime as dt
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from reput.store_format.message.message import Message
from reput.store_format.message.refusals import Refused
from reput.udfs.table.message_rows import BadRow, append_arrow, message_from
from tests.broker.writer.stores import open_writer, stored_records


@pytest.mark.parametrize(("fields", "message"), [
    ({"topic": "T", "body": "é"}, Message("T", "é".encode())),
    ({"topic": "T", "body": b"\xff"}, Message("T", b"\xff")),
    ({"topic": "T", "body_base64": "AP8=", "body": None}, Message("T", b"\0\xff")),
    ({"topic": "T", "body": "", "keys": ["a", "b"]}, Message("T", b"", keys=["a", "b"])),
    ({"topic": "T", "body": "", "queue_id": None, "tags": None}, Message("T", b"")),
    ({"topic": "T", "body": "", "properties": {"a": "1", "b": None}},
     Message("T", b"", properties={"a": "1"})),
    ({"topic": "T", "body": "", "properties": [("a", "1"), ("b", None)]},
     Message("T", b"", properties={"a": "1"})),
    ({"topic": "T", "body": "", "properties": []}, Message("T", b"", properties={})),
    ({"topic": "T", "body": "", "wait": False}, Message("T", b"", wait=False)),
])  # fmt: skip
def test_an_object_is_a_message_and_null_is_no_field(fields, message) -> None:
    assert message_from(fields) == message


@pytest.mark.parametrize(("fields", "why"), [
    ({"topic": None}, "topic is missing"), ({"topic": 7}, "topic is missing"),
    ({"body": None}, "name one of body and body_base64"),
    ({"body_base64": "AA=="}, "name one of body and body_base64"),
    ({"body": None, "body_base64": "A"}, "body_base64: "),
    ({"body": None, "body_base64": "AA =="}, "body_base64: "), ({"body": 7}, "body is text"),
    ({"Tags": "a"}, "unknown field 'Tags'"),
    ({"queue_id": "1"}, "queue_id is of a wrong type: expected a whole number, not str"),
    ({"queue_id": True}, "queue_id is of a wrong type"),
    ({"wait": 1}, "wait is of a wrong type: expected true or false, not int"),
    ({"keys": {"a": 1}}, "keys is of a wrong type: expected text or a list of texts"),
    ({"keys": ["a", 1]}, "keys: expected text or a list of texts"),
    ({"properties": ["a"]}, "properties is of a wrong type"),
    ({"properties": {"a": 1}}, "properties: names and values are text"),
])  # fmt: skip
def test_what_is_no_message_is_named(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(BadRow, match=f"^{why}"):
        message_from({"topic": "T", "body": "", **fields})


def appended(root: Path, columns: dict[str, Any]) -> list[Any]:
    """The records that a table's rows became."""
    with open_writer(root / "store") as writer:
        assert append_arrow(writer, pa.table(columns)).messages == len(columns["topic"])
    return list(stored_records(root / "store" / "commitlog"))


AT = dt.datetime(2023, 11, 14, 22, 13, 20, 999_999, tzinfo=dt.UTC)


def test_columns_of_several_types_become_the_same_fields(tmp_path: Path) -> None:
    texts = pa.array(["T", "T"])
    records = appended(tmp_path, {
        "topic": texts.dictionary_encode(), "body": pa.array([b"a", b""], pa.large_binary()),
        "queue_id": pa.array([3, None], pa.uint8()),
        "tags": pa.array(["x", None]).dictionary_encode(), "keys": pa.array([["k", "l"], None]),
        "born_timestamp": pa.array([AT, AT], pa.timestamp("us", "UTC")),
        "properties": pa.array([[("p", "1")], None], pa.map_(pa.string(), pa.string())),
    })  # fmt: skip
    assert [record.body for record in records] == [b"a", b""]
    assert [record.queue_id for record in records] == [3, 0]
    assert [record.born_timestamp for record in records] == [1_700_000_000_999] * 2
    first, second = (record.properties for record in records)
    assert {b"TAGS\x01x", b"KEYS\x01k l", b"p\x011"} <= set(first.split(b"\x02"))
    assert b"TAGS" not in second


@pytest.mark.parametrize(("column", "why"), [
    ({"body": pa.array([1, 2, 3])}, "column body is of a wrong type: int64"),
    ({"tag": ["a", "b", "c"]}, "unknown column 'tag'"),
    ({"queue_id": [0.0, 1.0, 2.0]}, "column queue_id is of a wrong type: double"),
])  # fmt: skip
def test_a_column_of_a_wrong_type_is_refused_before_anything_is_written(
    column: dict[str, Any], why: str, tmp_path: Path
) -> None:
    with open_writer(tmp_path / "store") as writer:
        with pytest.raises(BadRow, match=f"^{why}"):
            append_arrow(writer, pa.table({"topic": ["T"] * 3, "body": ["x"] * 3, **column}))
        assert writer.log.end == 0


@pytest.mark.parametrize(("column", "written"), [
    ({"body": ["a", "b", None]}, 0), ({"queue_id": pa.array([0, 1, 1 << 31])}, 0),
    ({"queue_id": pa.array([0, 1, (1 << 64) - 1], pa.uint64())}, 0),
    ({"keys": pa.array([["a"], ["b"], [None]], pa.list_(pa.string()))}, 0),
    ({"body": ["a", "b", None], "delay_level": [0, 0, 1]}, 2),
])  # fmt: skip
def test_a_row_at_fault_is_counted_from_the_first(column, written, tmp_path) -> None:
    table = pa.table({"topic": ["T"] * 3, "body": ["x"] * 3, **column})
    with (open_writer(tmp_path / "store") as writer,
          pytest.raises(Refused, match=r"^row 12: ") as refused):  # fmt: skip
        append_arrow(writer, table, first_row=10)
    assert refused.value.row == 2
    assert len(list(stored_records(tmp_path / "store" / "commitlog"))) == written


@pytest.mark.parametrize("name", ["queue_id", "tags", "keys", "properties", "wait", "unique_key"])
def test_a_column_of_nulls_is_a_missing_column(name: str, tmp_path: Path) -> None:
    columns = {"topic": ["T"], "body": ["x"], "born_timestamp": [1]}
    for number, nulls in enumerate(({}, {name: pa.nulls(1)})):
        (record,) = appended(tmp_path / str(number), {**columns, **nulls})
        assert (record.queue_id, record.body) == (0, b"x")
        assert not {b"TAGS", b"KEYS"} & set(record.properties.split(b"\x01"))


def test_a_birth_before_1970_is_not_now(tmp_path: Path) -> None:
    records = appended(tmp_path, {"topic": ["T"], "body": ["x"], "born_timestamp": [0]})
    assert struct.pack(">q", records[0].born_timestamp) == bytes(8)
