"""Which records are taken when a log is written anew, by their topics' names, and their new sizes.

A kernel looks names up in a table; what becomes of a new name is decided in Python, once.
"""

import operator
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format.dispatch.queue_table import clear, find_queue, new_table, queues
from reput.store_format.dispatch.scan import ScanRules
from reput.store_format.faults import StoreError
from reput.store_format.kernels.bytes import get_i32
from reput.store_format.kernels.java_text import decode, hash_code
from reput.store_format.kernels.jit import inlined, kernel
from reput.store_format.layouts import (
    IPV4_HOST,
    IPV6_HOST,
    MAGIC_V2,
    RECORD_AT,
    SYS_STORE_HOST_V6,
    TOPIC_LENGTH_V1,
    TOPIC_LENGTH_V2,
)
from reput.store_format.log.properties import find_named
from reput.store_format.log.records import Bytes, Rows, needs_v2, topic_length_bytes
from reput.store_format.log.rules import reaches_queue
from reput.store_format.rewrite.changes import TOPIC_PROPERTIES, Changes, Fate
from reput.store_format.rewrite.numbers import NO_POSITIONS, PositionReader, Positions, grow

_QUEUES, _NAME_BYTES = 1 << 16, 8 << 20
NAME_ONLY = -(1 << 31)  # as a queue id: the row of a name in a property
_PROPERTIES_MAX = 0x7FFF  # propertiesLength is a short
_LEFT_OUT, _TAKEN, _FOLLOWS = map(int, Fate)
_TOO_LONG = -1
_RETRY_TOPIC = len(TOPIC_PROPERTIES) - 1
_BY_ROW = 4  # the first fields of Selection

PROPERTY_NAMES = np.frombuffer(b"".join(TOPIC_PROPERTIES), np.uint8)
PROPERTY_ENDS = np.cumsum([len(name) for name in TOPIC_PROPERTIES])

# What was decided of the queue, or name, of this number in the table.
DECIDED = np.dtype(
    [
        ("fate", "<i4"),
        ("unnamed", "<i4"),  # the fate of records that name no topic that counts
        ("namedFrom", "<i4"),  # the index in TOPIC_PROPERTIES of the first one that counts
        ("queueShift", "<i4"),
        ("nameAt", "<i8"),  # the new name in `RecordSelector.names`; empty where it stays
        ("nameEnd", "<i8"),
        ("start", "<i8"),
        ("begin", "<i8"),
    ]
)

_needs_v2 = inlined(needs_v2)
_reaches_queue = inlined(reaches_queue)


class Tally(NamedTuple):
    """Sums of a queue's records: of all that were seen, and of those that are taken.

    bytes: new sizes of the taken records; positions: that records have in the queue (several for
    one in a batch queue; those of other topics' records in an LMQ); counted: those of records that
    are taken; least, greatest: queueOffsets, least is above
    greatest where there is none; sys_flags: of all taken records; long: 1 where some
    taken records have two bytes of topicLength (V2); shared: records that an earlier store has too;
    shared_end: the position after their last one, 0 where there is none. first, first_zero,
    last_zero: physical offsets of the first record with a position, and of the first and last one
    whose queueOffset is 0; zeros: how many these are. texts: positions that stand in properties.
    """

    records: int = 0
    taken: int = 0
    bytes: int = 0
    positions: int = 0
    counted: int = 0
    least: int = (1 << 63) - 1
    greatest: int = -1
    sys_flags: int = 0
    long: int = 0
    shared: int = 0
    shared_end: int = 0
    first: int = (1 << 63) - 1
    zeros: int = 0
    first_zero: int = (1 << 63) - 1
    last_zero: int = -1
    texts: int = 0

    @property
    def begins_again(self) -> bool:
        """Whether a record that is not the first one has queueOffset 0."""
        return self.zeros > (self.first == self.first_zero)

    def plus(self, other: "Tally") -> "Tally":
        """The sum of two tallies of one queue."""
        return Tally(*(_JOINED[name](getattr(self, name), getattr(other, name)) for name in _NAMES))


