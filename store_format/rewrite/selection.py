"""Which records are taken when a log is written anew, by their topics' names, and their new sizes;
and whether another release reads them alike.

A kernel looks names up in a table; what becomes of a new name is decided in Python, once.
"""

import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format.dispatch.queue_table import clear, find_queue, new_table, queues
from reput.store_format.faults import StoreError
from reput.store_format.kernels.bytes import get_i32
from reput.store_format.kernels.java_text import decode, hash_code
from reput.store_format.kernels.jit import inlined, kernel
from reput.store_format.layouts import (
    IPV4_HOST,
    IPV6_HOST,
    MAGIC_V2,
    RECORD_AT,
    SYS_BORN_HOST_V6,
    SYS_INNER_BATCH,
    SYS_STORE_HOST_V6,
    TOPIC_LENGTH_V1,
    TOPIC_LENGTH_V2,
)
from reput.store_format.log.properties import find_named
from reput.store_format.log.records import Bytes, RecordRules, Rows, needs_v2, topic_length_bytes
from reput.store_format.log.rules import reaches_queue
from reput.store_format.message.message import (
    HALF_TOPIC,
    OP_TOPIC,
    ROCKSDB_HALF_TOPIC,
    ROCKSDB_OP_TOPIC,
    TIMER_TOPIC,
)
from reput.store_format.names import DLQ_PREFIX, RETRY_PREFIX, SYSTEM_PREFIX, SYSTEM_TOPICS
from reput.store_format.release.profiles import Profile

# ---
# What a conversion changes in records, and which records it takes, by the topics' names.
#
# A record that waits, is retried or was given up is in a topic of the broker or of a group. Its own
# topic is in its properties (MessageConst): REAL_TOPIC (HookUtils, TransactionalMessageBridge),
# RETRY_TOPIC and DLQ_ORIGIN_TOPIC (AbstractSendMessageProcessor).

# If a record has several of them, the last in this order names the message's own topic.
TOPIC_PROPERTIES = (b"REAL_TOPIC", b"DLQ_ORIGIN_TOPIC", b"RETRY_TOPIC")
TRANSACTIONS = frozenset((HALF_TOPIC, OP_TOPIC, ROCKSDB_HALF_TOPIC, ROCKSDB_OP_TOPIC))
# Other files and bodies refer to positions in these topics. Of a topic that is not taken whole only
# messages that still wait are taken: nothing refers to them, and a broker begins with them anew.
WHOLE = TRANSACTIONS | {TIMER_TOPIC}
WAIT = (HALF_TOPIC, TIMER_TOPIC)


class Fate(IntEnum):
    """What becomes of the records of a queue."""

    LEFT_OUT = 0
    TAKEN = 1
    FOLLOWS = 2  # the fate of the topic that the record's properties name


@dataclass(frozen=True)
class Decision:
    """What becomes of a queue. name: the topic's new name, '' where it keeps its own."""

    fate: Fate
    name: str = ""
    queue_shift: int = 0  # is added to queueId
    # Of records that have a position those with a lower queueOffset are left out, and those at a
    # lower physical offset.
    start: int = 0
    begin: int = 0
    # For a topic in which pop retries messages: what becomes of those that name no RETRY_TOPIC.
    retried: Fate | None = None


