"""A window of a log as Arrow: a message's columns, the rows that are wanted, their batches."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from reput.store_format.filter.rows import Match
from reput.store_format.log import columns as kernels
from reput.store_format.log.properties import KEYS, TAGS, UNIQ_KEY, new_spans
from reput.store_format.log.reader import records_of
from reput.store_format.log.record import Record
from reput.store_format.log.rules import RecordRules
from reput.store_format.log.walk import Step
from reput.store_format.message.message import host_text, parse_properties
from reput.store_format.names import SYSTEM_PREFIX, SYSTEM_TOPICS
from reput.udfs.table.log_parts import LogPart, LogParts, Tell

if TYPE_CHECKING:
    from reput.store_format.filter.filters import Filter

# ---
# The columns of a message in a table: names, types, and the comments that Spark shows.

TIME = pa.timestamp("us", "UTC")
TEXTS = pa.list_(pa.field("element", pa.string(), nullable=False))
PAIRS = pa.map_(pa.string(), pa.field("value", pa.string(), nullable=False))


class MessageColumn(NamedTuple):
    """One column: its field, and the comment that Spark shows."""

    field: pa.Field
    comment: str


def column(name: str, kind: pa.DataType, comment: str, nullable: bool = False) -> MessageColumn:
    return MessageColumn(pa.field(name, kind, nullable=nullable), comment)


COLUMNS = (
    column("topic", pa.string(), "topic of the record, as Java decodes it"),
    column("queueId", pa.int32(), "queue within the topic"),
    column("queueOffset", pa.int64(), "position in the ConsumeQueue"),
    column("physicalOffset", pa.int64(), "byte at which the record starts in the CommitLog"),
    column("storeTimestamp", TIME, "when the broker stored it; null past year 9999", True),
    column("storeTimestampMillis", pa.int64(), "the same, as the record says it"),
    column("bornTimestamp", TIME, "when the client made it; null past year 9999", True),
    column("bornTimestampMillis", pa.int64(), "the same, as the record says it"),
    column("storeHost", pa.string(), "address:port of the broker"),
    column("bornHost", pa.string(), "address:port of the client"),
    column("tags", pa.string(), "property TAGS", True),
    column("keys", TEXTS, "words of property KEYS"),
    column("uniqueKey", pa.string(), "property UNIQ_KEY: the id that the client gave it", True),
    column("properties", PAIRS, "all properties, as a broker reads them"),
    column("flag", pa.int32(), "the application's own flag"),
    column("sysFlag", pa.int32(), "MessageSysFlag: compression, transaction, hosts of IPv6, batch"),
    column("reconsumeTimes", pa.int32(), "how often it was delivered again"),
    column("preparedTransactionOffset", pa.int64(), "of a commit: where its half message stands"),
    column("bodyCRC", pa.int32(), "CRC-32 of the body, without its highest bit"),
    column("size", pa.int32(), "bytes of the whole record"),
    column("body", pa.binary(), "as it stands in the log: it may be compressed"),
)
BY_NAME = {each.field.name: each for each in COLUMNS}
# Spark's schema of a Kafka topic
HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
KAFKA_BY_NAME = {each.field.name: each for each in (
    column("key", pa.binary(), "property UNIQ_KEY, else KEYS", True),
    column("value", pa.binary(), "the body as it stands in the log: it may be compressed", True),
    column("topic", pa.string(), "topic of the record, as Java decodes it"),
    column("partition", pa.int32(), "queueId"),
    column("offset", pa.int64(), "queueOffset: position in the ConsumeQueue"),
    column("timestamp", TIME, "when the broker stored it; null past year 9999", True),
    column("timestampType", pa.int32(), "1: the broker's time, as Kafka's LogAppendTime"),
    column("headers", pa.list_(HEADER), "all properties, as a broker reads them", True),
)}  # fmt: skip
SCHEMA = pa.schema([each.field for each in COLUMNS])


# ---
# A window's rows as Arrow: the columns above.
#
# `store_format.log.columns` has the kernels. Only records that they leave aside go through Python
# one by one: with an IPv6 address, with dozens of properties, or with two properties of one name.

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
        if name in _TEXT_OF:
            return self._text_of(_TEXT_OF[name])
        make = _MADE.get(name)
        return pa.array(np.ascontiguousarray(self.rows[name])) if make is None else make(self)

    @cached_property
    def _numbers(self) -> Any:
        out = np.empty(len(self), kernels.NUMBERS)
        kernels.read_numbers(self.window, self.rows, out)
        return out

    @cached_property
    def _found(self) -> Numbers:
        found = np.empty((len(kernels.FOUND), 2, len(self)), np.int64)
        kernels.find_values(self.window, self.rows, self._split, new_spans(), found)
        return found

    def number(self, name: str) -> pa.Array:
        return pa.array(np.ascontiguousarray(self._numbers[name]))

    def time(self, name: str) -> pa.Array:
        source = self.rows if name == "storeTimestamp" else self._numbers
        millis = np.ascontiguousarray(source[name])
        wrong = (millis < TIME_LEAST) | (millis > TIME_MOST)
        some = bool(np.count_nonzero(wrong))
        micros = np.where(wrong, 0, millis) * 1000 if some else millis * 1000
        return pa.array(micros, mask=wrong if some else None).cast(TIME)

    @cached_property
    def topics(self) -> pa.Array:
        starts = np.ascontiguousarray(self.rows["topicAt"])
        return _texts(self.window, starts, starts + self.rows["topicLength"])

    def _text_of(self, number: int) -> pa.Array:
        starts, stops = self._found[number]
        return _texts(self.window, starts, stops, nullable=True)

    def words(self) -> pa.Array:
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

    def headers(self) -> pa.Array:
        """The properties as Kafka's headers."""
        pairs = self.pairs()
        columns = [pairs.keys, pairs.items.cast(pa.binary())]
        headers = pa.StructArray.from_arrays(columns, fields=list(HEADER))
        return pa.ListArray.from_arrays(pairs.offsets, headers)

    def key(self) -> pa.Array:
        """Kafka's key: UNIQ_KEY, else KEYS."""
        keys = (self._text_of(kernels.FOUND.index(name)) for name in (UNIQ_KEY, KEYS))
        return pc.coalesce(*keys).cast(pa.binary())

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