_NAMES = Tally._fields
_JOINED = dict.fromkeys(_NAMES, operator.add) | {
    "least": min, "greatest": max, "sys_flags": operator.or_, "long": max, "shared_end": max,
    "first": min, "first_zero": min, "last_zero": max,
}  # fmt: skip
TALLY = np.dtype([(name, "<i8") for name in _NAMES])  # the same for a kernel
_NO_TALLY = np.array(Tally(), TALLY)


@kernel
def store_host_bytes(sys_flag: int, ipv6_hosts: bool) -> int:
    """Bytes of storeHost: 8, or 20."""
    return IPV6_HOST if ipv6_hosts and sys_flag & SYS_STORE_HOST_V6 else IPV4_HOST


@kernel
def _select(  # noqa: PLR0913 (a kernel takes its arrays one by one)
    buf: Bytes, rows: Rows, by_topic: bool, split_properties: bool, ipv6_hosts: bool,
    host_bytes: int, slots: Any, queues: Any, names: Bytes, used: Any, decided: Any, count: int,
    batch_names: Bytes, batch_ends: Any, sizes: Any, numbers: Any, all_spans: Any, all_named: Any,
) -> int:  # fmt: skip
    """Fill in a Selection's arrays for the rows, up to a row with a name that is not decided yet;
    returns how many rows are filled in.
    """
    for i in range(len(rows)):
        row = rows[i]
        most = row.topicLength + row.propertiesLength
        if used[0] + 4 > len(queues) or used[1] + most > len(names):
            return i
        end = row.topicAt + row.topicLength
        number = find_queue(
            slots, queues, names, used, buf, row.topicAt, end,
            hash_code(buf, row.topicAt, end, np.int32(0)), row.queueId, batch_names, batch_ends,
        )  # fmt: skip
        if number >= count:
            return i
        decision = decided[number]
        fate = decision.fate
        early = row.queueOffset < decision.start or row.physicalOffset < decision.begin
        if early and _reaches_queue(row.sysFlag):
            fate = _LEFT_OUT
        grown = 0
        if host_bytes:
            grown += host_bytes - store_host_bytes(row.sysFlag, ipv6_hosts)
        length = decision.nameEnd - decision.nameAt
        if length:
            two = TOPIC_LENGTH_V2 if _needs_v2(length) else TOPIC_LENGTH_V1
            magic = get_i32(buf, row.at + RECORD_AT.magic)
            grown += length - row.topicLength + two - topic_length_bytes(magic)
        if by_topic:
            spans, named = all_spans[i], all_named[i]
            at, stop = row.propertiesAt, row.propertiesAt + row.propertiesLength
            find_named(buf, at, stop, split_properties, PROPERTY_NAMES, PROPERTY_ENDS, spans)
            text_grown, origin = 0, decision.unnamed
            for k in range(len(PROPERTY_ENDS)):
                named[k] = -1
                if spans[k, 0] >= 0:
                    value_at, value_end = spans[k]
                    name = find_queue(
                        slots, queues, names, used, buf, value_at, value_end,
                        hash_code(buf, value_at, value_end, np.int32(0)), NAME_ONLY,
                        batch_names, batch_ends,
                    )  # fmt: skip
                    if name >= count:
                        return i
                    named[k] = name
                    if k >= decision.namedFrom:
                        origin = decided[name].fate
                    length = decided[name].nameEnd - decided[name].nameAt
                    if length:
                        text_grown += length - (value_end - value_at)
            if fate == _FOLLOWS:
                fate = origin
            if row.propertiesLength + text_grown > _PROPERTIES_MAX:
                grown = _TOO_LONG - row.size
            else:
                grown += text_grown
        numbers[i] = number
        sizes[i] = row.size + grown if fate == _TAKEN else 0
    return len(rows)