@dataclass(frozen=True)
class Changes:
    """What a conversion changes. Topics go by their old names.

    topics: the topics that are taken; empty: all but those dropped. merges: records of other stores
    join them. Where some records are left out or join, only what waits is taken of the topics in
    WHOLE; the caller gives its places besides.
    """

    topics: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    renames: tuple[tuple[str, str], ...] = ()
    merges: bool = False
    store_host: bytes = b""  # as in a record; empty: each record keeps its own
    shifts: tuple[tuple[str, int], ...] = ()  # (topic's old name, what is added to its queue ids)
    starts: tuple[tuple[str, int, int], ...] = ()  # (topic, queue id, Decision.start)
    begins: tuple[tuple[str, int, int], ...] = ()  # (topic, queue id, Decision.begin)
    retries: tuple[tuple[str, str], ...] = ()  # (topic of pop's retries, the topic they are of)
    _names: dict[str, str] = field(init=False, compare=False)
    _shifts: dict[str, int] = field(init=False, compare=False)
    _retries: dict[str, str] = field(init=False, compare=False)
    _starts: dict[tuple[str, int], int] = field(init=False, compare=False)
    _begins: dict[tuple[str, int], int] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_names", dict(self.renames))
        object.__setattr__(self, "_shifts", dict(self.shifts))
        object.__setattr__(self, "_retries", dict(self.retries))
        for name, values in (("_starts", self.starts), ("_begins", self.begins)):
            by_queue = {(topic, queue_id): value for topic, queue_id, value in values}
            object.__setattr__(self, name, by_queue)

    @property
    def by_topic(self) -> bool:
        """Whether a record's topics decide anything."""
        several = self.renames or self.shifts or self.starts or self.begins
        return bool(self.selects or several)

    @property
    def selects(self) -> bool:
        """Whether some records are left out, so that a queue may lose some of its own."""
        return bool(self.topics or self.dropped or self.merges)

    @property
    def unnamed(self) -> Fate:
        """What becomes of a record that follows a topic, but names none."""
        return Fate.LEFT_OUT if self.topics else Fate.TAKEN

    @property
    def keeps_sizes(self) -> bool:
        """Whether every record is taken, and as long as it was."""
        return not (self.by_topic or self.store_host)

    def renamed(self, topic: str) -> str:
        """The topic's new name; a topic of pop's retries goes by the name of the topic they are of
        (KeyBuilder.buildPopRetryTopic).
        """
        own = self.own(topic)
        return topic.removesuffix(own) + self._names.get(own, own)

    def own(self, topic: str) -> str:
        """The topic that pop's retries in a topic are of; any other topic itself."""
        return self._retries.get(topic, topic)

    def of_queue(self, topic: str, queue_id: int = 0) -> Decision:
        """What becomes of the records that stand in a queue."""
        fate = self._fate(topic)
        if self.selects and is_shared(topic) and topic not in (*self.topics, *self.dropped):
            fate = Fate.LEFT_OUT if topic in WHOLE and topic not in WAIT else Fate.FOLLOWS
        return Decision(
            fate, self._name(topic), self._shifts.get(topic, 0),
            self._starts.get((topic, queue_id), 0), self._begins.get((topic, queue_id), 0),
            self._fate(self.own(topic)) if topic in self._retries else None,
        )  # fmt: skip

    def of_name(self, topic: str) -> Decision:
        """What becomes of a record with a property that names this topic."""
        return Decision(self._fate(self.own(topic)), self._name(topic))

    def _name(self, topic: str) -> str:
        """The topic's new name, '' where it keeps its own."""
        new = self.renamed(topic)
        return "" if new == topic else new

    def _fate(self, topic: str) -> Fate:
        taken = topic not in self.dropped and (not self.topics or topic in self.topics)
        return Fate.TAKEN if taken else Fate.LEFT_OUT


def is_shared(topic: str) -> bool:
    """Whether messages of several topics stand in a topic: a broker's, or a group's own."""
    return (
        topic in SYSTEM_TOPICS
        or topic.startswith((SYSTEM_PREFIX, RETRY_PREFIX, DLQ_PREFIX))
    )  # fmt: skip


_QUEUES, _NAME_BYTES = 1 << 16, 8 << 20
NAME_ONLY = -(1 << 31)  # as a queue id: the row of a name in a property
_PROPERTIES_MAX = 0x7FFF  # propertiesLength is a short
_LEFT_OUT, _TAKEN, _FOLLOWS = map(int, Fate)
_TOO_LONG = -1
_RETRY_TOPIC = len(TOPIC_PROPERTIES) - 1

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

    bytes: new sizes of the taken records; positions: records that have a position in the queue;
    counted: those of them that are taken; least, greatest: queueOffsets of records with a position,
    least is above greatest where there is none; sys_flags: of all taken records; long: 1 where some
    taken records have two bytes of topicLength (V2); shared: records that an earlier store has too;
    shared_end: the position after their last one, 0 where there is none. first, first_zero,
    last_zero: physical offsets of the first record with a position, and of the first and last one
    whose queueOffset is 0; zeros: how many these are.
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
    buf: Bytes, rows: Rows, sizes: Any, numbers: Any, shared: Any, decided: Any, tallies: Any
) -> None:
    for i in range(len(rows)):
        tally = tallies[numbers[i]]
        tally.records += 1
        counts = _reaches_queue(rows[i].sysFlag)
        if counts:
            tally.positions += 1
            tally.least = min(tally.least, rows[i].queueOffset)
            tally.greatest = max(tally.greatest, rows[i].queueOffset)
            tally.first = min(tally.first, rows[i].physicalOffset)
            if rows[i].queueOffset == 0:
                tally.zeros += 1
                tally.first_zero = min(tally.first_zero, rows[i].physicalOffset)
                tally.last_zero = max(tally.last_zero, rows[i].physicalOffset)
        if len(shared) and shared[i]:
            tally.shared += 1
            if counts:
                tally.shared_end = max(tally.shared_end, rows[i].queueOffset + 1)
        if sizes[i] > 0:
            tally.taken += 1
            tally.bytes += sizes[i]
            tally.counted += counts
            tally.sys_flags |= rows[i].sysFlag
            length = decided[numbers[i]].nameEnd - decided[numbers[i]].nameAt
            if length:
                tally.long |= _needs_v2(length)
            else:
                tally.long |= get_i32(buf, rows[i].at + RECORD_AT.magic) == MAGIC_V2


