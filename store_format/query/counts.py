"""Counts the messages put into a log, as a broker counts its puts while it runs: by topic, by name,
by time and by size.

StoreStatsService counts every record that the store takes, by its own topic, and the bytes written
(putMessageTopicTimesTotal, putMessageTopicSizeTotal); BrokerStatsManager does the same by name
(TOPIC_PUT_NUMS, TOPIC_PUT_SIZE). A record with several messages (an inner batch) counts as that
many (CommitLog.getMessageNum). A broker loses its counts at its end; the log keeps all records that
are not deleted.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format.dispatch.queue_table import (
    BATCH_TOPIC,
    RETRY_PREFIX,
    batch_topics,
    clear,
    find_queue,
    new_table,
    queues,
    starts_with,
)
from reput.store_format.kernels.java_text import decode, parse_integer
from reput.store_format.kernels.jit import kernel
from reput.store_format.layouts import SYS_INNER_BATCH
from reput.store_format.log.properties import find_named, new_spans
from reput.store_format.log.reader import LiveBehind, LogReader, NoRecord
from reput.store_format.log.walk import Step
from reput.store_format.names import DLQ_PREFIX

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

BY = ("topic", "day", "hour", "group", "size")
_TIMES = ("day", "hour")
_DAY, _HOUR, _BY_GROUP, _SIZE = range(1, 5)
_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS
_QUARTER_MS = 900_000  # since 1972 the offsets of all time zones are multiples of this
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DLQ_PREFIX = np.frombuffer(DLQ_PREFIX.encode(), np.uint8)

# The properties that are read (MessageConst). A property's index here is its row in `spans`.
_NAMES = (b"REAL_TOPIC", b"PGROUP", b"INNER_NUM")
_REAL_TOPIC, _GROUP, _INNER_NUM = range(3)
_NAME_BYTES = np.frombuffer(b"".join(_NAMES), np.uint8)
_NAME_ENDS = np.cumsum([len(name) for name in _NAMES])

_NAMES_MOST = 1 << 16  # topics, and groups, before the table is emptied
_NAME_ROOM = 16 << 20  # bytes of these names

# How a record is counted. topic, group: numbers in their tables, group -1 for none.
COUNTED = np.dtype([("topic", "<i8"), ("group", "<i8"), ("size", "<i8"), ("messages", "<i8")])


class Count(NamedTuple):
    """Sums over messages of one topic, day, hour, group and size; None for those not asked for."""

    topic: str | None
    day: int | None  # its begin, in milliseconds
    hour: int | None  # its begin, in milliseconds
    group: str | None  # consumers' of %RETRY% and %DLQ%, producers' of half messages; '': none
    size: int | None  # greatest power of two not above a record's bytes
    records: int
    messages: int
    bytes: int  # of the records
    first: int  # storeTimestamps, milliseconds
    last: int

    @property
    def seconds(self) -> float:
        """The seconds over which rates are computed: the whole hour, or 24 hours of a day."""
        if self.hour is not None or self.day is not None:
            return (_DAY_MS if self.hour is None else _HOUR_MS) / 1000
        return max(self.last - self.first, 1000) / 1000

    @property
    def messages_per_second(self) -> float:
        return self.messages / self.seconds

    @property
    def bytes_per_second(self) -> float:
        return self.bytes / self.seconds


@kernel
def _hash(buf: Bytes, at: int, end: int) -> int:
    found: Any = np.int64(17)
    for i in range(at, end):
        found = (found * 31 + buf[i]) & 0x7FFFFFFF
    return int(found)


@kernel
def _number(table: Any, buf: Bytes, at: int, end: int, batch_names: Bytes, batch_ends: Any) -> int:
    return find_queue(
        table.slots, table.rows, table.names, table.used, buf, at, end, _hash(buf, at, end), 0,
        batch_names, batch_ends,
    )  # fmt: skip


@kernel
def _count_rows(  # noqa: PLR0913 (a kernel takes its arrays one by one)
    window: Bytes, rows: Any, split: bool, by_group: bool, topics: Any, groups: Any,
    batch_names: Bytes, batch_ends: Any, spans: npt.NDArray[np.int64], out: Any,
) -> None:  # fmt: skip
    """Fill out (COUNTED) for each row; by_group: find its group too."""
    for i in range(len(rows)):
        row = rows[i]
        at, end = row.topicAt, row.topicAt + row.topicLength
        topic = _number(topics, window, at, end, batch_names, batch_ends)
        inner = row.sysFlag & SYS_INNER_BATCH or topics.rows[topic].flags & BATCH_TOPIC
        if by_group or inner:
            first = row.propertiesAt
            find_named(
                window, first, first + row.propertiesLength, split, _NAME_BYTES, _NAME_ENDS, spans
            )
        group = -1
        if by_group:
            real, real_end = spans[_REAL_TOPIC, 0], spans[_REAL_TOPIC, 1]
            for begin, stop in ((at, end), (real, real_end)):
                if group < 0 and begin >= 0:
                    if starts_with(window, begin, stop, RETRY_PREFIX):
                        group = begin + len(RETRY_PREFIX)
                    elif starts_with(window, begin, stop, _DLQ_PREFIX):
                        group = begin + len(_DLQ_PREFIX)
                    if group >= 0:
                        group = _number(groups, window, group, stop, batch_names, batch_ends)
            if group < 0 and spans[_GROUP, 0] >= 0:
                group = _number(
                    groups, window, spans[_GROUP, 0], spans[_GROUP, 1], batch_names, batch_ends
                )
        messages = 1
        if inner and spans[_INNER_NUM, 0] >= 0:
            sound, number = parse_integer(window, spans[_INNER_NUM, 0], spans[_INNER_NUM, 1], 16)
            if sound and number > 0:
                messages = number
        size = 1
        while size * 2 <= row.size:
            size *= 2
        out[i].topic, out[i].group = topic, group
        out[i].size, out[i].messages = size, messages


class Reading:
    """Tells how each record of a walk is counted; by_group: for its group too."""

    def __init__(self, split: bool, batch: Sequence[str], by_group: bool) -> None:
        self._split, self._batch, self._by_group = split, batch_topics(list(batch)), by_group
        self._topics = new_table(_NAMES_MOST, _NAME_ROOM)
        self._groups = new_table(_NAMES_MOST, _NAME_ROOM)
        self._spans = new_spans(len(_NAMES))
        self._room = np.zeros(0, COUNTED)
        self._names: dict[str, list[str]] = {"topic": [], "group": []}

    def counted(self, step: Step) -> npt.NDArray[Any]:
        """A COUNTED row for each row of the step; valid until the next step."""
        rows = step.rows
        self._make_room(len(rows), len(step.window))
        out = self._room[: len(rows)]
        _count_rows(
            step.window, rows, self._split, self._by_group, self._topics, self._groups,
            self._batch.names, self._batch.ends, self._spans, out,
        )  # fmt: skip
        for name, table in (("topic", self._topics), ("group", self._groups)):
            if len(self._names[name]) < int(table.used[0]):
                self._names[name] = [decode(queue.raw_name) for queue in queues(table)]
        return out

    def value(self, name: str, value: int) -> Any:
        """The name that a column's number stands for, or the number itself."""
        if name not in self._names:
            return value
        return "" if value < 0 else self._names[name][value]

    def _make_room(self, rows: int, window_bytes: int) -> None:
        """Make room for a window's rows; forget all names if its names may not fit."""
        if len(self._room) < rows:
            self._room = np.zeros(rows, COUNTED)
        for name, table in (("topic", self._topics), ("group", self._groups)):
            numbers, taken = table.used.tolist()
            if numbers + rows > _NAMES_MOST or taken + window_bytes > _NAME_ROOM:
                clear(table)
                self._names[name] = []