@kernel
def _count(
    buf: Bytes, rows: Rows, sizes: Any, numbers: Any, positions: Positions, shared: Any,
    decided: Any, tallies: Any,
) -> None:  # fmt: skip
    for i in range(len(rows)):
        tally = tallies[numbers[i]]
        tally.records += 1
        also = bool(shared[i]) if len(shared) else False
        tally.shared += also
        taken = sizes[i] > 0
        if len(positions.firsts):
            for n in range(positions.firsts[i], positions.stops[i]):
                put = positions.puts[n]
                queue = tallies[put.queue]
                _position(queue, put.queueOffset, put.batchSize, taken, also)
                queue.texts += positions.texts[n, 0] >= 0
                if n == positions.firsts[i]:
                    _begin(tally, put.queueOffset, rows[i].physicalOffset)
        elif _reaches_queue(rows[i].sysFlag):
            _position(tally, rows[i].queueOffset, 1, taken, also)
            _begin(tally, rows[i].queueOffset, rows[i].physicalOffset)
        if taken:
            tally.taken += 1
            tally.bytes += sizes[i]
            tally.sys_flags |= rows[i].sysFlag
            length = decided[numbers[i]].nameEnd - decided[numbers[i]].nameAt
            if length:
                tally.long |= _needs_v2(length)
            else:
                tally.long |= get_i32(buf, rows[i].at + RECORD_AT.magic) == MAGIC_V2


@inlined
def _position(tally: Any, offset: int, messages: int, taken: bool, shared: bool) -> None:
    """Count a record's position in a queue."""
    tally.positions += messages
    tally.least = min(tally.least, offset)
    tally.greatest = max(tally.greatest, offset + messages - 1)
    if taken:
        tally.counted += messages
    if shared:
        tally.shared_end = max(tally.shared_end, offset + messages)


@inlined
def _begin(tally: Any, offset: int, place: int) -> None:
    """Note where a queue begins, and begins again."""
    tally.first = min(tally.first, place)
    if offset == 0:
        tally.zeros += 1
        tally.first_zero = min(tally.first_zero, place)
        tally.last_zero = max(tally.last_zero, place)


class Selection(NamedTuple):
    """What a selector finds for each row.

    sizes: its new size in bytes, 0 if left out; numbers: its queue's number; spans, named: where
    values of TOPIC_PROPERTIES stand in the window, int64 of shape (rows, 3, 2), and the numbers of
    these names, -1 where there is none. Both are of no rows where topics decide nothing.
    positions: of no rows unless they were asked for.
    """

    sizes: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]
    spans: npt.NDArray[np.int64]
    named: npt.NDArray[np.int64]
    positions: Positions = NO_POSITIONS

    def of(self, rows: Any) -> "Selection":
        """The part of the selection that belongs to some rows: a slice, or an array of indices."""
        arrays = self.sizes, self.numbers, self.spans, self.named
        sizes, numbers, spans, named = (each[rows] if len(each) else each for each in arrays)
        return Selection(sizes, numbers, spans, named, self.positions.of(rows))