_TEXT_OF = {"tags": kernels.FOUND.index(TAGS), "uniqueKey": kernels.FOUND.index(UNIQ_KEY)}
_MADE: dict[str, Callable[[StepRows], pa.Array]] = {
    "topic": lambda rows: rows.topics,
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
    "key": StepRows.key,
    "value": StepRows.bodies,
    "partition": lambda rows: rows.column("queueId"),
    "offset": lambda rows: rows.column("queueOffset"),
    "timestamp": lambda rows: rows.time("storeTimestamp"),
    "timestampType": lambda rows: pa.array(np.ones(len(rows), np.int32)),
    "headers": StepRows.headers,
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


# ---
# Messages that a query found as an Arrow table, with the columns of the Spark source.
#
# Times are in one column each, in milliseconds; the source has two.

BODY = SCHEMA.field("body")
MESSAGE_SCHEMA = pa.schema(
    [
        pa.field(each.name, pa.int64(), nullable=False) if each.type == TIME else each
        for each in SCHEMA
        if each != BODY and not each.name.endswith("Millis")
    ]
)


def messages_table(rows: Iterable[Mapping[str, Any]], body: bool) -> pa.Table:
    """A table of `StoredMessage.row` rows. body: whether they have bodies."""
    schema = MESSAGE_SCHEMA.append(BODY) if body else MESSAGE_SCHEMA
    listed = [{**row, "properties": list(row["properties"].items())} for row in rows]
    return pa.Table.from_pylist(listed, schema)


# ---
# Which rows of a window somebody wants: by topic and by time.
#
# All rows of a window are looked at together, by Arrow; a pattern is matched by RE2, which takes
# the time of one pass over the text, whatever the pattern.


def whole_matches(texts: pa.Array, pattern: str) -> pa.Array:
    """Which texts a regular expression (RE2) matches as a whole. Raises ArrowInvalid for none."""
    pc.match_substring_regex(pa.array([""]), pattern)  # `a)|(?:b` is one only in the brackets below
    return pc.match_substring_regex(texts, f"^(?:{pattern})$")


class QueueRange(NamedTuple):
    """What is wanted of a queue: its queueOffsets and store times, from and (exclusive) to."""

    start: int = -(1 << 63)
    end: int = (1 << 63) - 1
    since: int = -(1 << 63)
    until: int = (1 << 63) - 1


@dataclass(frozen=True)
class Choice:
    """Which rows are wanted; by default all.

    topics: any of these; pattern: a regular expression that a whole topic matches; since: stored at
    that time or later, until: stored before that time, in milliseconds.
    queues: what is wanted of (topic, queueId); of others everything, or nothing if `only`.
    """

    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    since: int | None = None
    until: int | None = None
    queues: Mapping[tuple[str, int], QueueRange] = field(default_factory=dict)
    only: bool = False

    def numbers(self, rows: StepRows) -> npt.NDArray[np.int64] | None:
        """The numbers of the wanted rows; None for all."""
        mask = _all_of(self._masks(rows))
        if mask is None:
            return None
        return np.flatnonzero(pc.fill_null(mask, False).to_numpy(zero_copy_only=False))

    def of_topics(self, topics: list[str]) -> list[str]:
        there = pa.array(topics, pa.string())
        mask = _all_of(self._topic_masks(lambda: there))
        wanted: list[str] = topics if mask is None else there.filter(mask).to_pylist()
        return wanted

    def _topic_masks(self, topics: Callable[[], pa.Array]) -> Iterator[pa.Array]:
        if self.topics is not None:
            yield pc.is_in(topics(), value_set=pa.array(self.topics, pa.string()))
        if self.pattern is not None:
            yield whole_matches(topics(), self.pattern)

    def _masks(self, rows: StepRows) -> Iterator[pa.Array]:
        yield from self._topic_masks(lambda: rows.column("topic"))
        if self.since is not None:
            yield pc.greater_equal(rows.column("storeTimestampMillis"), self.since)
        if self.until is not None:
            yield pc.less(rows.column("storeTimestampMillis"), self.until)
        if self.queues or self.only:
            yield self._of_queues(rows)

    def _of_queues(self, rows: StepRows) -> pa.Array:
        topics = rows.column("topic").dictionary_encode()
        names, ids = topics.dictionary.to_pylist(), np.asarray(rows.column("queueId"), np.int64)
        both, which = np.unique((np.asarray(topics.indices, np.int64) << 32) | (ids & 0xFFFFFFFF),
                                return_inverse=True)  # fmt: skip
        rest = QueueRange(end=-(1 << 63)) if self.only else QueueRange()
        queues = zip((both >> 32).tolist(), both.astype(np.int32).tolist(), strict=True)
        asked = [self.queues.get((names[name], queue), rest) for name, queue in queues]
        start, end, since, until = np.array(asked, np.int64).reshape(-1, 4)[which].T
        offsets, times = rows.rows["queueOffset"], rows.rows["storeTimestamp"]
        places = (offsets >= start) & ((offsets < end) | (end == QueueRange().end))
        return pa.array(places & (times >= since) & (times < until))


def _all_of(masks: Iterator[pa.Array]) -> pa.Array | None:
    found = next(masks, None)
    for more in masks:
        found = pc.and_(found, more)
    return found


EVERYTHING = Choice()


# ---
# A part of a log as Arrow batches, which a task of the Spark source or of an export yields.


def batches_of(  # noqa: PLR0913 (a filter, and who is told what)
    log: LogParts, part: LogPart, choice: Choice, schema: pa.Schema, wanted: "Filter | None" = None,
    tell: Tell | None = None, reached: Callable[[int], None] | None = None,
    system_topics: bool = True, left: Callable[[int], None] | None = None,
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    """The wanted rows of a part, with the columns of `schema`, a batch a window.

    wanted: a filter; None takes all messages.
    tell: called with a line for each thing that is left out; by default the task's log gets it.
    reached: called again and again with the offset up to which the log was read.
    system_topics: also yield messages of brokers' own topics; else `left` is called with how many
    of them are left out. Raises DamageFound, StoreChanged, OSError.
    """
    rules, split = log.rules.records, log.rules.dispatch.split_properties
    for step in log.steps(part) if tell is None else log.steps(part, tell):
        if reached is not None:
            reached(step.next)
        if wanted is not None:
            step = step._replace(rows=step.rows[_wanted(log, step, wanted)])
        rows = StepRows(step, None, rules, split, log.body)
        numbers = choice.numbers(rows)
        if numbers is not None:
            rows = StepRows(step, numbers, rules, split, log.body)
        if not system_topics and len(rows):
            own = _of_system_topics(rows.column("topic"))
            if left is not None:
                left(int(np.count_nonzero(own)))
            if own.any():
                kept = np.arange(len(step.rows)) if numbers is None else numbers
                rows = StepRows(step, kept[~own], rules, split, log.body)
        if len(rows):
            yield batch_of(rows, schema)


def _of_system_topics(topics: pa.Array) -> npt.NDArray[np.bool_]:
    named = pc.is_in(topics, value_set=pa.array(sorted(SYSTEM_TOPICS)))
    found = pc.or_(named, pc.starts_with(topics, SYSTEM_PREFIX))
    return np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)


def _wanted(log: LogParts, step: Step, wanted: "Filter") -> npt.NDArray[np.bool_]:
    """One bool for each row: whether the filter wants it."""
    split = log.rules.dispatch.split_properties
    verdicts = wanted.judge(step, split)
    asked = np.flatnonzero(verdicts == Match.ASK)
    for number, record in zip(
        asked.tolist(), records_of(step, asked, log.rules.records), strict=True
    ):
        properties = parse_properties(record.properties, split)
        if wanted.matches(record, properties, partial(_body, log, record)):
            verdicts[number] = Match.YES
    found: npt.NDArray[np.bool_] = verdicts == Match.YES
    return found


def _body(log: LogParts, record: Record) -> bytes:
    return log.body(record.body_at, record.body_length)
