"""JSON lines by Arrow: those of an export are made, those of messages to append are read.

They are made column by column; Python handles only what must be escaped. A line is what
`json.dumps(row, ensure_ascii=False, separators=(",", ":"))` gives: fields in the columns' order,
the body last, as base64.
"""

import base64
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from reput.store_format.java import hash_map_order

BODY_BASE64 = "bodyBase64"  # a body in an export's JSON lines
BODY_TEXT = "body_base64"  # in those of a message to append
_ESCAPED = r'["\\\x00-\x1f]'  # what JSON has only behind a backslash
_TEXT = pa.large_string()


def json_lines(batch: pa.RecordBatch, names: Sequence[str]) -> memoryview:
    """The lines of a batch, as UTF-8. names: of the columns, in JSON; `body` becomes bodyBase64.

    Columns are texts, whole numbers, lists of texts, maps of texts to texts, and the bodies.
    """
    line, body = _Line(), None
    for name, column in zip(names, batch.columns, strict=True):
        if name == "body":
            body = column
        else:
            line.say(json.dumps(name) + ":")
            _add(line, column)
            line.say(",")
    if body is not None:
        line.say(f'"{BODY_BASE64}":"')
        coded = [base64.b64encode(each) for each in body.to_pylist()]
        line.add(pa.array(coded, pa.large_binary()).cast(_TEXT))
        line.say('",')
    return line.written()


class _Line:
    """What a line has, as texts that are the same in all lines and columns of texts, by turns."""

    def __init__(self) -> None:
        self._parts: list[Any] = []
        self._said = "{"

    def say(self, text: str) -> None:
        self._said += text

    def add(self, texts: pa.Array) -> None:
        self._parts += [_scalar(self._said), texts.cast(_TEXT)]
        self._said = ""

    def written(self) -> memoryview:
        end = _scalar(self._said.removesuffix(",") + "}\n")
        lines = pc.binary_join_element_wise(*self._parts, end, _scalar(""))
        ends = np.frombuffer(lines.buffers()[1], np.int64)[lines.offset :][: len(lines) + 1]
        return memoryview(lines.buffers()[2])[ends[0] : ends[-1]]


def _add(line: _Line, column: pa.Array) -> None:
    kind = column.type
    if pa.types.is_integer(kind) and not column.null_count:
        line.add(column)
    elif pa.types.is_list(kind):
        line.say("[")
        line.add(_joined(column.offsets, _quoted(column.flatten())))
        line.say("]")
    elif pa.types.is_map(kind):
        first, last = column.offsets[0].as_py(), column.offsets[-1].as_py()
        keys = _quoted(column.keys[first:last])
        pairs = pc.binary_join_element_wise(keys, _quoted(column.items[first:last]), _scalar(":"))
        line.say("{")
        line.add(_joined(column.offsets, pairs))
        line.say("}")
    elif column.null_count:
        line.add(_quoted(column))
    else:
        line.say('"')
        line.add(_escaped(column))
        line.say('"')


def _quoted(values: pa.Array) -> pa.Array:
    """Texts as JSON, with their quotes, or `null`; numbers too may be null."""
    texts = values.cast(_TEXT)
    if not pa.types.is_integer(values.type):
        quote = _scalar('"')
        texts = pc.binary_join_element_wise(quote, _escaped(texts), quote, _scalar(""))
    return pc.fill_null(texts, "null") if texts.null_count else texts


def _escaped(texts: pa.Array) -> pa.Array:
    texts = texts.cast(_TEXT)
    bad = pc.fill_null(pc.match_substring_regex(texts, _ESCAPED), False)
    if not pc.any(bad).as_py():
        return texts
    escaped = [json.dumps(each, ensure_ascii=False)[1:-1] for each in texts.filter(bad).to_pylist()]
    return pc.replace_with_mask(texts, bad, pa.array(escaped, _TEXT))