class RecordSelector:
    """Selects rows window by window, and keeps what was decided of each queue in them."""

    def __init__(self, changes: Changes, rules: ScanRules, ordered: bool = False) -> None:
        """ordered: the rows' positions are wanted."""
        self._changes, self._rules = changes, rules
        self._table = new_table(_QUEUES, _NAME_BYTES)
        self.decided = np.zeros(_QUEUES, DECIDED)
        self.names: Bytes = np.zeros(0, np.uint8)  # new names, one after the other
        self._count = 0
        self._tallies = np.zeros(_QUEUES, TALLY)
        self._whole: list[Tally] = []
        self.keys: dict[tuple[str, int], int] = {}  # (name, queue id) -> its stable number
        self.stable = np.zeros(_QUEUES, np.int64)  # by number in the table, until `_forget`
        self._positions = PositionReader(rules, self._table)
        self._ordered = ordered or changes.digits > 0

    def select(self, window: Bytes, rows: Rows) -> Iterator[tuple[Selection, Rows]]:
        """The rows in one part, or in several parts where the table of queues was full in between.

        Numbers hold until the next part. Raises StoreError where a record's properties get too
        long.
        """
        begin = 0
        while begin < len(rows):
            some = rows[begin:]
            selection, done = self._new(len(some)), 0
            while done < len(some):
                done += _select(
                    window, some[done:], self._changes.by_topic,
                    self._rules.dispatch.split_properties, self._rules.records.ipv6_hosts,
                    len(self._changes.store_host), *self._table, self.decided, self._count,
                    *self._positions.batches, *selection.of(slice(done, None))[:_BY_ROW],
                )  # fmt: skip
                if done < len(some) and not self._decide():
                    break
            part = selection.of(slice(done))
            if self._ordered:
                part = self._numbered(window, some[:done], part)
            if not len(part.sizes):
                self._forget()
                continue
            self._refuse_too_long(part, some)
            yield part, some[: len(part.sizes)]
            begin += len(part.sizes)

    def _numbered(self, window: Bytes, rows: Rows, part: Selection) -> Selection:
        """The part with its positions: fewer rows where the table of queues is full before."""
        positions = self._positions.of(window, rows, part.numbers)
        self._decide()  # of further queues
        found = part.of(slice(len(positions.firsts)))._replace(positions=positions)
        if self._changes.digits:
            rows = rows[: len(found.sizes)]
            grow(rows, positions, self._changes.digits, _PROPERTIES_MAX, _TOO_LONG, found.sizes)
        return found

    def _new(self, rows: int) -> Selection:
        texts = rows if self._changes.by_topic else 0
        return Selection(
            np.zeros(rows, np.int64), np.zeros(rows, np.int64),
            np.zeros((texts, len(TOPIC_PROPERTIES), 2), np.int64),
            np.full((texts, len(TOPIC_PROPERTIES)), -1),
        )  # fmt: skip

    def count(
        self, window: Bytes, part: Selection, rows: Rows, shared: npt.NDArray[np.bool_]
    ) -> None:
        """Count rows that were looked at, by queue. shared: for each row whether an earlier store
        has it too; empty: no row is shared.
        """
        _count(
            window, rows, part.sizes, part.numbers, part.positions, shared, self.decided,
            self._tallies,
        )  # fmt: skip

    def tallies(self) -> dict[tuple[str, int], Tally]:
        """What was counted of each queue, by topic and queue id, since the beginning."""
        self._add_up()
        whole = zip(self.keys, self._whole, strict=True)
        return {key: tally for key, tally in whole if tally.records or tally.positions}

    def _decide(self) -> bool:
        """Decide what becomes of new names; False without any, which means the table is full."""
        new = queues(self._table)[self._count :]
        for queue in new:
            name = decode(queue.raw_name)
            one = queue.queue_id != NAME_ONLY
            of = self._changes
            decision = of.of_queue(name, queue.queue_id) if one else of.of_name(name)
            stable = self.keys.setdefault((name, queue.queue_id), len(self._whole))
            if stable == len(self._whole):
                self._whole.append(Tally())
            self.stable[self._count] = stable
            raw = decision.name.encode()
            row = self.decided[self._count]
            row["fate"], row["queueShift"] = decision.fate, decision.queue_shift
            pops = decision.retried is not None
            row["unnamed"] = decision.retried if pops else self._changes.unnamed
            row["namedFrom"] = _RETRY_TOPIC if pops else 0
            row["start"], row["begin"] = decision.start, decision.begin
            row["nameAt"], row["nameEnd"] = len(self.names), len(self.names) + len(raw)
            if raw:
                self.names = np.concatenate((self.names, np.frombuffer(raw, np.uint8)))
            self._tallies[self._count] = _NO_TALLY
            self._count += 1
        return bool(new)

    def _add_up(self) -> None:
        for number in range(self._count):
            stable = int(self.stable[number])
            self._whole[stable] = self._whole[stable].plus(Tally(*self._tallies[number].tolist()))
            self._tallies[number] = _NO_TALLY

    def _forget(self) -> None:
        """Forget all queues, but not what was counted."""
        self._add_up()
        clear(self._table)
        self._count, self.names = 0, np.zeros(0, np.uint8)

    def _refuse_too_long(self, part: Selection, rows: Rows) -> None:
        if self._changes.by_topic and len(part.sizes) and part.sizes.min() < 0:
            place = int(rows["physicalOffset"][int(np.argmin(part.sizes))])
            raise StoreError(
                f"the record at physical offset {place}: propertiesLength: its properties are over "
                f"{_PROPERTIES_MAX} bytes with a topic's new name, or with new numbers"
            )