@kernel
def _sum_equals(
    by: Any, span: int, rows: Any, counted: Any, slots: npt.NDArray[np.int32], keys: Any, sums: Any
) -> int:
    """Add up rows of equal values; returns how many such groups there are.

    by: which of BY a row's values are; slots: all -1, more than the rows, a power of two; keys,
    sums: int64, get each group's values and its `CountSums.found`.
    """
    mask, many = np.uint64(len(slots) - 1), 0
    for i in range(len(rows)):
        row, how, code = rows[i], counted[i], np.uint64(0)
        for way in range(len(by)):
            which, value = by[way], how.topic
            if _DAY <= which <= _HOUR:
                value = row.storeTimestamp // span * span
            elif which == _BY_GROUP:
                value = how.group
            elif which == _SIZE:
                value = how.size
            keys[many, way] = value
            code = (code ^ np.uint64(value)) * np.uint64(0x9E3779B97F4A7C15)
            code ^= code >> np.uint64(32)
        at = code & mask
        while slots[at] >= 0:
            same, group = True, slots[at]
            for way in range(len(by)):
                same = same and keys[group, way] == keys[many, way]
            if same:
                break
            at = (at + np.uint64(1)) & mask
        time, group = row.storeTimestamp, slots[at]
        if group < 0:
            group = slots[at] = many
            sums[group, :3] = 0
            sums[group, 3] = sums[group, 4] = time
            many += 1
        sums[group, 0] += 1
        sums[group, 1] += how.messages
        sums[group, 2] += row.size
        sums[group, 3], sums[group, 4] = min(sums[group, 3], time), max(sums[group, 4], time)
    return many


