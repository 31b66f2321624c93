"""A window's rows as Arrow: the columns of `message_columns`.

`store_format.log.columns` has the kernels. Only records that they leave aside go through Python one
by one: with an IPv6 address, with dozens of properties, or with two properties of one name.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reput.store_format.log import columns as kernels
from reput.store_format.log.properties import KEYS, TAGS, UNIQ_KEY, new_spans
from reput.store_format.log.rules import RecordRules
from reput.store_format.log.walk import Step
from reput.store_format.message.message import host_text, parse_properties
from reput.udfs.table.message_columns import PAIRS, TEXTS, TIME

Numbers = npt.NDArray[np.int64]
ReadBody = Callable[[int, int], bytes]  # physical offset and length -> the bytes

# The limits of a TIMESTAMP, 0001-01-01 to 9999-12-31, in milliseconds. Other times become null.
TIME_LEAST, TIME_MOST = -62_135_596_800_000, 253_402_300_799_999


class StepRows:
    """Some rows of a step, from which columns are made one by one."""

    def __init__(
        self, step: Step, chosen: Numbers | None, rules: RecordRules, split: bool, body: ReadBody
    ) -> None:
        """chosen: numbers of the wanted rows, None for all; split: Profile.split_properties."""
        self.window = step.window
        self.rows = step.rows if chosen is None else step.rows[chosen]
        self._rules, self._split, self._body = rules, split, body

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> pa.Array:
        """The column of this name in COLUMNS."""
        if name in _TEXT_OF:
            return self._text_of(_TEXT_OF[name])
        make = _MADE.get(name)
        return pa.array(np.ascontiguousarray(self.rows[name])) if make is None else make(self)

    @cached_property
    def _numbers(self) -> Any:
        out = np.empty(len(self), kernels.NUMBERS)
        kernels.read_numbers(self.window, self.rows, self._rules, out)
        return out

    @cached_property
    def _found(self) -> Numbers:
        found = np.empty((len(kernels.FOUND), 2, len(self)), np.int64)
        kernels.find_values(self.window, self.rows, self._split, new_spans(), found)
        return found

    def number(self, name: str) -> pa.Array:
        """A column of NUMBERS."""
        return pa.array(np.ascontiguousarray(self._numbers[name]))

    def time(self, name: str) -> pa.Array:
        """A time in milliseconds as a TIMESTAMP."""
        source = self.rows if name == "storeTimestamp" else self._numbers
        millis = np.ascontiguousarray(source[name])
        wrong = (millis < TIME_LEAST) | (millis > TIME_MOST)
        some = bool(np.count_nonzero(wrong))
        micros = np.where(wrong, 0, millis) * 1000 if some else millis * 1000
        return pa.array(micros, mask=wrong if some else None).cast(TIME)

    def topics(self) -> pa.Array:
        starts = np.ascontiguousarray(self.rows["topicAt"])
        return _texts(self.window, starts, starts + self.rows["topicLength"])

    def _text_of(self, number: int) -> pa.Array:
        starts, stops = self._found[number]
        return _texts(self.window, starts, stops, nullable=True)

    def words(self) -> pa.Array:
        """KEYS as lists of words."""
        starts, stops = self._found[kernels.FOUND.index(KEYS)]
        raw = _total(starts, stops)
        lists = _room(len(self) + 1, np.int32)
        ends = _room(kernels.list_room(raw, len(self)), np.int32)
        data = _room(kernels.text_room(raw), np.uint8)
        kernels.put_words(self.window, starts, stops, lists, ends, data)
        words = _strings(ends[: int(lists[-1]) + 1], data)
        return pa.ListArray.from_buffers(TEXTS, len(self), [None, pa.py_buffer(lists)],
                                         children=[words])  # fmt: skip

    def hosts(self, stored: bool) -> pa.Array:
        """The bornHosts, or the storeHosts if `stored`."""
        ends = _room(len(self) + 1, np.int32)
        data = _room(len(self) * kernels.HOST_ROOM, np.uint8)
        hard = np.zeros(len(self), np.uint8)
        kernels.put_hosts(self.window, self.rows, self._rules, stored, ends, data, hard)
        return _patched(_strings(ends, data), hard, lambda i: self._host(i, stored))

    def _host(self, number: int, stored: bool) -> str:
        row = self.rows[number]
        at, stop = kernels.host_at(row, stored, self._rules)
        return host_text(self.window[at:stop].tobytes())

    def pairs(self) -> pa.Array:
        """All properties as maps."""
        raw = int(self.rows["propertiesLength"].sum(dtype=np.int64))
        lists = _room(len(self) + 1, np.int32)
        most = kernels.list_room(raw, len(self))
        name_ends, value_ends = _room(most, np.int32), _room(most, np.int32)
        names = _room(kernels.text_room(raw), np.uint8)
        values = _room(kernels.text_room(raw), np.uint8)
        hard = np.zeros(len(self), np.uint8)
        kernels.put_pairs(self.window, self.rows, self._split, lists, name_ends, names, value_ends,
                          values, hard)  # fmt: skip
        count = int(lists[-1]) + 1
        maps = pa.MapArray.from_arrays(
            pa.array(lists), _strings(name_ends[:count], names),
            _strings(value_ends[:count], values), type=PAIRS,
        )  # fmt: skip
        return _patched(maps, hard, self._pairs_of)

    def _pairs_of(self, number: int) -> list[tuple[str, str]]:
        row = self.rows[number]
        at = int(row["propertiesAt"])
        raw = self.window[at : at + int(row["propertiesLength"])].tobytes()
        return list(parse_properties(raw, self._split).items())

    def bodies(self) -> pa.Array:
        """The bodies. A body longer than a window is read on its own."""
        if len(self) == 1 and self.rows["bodyElided"][0]:
            row = self.rows[0]
            at = int(row["physicalOffset"] + row["bodyAt"] - row["at"])
            return pa.array([self._body(at, int(row["bodyLength"]))], pa.binary())
        starts = np.ascontiguousarray(self.rows["bodyAt"])
        stops = starts + self.rows["bodyLength"]
        ends = _room(len(self) + 1, np.int32)
        data = _room(_total(starts, stops), np.uint8)
        kernels.put_bytes(self.window, starts, stops, ends, data)
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(data)]
        return pa.Array.from_buffers(pa.binary(), len(self), buffers)


_TEXT_OF = {
    "tags": kernels.FOUND.index(TAGS),
    "uniqueKey": kernels.FOUND.index(UNIQ_KEY),
}
_MADE: dict[str, Callable[[StepRows], pa.Array]] = {
    "topic": StepRows.topics,
    "storeTimestamp": lambda rows: rows.time("storeTimestamp"),
    "storeTimestampMillis": lambda rows: pa.array(
        np.ascontiguousarray(rows.rows["storeTimestamp"])
    ),
    "bornTimestamp": lambda rows: rows.time("bornTimestamp"),
    "bornTimestampMillis": lambda rows: rows.number("bornTimestamp"),
    "storeHost": lambda rows: rows.hosts(True),
    "bornHost": lambda rows: rows.hosts(False),
    "keys": StepRows.words,
    "properties": StepRows.pairs,
    "flag": lambda rows: rows.number("flag"),
    "reconsumeTimes": lambda rows: rows.number("reconsumeTimes"),
    "preparedTransactionOffset": lambda rows: rows.number("preparedTransactionOffset"),
    "body": StepRows.bodies,
}  # all others are fields of a RECORD_ROW


def batch_of(rows: StepRows, schema: pa.Schema) -> pa.RecordBatch:
    """The rows as a batch of exactly this schema, with names from COLUMNS."""
    arrays = [
        column if column.type.equals(field.type) else column.cast(field.type)
        for field in schema
        for column in (rows.column(field.name),)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _room(count: int, kind: Any) -> Any:
    """New memory from Arrow's pool, which is quicker than new pages each time."""
    kind = np.dtype(kind)
    return np.frombuffer(pa.allocate_buffer(count * kind.itemsize), kind)


