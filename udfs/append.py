"""Messages from Arrow tables and JSON objects, for the writer.

Columns (all but topic and body optional; a null is as if the column were missing):

| column | type |
|---|---|
| topic | string |
| body, or body_base64 | binary or string; base64 text |
| queue_id, flag, delay_level, reconsume_times | int |
| tags | string |
| keys | string, or list of string |
| properties | map of string to string, or struct of strings |
| born_timestamp | int (milliseconds) or timestamp |
| born_host, store_host, unique_key | string |
| wait | bool |
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from store_format.writer.bulk import BulkResult, Columns, append_columns
from store_format.writer.bulk_records import Texts
from store_format.writer.errors import Refused
from store_format.writer.message import Message, check_property
from store_format.writer.property_text import encode_properties
from store_format.writer.writer import CommitLogWriter

FIELDS = (
    "topic", "body", "body_base64", "queue_id", "tags", "keys", "properties", "flag",
    "delay_level", "born_timestamp", "born_host", "store_host", "reconsume_times", "wait",
    "unique_key",
)  # fmt: skip
# What the kernel has no columns for: a message that sets one of them is appended by itself.
_SINGLE = ("delay_level", "born_host", "store_host", "reconsume_times", "unique_key")


class BadRow(Refused):
    """A row or JSON object is not a message: a field is unknown, missing or of a wrong type."""


def message_from(fields: Mapping[str, Any]) -> Message:
    """The message that a JSON object or a row describes. Raises BadRow."""
    given = {name: value for name, value in fields.items() if value is not None}
    unknown = sorted(set(given) - set(FIELDS))
    if unknown:
        raise BadRow(f"unknown field {unknown[0]!r}; known are {', '.join(FIELDS)}")
    encoded = given.pop("body_base64", None)
    if (encoded is None) == ("body" not in given):
        raise BadRow("one of body and body_base64 is wanted")
    try:
        body = given.pop("body") if encoded is None else base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError, TypeError) as error:
        raise BadRow(f"body_base64: {error}") from None
    if isinstance(body, str):
        body = body.encode("utf-8", "replace")
    if not isinstance(body, bytes):
        raise BadRow("body is text")
    if not isinstance(given.get("topic"), str):
        raise BadRow("topic is wanted, as text")
    for name, kind in _KINDS.items():
        value = given.get(name)
        if value is not None and (
            not isinstance(value, kind) or isinstance(value, bool) != (kind is bool)
        ):
            raise BadRow(f"{name}={value!r} is of a wrong type")
    if isinstance(given.get("properties"), list):  # a map, as Arrow yields it
        given["properties"] = dict(given["properties"])
    properties = given.get("properties")
    if properties and not all(isinstance(v, str) for kv in properties.items() for v in kv):
        raise BadRow("properties: names and values are text")
    return Message(body=body, **given)


_KINDS: dict[str, Any] = {
    "queue_id": int, "flag": int, "delay_level": int, "born_timestamp": int,
    "reconsume_times": int, "tags": str, "keys": (str, list), "properties": (dict, list),
    "born_host": str, "store_host": str, "unique_key": str, "wait": bool,
}  # fmt: skip


def append_arrow(writer: CommitLogWriter, table: pa.Table) -> BulkResult:
    """Append a table's rows, in order. Raises Refused (naming the row), WriterFailed.

    A batch of rows is checked before its first is written. A Table, or a RecordBatch.
    """
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    unknown = sorted(set(table.column_names) - set(FIELDS))
    if unknown:
        raise BadRow(f"unknown column {unknown[0]!r}; known are {', '.join(FIELDS)}")
    count, start, end = 0, -1, writer.log.end
    for batch in table.combine_chunks().to_batches(max_chunksize=1 << 16):
        part = _append_batch(writer, batch)
        start = part.start if start < 0 else start
        count, end = count + part.messages, part.end
    return BulkResult(count, max(start, 0), end)


def _append_batch(writer: CommitLogWriter, batch: pa.RecordBatch) -> BulkResult:
    if any(_is_set(batch, name) for name in _SINGLE) or "body_base64" in batch.schema.names:
        return _append_singly(writer, batch)
    if "wait" in batch.schema.names and pc.any(pc.invert(batch["wait"])).as_py():
        return _append_singly(writer, batch)
    return append_columns(writer, _columns(writer, batch))


def _append_singly(writer: CommitLogWriter, batch: pa.RecordBatch) -> BulkResult:
    start = -1
    for number, row in enumerate(batch.to_pylist()):
        try:
            result = writer.append(message_from(row))
        except Refused as error:
            raise type(error)(f"row {number}: {error}") from None
        start = result.physical_offset if start < 0 else start
    return BulkResult(len(batch), max(start, 0), writer.log.end)


def _is_set(batch: pa.RecordBatch, name: str) -> bool:
    if name not in batch.schema.names:
        return False
    column = batch[name]
    if column.null_count == len(column):
        return False
    return not pa.types.is_integer(column.type) or bool(pc.any(pc.not_equal(column, 0)).as_py())


def _columns(writer: CommitLogWriter, batch: pa.RecordBatch) -> Columns:
    names = batch.schema.names
    if "topic" not in names or "body" not in names:
        raise BadRow("columns topic and body are wanted")
    for name in ("topic", "body"):
        if batch[name].null_count:
            raise BadRow(f"{name} is null in {batch[name].null_count} rows")
    count = len(batch)
    topic = batch["topic"]
    if not pa.types.is_dictionary(topic.type):
        topic = topic.dictionary_encode()
    keys = batch["keys"] if "keys" in names else None
    if keys is not None and pa.types.is_list(keys.type):
        keys = pc.binary_join(keys, " ")
    tags = batch["tags"] if "tags" in names else None
    return Columns(
        topics=tuple(topic.dictionary.to_pylist()),
        topic=topic.indices.to_numpy(zero_copy_only=False).astype(np.int32),
        queue_id=_integers(batch, "queue_id", np.int32),
        body=_texts(batch["body"], count),
        tags=_texts(tags, count),
        keys=_texts(keys, count),
        properties=_properties(writer, batch, tags, keys),
        flag=_integers(batch, "flag", np.int32),
        born_timestamp=_integers(batch, "born_timestamp", np.int64),
    )


def _integers(batch: pa.RecordBatch, name: str, dtype: Any) -> Any:
    if name not in batch.schema.names:
        return np.zeros(len(batch), dtype)
    column = batch[name]
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
    wide = pc.fill_null(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    narrow = wide.astype(dtype)
    if not np.array_equal(narrow, wide):
        raise BadRow(f"{name}: a value is out of range")
    return narrow


def _texts(column: Any, count: int) -> Texts:
    """A column's values as bytes; nulls are empty. Copies only what is not laid out so."""
    if column is None or column.null_count == count:
        return Texts(np.zeros(count + 1, np.int64), np.zeros(0, np.uint8))
    if column.null_count:
        column = pc.fill_null(column, "" if pa.types.is_string(column.type) else b"")
    column = column.cast(pa.large_binary())
    _, ends, data = column.buffers()
    first = column.offset
    all_ends = np.frombuffer(ends, np.int64)[first : first + count + 1]
    raw = np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8)
    return Texts(all_ends - all_ends[0], raw[all_ends[0] : all_ends[-1]])


def _properties(writer: CommitLogWriter, batch: pa.RecordBatch, tags: Any, keys: Any) -> Texts:
    """Properties as they stand in a record, for the rows that have any of their own."""
    if not _is_set(batch, "properties"):
        return _texts(None, len(batch))
    encoder = writer.encoder
    made = []
    rows = zip(
        batch["properties"].to_pylist(),
        tags.to_pylist() if tags is not None else [None] * len(batch),
        keys.to_pylist() if keys is not None else [None] * len(batch),
        strict=True,
    )
    for number, (own, tag, key) in enumerate(rows):
        values = {n: v for n, v in dict(own or {}).items() if v is not None}
        if not values:
            made.append(b"")
            continue
        message = Message("", b"", tags=tag or "", keys=key or "", properties=values)
        try:
            for name, value in values.items():
                check_property(name, value)
            properties = encoder.properties(message)
            rules = encoder.profile
            made.append(
                encode_properties(properties, rules.property_map_capacity, rules.property_text_ends)
            )
        except Refused as error:
            raise type(error)(f"row {number}: {error}") from None
    return _texts(pa.array(made, pa.large_binary()), len(batch))
