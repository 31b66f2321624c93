"""Turns rows of Arrow tables and JSON objects into messages, and appends them by the writer.

Columns (only topic and body are required; a null counts as a missing column):

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

from reput.broker.writer.bulk import BulkResult, Columns, Done, append_columns
from reput.broker.writer.writer import CommitLogWriter
from reput.store_format.message.bulk import Texts
from reput.store_format.message.hooks import DELAY, TIMERS
from reput.store_format.message.message import Message, encode_properties
from reput.store_format.message.multi_dispatch import NAMED
from reput.store_format.message.refusals import Refused

FIELDS = (
    "topic", "body", "body_base64", "queue_id", "tags", "keys", "properties", "flag",
    "delay_level", "born_timestamp", "born_host", "store_host", "reconsume_times", "wait",
    "unique_key",
)  # fmt: skip
# The kernel of a bulk append has no columns for these fields: if a row sets one of them, the rows
# of its batch are appended one by one.
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
        raise BadRow("name one of body and body_base64")
    try:
        body = given.pop("body") if encoded is None else base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError, TypeError) as error:
        raise BadRow(f"body_base64: {error}") from None
    if isinstance(body, str):
        body = body.encode("utf-8", "replace")
    if not isinstance(body, bytes):
        raise BadRow("body is text")
    if not isinstance(given.get("topic"), str):
        raise BadRow("topic is missing: it is text")
    # Arrow yields a map as pairs; a property whose value is null is left out
    properties = given.get("properties")
    if isinstance(properties, list) and all(isinstance(pair, tuple) for pair in properties):
        properties = dict(properties)
    if isinstance(properties, dict):
        given["properties"] = {n: v for n, v in properties.items() if v is not None}
    for name, kind in _KINDS.items():
        value = given.get(name)
        if value is not None and (
            not isinstance(value, kind) or isinstance(value, bool) != (kind is bool)
        ):
            # the message does not show the value, because it may be that of a property
            wanted = (
                " or ".join(_NAMES[one] for one in kind)
                if isinstance(kind, tuple)
                else _NAMES[kind]
            )
            raise BadRow(
                f"{name} is of a wrong type: expected {wanted}, not {type(value).__name__}"
            )
    properties = given.get("properties")
    if properties and not all(isinstance(v, str) for kv in properties.items() for v in kv):
        raise BadRow("properties: names and values are text")
    if not all(isinstance(key, str) for key in given.get("keys", ())):
        raise BadRow("keys: expected text or a list of texts")
    return Message(body=body, **given)


_KINDS: dict[str, Any] = {
    "queue_id": int, "flag": int, "delay_level": int, "born_timestamp": int,
    "reconsume_times": int, "tags": str, "keys": (str, list), "properties": dict,
    "born_host": str, "store_host": str, "unique_key": str, "wait": bool,
}  # fmt: skip


_NAMES = {
    int: "a whole number", str: "text", list: "a list of texts", dict: "an object or map",
    bool: "true or false",
}  # fmt: skip


def append_arrow(
    writer: CommitLogWriter, table: pa.Table, first_row: int = 0, done: Done | None = None
) -> BulkResult:
    """Append a table's rows, in order. Raises Refused, WriterFailed.

    writer: of `open_writer`.
    table: a Table or a RecordBatch. All rows of a batch are checked before the first is written,
    unless they have to be appended one by one.
    first_row: the number of the first row in error messages; Refused.row counts from 0 all the
    same. done: called with the number of messages that were just appended.
    """
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    unknown = sorted(set(table.column_names) - set(FIELDS))
    if unknown:
        raise BadRow(f"unknown column {unknown[0]!r}; known are {', '.join(FIELDS)}")
    count, start, end = 0, -1, writer.end()
    for batch in table.combine_chunks().to_batches(max_chunksize=1 << 16):
        try:
            part = _append_batch(writer, batch, done)
        except Refused as error:
            if error.row is None:
                raise
            named = type(error)(f"row {first_row + count + error.row}: {error}")
            named.row = count + error.row
            raise named from None
        start = part.start if start < 0 else start
        count, end = count + part.messages, part.end
    return BulkResult(count, max(start, 0), end)


def _append_batch(writer: CommitLogWriter, batch: pa.RecordBatch, done: Done | None) -> BulkResult:
    batch = _checked_columns(batch)
    single = any(_is_set(batch, name) for name in _SINGLE) or "body_base64" in batch.schema.names
    if "wait" in batch.schema.names:
        single = single or bool(pc.any(pc.invert(batch["wait"].cast(pa.bool_()))).as_py())
    if single or _has_born_before_1970(batch) or _by_hooks(batch):
        return _append_singly(writer, batch, done)
    return append_columns(writer, _columns(writer, batch), done)


def _append_singly(writer: CommitLogWriter, batch: pa.RecordBatch, done: Done | None) -> BulkResult:
    start = -1
    for number, row in enumerate(batch.to_pylist()):
        try:
            result = writer.append(message_from(row))
        except Refused as error:
            error.row = number
            raise
        start = result.physical_offset if start < 0 else start
        if done is not None:
            done(1)
    return BulkResult(len(batch), max(start, 0), writer.end())


def _checked_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with plain columns, times in ms. Raises BadRow if a column has a wrong type."""
    columns = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_dictionary(column.type) and name != "topic":
            column = column.dictionary_decode()
        if pa.types.is_string_view(column.type):
            column = column.cast(pa.large_string())
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if not pa.types.is_null(kind) and not _COLUMN_KINDS[name](kind):
            raise BadRow(f"column {name} is of a wrong type: {kind}")
        if pa.types.is_timestamp(kind):
            column = column.cast(pa.timestamp("ms", kind.tz), safe=False).cast(pa.int64())
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_keys(kind: pa.DataType) -> bool:
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return _is_text(kind) or bool(lists and _is_text(kind.value_type))