def _joined(offsets: pa.Array, texts: pa.Array) -> pa.Array:
    """The texts of each list, with commas. offsets: of a list's column, which may be a slice."""
    ends = np.asarray(offsets)
    lists = pa.LargeListArray.from_arrays(pa.array(ends - ends[0], pa.int64()), texts)
    return pc.binary_join(lists, _scalar(","))


def _scalar(text: str) -> pa.Scalar:
    return pa.scalar(text, _TEXT)


# ---
# Reads JSON lines as a table's rows, where Arrow takes them as Python's json does.
#
# Arrow is told each field's type, and finds none itself: it would take "2026-01-31" for a time, and
# nest types without end. So fields and properties are learned from the lines.

_FIELDS = {
    **dict.fromkeys(("topic", "body", BODY_TEXT, "tags"), pa.string()),
    **dict.fromkeys(("born_host", "store_host", "unique_key"), pa.string()),
    **dict.fromkeys(("queue_id", "flag", "delay_level", "reconsume_times"), pa.int64()),
    "born_timestamp": pa.int64(), "wait": pa.bool_(),
}  # fmt: skip
_MOST_NAMES = 12  # of properties: with more, the order within a HashMap of 16 buckets may change


class JsonRows:
    """Reads blocks of JSON lines. capacity: of a broker's HashMap of properties."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._types = {name: _FIELDS[name] for name in ("topic", "body")}

    def table(self, raw: bytes) -> pa.Table | None:
        """The rows of whole lines; None if they have to be read one by one, as Python's json may
        see something else in them, or says what is wrong with which line.
        """
        lines = list(filter(None, raw.replace(b"\r\n", b"\n").split(b"\n")))
        raw = b"\n".join(lines)
        # else an object may have two lines, or a line two objects
        if not raw.startswith(b"{") or raw.count(b"}\n{") + 1 != len(lines):
            return None
        try:
            raw.decode()  # Arrow takes bytes that are no UTF-8
            for sample in ([], lines[:1], lines):
                self._learn(sample)
                try:
                    table = self._parsed(raw)
                except pa.ArrowInvalid:
                    continue
                return _with_bodies(table) if len(table) == len(lines) else None
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
            pass  # what is wrong is found again, and named
        return None

    def _parsed(self, raw: bytes) -> pa.Table:
        return pyarrow.json.read_json(
            pa.BufferReader(raw),
            pyarrow.json.ReadOptions(use_threads=False, block_size=len(raw) + 1),
            pyarrow.json.ParseOptions(pa.schema(self._types), unexpected_field_behavior="error"),
        )

    def _learn(self, lines: list[bytes]) -> None:
        """Note which fields the lines have. Raises what json.loads does, and KeyError."""
        types = dict(self._types)
        names = {field.name: None for field in types.get("properties", ())}
        for line in lines:
            for name, value in json.loads(line).items():
                if name == "properties":
                    names |= dict.fromkeys(value or ())
                    types[name] = pa.struct([(each, pa.string()) for each in names])
                elif name != "keys":
                    types[name] = _FIELDS[name]
                elif value is not None:
                    types[name] = pa.string() if isinstance(value, str) else pa.list_(pa.string())
        # a struct has the names in one order, a line in its own: where that decides, Arrow cannot
        orders = [
            [each[at] for at in hash_map_order(each, self._capacity)]
            for each in (tuple(names), tuple(names)[::-1])
        ]
        if len(names) > _MOST_NAMES or orders[0] != orders[1]:
            raise ValueError
        self._types = types


def _with_bodies(table: pa.Table) -> pa.Table:
    """The table with bodies that are not in base64 any more. Raises ValueError, TypeError."""
    if BODY_TEXT not in table.column_names or table["body"].null_count < len(table):
        return table
    bodies = [base64.b64decode(each, validate=True) for each in table[BODY_TEXT].to_pylist()]
    return table.drop_columns(["body", BODY_TEXT]).append_column("body", [bodies])
