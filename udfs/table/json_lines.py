"""Messages as JSON lines, made column by column by Arrow; Python handles only what must be escaped.

A line is what `json.dumps(row, ensure_ascii=False, separators=(",", ":"))` gives: fields in the
columns' order, the body last, as base64.
"""

import base64
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

BODY_BASE64 = "bodyBase64"  # a body in JSON lines
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
    """Add a column's values as JSON."""
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