def _is_body(kind: pa.DataType) -> bool:
    binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    return _is_text(kind) or bool(binary or pa.types.is_fixed_size_binary(kind))


def _is_properties(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return _is_text(kind.key_type) and _is_text(kind.item_type)
    return bool(pa.types.is_struct(kind) and all(_is_text(field.type) for field in kind))


_COLUMN_KINDS: dict[str, Any] = {
    **dict.fromkeys(FIELDS, _is_text),
    **dict.fromkeys(("queue_id", "flag", "delay_level", "reconsume_times"), pa.types.is_integer),
    "body": _is_body, "keys": _is_keys, "properties": _is_properties,
    "born_timestamp": lambda kind: pa.types.is_integer(kind) or pa.types.is_timestamp(kind),
    "wait": pa.types.is_boolean,
}  # fmt: skip


def _has_born_before_1970(batch: pa.RecordBatch) -> bool:
    """Whether a born_timestamp is 0 or less: a bulk append would take 0 for the current time."""
    if "born_timestamp" not in batch.schema.names:
        return False
    return bool(pc.any(pc.less_equal(batch["born_timestamp"].cast(pa.int64()), 0)).as_py())


def _by_hooks(batch: pa.RecordBatch) -> bool:
    """Whether a row has a property that decides where its message goes (see message/hooks)."""
    if not _is_set(batch, "properties"):
        return False
    column = batch["properties"]
    if pa.types.is_map(column.type):
        names = pc.unique(column.keys).to_pylist()
    else:
        names = [field.name for field in column.type]
    return not {DELAY, *TIMERS, NAMED}.isdisjoint(names)


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
            raise _bad_row(batch[name].is_null(), f"{name} is null")
    count = len(batch)
    topic = batch["topic"]
    if not pa.types.is_dictionary(topic.type):
        topic = topic.dictionary_encode()
    keys = batch["keys"] if "keys" in names else None
    if keys is not None and not pa.types.is_null(keys.type) and not _is_text(keys.type):
        joined = pc.binary_join(keys, " ")
        if joined.null_count > keys.null_count:  # a list with a null in it becomes null
            lost = pc.and_(joined.is_null(), keys.is_valid())
            raise _bad_row(lost, "keys: expected text or a list of texts")
        keys = joined
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
    # Values of an unsigned column that are too large become negative here, and are refused then.
    wide = pc.fill_null(batch[name].cast(pa.int64(), safe=False), 0).to_numpy(zero_copy_only=False)
    narrow = wide.astype(dtype)
    wrong = narrow != wide
    if pa.types.is_uint64(batch[name].type):
        wrong |= wide < 0
    if wrong.any():
        raise _bad_row(pa.array(wrong), f"{name} is out of range")
    return narrow


def _bad_row(where: Any, reason: str) -> BadRow:
    """The error for the first row for which the mask `where` is true."""
    error = BadRow(reason)
    error.row = int(pc.index(where, True).as_py())
    return error


def _texts(column: Any, count: int) -> Texts:
    """A column's values as bytes; nulls are empty. Copies only if the column's layout differs."""
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
    """Properties as bytes of a record, for the rows that have properties besides tags and keys."""
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
            properties = encoder.properties(message)
            rules = encoder.profile
            made.append(
                encode_properties(properties, rules.property_map_capacity, rules.property_text_ends)
            )
        except Refused as error:
            error.row = number
            raise
    return _texts(pa.array(made, pa.large_binary()), len(batch))