class CountSums:
    """Sums by some of BY.

    found: by the values of these, [records, messages, bytes, first and last storeTimestamp];
    span: how many milliseconds count as an hour, or a day.
    """

    def __init__(self, by: Sequence[str], span: int = _HOUR_MS) -> None:
        self.by, self.span = by, span
        self.found: dict[tuple[Any, ...], list[int]] = {}

    def add(
        self, rows: npt.NDArray[Any], counted: npt.NDArray[Any], value: Callable[[str, int], Any]
    ) -> None:
        """Add a step's rows (RECORD_ROW); value: `Reading.value`."""
        by = np.array([BY.index(name) for name in self.by])
        keys, sums = np.empty((len(rows), len(by)), np.int64), np.empty((len(rows), 5), np.int64)
        slots = np.full(2 << len(rows).bit_length(), -1, np.int32)
        many = _sum_equals(by, self.span, rows, counted, slots, keys, sums)
        for key, more in zip(keys[:many].tolist(), sums[:many].tolist(), strict=True):
            self.put(tuple(value(name, v) for name, v in zip(self.by, key, strict=True)), more)

    def put(self, key: tuple[Any, ...], more: list[int]) -> None:
        sums = self.found.get(key)
        if sums is None:
            self.found[key] = more
            return
        for place in range(3):
            sums[place] += more[place]
        sums[3], sums[4] = min(sums[3], more[3]), max(sums[4], more[4])

    def counts(self) -> list[Count]:
        """The sums, in the order of their keys."""
        found = []
        for key, sums in sorted(self.found.items()):
            values: Any = map(dict(zip(self.by, key, strict=True)).get, BY)
            found.append(Count(*values, *sums))
        return found


def count(
    log: LogReader, by: Sequence[str], split: bool, batch: Sequence[str],
    seen: Callable[[int], None], found: Callable[[NoRecord], None],
    behind: LiveBehind | None = None, zone: tzinfo = UTC,
) -> list[Count]:  # fmt: skip
    """Walk a log once; counts by some of BY, in the order of their values.

    split: Profile.split_properties; batch: the topics whose queue.type is BatchCQ.
    seen: called with the physical offset that the walk has reached.
    found: called for each place where records break off.
    behind: returns the live records after such a place in its segment; without it none count.
    zone: of days and hours.
    """
    sums = CountSums(by, _HOUR_MS if zone == UTC else _QUARTER_MS)
    reading = Reading(split, batch, "group" in by)
    for step in log.steps_past_damage(found, behind):
        if len(step.rows):
            sums.add(step.rows, reading.counted(step), reading.value)
        seen(step.next)
    whole = CountSums(by)
    begin = cache(partial(_begin, zone=zone))
    for key, each in sums.found.items():
        named = zip(by, key, strict=True)
        whole.put(tuple(begin(n, v) if n in _TIMES else v for n, v in named), each)
    return whole.counts()


