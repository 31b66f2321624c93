"""Messages of a query as an Arrow table: the source's columns, with each time once."""

from typing import Any

import pyarrow as pa

from reput.udfs.table.columns import MESSAGE_SCHEMA, SCHEMA, messages_table

ROW: dict[str, Any] = {
    "topic": "T", "queueId": 1, "queueOffset": 2, "physicalOffset": 3, "storeTimestamp": 1 << 60,
    "bornTimestamp": -5, "storeHost": "127.0.0.1:10911", "bornHost": "[::1]:1", "tags": None,
    "keys": ["a", "b"], "uniqueKey": None, "properties": {"KEYS": "a b", "x": ""}, "flag": 0,
    "sysFlag": 8, "reconsumeTimes": 0, "preparedTransactionOffset": 0, "bodyCRC": 7, "size": 100,
}  # fmt: skip


def test_the_columns_are_those_of_the_source_with_each_time_once_in_milliseconds() -> None:
    wanted = [name for name in SCHEMA.names if not name.endswith("Millis") and name != "body"]
    assert MESSAGE_SCHEMA.names == wanted
    for name in ("storeTimestamp", "bornTimestamp"):
        assert MESSAGE_SCHEMA.field(name) == pa.field(name, pa.int64(), nullable=False)


def test_a_row_has_its_properties_as_a_map_and_any_time() -> None:
    table = messages_table([ROW], body=False)
    assert table.schema == MESSAGE_SCHEMA
    (row,) = table.to_pylist()
    assert row == {**ROW, "properties": [("KEYS", "a b"), ("x", "")]}


def test_the_body_comes_last_where_it_is_wanted() -> None:
    table = messages_table([{**ROW, "body": b"\0\xff"}, {**ROW, "body": b""}], body=True)
    assert table.column_names == [*MESSAGE_SCHEMA.names, "body"]
    assert table["body"].to_pylist() == [b"\0\xff", b""]


def test_no_message_is_a_table_with_columns() -> None:
    assert messages_table([], body=False).schema == MESSAGE_SCHEMA
    assert messages_table([], body=True).num_rows == 0