class Selection(NamedTuple):
    """What a selector finds for each row.

    sizes: its new size in bytes, 0 if left out; numbers: its queue's number; spans, named: where
    values of TOPIC_PROPERTIES stand in the window, int64 of shape (rows, 3, 2), and the numbers of
    these names, -1 where there is none. Both are of no rows where topics decide nothing.
    """

    sizes: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]
    spans: npt.NDArray[np.int64]
    named: npt.NDArray[np.int64]

    def of(self, rows: Any) -> "Selection":
        """The part of the selection that belongs to some rows: a slice, or an array of indices."""
        return Selection(*(each[rows] if len(each) else each for each in self))


class RecordSelector:
    """Selects rows window by window, and keeps what was decided of each queue in them."""

    def __init__(self, changes: Changes, rules: RecordRules, split_properties: bool) -> None:
        self._changes, self._rules, self._split = changes, rules, split_properties
        self._table = new_table(_QUEUES, _NAME_BYTES)
        self.decided = np.zeros(_QUEUES, DECIDED)
        self.names: Bytes = np.zeros(0, np.uint8)  # new names, one after the other
        self._count = 0
        self._tallies = np.zeros(_QUEUES, TALLY)
        self._whole: list[Tally] = []
        self.keys: dict[tuple[str, int], int] = {}  # (name, queue id) -> its stable number
        self.stable = np.zeros(_QUEUES, np.int64)  # by number in the table, until `_forget`
        self._none = np.empty(0, np.uint8), np.empty(0, np.int64)

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
                    window, some[done:], self._changes.by_topic, self._split,
                    self._rules.ipv6_hosts, len(self._changes.store_host), *self._table, self.decided, self._count, *self._none,
                    *selection.of(slice(done, None)),
                )  # fmt: skip
                if done < len(some) and not self._decide():
                    break
            if not done:
                self._forget()
                continue
            part = selection.of(slice(done))
            self._refuse_too_long(part, some)
            yield part, some[:done]
            begin += done

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
        _count(window, rows, part.sizes, part.numbers, shared, self.decided, self._tallies)

    def tallies(self) -> dict[tuple[str, int], Tally]:
        """What was counted of each queue, by topic and queue id, since the beginning."""
        self._add_up()
        whole = zip(self.keys, self._whole, strict=True)
        return {key: tally for key, tally in whole if tally.records}

    def _decide(self) -> bool:
        """Decide what becomes of new names; False without any, which means the table is full."""
        new = queues(self._table)[self._count :]
        for queue in new:
            name = decode(queue.raw_name)
            decision = self._decision(name, queue.queue_id)
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

    def _decision(self, name: str, queue_id: int) -> Decision:
        if queue_id == NAME_ONLY:
            return self._changes.of_name(name)
        return self._changes.of_queue(name, queue_id)

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
                f"{_PROPERTIES_MAX} bytes with a topic's new name; choose a shorter one"
            )


# ---
# Whether a release reads records as the release that wrote them does.


class Seen(NamedTuple):
    """What the records of a topic have after the conversion. long: some are V2."""

    topic: str
    sys_flags: int
    long: bool
    batch_queue: bool


def misfits(seen: Iterable[Seen], store_host: bytes, to: Profile) -> list[str]:
    """One line for each topic with something that the release `to` does not know."""
    lines = []
    for each in seen:
        why = _why_not(each, store_host, to)
        if why:
            lines.append(f"topic {each.topic[:127]!r}: {why}")
    return lines


def _why_not(seen: Seen, store_host: bytes, to: Profile) -> str:
    hosts = SYS_BORN_HOST_V6
    if not store_host:
        hosts |= SYS_STORE_HOST_V6
    if seen.long and not to.long_topics:
        return "its name is over 127 bytes (magic DAA320AB), which is read from 5.1.0 on"
    if seen.sys_flags & hosts and not to.ipv6_hosts:
        return "has hosts of IPv6 (sysFlag 0x10, 0x20), which are read from 4.6.0 on"
    if len(store_host) > IPV4_HOST and not to.ipv6_hosts:
        return "would get a storeHost of IPv6, which is read from 4.6.0 on"
    if (seen.batch_queue or seen.sys_flags & SYS_INNER_BATCH) and not to.batch_queues:
        return "has batches in one record, for a batch queue, which there is from 5.0.0 on"
    if seen.topic == TIMER_TOPIC and not to.timer_messages:
        return "messages wait for the timer, which there is from 5.0.0 on"
    if seen.topic in TRANSACTIONS and not to.half_topic:
        return "half messages have a topic of their own from 4.3.0 on"
    return ""