def _begin(way: str, time: int, zone: tzinfo) -> int:
    """The begin of the day or hour with a time, in milliseconds, as a clock in the zone has it."""
    try:
        moment = (_EPOCH + timedelta(milliseconds=time)).astimezone(zone)
        first = moment.replace(minute=0, second=0, microsecond=0)
        first = first.replace(hour=0, fold=0) if way == "day" else first
        return (first - _EPOCH) // timedelta(milliseconds=1)
    except (OverflowError, ValueError):  # outside the calendar
        span = _DAY_MS if way == "day" else _HOUR_MS
        return time // span * span


# ---
# When messages were put: counts by topic and time, and by size, from one walk over the log.
#
# Spans of time begin short and grow as the log turns out to be long. So both a store of a minute
# and one of a year have some hundreds of spans, and memory does not depend on the length.

SPANS_MOST = 240  # with more, spans are made longer
_KEYS_MOST = 200_000  # of topics and spans; each topic keeps at least one span
# Seconds. Each width is a multiple of the one before, so that sums stay right.
_LADDER = (1, 5, 15, 60, 300, 900, 3600, 21_600, 86_400, 604_800)


class PutSpan(NamedTuple):
    topic: str
    begin: int  # milliseconds
    messages: int
    bytes: int


class PutTimes(NamedTuple):
    """All counts of a walk."""

    width: int  # milliseconds of each span
    spans: list[PutSpan]
    topics: list[Count]
    sizes: list[Count]


Items = Sequence[tuple[Sequence[Any], list[int]]]  # of CountSums.found


class PutSums(CountSums):
    """Counts messages by topic and time, in spans that grow, and by size, in a walk over a log.

    split: Profile.split_properties; batch: the topics whose queue.type is BatchCQ.
    """

    def __init__(self, split: bool, batch: Sequence[str]) -> None:
        super().__init__(("topic", "hour", "size"), _LADDER[0] * 1000)
        self._reading, self._sizes = Reading(split, batch, False), CountSums(("size",))
        self._begins: set[int] = set()

    def count(self, step: Step) -> None:
        """Add the records of a step that has some."""
        self.add(step.rows, self._reading.counted(step), self._reading.value)

    def put(self, key: tuple[Any, ...], more: list[int]) -> None:
        topic, time, size = key
        self._sizes.put((size,), list(more))
        self._put(topic, time, more)

    def parts(self) -> tuple[int, Items, Items]:
        """What `take` adds to the sums of another part of the log."""
        return self.span, list(self.found.items()), list(self._sizes.found.items())

    def take(self, span: int, spans: Items, sizes: Items) -> None:
        while self.span < span:
            self._widen()
        for (topic, time), more in spans:
            self._put(topic, time, more)
        for (size,), more in sizes:
            self._sizes.put((size,), more)

    def _put(self, topic: str, time: int, more: list[int]) -> None:
        begin = time // self.span * self.span  # the width may have grown since the step began
        super().put((topic, begin), more)
        self._begins.add(begin)
        while len(self._begins) > SPANS_MOST or (
            len(self.found) > _KEYS_MOST and len(self._begins) > 1
        ):
            self._widen()

    def _widen(self) -> None:
        self.span = next((s * 1000 for s in _LADDER if s * 1000 > self.span), self.span * 4)
        before, self.found, self._begins = self.found, {}, set()
        for (topic, time), sums in before.items():
            self._put(topic, time, sums)

    def times(self) -> PutTimes:
        by_span = sorted(self.found.items(), key=lambda item: item[0])
        put = [PutSpan(topic, begin, sums[1], sums[2]) for (topic, begin), sums in by_span]
        topics = CountSums(("topic",))
        for (topic, _), sums in by_span:
            topics.put((topic,), list(sums))
        return PutTimes(self.span, put, topics.counts(), self._sizes.counts())