def _total(starts: Numbers, stops: Numbers) -> int:
    """Bytes of all texts. A start of -1 means that there is no text."""
    return int((stops - starts)[starts >= 0].sum())


def _strings(ends: npt.NDArray[np.int32], data: Any, valid: Any = None) -> pa.Array:
    count = len(ends) - 1
    return pa.Array.from_buffers(
        pa.string(), count, [valid, pa.py_buffer(ends), pa.py_buffer(data)]
    )


def _texts(window: Any, starts: Numbers, stops: Numbers, nullable: bool = False) -> pa.Array:
    ends = _room(len(starts) + 1, np.int32)
    data = _room(kernels.text_room(_total(starts, stops)), np.uint8)
    kernels.put_texts(window, starts, stops, ends, data)
    valid = None
    if nullable and bool(np.count_nonzero(starts < 0)):
        valid = pa.py_buffer(np.packbits(starts >= 0, bitorder="little"))
    return _strings(ends, data, valid)


def _patched(column: pa.Array, hard: Any, value: Callable[[int], Any]) -> pa.Array:
    """The column with values from `value` in the rows that `hard` marks."""
    numbers = np.flatnonzero(hard)
    if not len(numbers):
        return column
    more = pa.array([value(i) for i in numbers.tolist()], column.type)
    order = np.arange(len(column))
    order[numbers] = len(column) + np.arange(len(numbers))
    return pa.concat_arrays([column, more]).take(pa.array(order))
